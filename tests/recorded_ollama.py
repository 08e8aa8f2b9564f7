"""An Ollama that says, byte for byte and read for read, what a real one said; its answers lie in tests/data/ollama.

`with RecordedOllama("0.32.15", generate=["generate_cold", "generate_warm"]) as ollama: …`: each POST gets the next of the
recordings named for its path, and the last of them from then on. For faults and shapes only, never for a figure.
"""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parent / "data" / "ollama"
VERSIONS = sorted(folder.name for folder in RECORDINGS.iterdir())
SHOW = {  # of `/api/show` only what is read; the recorded answer has too many tensors to be kept
    "template": "{{- range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}<|im_start|>assistant\n",
    "system": "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
    "capabilities": ["completion"],
}
SHOWN = {"/": "root", "/api/version": "version", "/api/tags": "tags", "/api/ps": "ps", "/v1/models": "v1_models"}


def recording(version: str, name: str) -> dict[str, Any]:
    return json.loads((RECORDINGS / version / f"{name}.json").read_text("utf-8"))


def said(version: str, name: str) -> dict[str, Any]:
    """The last message of a recorded answer."""
    text = "".join(text for _, text in recording(version, name)["reads_ms_and_text"])
    return json.loads(text.splitlines()[-1])


class RecordedOllama:
    """Serves recordings of one version on loopback: `generate=[…]`, `chat=[…]`, `show=[…]`, `pull=[…]`."""

    def __init__(self, version: str, **recordings: list[str]):
        self.version = version
        self.recordings = {f"/api/{path}": list(names) for path, names in recordings.items()}
        self.asked: list[tuple[str, str, Any]] = []  # method, path, body
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> "RecordedOllama":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next(self, path: str, body: Any) -> str:
        """The recording for a POST; what loads or unloads has recordings of its own."""
        if path == "/api/generate" and "prompt" not in body:
            return "unload" if body.get("keep_alive") == 0 else "load"
        names = self.recordings[path]
        return names.pop(0) if len(names) > 1 else names[0]

    def _handler(recorded) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments: object) -> None:
                pass

            def do_GET(self) -> None:
                recorded.asked.append(("GET", self.path, None))
                self.replay(recording(recorded.version, SHOWN.get(self.path, "no_such_path")))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                recorded.asked.append(("POST", self.path, body))
                if self.path == "/api/show" and self.path not in recorded.recordings:
                    return self.replay(
                        {"status": 200, "headers": {}, "reads_ms_and_text": [(0, json.dumps(SHOW))], "ended": "whole"}
                    )
                return self.replay(recording(recorded.version, recorded.next(self.path, body)))

            def replay(self, answer: dict[str, Any]) -> None:
                """Each read as one chunk; an answer that was cut off ends without its last chunk."""
                self.close_connection = True
                self.send_response(answer["status"])
                self.send_header("Content-Type", answer["headers"].get("Content-Type", "application/json"))
                self.send_header("Transfer-Encoding", "chunked")
                self.send_header("Connection", "close")
                self.end_headers()
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    for _, text in answer["reads_ms_and_text"]:
                        data = text.encode()
                        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                        self.wfile.flush()
                    if answer["ended"] == "whole":
                        self.wfile.write(b"0\r\n\r\n")

        return Handler
