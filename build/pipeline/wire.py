"""The one module that speaks HTTP to model servers, in both dialects: Ollama's `/api/*` and OpenAI's `/v1/*`.

Every request has a connect, a read and a total time limit; loopback never goes through a proxy; requests to one server
run one after another. Whatever goes wrong is one WireError, which names the address and says what to do. Knows no
slide, no model, no process.
"""

import ipaddress
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlsplit

import requests
import urllib3.exceptions

from pipeline.errors import BadInput, MissingPart

CONNECT_S, READ_S, TOTAL_S = 3.0, 120.0, 180.0  # two busy cores can take a minute for an answer
MAX_BYTES = 4_000_000  # our longest answer is a few kilobytes
RETRY_PAUSE_S = 0.2
LOG = "run again; if it stays so, look at the server's own log"
OLLAMA_PORT = 11434
Message = dict[str, Any]


class WireError(MissingPart):
    """A server did not answer as it should. One line: the address, what happened, what to do."""


class _Broken(Exception):
    """An answer that cannot be read; the reason, without the address."""


# --- addresses ---


def base_url(given: str) -> str:
    """A server's address without path: `http://host:port`. Takes it with or without scheme, `/`, `/v1` or `/v1/`."""
    text = given.strip()
    parts = urlsplit(text if "://" in text else f"http://{text}")
    path = parts.path.rstrip("/").removesuffix("/v1")
    try:
        port = parts.port
    except ValueError as error:
        raise BadInput(f"{given!r} is not a server address ({error}): give it as http://host:port") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or " " in text:
        raise BadInput(f"{given!r} is not a server address: give it as http://host:port")
    if parts.username or parts.password:
        raise BadInput("a server address must not hold a user name or a key: give it as http://host:port")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(parts.hostname, parts.hostname)
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{path}"


def ollama_url(given: str) -> str:
    """The address that an OLLAMA_HOST stands for: any part of it may be missing, 0.0.0.0 means this machine."""
    text = given.strip().strip("\"'") or "127.0.0.1"
    if "://" in text:  # then the scheme's own port is meant, as Ollama itself reads it
        return base_url(text)
    if text.startswith(":") and text[1:].isdigit():
        text = f"127.0.0.1{text}"
    elif text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"
    url = base_url(text)
    return url if urlsplit(url).port else f"{url}:{OLLAMA_PORT}"


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _resolved(url: str) -> str:
    """The addresses a host name stands for, for the reader of an error."""
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    except OSError:
        return "the name does not resolve"
    return "tried " + ", ".join(dict.fromkeys(str(entry[4][0]) for entry in found))


# --- reading ---


def lines(chunks: Iterator[bytes]) -> Iterator[str]:
    """Whole lines out of a byte stream, wherever its chunks are cut: in a character, or between CR and LF."""
    held = b""
    for chunk in chunks:
        held += chunk
        # a CR at the very end may be the first half of CRLF: wait for what follows
        whole, last = (held[:-1], held[-1:]) if held.endswith(b"\r") else (held, b"")
        *complete, rest = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        held = rest + last
        for line in complete:
            yield line.decode("utf-8")
    if held:
        yield held.rstrip(b"\r").decode("utf-8")


def json_lines(chunks: Iterator[bytes]) -> Iterator[Message]:
    """Newline-delimited JSON: Ollama's stream."""
    for line in lines(chunks):
        if line.strip():
            yield _message(line)


def events(chunks: Iterator[bytes]) -> Iterator[Message]:
    """Server-sent events: OpenAI's stream, with or without its closing `[DONE]`."""
    data: list[str] = []
    for line in lines(chunks):
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            text, data = "\n".join(data), []
            if text.strip() == "[DONE]":
                return
            yield _message(text)
        elif line.lstrip().startswith("{"):  # an error sent as bare JSON in place of an event
            yield _message(line)


def _message(text: str) -> Message:
    try:
        message = json.loads(text)
    except ValueError as error:
        raise _Broken(f"sent something that is not JSON: {_short(text)}") from error
    if not isinstance(message, dict):
        raise _Broken(f"sent JSON without fields: {_short(text)}")
    if message.get("error"):
        raise _Broken(f"reported an error: {_error_text(message)}")
    return message


