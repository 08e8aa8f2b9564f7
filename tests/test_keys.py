"""A key reaches its server and nothing else: no capture, no line, no traceback, whatever the server says back."""

import json

import pytest

import fake_server
from fake_server import FakeServer
from pipeline import keys
from pipeline.errors import BadInput
from pipeline.run.console import Screen
from pipeline.run.taking import take
from pipeline.serving.address import base_url
from pipeline.serving.server import KEY_VARIABLE, connect
from regen_all import failed
from serving_fixtures import lab_of
from topics import ollama, one_shape

KEY = "sk-planted-0123456789"


@pytest.mark.parametrize("slide", [*ollama.SLIDES, *one_shape.SLIDES], ids=lambda slide: slide.id)
def test_a_server_that_repeats_the_key_puts_it_into_no_capture(slide, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    for name, text in (("TEXT", f" {KEY}\nout"), ("PIECES", [" ", KEY, "\nout"])):
        monkeypatch.setattr(fake_server, name, text)
    real = fake_server.whole
    monkeypatch.setattr(fake_server, "whole", lambda path, model: {**real(path, model), "headers": {f"Bearer {KEY}": KEY}})
    with FakeServer() as fake:
        text, verdict = take(slide, lab_of(connect("openai", fake.url, "m", "Fake", None, None)))
        assert any(KEY in headers.get("authorization", "") for *_, headers in fake.asked)
    assert verdict.holds and KEY not in text and keys.HIDDEN in text


def test_no_printed_line_no_error_and_no_document_holds_a_key(monkeypatch, capsys):
    monkeypatch.setenv("SOME_API_KEY", KEY)
    for as_json in (False, True):
        screen = Screen(as_json=as_json)
        screen.say(f"found {KEY}")
        screen.error(f"it said {KEY}", 1)
        screen.flush(1)
    said = "".join(capsys.readouterr())
    assert KEY not in said and said.count(keys.HIDDEN) == 3


def test_a_traceback_holds_none_either(monkeypatch, capsys):
    monkeypatch.setenv("SOME_API_KEY", KEY)
    try:
        raise ValueError(f"a library repeats {KEY}")
    except ValueError as error:
        assert failed(True, Screen(), error, "one line", 3) == 3
    said = capsys.readouterr().err
    assert "ValueError" in said and "Traceback" in said and KEY not in said


@pytest.mark.parametrize("given", [f"http://host?key={KEY}", f"http://host/v1#{KEY}", f"http://{KEY}@host", f"host?{KEY}"])
def test_a_key_in_an_address_is_never_shown(given):
    with pytest.raises(BadInput) as caught:
        base_url(given, "--server")
    assert KEY not in str(caught.value) and "--server" in str(caught.value)


def test_a_short_value_and_a_variable_that_is_no_key_are_left_alone(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "the")
    monkeypatch.setenv("MY_NAME", "beekeeper")
    assert keys.without_keys("the beekeeper") == "the beekeeper"
    monkeypatch.setenv("MY_TOKEN", "beekeeper")
    assert keys.scrubbed(json.loads('{"a": ["the beekeeper"]}')) == {"a": [f"the {keys.HIDDEN}"]}


@pytest.mark.parametrize("given", ["http://a..b", "http://.a", "a..b:8000"])
def test_a_host_that_can_be_no_name_is_bad_input(given):
    with pytest.raises(BadInput, match="is not a server address"):
        base_url(given)
