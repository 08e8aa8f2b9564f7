"""Who answers, and with which model: what a server says of itself, and names that are nobody's folders."""

import pytest

from fake_server import FakeServer
from pipeline.errors import BadInput, MissingPart
from pipeline.serving import find as find_server
from pipeline.serving.choice import OWN
from pipeline.serving.dialects import Ollama
from pipeline.serving.server import KEY_VARIABLE
from recorded_ollama import RecordedOllama
from serving_fixtures import lab_of, taken
from topics import ollama, one_shape

IDENTITY = "SmolLM2-135M-Instruct@sha256:0123"
pytestmark = pytest.mark.usefixtures("nothing_there")


class Listing(FakeServer):
    """An engine with a list of models of its own, and headers and versions that say what it is."""

    def __init__(self, entries, owner="somebody", cannot=(), headers=None, **pages):
        super().__init__("not an Ollama")
        self.pages = {"/v1/models": {"data": [{"owned_by": owner, **entry} for entry in entries]}, **pages}
        self.cannot, self.extra = cannot, headers or {}
        handler = self._server.RequestHandlerClass
        get, answer, reply = handler.do_GET, handler.answer, handler.reply
        fake = self

        def do_get(self):
            path = self.path.lstrip("/") if self.path.lstrip("/") in fake.pages else self.path
            return self.reply(200, fake.pages[path]) if path in fake.pages else get(self)

        def answered(self, body):
            if body["model"] in fake.cannot:
                return self.reply(400, {"error": "this model makes embeddings"})
            return answer(self, body)

        handler.do_GET, handler.answer = do_get, answered
        handler.reply = lambda self, status, message, kind="application/json", **more: reply(
            self, status, message, kind, **{**fake.extra, **more}
        )


@pytest.mark.parametrize(
    ("owner", "headers", "pages", "label"),
    [
        ("vllm", {}, {"version": {"version": "0.32.0"}}, "vLLM 0.32.0"),
        ("llamacpp", {}, {"props": {"build_info": "b11434"}}, "llama.cpp b11434"),
        ("sglang", {}, {}, "SGLang"),
        ("openai", {"x-litellm-version": "1.108.7"}, {}, "litellm's proxy 1.108.7"),
        ("somebody", {}, {}, "OpenAI-shaped server at 127.0.0.1"),
    ],
)
def test_an_engine_is_called_what_it_says_it_is_and_its_version_decides_what_is_stale(owner, headers, pages, label):
    with Listing([{"id": "m"}], owner, headers=headers, **pages) as fake:
        choice = find_server.choose(fake.url, own_identity=IDENTITY)
        assert choice.identity == f"{label} at 127.0.0.1 m" and label in choice.lines[0]
        with choice.start() as server:
            assert server.label == label


def test_the_first_model_that_completes_is_taken_and_a_name_behind_a_hash_goes_before_it():
    with Listing([{"id": "embed"}, {"id": "chat"}, {"id": "other"}], cannot=("embed",)) as fake:
        choice = find_server.choose(fake.url, own_identity=IDENTITY)
        assert choice.model == "chat" and "(of 3 models)" in choice.lines[0]
        assert find_server.choose(f"{fake.url}#other", own_identity=IDENTITY).model == "other"
        with pytest.raises(MissingPart, match=r"does not serve 'absent'.*it serves embed, chat, other"):
            find_server.choose(f"{fake.url}#absent", own_identity=IDENTITY)


def test_a_server_of_which_no_model_completes_is_one_line():
    with Listing([{"id": "a"}, {"id": "b"}], cannot=("a", "b")) as fake, pytest.raises(MissingPart, match="can complete a text"):
        find_server.choose(fake.url, own_identity=IDENTITY)


def test_an_alias_is_answered_under_the_first_name_and_another_model_is_not():
    with Listing([{"id": "first", "root": "/m"}, {"id": "alias", "root": "/m"}, {"id": "third", "root": "/n"}], "vllm") as fake:
        choice = find_server.choose(f"{fake.url}#alias", own_identity=IDENTITY)
    assert choice.also == {"first"}


def test_a_folder_given_as_a_models_name_is_shown_without_its_way_there():
    with Listing([{"id": "/home/somebody/models/tiny"}]) as fake:
        choice = find_server.choose(fake.url, own_identity=IDENTITY)
        assert "somebody/" not in choice.identity + choice.lines[0] and "…/tiny" in choice.identity
        with choice.start() as server:
            told = [taken(slide, lab_of(server)) for slide in (*ollama.SLIDES, *one_shape.SLIDES)]
        assert fake.posts()[-1]["model"] == "/home/somebody/models/tiny"
    assert "/home/somebody" not in repr(told)


def test_an_ollama_is_asked_for_the_model_behind_the_hash(monkeypatch):
    with FakeServer(model="llama3:8b") as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        assert find_server.choose("ollama#llama3:8b", own_identity=IDENTITY).model == "llama3:8b"
        assert find_server.choose(f"{fake.url}#llama3:8b", own_identity=IDENTITY).model == "llama3:8b"
        with pytest.raises(MissingPart, match="ollama pull absent"):
            find_server.choose("ollama#absent", own_identity=IDENTITY, offline=True)


def test_an_ollama_whose_model_cannot_complete_is_one_line(monkeypatch):
    monkeypatch.setattr(Ollama, "show", lambda self: {"capabilities": ["embedding"]})
    with FakeServer(model="embed") as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        for request in ("ollama#embed", f"{fake.url}#embed"):
            with pytest.raises(MissingPart, match="cannot complete a text"):
                find_server.choose(request, own_identity=IDENTITY)


def test_an_ollama_at_a_url_without_the_model_is_asked_for_the_decks_own():
    with FakeServer(held=False) as fake:
        choice = find_server.choose(fake.url, own_identity=IDENTITY)
    assert choice.model == OWN and choice.takes_models and IDENTITY in choice.identity


def test_another_product_that_answers_as_an_ollama_does_is_none(monkeypatch):
    with FakeServer("another product") as fake:
        assert find_server.choose(fake.url, own_identity=IDENTITY).kind == "openai"
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        assert "is no Ollama" in find_server.choose(own_identity=IDENTITY).lines[0]


def test_an_ollama_without_network_is_passed_over_in_one_short_line(monkeypatch):
    with RecordedOllama("0.32.15", pull=["pull_without_network"]) as running:
        monkeypatch.setenv("OLLAMA_HOST", running.url)
        with pytest.raises(MissingPart) as caught:
            find_server.choose("ollama#llama3.2:1b", own_identity=IDENTITY)
    assert "lacks llama3.2:1b and could not fetch it (it has no network)" in str(caught.value)
    assert "dial tcp" not in str(caught.value) and "own log" not in str(caught.value)


def test_offline_asks_no_ollama_on_another_machine(monkeypatch):
    def refuse(*arguments, **named):
        raise AssertionError("a connection")

    monkeypatch.setattr("socket.create_connection", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.setenv("OLLAMA_HOST", "http://models.example:11434")
    choice = find_server.choose(own_identity=IDENTITY, offline=True)
    assert "not on this machine" in choice.lines[0]
    with pytest.raises(BadInput, match="--offline"):
        find_server.choose("http://models.example:8000", own_identity=IDENTITY, offline=True)


def test_a_refused_key_names_the_variable_to_set(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "sk-planted")
    with Listing([{"id": "m"}]) as fake, find_server.choose(fake.url, own_identity=IDENTITY).start() as server:
        fake.fault = "401"
        with pytest.raises(MissingPart, match=f"set the right key in {KEY_VARIABLE}"):
            server.complete("A", max_tokens=1)
