"""What a run looks for: no server that no slide asks, no provider without a network, no empty name for a model."""

import pytest

from pipeline.errors import BadInput
from pipeline.run import found
from pipeline.run.flags import parser


def looked_for(monkeypatch, *flags: str, asks_a_server: bool = False) -> tuple[list[str], found.Found]:
    """The requests that a run of these flags makes for a server, and what it found."""
    requests: list[str] = []

    def choose(request, **how):
        requests.append(request)
        return found.find_server.NOT_ASKED

    monkeypatch.setattr(found.find_server, "choose", choose)
    said: list[str] = []
    what = found.find(parser().parse_args(["--model", "smollm2", *flags]), said.append, asks_a_server)
    assert not any("Ollama" in line for line in said)
    return requests, what


def test_no_server_is_looked_for_that_no_slide_asks(monkeypatch):
    assert looked_for(monkeypatch)[0] == []
    assert looked_for(monkeypatch, asks_a_server=True)[0] == ["auto"]


def test_a_provider_is_asked_without_a_look_for_an_ollama(monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "sk-planted")
    requests, what = looked_for(monkeypatch, "--ask", "groq/m")
    assert requests == [] and "groq/m" in what.setting.asked


def test_offline_asks_no_provider_but_one_on_this_machine(monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "sk-planted")
    with pytest.raises(BadInput, match="--offline uses no network, and --ask groq/m needs it"):
        looked_for(monkeypatch, "--offline", "--ask", "groq/m")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    assert "openai/m" in looked_for(monkeypatch, "--offline", "--ask", "openai/m")[1].setting.asked


@pytest.mark.parametrize("given", ["", "ollama/", "groq/"])
def test_an_empty_name_is_bad_input(monkeypatch, given):
    with pytest.raises(BadInput, match="--ask"):
        looked_for(monkeypatch, "--ask", given)


@pytest.mark.parametrize("given", ["ollama/llama3:8b", "ollama_chat/llama3:8b"])
def test_litellms_two_names_for_an_ollama_ask_the_one_at_ollama_host(monkeypatch, given):
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    assert looked_for(monkeypatch, "--ask", given)[1].setting.asked == "ollama_chat/llama3:8b at loopback"
