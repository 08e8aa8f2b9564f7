"""The real server of the tests, started when first asked for; and for tests of servers a machine that has none."""

import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import fake_server
from fake_server import MODEL, FakeServer
from pipeline.drawing.canvas import Canvas
from pipeline.errors import DeckError
from pipeline.lab import Lab
from pipeline.model import find as find_model
from pipeline.serving.server import KEY_VARIABLE, Server, connect
from pipeline.serving.start import begin_transformers
from pipeline.slide import Data, Slide, to_json

SENTENCE = "The beekeeper opened the"
FAKE = [sys.executable, str(Path(fake_server.__file__))]
TEST, MARKS = "DECK_TEST", ("watchdog.py", "transformers.cli.transformers", "fake_server.py", "/ollama")


@pytest.fixture(scope="session")
def served() -> Iterator[Callable[[], Server]]:
    """served() -> the real server; started at the first call, stopped at the end of the session."""
    running: list[Server] = []

    def once() -> Server:
        if not running:
            try:
                running.append(begin_transformers(find_model.embedded_folder()).ready())
            except DeckError as error:
                pytest.exit(f"the tests need the real server: {error}", returncode=error.exit_code)
        return running[0]

    yield once
    for server in running:
        server.close()


@pytest.fixture(scope="session")
def real_server(served: Callable[[], Server]) -> Server:
    return served()


@pytest.fixture
def nothing_there(monkeypatch, tmp_path):
    """No Ollama answers and none is on PATH, whatever this machine has."""
    with FakeServer() as gone:
        monkeypatch.setenv("OLLAMA_HOST", gone.url)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "models"))
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.setenv(TEST, str(tmp_path))  # every process that this test starts carries it
    yield
    assert ours() == {}


def ours() -> dict[int, list[str]]:
    """Every keeper and every server that this test started and that still runs, real or fake: id -> command."""
    found = {}
    for process in psutil.process_iter(["cmdline", "status", "environ"]):
        command = process.info["cmdline"] or []
        mine = (process.info["environ"] or {}).get(TEST) == os.environ[TEST] and process.info["status"] != psutil.STATUS_ZOMBIE
        if mine and any(part.endswith(MARKS) for part in command[:4]):
            found[process.pid] = command
    return found


def server_of(fake: FakeServer, kind: str = "ollama", read_s: float = 5.0) -> Server:
    server = connect(kind, fake.url, MODEL, "Fake", "0.32.0" if kind == "ollama" else None, None)
    server.wire.limits, server.wire.total_s = (0.3, read_s), 2.0
    return server


def lab_of(server: Server, sentence: str = SENTENCE) -> Lab:
    def no_model():
        raise AssertionError("these slides need no model")

    return Lab(sentence, no_model, lambda: server)


def taken(slide: Slide, lab: Lab) -> Data:
    return json.loads(to_json(slide.capture(lab)))


def drawn(slide: Slide, data: Data) -> Canvas:
    canvas = Canvas()
    slide.draw(canvas, data)
    return canvas


@contextlib.contextmanager
def deaf_port() -> Iterator[str]:
    """A loopback address that takes no connection and refuses none: its queue is full."""
    with socket.socket() as listening, contextlib.ExitStack() as queue:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(3):
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