def _error_text(message: Message) -> str:
    said = message.get("error") or message.get("detail") or message.get("message") or message
    return _short(said.get("message", str(said)) if isinstance(said, dict) else str(said))


def _short(text: str, room: int = 160) -> str:
    text = " ".join(text.split())
    return text if len(text) <= room else text[: room - 1] + "…"


# --- one exchange ---


@dataclass(frozen=True)
class Exchange:
    """What was sent and what came back, and what that means in either dialect. None: the server did not report it."""

    path: str
    request: Message
    answer: Message  # of a stream: the message that ended it
    text: str
    model: str | None
    finish: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    chunks: list[tuple[float, str]] = field(default_factory=list)  # of a stream: seconds since sending, text


class _BearerKey(requests.auth.AuthBase):
    """The key as a header. An auth object also keeps requests from reading a .netrc."""

    def __init__(self, key: str | None):
        self.key = key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.key:
            request.headers["Authorization"] = f"Bearer {self.key}"
        return request


_turns: dict[str, threading.RLock] = {}


class Wire:
    """A line to one server, in a dialect that the two subclasses speak."""

    options: ClassVar[dict[str, str]] = {}  # our name of an option -> the dialect's

    def __init__(self, url: str, model: str, *, key: str | None = None, connect_s=CONNECT_S, read_s=READ_S, total_s=TOTAL_S):
        self.url, self.model = base_url(url), model
        self.limits = (connect_s, read_s)
        self.total_s = total_s
        self.key = key
        self._session = requests.Session()
        self._session.trust_env = not is_loopback(self.url)  # the environment's proxies are not for loopback
        self._session.auth = _BearerKey(key)
        self._session.headers.update({"Accept-Encoding": "identity"})
        self.turn = _turns.setdefault(self.url, threading.RLock())  # hold it to have the server to yourself

    def close(self) -> None:
        self._session.close()

    # --- questions, the same in both dialects ---

    def complete(self, prompt: str, *, stream: bool = False, **options) -> Exchange:
        """Continue a text as it stands, no chat template applied."""
        return self._ask(*self.completion(prompt, self._named(options), stream), stream)

    def chat(self, messages: list[Message], *, stream: bool = False, **options) -> Exchange:
        """Answer a conversation."""
        return self._ask(*self.conversation(messages, self._named(options), stream), stream)

    def _named(self, options: Message) -> Message:
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = ", ".join(sorted(self.options))
            raise BadInput(f"{', '.join(unknown)}: no such option; {self.url} is asked only with {known}")
        return {self.options[name]: value for name, value in options.items()}

    def _ask(self, path: str, body: Message, stream: bool) -> Exchange:
        with self.turn:
            exchange = self._streamed(path, body) if stream else self._whole(path, body)
            if not exchange.text and exchange.finish == "load":  # it was only loading: nothing was generated, so ask again
                exchange = self._streamed(path, body) if stream else self._whole(path, body)
        if exchange.finish == "load":
            raise self.failed(path, "loaded the model but generated nothing", "wait until it is loaded and run again")
        if exchange.model is not None and not same_model(body["model"], exchange.model):
            what = f"answered with model {exchange.model!r} instead of {body['model']!r}"
            raise self.failed(path, what, "check what it serves")
        return exchange

    def _whole(self, path: str, body: Message) -> Exchange:
        started = time.perf_counter()
        answer = self.post(path, body)
        return self._exchange(path, body, answer, None, time.perf_counter() - started, [])

    def _streamed(self, path: str, body: Message) -> Exchange:
        started = time.perf_counter()
        chunks, end = [], {}
        for message in self.messages(path, body):
            if text := self.chunk_text(message):
                chunks.append((time.perf_counter() - started, text))
            if self.is_last(message):
                end = message
            elif end and message.get("usage"):  # some servers count in a message of its own, after the end
                end = {**end, "usage": message["usage"]}
        seconds = time.perf_counter() - started
        if not end:
            raise self.failed(path, "cut its answer off before the end", LOG)
        return self._exchange(path, body, end, "".join(text for _, text in chunks), seconds, chunks)

    def _exchange(self, path, body, answer, text, seconds, chunks) -> Exchange:
        try:
            return self.read(path, body, answer, text, seconds, chunks)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            missing = f"sent an answer without {error}" if isinstance(error, KeyError) else "sent an answer of another shape"
            raise self.failed(path, missing, "check that it is the kind of server you think it is") from error

    # --- what a dialect says ---

    # each of these five is filled in by both dialects below; Wire alone is never made
    def completion(self, prompt: str, options: Message, stream: bool) -> tuple[str, Message]:
        raise NotImplementedError

    def conversation(self, messages: list[Message], options: Message, stream: bool) -> tuple[str, Message]:
        raise NotImplementedError

    def read(self, path, body, answer, text, seconds, chunks) -> Exchange:
        raise NotImplementedError

    def chunk_text(self, message: Message) -> str:
        raise NotImplementedError

    def is_last(self, message: Message) -> bool:
        raise NotImplementedError

    framing = staticmethod(json_lines)

    # --- HTTP ---

    def get(self, path: str) -> Message:
        return self._json("GET", path, None)

    def post(self, path: str, body: Message) -> Message:
        return self._json("POST", path, body)

    def _json(self, method: str, path: str, body: Message | None) -> Message:
        try:
            with self._open(method, path, body) as response:
                return _message(b"".join(self._chunks(response, path)).decode("utf-8"))
        except UnicodeDecodeError as error:
            raise self.failed(path, "sent text that is not UTF-8", "check the address") from error
        except _Broken as error:
            raise self.failed(path, str(error), "check that this is a model server, and its log") from error

    def messages(self, path: str, body: Message, *, total_s: float | None = None) -> Iterator[Message]:
        """The messages of a streamed answer as they arrive."""
        try:
            with self._open("POST", path, body) as response:
                yield from self.framing(self._chunks(response, path, total_s))
        except UnicodeDecodeError as error:
            raise self.failed(path, "sent text that is not UTF-8", "check the address") from error
        except _Broken as error:
            raise self.failed(path, f"{error} (in mid-answer)", "run again, and look at the server's own log") from error

    def _open(self, method: str, path: str, body: Message | None) -> requests.Response:
        """Send, once more where that is safe: when no connection came about, or for a GET."""
        for last_try in (False, True):
            try:
                response = self._session.request(
                    method, self.url + path, json=body, timeout=self.limits, stream=True, allow_redirects=False
                )
            except requests.RequestException as error:
                if last_try or not (method == "GET" or _never_connected(error)):
                    raise self._unreachable(path, error) from error
            else:
                if response.status_code == 200:
                    return self._checked(response, path)
                if last_try or method != "GET" or response.status_code not in (502, 503, 504):
                    raise self._refused(response, path)
                response.close()
            time.sleep(RETRY_PAUSE_S)
        raise AssertionError("unreachable")

    def _checked(self, response: requests.Response, path: str) -> requests.Response:
        kind = response.headers.get("Content-Type", "")
        if "html" in kind:
            response.close()
            raise self.failed(
                path, f"answered with a web page ({kind.partition(';')[0]}), not JSON", "check the address and port"
            )
        return response

    def _chunks(self, response: requests.Response, path: str, total_s: float | None = None) -> Iterator[bytes]:
        """The body as it arrives, given up when it takes too long or grows too big."""
        total_s = self.total_s if total_s is None else total_s
        deadline, size = time.monotonic() + total_s, 0
        stop = "the server does not stop by itself: restart it"
        try:
            while chunk := response.raw.read1(65536, decode_content=True):
                size += len(chunk)
                if size > MAX_BYTES:
                    raise self.failed(path, f"sent more than {MAX_BYTES // 1_000_000} MB without an end", stop)
                if time.monotonic() > deadline:
                    raise self.failed(path, f"was still answering after {total_s:g} s", stop)
                yield chunk
        except urllib3.exceptions.ReadTimeoutError as error:
            raise self.failed(path, f"stalled in mid-answer for {self.limits[1]:g} s", LOG) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.failed(path, "cut its answer off before the end", LOG) from error

    # --- what went wrong ---

    def failed(self, path: str, what: str, todo: str) -> WireError:
        line = f"{self.url}{path} {what}: {todo}"
        return WireError(line.replace(self.key, "***") if self.key else line)

    def _unreachable(self, path: str, error: requests.RequestException) -> WireError:
        if isinstance(error, requests.exceptions.ProxyError):
            what = "cannot be reached through the proxy that the environment names"
            return self.failed(path, what, "fix HTTP_PROXY or set NO_PROXY")
        if isinstance(error, requests.exceptions.SSLError):
            return self.failed(path, "has no certificate that can be trusted", "check https:// against http://")
        if isinstance(error, requests.ConnectTimeout):
            what = f"did not take the connection within {self.limits[0]:g} s ({_resolved(self.url)})"
            return self.failed(path, what, "check the address and the network")
        if isinstance(error, requests.Timeout):
            return self.failed(path, f"sent nothing for {self.limits[1]:g} s", "it is overloaded or hung: look at its own log")
        if _never_connected(error):
            return self.failed(path, f"cannot be reached ({_resolved(self.url)})", "start the server there or check the address")
        return self.failed(path, "closed the connection without an answer", "look at the server's own log")

    def _refused(self, response: requests.Response, path: str) -> WireError:
        status = response.status_code
        try:
            said = _error_text(json.loads(b"".join(self._chunks(response, path))))
        except (ValueError, AttributeError, WireError):
            said = ""
        finally:
            response.close()
        what = f"answered {status}" + (f" ({said})" if said else "")
        return self.failed(path, what, self.advice(status, said))

    def advice(self, status: int, said: str) -> str:
        if status in (401, 403):
            return "set the right key in the environment"
        if status == 404:
            return f"check the address, and that model {self.model!r} is served there"
        if status == 429 or status == 503:
            return "it is busy or down: wait a moment and run again"
        if status >= 500:
            return "look at the server's own log"
        if status >= 300 and status < 400:
            return "it points elsewhere: give that address instead"
        return "it does not take this request: check the server's version and the model's name"


