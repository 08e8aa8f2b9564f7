"""The two dialects of model servers: Ollama's `/api/*`, and the `/v1/*` that OpenAI's servers and most others speak."""

from collections.abc import Iterator
from typing import ClassVar

from pipeline.serving.client import Exchange, OddShape, Wire
from pipeline.serving.stream import Message, events, json_lines

CONTEXT_STEP = 2048  # tokens; one size for all calls of a run, for Ollama loads a model anew when it changes
TEMPLATE_TOKENS = 1024  # room for what a chat template and a system prompt add
PULL_S, PULL_BYTES = 3600.0, 100_000_000  # a slow line takes an hour, and Ollama writes of it sixteen times a second
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
THINKS = "it thinks (in a field of its own) before it answers, and this deck shows answers"


class Ollama(Wire):
    """Ollama's own dialect."""

    options: ClassVar[dict[str, str]] = {
        "max_tokens": "num_predict",
        **{name: name for name in ("temperature", "seed", "top_p", "stop")},
    }
    framing = staticmethod(json_lines)

    def completion(self, prompt: str, options: Message, stream: bool) -> tuple[str, Message]:
        return "/api/generate", {"model": self.model, "prompt": prompt, "raw": True, **self._body(options, stream)}

    def conversation(self, messages: list[Message], options: Message, stream: bool) -> tuple[str, Message]:
        return "/api/chat", {"model": self.model, "messages": messages, **self._body(options, stream)}

    def _body(self, options: Message, stream: bool) -> Message:
        """What does not fit is an error, never a prompt cut in silence or a context that moves on."""
        return {"stream": stream, "truncate": False, "shift": False, "options": options}

    def meant(self, prompt: str, max_tokens: int) -> Message:
        """Greedy is the argmax only without a penalty (1.1 up to 0.32.9); the context holds prompt and answer.

        A token has at least one byte, so that there are never more tokens than bytes.
        """
        most = len(prompt.encode("utf-8", "replace")) + max_tokens + TEMPLATE_TOKENS
        return {"repeat_penalty": 1, "num_ctx": -(-most // CONTEXT_STEP) * CONTEXT_STEP}

    def asking_best(self, best: int) -> Message:
        return {"logprobs": True, "top_logprobs": best}

    def best_of(self, answer: Message) -> list[tuple[str, float]]:
        return [
            (entry["token"], entry["logprob"]) for step in (answer.get("logprobs") or [])[:1] for entry in step["top_logprobs"]
        ]

    def chunk_text(self, message: Message) -> str:
        return message.get("response") or message.get("message", {}).get("content") or ""

    def is_last(self, message: Message) -> bool:
        return message.get("done") is True

    def read(self, path, body, answer, text, seconds, chunks) -> Exchange:
        if answer["done"] is not True:
            raise self.failed(path, "sent an answer that is not done", "run again, and look at the server's own log")
        said = {"content": answer["response"]} if path == "/api/generate" else answer["message"]
        whole = said["content"] if text is None else text
        if not whole and (answer.get("thinking") or said.get("thinking")):
            raise OddShape(THINKS)
        reading = answer.get("prompt_eval_duration")
        return Exchange(
            path,
            body,
            answer,
            whole,
            answer.get("model"),
            answer.get("done_reason"),
            answer.get("prompt_eval_count"),
            answer.get("eval_count"),
            seconds,
            chunks,
            answer.get("prompt_eval_cached_count"),
            reading if reading is None else reading / 1e6,
        )

    def advice(self, status: int, said: str) -> str:
        if status == 404 and "model" in said:
            return f"run `ollama pull {self.model}`"
        return super().advice(status, said)

    def forget(self, prompt: str, max_tokens: int) -> None:
        """Empty the prompt cache: unload the model, and load it anew as the calls with this prompt will want it."""
        with self.turn:
            self.post("/api/generate", {"model": self.model, "keep_alive": 0})
            self.post("/api/generate", {"model": self.model, "options": self.meant(prompt, max_tokens)})

    def version(self) -> str:
        """Its version. Raises WireError when it is no Ollama: other products answer `/api/version` too."""
        if "Ollama is running" not in self.text("/"):
            raise self.failed("/", "is no Ollama", "check the address and port")
        with self.of_our_shape("/api/version"):
            return str(self.get("/api/version")["version"])

    def tag(self) -> Message | None:
        """What the server says of our model (digest, size, details); None when it does not hold it."""
        with self.of_our_shape("/api/tags"):
            return next((entry for entry in self.held() if entry["name"] in (self.model, f"{self.model}:latest")), None)

    def held(self) -> list[Message]:
        """Every model that the server holds."""
        with self.of_our_shape("/api/tags"):
            return list(self.get("/api/tags")["models"])

    def digest(self) -> str | None:
        """What the server says of which weights these are; None when it does not hold the model or does not say."""
        return (self.tag() or {}).get("digest")

    def completes(self) -> bool:
        """Whether our model can complete a text; an embedding model cannot."""
        return "completion" in self.show().get("capabilities", ["completion"])

    def show(self) -> Message:
        """What the server says of our model: template, system prompt, parameters, what it can do."""
        return self.post("/api/show", {"model": self.model})

    def pull(self) -> Iterator[Message]:
        """Fetch our model into the server; status messages as they come. Returns only when it is there."""
        status = None
        with self.turn:
            for message in self.messages(
                "/api/pull", {"model": self.model, "stream": True}, total_s=PULL_S, most_bytes=PULL_BYTES
            ):
                status = message.get("status")
                yield message
        if status != "success":
            raise self.failed("/api/pull", "did not finish fetching the model", f"run `ollama pull {self.model}`")


class OpenAI(Wire):
    """The dialect that every other server and every hosted provider speaks."""

    options: ClassVar[dict[str, str]] = {name: name for name in ("max_tokens", "temperature", "seed", "top_p", "stop")}
    framing = staticmethod(events)

    def __init__(self, url: str, model: str, *, prefix: str = "/v1", **limits):
        super().__init__(url, model, **limits)
        self.prefix = prefix  # where the provider keeps the shape; nearly always /v1

    def completion(self, prompt: str, options: Message, stream: bool) -> tuple[str, Message]:
        body = {"model": self.model, "prompt": prompt, **options}
        return f"{self.prefix}/completions", {**body, **STREAMED} if stream else body

    def conversation(self, messages: list[Message], options: Message, stream: bool) -> tuple[str, Message]:
        body = {"model": self.model, "messages": messages, **options}
        return f"{self.prefix}/chat/completions", {**body, **STREAMED} if stream else body

    def asking_best(self, best: int) -> Message:
        return {"logprobs": best}

    def best_of(self, answer: Message) -> list[tuple[str, float]]:
        told = self._choice(answer).get("logprobs") or {}
        if told.get("content"):  # in the shape of a conversation's answer
            return [(entry["token"], entry["logprob"]) for entry in told["content"][0]["top_logprobs"]]
        return list(((told.get("top_logprobs") or [{}])[0] or {}).items())

    def _choice(self, message: Message) -> Message:
        return (message.get("choices") or [{}])[0]

    def chunk_text(self, message: Message) -> str:
        choice = self._choice(message)
        return choice.get("text") or text_of(choice.get("delta") or {})

    def is_last(self, message: Message) -> bool:
        return self._choice(message).get("finish_reason") is not None

    def read(self, path, body, answer, text, seconds, chunks) -> Exchange:
        choice = answer["choices"][0]
        if text is None:
            text = text_of(choice["message"]) if path.endswith("/chat/completions") else choice["text"]
        usage, timings = answer.get("usage") or {}, answer.get("timings") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", timings.get("cache_n"))
        return Exchange(
            path,
            body,
            answer,
            text,
            answer.get("model"),
            choice.get("finish_reason"),
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
            seconds,
            chunks,
            cached,
            timings.get("prompt_ms"),
        )

    def models(self) -> list[str]:
        """The names of the models served there."""
        path = f"{self.prefix}/models"
        with self.of_our_shape(path):
            return [str(entry["id"]) for entry in self.get(path)["data"]]


def text_of(message: Message) -> str:
    """The text of a message or of a piece of one. Raises OddShape when it holds thoughts or parts instead."""
    content = message.get("content")
    if isinstance(content, list):
        raise OddShape("its content is a list of parts, not a text")
    if not content and (message.get("reasoning_content") or message.get("reasoning")):
        raise OddShape(THINKS)
    return content or ""
