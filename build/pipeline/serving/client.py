"""The one module that speaks HTTP to model servers; what is said over it is a dialect's business.

Every request has a connect, a read and a total time limit; loopback never goes through a proxy; requests to one server
run one after another. Whatever goes wrong is one WireError, which names the address and says what to do. Knows no
slide, no model, no process.
"""

import contextlib
import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import requests
import urllib3.exceptions

from pipeline.deadline import within
from pipeline.errors import BadInput, MissingPart
from pipeline.serving.address import base_url, is_loopback, resolved
from pipeline.serving.stream import Broken, Message, error_text, parsed

CONNECT_S, READ_S, TOTAL_S = 3.0, 120.0, 180.0  # two busy cores can take a minute for an answer
MAX_BYTES = 4_000_000  # our longest answer is a few kilobytes
RETRY_PAUSE_S = 0.2
OVERLOADED = "it is overloaded or hung: look at its own log"
LOG = "run again; if it stays so, look at the server's own log"


class WireError(MissingPart):
    """A server did not answer as it should. One line: the address, what happened, what to do."""


class Unreachable(WireError):
    """No connection came about: nobody listens there, or nobody takes the connection."""


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

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError("an answer's text is text")


class _BearerKey(requests.auth.AuthBase):
    """The key as a header. An auth object also keeps requests from reading a .netrc."""

    def __init__(self, key: str | None):
        self.key = key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.key:
            request.headers["Authorization"] = f"Bearer {self.key}"
        return request


_turns: dict[str, threading.RLock] = {}