def _never_connected(error: requests.RequestException) -> bool:
    """Whether a request failed before anything was sent."""
    if isinstance(error, requests.ConnectTimeout):
        return True
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return isinstance(reason, urllib3.exceptions.NewConnectionError | urllib3.exceptions.NameResolutionError)


def same_model(asked: str, answered: str) -> bool:
    """Whether an answer names the model that was asked for; providers add or drop an owner, a tag or a date."""

    def bare(name: str) -> str:
        return name.rpartition("/")[2].lower().removesuffix(":latest")

    asked, answered = bare(asked), bare(answered)
    return answered.startswith(asked) or (asked.startswith(answered) and answered != "")


class Ollama(Wire):
    """Ollama's own dialect."""

    options: ClassVar[dict[str, str]] = {
        "max_tokens": "num_predict",
        **{name: name for name in ("temperature", "seed", "top_p", "top_k", "stop", "num_ctx", "num_thread", "repeat_penalty")},
    }

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
        return str(self._field(self.get("/api/version"), "/api/version", "version"))

    def tag(self) -> Message | None:
        """What the server says of our model (digest, size, details); None when it does not hold it."""
        held = self._field(self.get("/api/tags"), "/api/tags", "models")
        return next((entry for entry in held if entry.get("name") in (self.model, f"{self.model}:latest")), None)

    def pull(self) -> Iterator[Message]:
        """Fetch our model into the server; status messages as they come. Returns only when it is there."""
        status = None
        with self.turn:
            for message in self.messages("/api/pull", {"model": self.model, "stream": True}, total_s=3600):
                status = message.get("status")
                yield message
        if status != "success":
            raise self.failed("/api/pull", "did not finish fetching the model", f"run `ollama pull {self.model}`")

    def _field(self, message: Message, path: str, name: str) -> Any:
        if name not in message:
            raise self.failed(path, f"sent an answer without {name!r}", "check that it is an Ollama")
        return message[name]


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
        held = self.get(path).get("data")
        if not isinstance(held, list):
            raise self.failed(path, "sent an answer without 'data'", "check that it is an OpenAI-shaped server")
        return [str(entry.get("id")) for entry in held]
