"""One line to one server over HTTP: the only module that opens connections to model servers. Knows no dialect.

Every request has a connect, a read and a total time limit; loopback never goes through a proxy; requests to one server
run one after another. Whatever goes wrong is one WireError, which names the address and says what to do.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from pipeline.deadline import within
from pipeline.errors import MissingPart
from pipeline.serving.address import base_url, is_loopback, resolved
from pipeline.serving.stream import Broken, Message, error_text, parsed

if TYPE_CHECKING:
    import requests  # imported when a first request is made: a run with nothing to do makes none

CONNECT_S, READ_S, TOTAL_S = 3.0, 120.0, 180.0  # two busy cores can take a minute for an answer
MAX_BYTES = 4_000_000  # our longest answer is a few kilobytes
RETRY_PAUSE_S = 0.2
OVERLOADED = "it is overloaded or hung: look at its own log"
LOG = "run again; if it stays so, look at the server's own log"


class WireError(MissingPart):
    """A server did not answer as it should. One line: the address, what happened, what to do."""


class Unreachable(WireError):
    """No connection came about: nobody listens there, or nobody takes the connection."""


class _BearerKey:
    """The key as a header. An auth object also keeps requests from reading a .netrc."""

    def __init__(self, key: str | None):
        self.key = key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.key:
            request.headers["Authorization"] = f"Bearer {self.key}"
        return request


_turns: dict[str, threading.RLock] = {}


class Line:
    """A line to one server; `framing` is how the dialect of a subclass cuts a stream into messages."""

    framing: Callable[[Iterator[bytes]], Iterator[Message]]

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: str | None = None,
        key_variable: str | None = None,
        connect_s: float = CONNECT_S,
        read_s: float = READ_S,
        total_s: float = TOTAL_S,
    ):
        self.url, self.model = base_url(url), model
        self.limits = (connect_s, read_s)
        self.total_s = total_s
        self.key, self.key_variable = key, key_variable
        import requests

        self._session = requests.Session()
        self._session.trust_env = not is_loopback(self.url)  # the environment's proxies are not for loopback
        self._session.auth = _BearerKey(key)
        self._session.headers.update({"Accept-Encoding": "identity"})
        self.turn = _turns.setdefault(self.url, threading.RLock())  # hold it to have the server to yourself

    def close(self) -> None:
        self._session.close()

    def get(self, path: str) -> Message:
        return self._json("GET", path, None)

    def post(self, path: str, body: Message) -> Message:
        return self._json("POST", path, body)

    def look(self, path: str) -> tuple[Message, dict[str, str]]:
        """A GET's answer, and its headers in small letters: a server says there what it is."""
        headers: dict[str, str] = {}
        return self._json("GET", path, None, headers), headers

    def text(self, path: str) -> str:
        """A GET's answer as it is."""
        with self._open("GET", path, None) as response:
            return b"".join(self._chunks(response, path)).decode("utf-8", "replace")

    def _json(self, method: str, path: str, body: Message | None, headers: dict[str, str] | None = None) -> Message:
        try:
            with self._open(method, path, body) as response:
                if headers is not None:
                    headers |= {name.lower(): value for name, value in response.headers.items()}
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

    def status(
        self,
        method: str,
        path: str,
        body: Message | None = None,
        *,
        expected: tuple[int, ...],
        data: BinaryIO | None = None,
        total_s: float | None = None,
    ) -> int:
        """The status of an answer of which nothing else matters; one that is not expected is a WireError."""
        with self._open(method, path, body, expected=expected, data=data, total_s=total_s) as response:
            return response.status_code

    def _open(
        self,
        method: str,
        path: str,
        body: Message | None,
        *,
        expected: tuple[int, ...] = (200,),
        data: BinaryIO | None = None,
        total_s: float | None = None,
    ) -> requests.Response:
        """Send, once more where that is safe: when no connection came about, or for a GET."""
        total_s = total_s or self.total_s
        import requests

        for last_try in (False, True):
            try:
                response = within(
                    total_s,  # for requests itself limits only the gaps between the bytes of the headers
                    lambda: self._session.request(
                        method, self.url + path, json=body, data=data, timeout=self.limits, stream=True, allow_redirects=False
                    ),
                )
            except TimeoutError as error:
                raise self.failed(path, f"did not begin its answer within {total_s:g} s", OVERLOADED) from error
            except requests.RequestException as error:
                again = _never_connected(error) or (method == "GET" and not isinstance(error, requests.ReadTimeout))
                if last_try or not again:
                    raise self._unreachable(path, error) from error
            else:
                if response.status_code in expected:
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
        import urllib3.exceptions

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
        import requests

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
            return f"set the right key in {self.key_variable or 'the environment'}"
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
    import requests
    import urllib3.exceptions

    if isinstance(error, requests.ConnectTimeout):
        return True
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return isinstance(reason, urllib3.exceptions.NewConnectionError | urllib3.exceptions.NameResolutionError)