class Wire(ABC):
    """A line to one server, in the dialect that a subclass speaks."""

    options: ClassVar[dict[str, str]]  # our name of an option -> the dialect's
    framing: Callable[[Iterator[bytes]], Iterator[Message]]  # how a stream is cut into messages

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
        with self.of_our_shape(path):
            return self.read(path, body, answer, None, time.perf_counter() - started, [])

    def _streamed(self, path: str, body: Message) -> Exchange:
        started = time.perf_counter()
        chunks, end = [], {}
        with self.of_our_shape(path):
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
            return self.read(path, body, end, "".join(text for _, text in chunks), seconds, chunks)

    @contextlib.contextmanager
    def of_our_shape(self, path: str) -> Iterator[None]:
        """Where an answer is taken apart: one that lacks a field, or has another thing there, is a WireError."""
        try:
            yield
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            missing = f"sent an answer without {error}" if isinstance(error, KeyError) else "sent an answer of another shape"
            raise self.failed(path, missing, "check that it is the kind of server you think it is") from error

    # --- what a dialect says ---

    @abstractmethod
    def completion(self, prompt: str, options: Message, stream: bool) -> tuple[str, Message]:
        """The path and the body that ask for a text's continuation."""

    @abstractmethod
    def conversation(self, messages: list[Message], options: Message, stream: bool) -> tuple[str, Message]:
        """The path and the body that ask for an answer."""

    @abstractmethod
    def read(self, path, body, answer, text, seconds, chunks) -> Exchange:
        """What an answer means; `text` is None unless it was streamed."""

    @abstractmethod
    def chunk_text(self, message: Message) -> str:
        """The text in one message of a stream, or nothing."""

    @abstractmethod
    def is_last(self, message: Message) -> bool:
        """Whether a message of a stream ends the answer."""

    # --- HTTP ---

    def get(self, path: str) -> Message:
        return self._json("GET", path, None)

    def post(self, path: str, body: Message) -> Message:
        return self._json("POST", path, body)

    def _json(self, method: str, path: str, body: Message | None) -> Message:
        try:
            with self._open(method, path, body) as response:
                return parsed(b"".join(self._chunks(response, path)).decode("utf-8"))
        except UnicodeDecodeError as error:
            raise self.failed(path, "sent text that is not UTF-8", "check the address") from error
        except Broken as error:
            raise self.failed(path, str(error), "check that this is a model server, and its log") from error

    def messages(
        self, path: str, body: Message, *, total_s: float | None = None, most_bytes: int | None = None
    ) -> Iterator[Message]:
        """The messages of a streamed answer as they arrive."""
        try:
            with self._open("POST", path, body) as response:
                yield from self.framing(self._chunks(response, path, total_s, most_bytes))
        except UnicodeDecodeError as error:
            raise self.failed(path, "sent text that is not UTF-8", "check the address") from error
        except Broken as error:
            raise self.failed(path, f"{error} (in mid-answer)", "run again, and look at the server's own log") from error

    def _open(self, method: str, path: str, body: Message | None) -> requests.Response:
        """Send, once more where that is safe: when no connection came about, or for a GET."""
        for last_try in (False, True):
            try:
                response = within(
                    self.total_s,  # for requests itself limits only the gaps between the bytes of the headers
                    lambda: self._session.request(
                        method, self.url + path, json=body, timeout=self.limits, stream=True, allow_redirects=False
                    ),
                )
            except TimeoutError as error:
                raise self.failed(path, f"did not begin its answer within {self.total_s:g} s", OVERLOADED) from error
            except requests.RequestException as error:
                again = _never_connected(error) or (method == "GET" and not isinstance(error, requests.ReadTimeout))
                if last_try or not again:
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

    def _chunks(
        self, response: requests.Response, path: str, total_s: float | None = None, most_bytes: int | None = None
    ) -> Iterator[bytes]:
        """The body as it arrives, given up when it takes too long or grows too big."""
        total_s, most_bytes = total_s or self.total_s, most_bytes or MAX_BYTES
        deadline, size = time.monotonic() + total_s, 0
        stop = "the server does not stop by itself: restart it"
        try:
            while chunk := response.raw.read1(65536, decode_content=True):
                size += len(chunk)
                if size > most_bytes:
                    raise self.failed(path, f"sent more than {most_bytes // 1_000_000} MB without an end", stop)
                if time.monotonic() > deadline:
                    raise self.failed(path, f"was still answering after {total_s:g} s", stop)
                yield chunk
        except urllib3.exceptions.ReadTimeoutError as error:
            raise self.failed(path, f"stalled in mid-answer for {self.limits[1]:g} s", LOG) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.failed(path, "cut its answer off before the end", LOG) from error

    # --- what went wrong ---

    def failed(self, path: str, what: str, todo: str, kind: type[WireError] = WireError) -> WireError:
        line = f"{self.url}{path} {what}: {todo}"
        return kind(line.replace(self.key, "***") if self.key else line)

    def _unreachable(self, path: str, error: requests.RequestException) -> WireError:
        if isinstance(error, requests.exceptions.ProxyError):
            what = "cannot be reached through the proxy that the environment names"
            return self.failed(path, what, "fix HTTP_PROXY or set NO_PROXY", Unreachable)
        if isinstance(error, requests.exceptions.SSLError):
            return self.failed(path, "has no certificate that can be trusted", "check https:// against http://")
        if isinstance(error, requests.ConnectTimeout):
            what = f"did not take the connection within {self.limits[0]:g} s ({resolved(self.url)})"
            return self.failed(path, what, "check the address and the network", Unreachable)
        if isinstance(error, requests.Timeout):
            return self.failed(path, f"sent nothing for {self.limits[1]:g} s", OVERLOADED)
        if _never_connected(error):
            what = f"cannot be reached ({resolved(self.url)})"
            return self.failed(path, what, "start the server there or check the address", Unreachable)
        return self.failed(path, "closed the connection without an answer", "look at the server's own log")

    def _refused(self, response: requests.Response, path: str) -> WireError:
        status = response.status_code
        try:
            body = b"".join(self._chunks(response, path))
            said = error_text(json.loads(body.replace(self.key.encode(), b"***") if self.key else body))
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
