"""litellm and the routes that `--ask` takes, and what it must not do: look up, retry, or tell a key."""

import json
import logging
import os
import subprocess
import sys
import textwrap

import pytest

from fake_server import FAULTS, MODEL, TEXT, FakeServer
from layout import problems
from pipeline.errors import BadInput, MissingPart
from pipeline.paths import BUILD, REPO
from pipeline.serving import gateway
from pipeline.serving.fields import SHARED
from pipeline.serving.providers import PROVIDERS, ask_route, table
from pipeline.serving.server import connect, server_at
from pipeline.settings import DEFAULT_SENTENCE
from pipeline.slide import assert_holds, to_json
from recorded_ollama import VERSIONS, RecordedOllama
from serving_fixtures import drawn, lab_of, server_of, taken
from tiers import of_the_slow_tier_but
from topics.one_shape import SLIDES

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


@pytest.mark.parametrize("version", VERSIONS)
def test_each_field_is_said_to_be_what_it_is(version):
    with RecordedOllama(version, chat=["chat"], generate=["generate_greedy"]) as ollama:
        server = connect("ollama", ollama.url, MODEL, "Ollama", version, None)
        data = taken(SHAPE, lab_of(server, DEFAULT_SENTENCE))
        asked = {(method, path) for method, path, _ in ollama.asked}
    how = {one["field"]: (one["place"], one["how"]) for one in data["fields"]}
    assert how["model"] == ("model", "changed: ollama_chat/ put before it")
    assert how["choices[0].message.content"] == ("message.content", "renamed")
    assert how["usage.prompt_tokens"] == ("prompt_eval_count", "renamed")
    assert how["id"] == how["usage.total_tokens"] == (None, "made here")
    assert data["lookups"] == "(none)" and asked == {("POST", f"/api/{path}") for path in ("chat", "generate", "show")}
    assert data["typed_tokens"] == 10 and "You are Qwen" in data["template"]["system"]
    assert assert_holds(SHAPE, data).holds and problems(drawn(SHAPE, data)) == []


def test_in_openais_shape_everything_is_as_received():
    with FakeServer() as fake:
        data = taken(SHAPE, lab_of(server_of(fake, "openai")))
    assert {one["how"] for one in data["fields"]} == {"as received"}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data["answer"].update(model="openai/another"),
        lambda data: data["answer"]["choices"][0]["message"].update(content="another"),
        lambda data: data["answer"]["choices"][0].update(finish_reason="tool_calls"),
        lambda data: data["native"].update(prompt_eval_count=3),
        lambda data: data["fields"][0].update(how="as received"),
        lambda data: data["fields"].pop(),
    ],
)
def test_a_field_altered_on_its_way_and_a_cut_prompt_are_refused(spoil):
    with FakeServer() as fake:
        data = taken(SHAPE, lab_of(server_of(fake)))
    assert assert_holds(SHAPE, data).holds
    spoil(data)
    with pytest.raises(AssertionError):
        assert_holds(SHAPE, data)


def test_an_answer_without_usage_holds_and_says_that_it_was_not_reported(monkeypatch):
    import fake_server

    real = fake_server.whole
    monkeypatch.setattr(fake_server, "whole", lambda path, model: {**real(path, model), "usage": None})
    with FakeServer() as fake:
        data = taken(SHAPE, lab_of(server_of(fake, "openai")))
    assert "usage not reported" in assert_holds(SHAPE, data).measured and problems(drawn(SHAPE, data)) == []


@pytest.mark.parametrize("kind", ["ollama", "openai"])
def test_a_run_connects_to_the_named_server_and_to_nothing_else(kind):
    """Every connection and every name looked up, of both slides, with proxies set and another server on Ollama's port."""
    with FakeServer() as fake, FakeServer() as elsewhere:
        script = f"""
            import sys
            sys.path[:0] = [{str(BUILD)!r}, {str(REPO / "tests")!r}]
            from serving_fixtures import lab_of
            from pipeline.serving.server import connect
            from topics.one_shape import SLIDES
            seen = set()
            def audit(event, given):
                if event == "socket.connect":
                    seen.add(str(given[1]))
                elif event == "socket.getaddrinfo":
                    seen.add(f"look up {{given[0]}}")
            sys.addaudithook(audit)
            server = connect({kind!r}, {fake.url!r}, {MODEL!r}, "Fake", "0.32.0", None)
            for slide in SLIDES:
                slide.capture(lab_of(server))
            import time
            time.sleep(1.5)  # what litellm does in threads of its own comes after the answer
            print(sorted(seen))
        """
        dead = dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"), "http://127.0.0.1:9")
        environment = {**os.environ, **dead, "OLLAMA_HOST": elsewhere.url, "OLLAMA_API_BASE": elsewhere.url}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, env=environment, timeout=300
        )
        assert (done.returncode, elsewhere.asked) == (0, []), done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    assert lines[-1] == str([f"('127.0.0.1', {fake.port})", "look up 127.0.0.1"]), lines


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
@of_the_slow_tier_but("fault", [fault for fault in FAULTS if fault not in ("wrong model", "loading")], "500", "stalled")
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
def test_a_server_of_ones_own_is_reached_by_its_address(provider, monkeypatch):
    with pytest.raises(MissingPart, match=provider.url_variable):
        ask_route(provider.prefix + provider.model)
    with FakeServer(model=provider.model) as fake:
        monkeypatch.setenv(provider.url_variable, fake.url + "/v1/")  # the other endings are the addresses' own test
        lab = lab_of(None)
        lab.asked = provider.prefix + provider.model
        for slide in SLIDES:
            data = taken(slide, lab)
            assert assert_holds(slide, data).holds and data["asked"] == lab.asked
            assert str(fake.port) not in json.dumps(data)
            # of a model on its hub litellm would read the configuration there, whatever server was named
            assert (data["lookups"] == "(none)") == (provider.name != "TGI")


@pytest.mark.parametrize("model", ["gpt-x", "nobody/model", "together_ai/", ""])
def test_an_unknown_provider_is_bad_input_that_lists_the_known(model):
    with pytest.raises(BadInput, match="together_ai/, fireworks_ai/, groq/"):
        ask_route(model)


@pytest.mark.parametrize("fault", ["", "401", "500", "HTML"])
def test_a_planted_key_reaches_its_server_and_nothing_else(fault, monkeypatch, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    seen = []
    with FakeServer(fault, model="m") as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        lab = lab_of(None)
        lab.asked = "openai/m"
        for slide in SLIDES:
            try:
                seen.append(to_json(slide.capture(lab)))
            except MissingPart as error:
                seen.append(str(error))
        assert {headers["authorization"] for _, _, _, headers in fake.asked} == {f"Bearer {KEY}"}
    seen += [*capfd.readouterr(), caplog.text]
    assert len(seen) == 5 and not any(KEY in text for text in seen)


def test_the_readme_has_the_table_of_all_providers():
    assert table() in (REPO / "README.md").read_text("utf-8")


def test_the_table_has_a_row_for_every_provider():
    rows = table().splitlines()[2:]
    assert len(rows) == len(PROVIDERS) == 10
    for row, one in zip(rows, PROVIDERS, strict=True):
        assert one.name in row and f"`{one.prefix}{one.model}`" in row and one.key_variable in row and one.tried in row
