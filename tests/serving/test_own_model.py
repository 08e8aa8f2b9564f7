"""The deck's own model in a real Ollama: put in, asked, taken out, and what a killed run left behind. Needs `ollama` on PATH."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from pipeline.model.find import choose
from pipeline.paths import BUILD
from pipeline.serving import own_model
from pipeline.serving.choice import OWN, ServerChoice
from pipeline.serving.own_server import put_in
from pipeline.serving.start import begin_ollama

PROGRAM = shutil.which("ollama")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no ollama on PATH: its own tests need a real one")


@pytest.fixture(scope="module")
def ollama():
    """A real Ollama on a port and with a model folder of its own, never the user's."""
    with begin_ollama(PROGRAM, OWN, must_hold=False, own_folder=True).ready() as server:
        yield server


@pytest.fixture(scope="module")
def chosen(ollama):
    return ServerChoice("ollama", "Ollama", "", (), ollama.base_url, None, OWN, None, ollama.wire.version())


@pytest.fixture(scope="module")
def gpt2(gpt2_folder):
    return choose(str(gpt2_folder)).load()


@pytest.fixture
def said(monkeypatch, tmp_path):
    """What a run says; its claims are in a folder of this test's."""
    monkeypatch.setattr(own_model, "cache_folder", lambda: tmp_path)
    return []


def files(ollama) -> list[str]:
    return sorted(path.name for path in (ollama.process.folder / "models").rglob("*") if path.is_file())


def test_a_model_is_there_while_it_is_asked_and_gone_afterwards(ollama, chosen, gpt2, said):
    before = files(ollama)
    with put_in(chosen, gpt2, said.append) as server:
        assert own_model.names(ollama.wire) == [f"{server.model}:latest"]
        assert server.complete("The keeper", max_tokens=3, temperature=0).model == server.model
        assert server.provenance["model"] == gpt2.provenance["name"]  # never the name of this one run
    assert own_model.names(ollama.wire) == []
    stays = any("keeps the uploaded file" in line for line in said)
    assert (files(ollama) == before) is not stays


def test_a_file_that_is_there_is_not_sent_again(ollama, chosen, gpt2, said, monkeypatch):
    sent = []
    real = type(ollama.wire).status
    monkeypatch.setattr(
        type(ollama.wire),
        "status",
        lambda wire, method, path, *rest, **more: (sent.append(method), real(wire, method, path, *rest, **more))[1],
    )
    with put_in(chosen, gpt2, said.append), put_in_another(chosen, gpt2, said, monkeypatch):
        pass
    assert sent.count("POST") <= 1


def put_in_another(chosen, loaded, said, monkeypatch):
    """A second run beside the first: another process, so another name."""
    monkeypatch.setattr(own_model, "run_id", lambda: 1)
    return put_in(chosen, loaded, said.append)


KILLED = """
import os, signal, sys
sys.path[:0] = {path!r}
from pathlib import Path
from pipeline.model.find import choose
from pipeline.serving import own_model
from pipeline.serving.choice import OWN, ServerChoice
from pipeline.serving.own_server import put_in
own_model.cache_folder = lambda: Path({cache!r})
put_in(ServerChoice("ollama", "Ollama", "", (), {url!r}, None, OWN, None, "1"), choose({model!r}).load(), print)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_run_takes_out_what_a_killed_one_left(ollama, chosen, gpt2, said, tmp_path):
    code = KILLED.format(path=[str(BUILD)], cache=str(tmp_path), url=ollama.base_url, model=str(gpt2.path))
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (left,) = own_model.names(ollama.wire)
    with put_in(chosen, gpt2, said.append) as server:
        assert own_model.names(ollama.wire) == [f"{server.model}:latest"]
    assert any("killed" in line and left.removesuffix(":latest") in line for line in said)
    assert own_model.names(ollama.wire) == [] and list((tmp_path / "in-use").iterdir()) == []


def test_another_runs_model_is_left_alone(ollama, chosen, gpt2, said, monkeypatch):
    with put_in(chosen, gpt2, said.append) as first, put_in_another(chosen, gpt2, said, monkeypatch) as second:
        assert sorted(own_model.names(ollama.wire)) == sorted([f"{first.model}:latest", f"{second.model}:latest"])


def test_a_model_that_is_to_be_kept_stays_under_a_plain_name(ollama, chosen, gpt2, said):
    put_in(chosen, gpt2, said.append, keep=True).close()
    plain = own_model.plain_name(gpt2.provenance["name"])
    assert own_model.names(ollama.wire) == [f"{plain}:latest"] and any(f"ollama rm {plain}" in line for line in said)
    own_model.delete(ollama.wire, plain)


def test_an_ollama_that_we_start_for_it_leaves_nothing(gpt2, said, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "models"))
    with put_in(ServerChoice("ollama", "Ollama", "", (), None, PROGRAM, OWN, None, None), gpt2, said.append) as server:
        folder = server.process.folder
        assert server.complete("The keeper", max_tokens=1, temperature=0).completion_tokens == 1
    assert not folder.exists() and not (tmp_path / "home").exists() and not (tmp_path / "models").exists()
    assert not os.path.exists(f"/proc/{server.process._keeper.pid}")
