"""A model hub on loopback that serves one folder, or misbehaves in one chosen way: for faults only, never for a figure."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pipeline.model import find as find_model


class FakeHub(ThreadingHTTPServer):
    """A hub on loopback that serves one folder as every model, or misbehaves as told."""

    daemon_threads = True

    def __init__(self, folder: Path | None = None, fault: str = "", revision: str = find_model.GPT2_REVISION):
        super().__init__(("127.0.0.1", 0), HubAnswers)
        self.folder, self.fault, self.revision, self.requests = folder, fault, revision, []
        self.released = threading.Event()
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass  # a client that gave up is what some of these tests are about

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self.shutdown()
        self.server_close()


class HubAnswers(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        hub = self.server
        hub.requests.append(self.path)
        if hub.fault == "hang":
            hub.released.wait(30)
            return
        if hub.fault == "500":
            self.send_error(500)
            return
        if self.path.startswith("/api/models/"):
            names = sorted(path.name for path in hub.folder.iterdir()) if hub.folder else None
            if names is None:
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.end_headers()
                return
            info = {
                "id": self.path.removeprefix("/api/models/"),
                "sha": hub.revision,
                "siblings": [{"rfilename": n} for n in names],
            }
            self.send_whole(json.dumps(info).encode(), "application/json", {})
            return
        path = hub.folder / self.path.rpartition("/")[2]
        if not path.is_file():
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("X-Repo-Commit", hub.revision)
            self.end_headers()
            return
        content = path.read_bytes()
        headers = {"X-Repo-Commit": hub.revision, "ETag": f'"{hashlib.sha256(content).hexdigest()}"'}
        if body and hub.fault == "cut" and path.suffix == ".safetensors":
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        self.send_whole(content if body else None, "application/octet-stream", headers, len(content))

    def send_whole(self, content: bytes | None, kind: str, headers: dict[str, str], length: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content) if content is not None else length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if content is not None:
            self.wfile.write(content)


def closed_address() -> str:
    with FakeHub() as hub:
        return hub.address
