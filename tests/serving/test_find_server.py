"""Finding a server: an Ollama, one by URL, else the embedded one; and what the real one is."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fake_server import MODEL, TEXT, FakeServer
from pipeline.errors import BadInput, DeckError, MissingPart
from pipeline.model import find as find_model
from pipeline.paths import BUILD
from pipeline.serving import find as find_server
from pipeline.serving import start
from pipeline.serving.address import is_loopback
from pipeline.serving.choice import OWN
from pipeline.serving.dialects import OpenAI
from pipeline.serving.server import KEY_VARIABLE
from serving_fixtures import FAKE, ours

IDENTITY = "SmolLM2-135M-Instruct@sha256:0123"
pytestmark = pytest.mark.usefixtures("nothing_there")


def put_ollama_on_path(tmp_path: Path, digest_on_disk: bool = True) -> None:
    program = tmp_path / "bin" / "ollama"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {" ".join(FAKE)} "$@"\n')
    program.chmod(0o755)
    if digest_on_disk:
        manifest = tmp_path / "models/manifests/its.host/library/qwen2.5/0.5b"
        manifest.parent.mkdir(parents=True)
        manifest.write_text("{}")


# --- finding ---


def test_without_any_ollama_the_embedded_server_is_chosen_and_says_why():
    choice = find_server.choose(own_identity=IDENTITY)
    assert choice.kind == "transformers serve" and IDENTITY in choice.identity
    assert choice.lines[0].startswith("no Ollama answers at http://127.0.0.1:")
    assert choice.lines[1] == "no ollama on PATH"
    assert choice.lines[2].startswith("transformers serve 5.")


def test_choosing_imports_nothing_heavy():
    script = f"""
        import sys; sys.path.insert(0, {str(BUILD)!r})
        from pipeline.serving import find as find_server
        find_server.choose("embedded", own_identity="x")
        assert not [name for name in ("torch", "transformers", "litellm", "openai") if name in sys.modules]
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


def test_a_running_ollama_with_the_model_is_taken(monkeypatch):
    with FakeServer() as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url.removeprefix("http://"))
        choice = find_server.choose(own_identity=IDENTITY)
        assert (choice.kind, choice.name) == ("ollama", "Ollama")
        assert choice.identity == f"ollama 0.32.0 {MODEL} a8b0c515"
        with choice.start() as server:
            assert server.label == "Ollama 0.32.0"
            assert server.provenance == {
                "kind": "ollama", "name": "Ollama", "version": "0.32.0", "model": MODEL, "digest": "a8b0c515", "sha256": None,
            }  # fmt: skip
            assert server.complete("A", max_tokens=7, temperature=0).text == TEXT
        assert str(fake.port) not in choice.identity


