"""The two dialects of model servers: Ollama's `/api/*`, and the `/v1/*` that OpenAI's servers and most others speak."""

from collections.abc import Iterator
from typing import ClassVar

from pipeline.serving.client import Exchange, Wire
from pipeline.serving.stream import Message, events, json_lines

PULL_S, PULL_BYTES = 3600.0, 100_000_000  # a slow line takes an hour, and Ollama writes of it sixteen times a second


class Ollama(Wire):
    """Ollama's own dialect."""

    options: ClassVar[dict[str, str]] = {
        "max_tokens": "num_predict",
        **{name: name for name in ("temperature", "seed", "top_p", "stop")},
    }
    framing = staticmethod(json_lines)

    def completion(self, prompt: str, options: Message, stream: bool) -> tuple[str, Message]:
        return "/api/generate", {"model": self.model, "prompt": prompt, "raw": True, "stream": stream, "options": options}

    def conversation(self, messages: list[Message], options: Message, stream: bool) -> tuple[str, Message]:
        return "/api/chat", {"model": self.model, "messages": messages, "stream": stream, "options": options}

    def chunk_text(self, message: Message) -> str:
        return message.get("response") or message.get("message", {}).get("content") or ""

    def is_last(self, message: Message) -> bool:
        return message.get("done") is True

    def read(self, path, body, answer, text, seconds, chunks) -> Exchange:
        if answer["done"] is not True:
            raise self.failed(path, "sent an answer that is not done", "run again, and look at the server's own log")
        whole = answer["response"] if path == "/api/generate" else answer["message"]["content"]
        return Exchange(
            path, body, answer, whole if text is None else text, answer.get("model"), answer.get("done_reason"),
            answer.get("prompt_eval_count"), answer.get("eval_count"), seconds, chunks,
        )  # fmt: skip

    def advice(self, status: int, said: str) -> str:
        if status == 404 and "model" in said:
            return f"run `ollama pull {self.model}`"
        return super().advice(status, said)

    def version(self) -> str:
        with self.of_our_shape("/api/version"):
            return str(self.get("/api/version")["version"])

    def tag(self) -> Message | None:
        """What the server says of our model (digest, size, details); None when it does not hold it."""
        with self.of_our_shape("/api/tags"):
            held = self.get("/api/tags")["models"]
            return next((entry for entry in held if entry["name"] in (self.model, f"{self.model}:latest")), None)

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
        return f"{self.prefix}/completions", {**body, "stream": True} if stream else body

    def conversation(self, messages: list[Message], options: Message, stream: bool) -> tuple[str, Message]:
        body = {"model": self.model, "messages": messages, **options}
        return f"{self.prefix}/chat/completions", {**body, "stream": True} if stream else body

    def _choice(self, message: Message) -> Message:
        return (message.get("choices") or [{}])[0]

    def chunk_text(self, message: Message) -> str:
        choice = self._choice(message)
        return choice.get("text") or (choice.get("delta") or {}).get("content") or ""

    def is_last(self, message: Message) -> bool:
        return self._choice(message).get("finish_reason") is not None

    def read(self, path, body, answer, text, seconds, chunks) -> Exchange:
        choice = answer["choices"][0]
        if text is None:
            text = (choice["message"]["content"] or "") if path.endswith("/chat/completions") else choice["text"]
        usage = answer.get("usage") or {}
        return Exchange(
            path, body, answer, text, answer.get("model"), choice.get("finish_reason"),
            usage.get("prompt_tokens"), usage.get("completion_tokens"), seconds, chunks,
        )  # fmt: skip

    def models(self) -> list[str]:
        """The names of the models served there."""
        path = f"{self.prefix}/models"
        with self.of_our_shape(path):
            return [str(entry["id"]) for entry in self.get(path)["data"]]
