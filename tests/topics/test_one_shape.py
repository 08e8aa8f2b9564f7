"""litellm and the routes that `--ask` takes, and what it must not do: look up, retry, or tell a key."""

import json
import logging
import subprocess
import sys
import textwrap

import pytest

from fake_server import FAULTS, MODEL, TEXT, FakeServer
from layout import problems
from pipeline.errors import BadInput, MissingPart
from pipeline.paths import BUILD, REPO
from pipeline.serving import gateway
from pipeline.serving.providers import PROVIDERS, ask_route, table
from pipeline.serving.server import server_at
from pipeline.slide import assert_holds, to_json
from serving_fixtures import drawn, lab_of, server_of, taken
from topics.one_shape import SHARED, SLIDES

SHAPE, BOTH = SLIDES
QUESTION = [{"role": "user", "content": "The beekeeper opened the"}]
KEY = "sk-planted-0123456789"
VARIABLES = {variable for one in PROVIDERS for variable in (one.key_variable, one.url_variable) if variable}


@pytest.fixture(autouse=True)
def no_keys_of_this_machine(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


# --- the slides ---


@pytest.mark.parametrize("kind", ["ollama", "openai"])
@pytest.mark.parametrize("slide", SLIDES, ids=lambda slide: slide.name)
def test_both_kinds_of_server_can_be_photographed_and_drawn(kind, slide):
    with FakeServer() as fake:
        data = taken(slide, lab_of(server_of(fake, kind)))
    assert assert_holds(slide, data).holds
    assert data["asked"] == ("ollama_chat/" if kind == "ollama" else "openai/") + MODEL
    assert problems(drawn(slide, data)) == []


def test_what_is_pictured_is_what_litellm_really_posted_and_received():
    with FakeServer() as fake:
        call = gateway.chat(server_of(fake, "openai"), QUESTION, max_tokens=7, temperature=0)
        assert [call.posted] == fake.posts()
    assert call.native["choices"][0]["message"]["content"] == call.text == TEXT
    assert set(SHARED) <= set(dict(one_shape_fields(call.answer)))


def one_shape_fields(answer):
    from pipeline.serving.messages import flat

    return flat(answer)


@pytest.mark.parametrize("field", SHARED)
def test_an_answer_that_lacks_a_shared_field_is_refused(field):
    with FakeServer() as fake:
        data = taken(SHAPE, lab_of(server_of(fake, "openai")))
    place = data["answer"]
    *path, last = field.replace("[0]", ".0").split(".")
    for part in path:
        place = place[int(part)] if part.isdigit() else place[part]
    del place[last]
    with pytest.raises(AssertionError):
        assert_holds(SHAPE, data)


def test_the_slides_taken_twice_are_the_same_to_the_byte(real_server):
    lab = lab_of(real_server)
    for slide in SLIDES:
        assert to_json(slide.capture(lab)) == to_json(slide.capture(lab))


# --- litellm's manners ---


@pytest.mark.parametrize("kind", ["ollama", "openai"])
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in ("wrong model", "loading")])
def test_a_fault_behind_litellm_is_one_line_after_one_request(kind, fault, monkeypatch):
    monkeypatch.setattr(gateway, "READ_S", 0.4)
    monkeypatch.setattr(gateway, "TOTAL_S", 1.0)
    with FakeServer(fault) as fake:
        with pytest.raises(MissingPart) as caught:
            gateway.chat(server_of(fake, kind), QUESTION, max_tokens=7, temperature=0)
        assert len(fake.posts()) == 1
    message = str(caught.value)
    assert fake.url in message and "\n" not in message and len(message) < 500


def test_a_refused_connection_behind_litellm_says_to_start_the_server():
    with FakeServer() as gone:
        server = server_of(gone, "openai")
    with pytest.raises(MissingPart, match="start the server there"):
        gateway.chat(server, QUESTION, max_tokens=7)


def test_litellm_does_not_send_loopback_through_a_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with FakeServer() as fake:
        for kind in ("ollama", "openai"):
            assert gateway.chat(server_of(fake, kind), QUESTION, max_tokens=7).text == TEXT


def test_importing_litellm_looks_nothing_up_and_prints_nothing(tmp_path):
    script = f"""
        import socket, sys
        sys.path.insert(0, {str(BUILD)!r})
        def refuse(*arguments, **named): raise AssertionError(f"a look-up: {{arguments}}")
        socket.getaddrinfo = socket.socket.connect = refuse
        from pipeline.serving import gateway
        assert "litellm" not in sys.modules
        assert gateway.library().telemetry is False
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --- --ask ---


@pytest.mark.parametrize("provider", [one for one in PROVIDERS if one.url], ids=lambda one: one.name)
def test_a_missing_key_is_one_line_naming_its_variable(provider, monkeypatch):
    with pytest.raises(MissingPart, match=f"set {provider.key_variable} in the environment") as caught:
        ask_route(provider.prefix + provider.model)
    assert caught.value.exit_code == 3
    monkeypatch.setenv(provider.key_variable, KEY)
    route = ask_route(provider.prefix + provider.model)
    assert KEY not in repr(route) and KEY not in route.identity
    server = server_at(route)
    assert server.model == provider.model and KEY not in repr(server.provenance)
    path, _ = server.wire.conversation(QUESTION, {}, False)
    assert server.base_url + path == f"{provider.url}/chat/completions"


@pytest.mark.parametrize("provider", [one for one in PROVIDERS if one.url_variable], ids=lambda one: one.name)
@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_a_server_of_ones_own_is_reached_by_its_address(provider, ending, monkeypatch):
    with pytest.raises(MissingPart, match=provider.url_variable):
        ask_route(provider.prefix + provider.model)
    with FakeServer(model=provider.model) as fake:
        monkeypatch.setenv(provider.url_variable, fake.url + ending)
        lab = lab_of(None)
        lab.asked = provider.prefix + provider.model
        for slide in SLIDES:
            data = taken(slide, lab)
            assert assert_holds(slide, data).holds and data["asked"] == lab.asked
            assert str(fake.port) not in json.dumps(data)


@pytest.mark.parametrize("model", ["gpt-x", "nobody/model", "together_ai/", ""])
def test_an_unknown_provider_is_bad_input_that_lists_the_known(model):
    with pytest.raises(BadInput, match="together_ai/, fireworks_ai/, groq/"):
        ask_route(model)


@pytest.mark.parametrize("fault", ["", "401", "500", "HTML"])
def test_a_planted_key_reaches_its_server_and_nothing_else(fault, monkeypatch, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    told = []
    with FakeServer(fault, model="m") as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        lab = lab_of(None)
        lab.asked = "openai/m"
        for slide in SLIDES:
            try:
                told.append(to_json(slide.capture(lab)))
            except MissingPart as error:
                told.append(str(error))
        assert {headers["authorization"] for _, _, _, headers in fake.asked} == {f"Bearer {KEY}"}
    told += [*capfd.readouterr(), caplog.text]
    assert len(told) == 5 and not any(KEY in text for text in told)


def test_the_readme_has_the_table_of_all_providers():
    assert table() in (REPO / "README.md").read_text("utf-8")


def test_the_table_has_a_row_for_every_provider():
    rows = table().splitlines()[2:]
    assert len(rows) == len(PROVIDERS) == 10
    for row, one in zip(rows, PROVIDERS, strict=True):
        assert one.name in row and f"`{one.prefix}{one.model}`" in row and one.key_variable in row and one.tried in row