def test_a_wrong_ollama_host_is_named_in_the_error(monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", "[::1")
    with pytest.raises(BadInput, match=r"^OLLAMA_HOST "):
        find_server.choose(own_identity=IDENTITY)


def test_an_ollama_that_lacks_the_model_is_asked_for_the_decks_own_in_a_run_that_fetches_nothing(monkeypatch):
    with FakeServer(held=False) as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        choice = find_server.choose(offline=True, own_identity=IDENTITY)
        assert (choice.kind, choice.model) == ("ollama", OWN) and choice.identity == f"ollama 0.32.0 {IDENTITY}"
        assert "the deck's own model" in choice.lines[0] and "this run fetches none; run `ollama pull" in choice.lines[0]
        assert fake.posts() == []


def test_an_ollama_without_the_model_fetches_it_with_a_progress_bar(monkeypatch):
    said: list[str] = []
    with FakeServer(held=False) as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        choice = find_server.choose(own_identity=IDENTITY, say=said.append)
        assert choice.kind == "ollama" and choice.digest == "a8b0c515"
    assert any("██████████··········" in line and "MB" in line for line in said)


@pytest.mark.parametrize("how", ["offline", "no network"])
def test_an_ollama_that_cannot_fetch_the_model_is_asked_for_the_decks_own_with_the_reason(monkeypatch, how):
    with FakeServer("" if how == "offline" else "no network", held=False) as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        choice = find_server.choose(own_identity=IDENTITY, offline=how == "offline")
        assert (choice.kind, choice.model) == ("ollama", OWN)
        expected = f"ollama pull {MODEL}" if how == "offline" else "it has no network"
        assert fake.url in choice.lines[0] and expected in choice.lines[0]
        assert find_server.choose("ollama", own_identity=IDENTITY, offline=how == "offline").model == OWN


def test_asked_for_an_ollama_that_is_not_there_says_the_exact_commands():
    with pytest.raises(MissingPart, match=rf"run `ollama serve` and `ollama pull {MODEL}`") as caught:
        find_server.choose("ollama", own_identity=IDENTITY)
    assert caught.value.exit_code == 3 and "\n" not in str(caught.value)


def test_something_else_at_the_ollama_port_is_reported(monkeypatch):
    with FakeServer("not an Ollama") as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        choice = find_server.choose(own_identity=IDENTITY)
    assert choice.kind == "transformers serve" and "answered 404" in choice.lines[0]


def test_an_ollama_on_path_is_started_asked_and_stopped(tmp_path):
    put_ollama_on_path(tmp_path)
    choice = find_server.choose(own_identity=IDENTITY)
    assert choice.kind == "ollama" and choice.url is None and "on PATH" in choice.lines[-1]
    with choice.start() as server:
        assert is_loopback(server.base_url)
        assert server.chat([{"role": "user", "content": "A"}], max_tokens=7).text == TEXT
        assert len(ours()) == 2


def test_an_ollama_on_path_without_the_model_is_asked_for_the_decks_own_when_offline(tmp_path):
    put_ollama_on_path(tmp_path, digest_on_disk=False)
    choice = find_server.choose(own_identity=IDENTITY, offline=True)
    assert (choice.kind, choice.model) == ("ollama", OWN) and f"has no {MODEL}" in choice.lines[1]


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_a_server_by_url_is_known_by_its_dialect(ending):
    with FakeServer("not an Ollama", model="my-model") as fake:
        choice = find_server.choose(fake.url + ending, own_identity=IDENTITY)
        assert (choice.kind, choice.model, choice.version, choice.digest) == ("openai", "my-model", None, None)
        assert str(fake.port) not in choice.identity
        with choice.start() as server:
            assert server.complete("A", max_tokens=7).path == "/v1/completions"
    with FakeServer() as fake:
        assert find_server.choose(fake.url + ending, own_identity=IDENTITY).kind == "ollama"


def test_a_url_where_nothing_listens_is_one_line():
    with FakeServer() as gone:
        pass
    with pytest.raises(MissingPart, match=rf"^{gone.url}/\S* cannot be reached"):
        find_server.choose(gone.url, own_identity=IDENTITY)


@pytest.mark.parametrize("request_", ["ftp://x", "http://me:key@host", "an llama"])
def test_what_is_neither_a_word_nor_an_address_is_bad_input(request_):
    with pytest.raises(BadInput):
        find_server.choose(request_, own_identity=IDENTITY)


def test_a_key_for_a_url_goes_to_that_url_only(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-somebody-elses")
    monkeypatch.setenv(KEY_VARIABLE, "sk-planted")
    with FakeServer("not an Ollama") as fake, find_server.choose(fake.url, own_identity=IDENTITY).start() as server:
        server.complete("A", max_tokens=7)
        assert fake.asked[-1][3]["authorization"] == "Bearer sk-planted"
        assert "sk-planted" not in repr(server.provenance)


# --- the real one ---


def test_the_real_server_computes_what_the_model_in_this_process_computes(real_server, lab):
    answer = real_server.complete(lab.sentence, max_tokens=len(lab.completion), temperature=0)
    if start.weights_sha256(lab.loaded.path) != real_server.provenance["sha256"]:
        pytest.skip("the model in this process is not the served one")
    assert answer.text == lab.decode(lab.completion)
    assert answer.prompt_tokens == len(lab.ids)


def test_the_real_server_says_what_it_is_and_no_more(real_server):
    known = real_server.provenance
    assert known["name"] == "transformers serve" and re.fullmatch(r"5\.\d+\.\d+", known["version"])
    assert known["digest"] == find_model.GGUF_SHA256 and re.fullmatch(r"[0-9a-f]{64}", known["sha256"])
    assert known["dtype"] == "float32" and not any("/" in str(value) or ":" in str(value) for value in known.values())


def test_the_real_server_keeps_the_greedy_sampling_of_its_first_request(real_server):
    cool = real_server.complete("The keeper", max_tokens=12, temperature=0).text
    assert real_server.complete("The keeper", max_tokens=12, temperature=1.9).text == cool


def test_the_real_server_refuses_another_model_in_one_line(real_server):
    wire = OpenAI(real_server.base_url, "another-model")
    with pytest.raises(DeckError, match=r"answered 400 .*another-model") as caught:
        wire.complete("A", max_tokens=1)
    assert "\n" not in str(caught.value)
