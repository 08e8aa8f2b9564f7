"""A model server that misbehaves in one chosen way: for faults only, never for a figure.

In the tests: `with FakeServer(fault="stalled") as fake: …`, then `fake.url`. As a program it stands in for `ollama serve`
(address from OLLAMA_HOST) and for `transformers serve NAME … --port N`, so that starting and stopping can be tried fast.
"""

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

TEXT = " hive. Señor 東京 🤗 flew\nout"
PIECES = [" hive", ".", " Señor", " 東京", " 🤗", " flew", "\nout"]
MODEL = "qwen2.5:0.5b"
KEY_SAID = "bad key sk-planted"  # what a 401 says
FAULTS = (
    "slow to the first byte", "stalled", "cut off", "404", "400", "500", "503", "401", "HTML", "no fields", "not JSON",
    "loading", "error in mid-stream", "wrong model", "endless", "moved", "closed at once",
)  # fmt: skip


class FakeServer:
    """Serves both dialects on loopback; `fault` names what goes wrong in every answer to a POST."""

    def __init__(self, fault: str = "", *, model: str = MODEL, held: bool = True, host: str = "127.0.0.1", port: int = 0):
        self.fault, self.model, self.held = fault, model, held
        self.asked: list[tuple[str, str, Any, dict[str, str]]] = []  # method, path, body, headers
        self.writes_of = 0  # bytes per write; 0: a message at a time
        self.newline = b"\n"
        self.loads = 1  # how often it only loads before it answers ("loads once")
        self.spans: list[list[float]] = []  # of each POST: when it came, when the last of its answer began to be written
        self.read: set[Any] = set()  # the prompts in its cache
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer((host, port), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://{host}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> "FakeServer":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def serve_forever(self) -> None:
        self._server.serve_forever()

    def posts(self) -> list[Any]:
        return [body for method, _, body, _ in self.asked if method == "POST"]

    def _handler(fake) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            span: ClassVar[list[float]] = [0.0, 0.0]  # of a GET nobody asks
            recalls = False

            def log_message(self, *arguments: object) -> None:
                pass

            def do_GET(self) -> None:
                fake.asked.append(("GET", self.path, None, {name.lower(): value for name, value in self.headers.items()}))
                known = {
                    "/api/version": {"version": "0.32.0"},
                    "/api/tags": {"models": [{"name": fake.model, "digest": "a8b0c515", "size": 1}] if fake.held else []},
                    "/v1/models": {"object": "list", "data": [{"id": fake.model, "object": "model"}]},
                    "/health": {"status": "ok"},
                }
                if self.path in ("/", "/api/version") and fake.fault == "not an Ollama":
                    return self.reply(404, {"detail": "Not Found"})
                if self.path == "/":
                    return self.reply(200, b"Ollama is running" if fake.fault != "another product" else b"hello", "text/plain")
                if self.path in known:
                    return self.reply(200, known[self.path])
                return self.reply(404, {"error": "not found"})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                fake.asked.append(("POST", self.path, body, {name.lower(): value for name, value in self.headers.items()}))
                if self.path == "/api/pull":
                    return self.pull()
                if self.path == "/api/show":
                    return self.reply(200, {"template": "{{ .Prompt }}", "capabilities": ["completion"]})
                self.span = [time.perf_counter(), 0.0]
                fake.spans.append(self.span)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.answer(body)
                return None

            def reply(self, status: int, message: Any, kind: str = "application/json", **headers: str) -> None:
                data = message if isinstance(message, bytes) else json.dumps(message).encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Connection", "close")
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.write(data)

            def write(self, data: bytes) -> None:
                step = fake.writes_of or len(data) or 1
                for start in range(0, len(data), step):
                    self.span[1] = time.perf_counter()
                    self.wfile.write(data[start : start + step])
                    self.wfile.flush()
                    if fake.writes_of:
                        time.sleep(0.0005)

            def wait(self) -> None:
                fake.closing.wait(20)

            def pull(self) -> None:
                lines = [{"status": "pulling manifest"}]
                lines += [{"status": "pulling a8b0", "digest": "a8b0", "total": 1000, "completed": n} for n in (0, 500, 1000)]
                if fake.fault == "no network":
                    lines = [lines[0], {"error": "pull model manifest: dial tcp: no such host"}]
                else:
                    lines.append({"status": "success"})
                    fake.held = True
                self.reply(200, b"".join(json.dumps(line).encode() + b"\n" for line in lines), "application/x-ndjson")

            def answer(self, body: dict[str, Any]) -> None:
                fault, stream = fake.fault, body.get("stream", False)
                if self.path == "/api/generate" and "prompt" not in body:
                    fake.read = set()
                    reason = "unload" if body.get("keep_alive") == 0 else "load"
                    return self.reply(200, {"model": body["model"], "response": "", "done": True, "done_reason": reason})
                self.recalls = body.get("prompt") in fake.read
                fake.read.add(body.get("prompt"))
                said = {
                    "404": f"model '{body['model']}' not found",
                    "400": "invalid options", "500": "llama runner died", "503": "server busy", "401": KEY_SAID,
                }  # fmt: skip
                if fault in said:
                    return self.reply(int(fault), {"error": said[fault]})
                if fault == "slow to the first byte":
                    return self.wait()
                if fault == "slow headers":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                    self.close_connection = True
                    while not fake.closing.wait(0.05):
                        self.wfile.write(b"a")
                    return None
                if fault == "closed at once":
                    self.close_connection = True
                    return self.connection.shutdown(socket.SHUT_RDWR)
                if fault == "HTML":
                    return self.reply(200, b"<html><body>Sign in</body></html>", "text/html; charset=utf-8")
                if fault == "moved":
                    return self.reply(302, b"", Location="http://elsewhere.invalid/")
                if fault == "no fields":
                    return self.reply(200, {"hello": "there"})
                if fault == "not JSON":
                    return self.reply(200, b"{'hello': nonsense")
                if fault == "loading" or (fault == "loads once" and fake.loads):
                    fake.loads -= 1
                    return self.reply(200, b"".join(framed(m, self.path, fake.newline, stream) for m in loading(self.path, body)))
                answered = "llama3:8b" if fault == "wrong model" else body["model"]
                if stream:
                    return self.stream(answered)
                data = json.dumps(self.recalled(whole(self.path, answered)), ensure_ascii=False).encode()
                if fault in ("stalled", "cut off", "endless"):
                    return self.broken(data, fault)
                if fault == "error in mid-stream":
                    return self.reply(200, {"error": "out of memory"})
                return self.reply(200, data)

            def recalled(self, message: dict[str, Any]) -> dict[str, Any]:
                """What an Ollama says of a prompt that is in its cache: a shorter reading, the same count."""
                return {**message, "prompt_eval_duration": 9_000_000} if self.recalls and "eval_duration" in message else message

            def broken(self, data: bytes, fault: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                if fault != "endless":
                    self.send_header("Content-Length", str(len(data)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                self.write(data[: len(data) // 2])
                if fault == "stalled":
                    self.wait()
                while fault == "endless" and not fake.closing.is_set():
                    self.wfile.write(b" " * 100)
                    time.sleep(0.01)

            def stream(self, answered: str) -> None:
                fault = fake.fault
                kind = "application/x-ndjson" if self.path.startswith("/api") else "text/event-stream"
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                for number, message in enumerate(map(self.recalled, streamed(self.path, answered))):
                    if number == 3 and fault == "stalled":
                        self.wait()
                    if number == 3 and fault == "cut off":
                        return
                    if number == 3 and fault == "error in mid-stream":
                        message = {"error": "out of memory"}
                    while number == 3 and fault == "endless" and not fake.closing.is_set():
                        self.write(framed(message, self.path, fake.newline, True))
                        time.sleep(0.01)
                    self.write(framed(message, self.path, fake.newline, True))
                if kind == "text/event-stream":
                    self.write(b"data: [DONE]" + fake.newline * 2)

        return Handler


def framed(message: dict[str, Any], path: str, newline: bytes, stream: bool) -> bytes:
    data = json.dumps(message, ensure_ascii=False).encode()
    return b"data: " + data + newline * 2 if stream and path.startswith("/v1") else data + newline


def text_in(path: str, text: str, delta: bool = False) -> dict[str, Any]:
    """Where each of the four answers keeps its text."""
    return {
        "/api/generate": {"response": text},
        "/api/chat": {"message": {"role": "assistant", "content": text}},
        "/v1/completions": {"text": text},
        "/v1/chat/completions": {"delta" if delta else "message": {"role": "assistant", "content": text}},
    }[path]


def ollama_end(path: str, model: str, text: str, reason: str = "length") -> dict[str, Any]:
    """The last message of Ollama's dialect; durations in nanoseconds."""
    return {
        "model": model, "created_at": "2026-11-29T12:00:00Z", **text_in(path, text), "done": True, "done_reason": reason,
        "total_duration": 300_000_000, "load_duration": 20_000_000, "prompt_eval_count": 10,
        "prompt_eval_duration": 80_000_000, "eval_count": len(PIECES), "eval_duration": 190_000_000,
    }  # fmt: skip


def whole(path: str, model: str) -> dict[str, Any]:
    if path.startswith("/api"):
        return ollama_end(path, model, TEXT)
    usage = {"prompt_tokens": 10, "completion_tokens": len(PIECES), "total_tokens": 10 + len(PIECES)}
    choice = {"index": 0, "finish_reason": "length", **text_in(path, TEXT)}
    kind = "chat.completion" if "chat" in path else "text_completion"
    return {"id": "cmpl-1", "object": kind, "created": 1, "model": model, "choices": [choice], "usage": usage}


def loading(path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    if path.startswith("/api"):
        return [{"model": body["model"], "created_at": "x", **text_in(path, ""), "done": True, "done_reason": "load"}]
    choice = {"index": 0, "finish_reason": "load", **text_in(path, "", delta=body.get("stream", False))}
    return [{"model": body["model"], "choices": [choice]}]


def streamed(path: str, model: str) -> Iterator[dict[str, Any]]:
    for piece in PIECES:
        if path.startswith("/api"):
            yield {"model": model, "created_at": "x", **text_in(path, piece), "done": False}
        else:
            yield {
                "id": "c",
                "model": model,
                "choices": [{"index": 0, "finish_reason": None, **text_in(path, piece, delta=True)}],
            }
    if path.startswith("/api"):
        yield ollama_end(path, model, "")
    else:
        yield {"id": "c", "model": model, "choices": [{"index": 0, "finish_reason": "length", **text_in(path, "", delta=True)}]}
        yield {"id": "c", "model": model, "choices": [], "usage": whole(path, model)["usage"]}


def main(arguments: list[str]) -> None:
    """`serve` like ollama, `serve NAME … --port N` like transformers, `--version`."""
    if "--version" in arguments:
        print("ollama version is 0.32.0")
        return
    if "--port" in arguments:
        name, port = arguments[1], int(arguments[arguments.index("--port") + 1])
    else:
        name, port = MODEL, int(os.environ["OLLAMA_HOST"].rpartition(":")[2])
    if os.environ.get("FAKE_DIES"):
        sys.exit("ValueError: the weights are missing")
    try:
        fake = FakeServer(model=name, port=port)
    except OSError as error:
        sys.exit(f"[Errno 98] error while attempting to bind on address: {error.strerror.lower()}")
    print(f"Listening on 127.0.0.1:{port}; running on http://127.0.0.1:{port}", flush=True)
    fake.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
