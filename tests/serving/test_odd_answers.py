"""Answers of other shapes than ours: one line that says what is wrong with them, never an exception's name."""

import itertools
import json

import pytest

from fake_server import MODEL, FakeServer
from pipeline.serving.client import Wire, ended, same_model
from pipeline.serving.dialects import Ollama, OpenAI
from pipeline.serving.line import WireError
from pipeline.serving.stream import DEEPEST, Broken, events, parsed

QUESTION = [{"role": "user", "content": "The beekeeper opened the"}]
USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}


def answered(message: dict, **more) -> dict:
    return {"model": MODEL, "choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": USAGE, **more}


def ask(answer: dict, monkeypatch, dialect=OpenAI):
    monkeypatch.setattr(Wire, "post", lambda self, path, body: answer)
    return dialect("http://127.0.0.1:9", MODEL).chat(QUESTION, max_tokens=7)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (answered({"content": None, "reasoning_content": "Let me see"}), "it thinks"),
        (answered({"content": "", "reasoning": "Let me see"}), "it thinks"),
        (answered({"content": "<think>\nLet me see"}), "thinks aloud"),
        (answered({"content": [{"type": "text", "text": "a bee"}]}), "a list of parts"),
        (answered({"content": 7}), "its text is 7"),
        (answered({"content": "a bee"}, usage={**USAGE, "prompt_tokens": "10"}), "its prompt tokens are '10'"),
        (answered({"content": "a bee"}, usage={**USAGE, "completion_tokens": True}), "its completion tokens are True"),
        (answered({"content": "a bee"}, model=3), "its model is 3"),
    ],
)
def test_an_answer_of_another_kind_is_one_line_that_says_which(answer, words, monkeypatch):
    with pytest.raises(WireError) as caught:
        ask(answer, monkeypatch)
    message = str(caught.value)
    assert words in message and "\n" not in message and "Error" not in message and "--server URL#MODEL" in message


def test_an_ollama_that_thinks_is_one_line(monkeypatch):
    answer = {"model": MODEL, "message": {"role": "assistant", "content": "", "thinking": "Let me see"}, "done": True}
    with pytest.raises(WireError, match="it thinks"):
        ask(answer, monkeypatch, Ollama)


@pytest.mark.parametrize("usage", [{}, {"usage": None}, {"usage": {}}, {"usage": {"prompt_tokens": None}}])
def test_counts_that_are_missing_or_null_are_not_reported_and_not_zero(usage, monkeypatch):
    answer = answered({"content": "a bee"})
    del answer["usage"]
    exchange = ask({**answer, **usage}, monkeypatch)
    assert exchange.prompt_tokens is None and exchange.completion_tokens is None and exchange.text == "a bee"


@pytest.mark.parametrize(
    "deep", ["[" * 100_000, '{"a":' * 2_000 + "1" + "}" * 2_000, '{"a":' * (DEEPEST + 2) + "1" + "}" * (DEEPEST + 2)]
)
def test_deep_json_is_broken_and_no_recursion(deep):
    with pytest.raises(Broken, match=r"levels|not JSON"):
        parsed(deep)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_in_json_is_refused(number):
    with pytest.raises(Broken, match="not JSON"):
        parsed(f'{{"eval_count": {number}}}')


def test_half_a_surrogate_becomes_a_character_that_a_file_can_hold():
    assert parsed('{"response": "a \\ud83d bee \\ud83d\\udc1d"}') == {"response": "a \ufffd bee 🐝"}


def test_an_event_without_data_a_retry_and_a_byte_order_mark_are_fine():
    stream = b'\xef\xbb\xbfdata: {"a": 1}\n\nretry: 3000\n\ndata:\n\ndata\n\nid: 3\n\ndata: {"b": 2}\n\ndata: [DONE]\n\n'
    assert list(events(iter([stream]))) == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("said", "meant"),
    [("stop", "stop"), ("eos", "stop"), ("END_TURN", "stop"), ("length", "length"), ("MAX_TOKENS", "length"), ("error", "error")],
)
def test_the_words_in_use_for_an_answers_end_are_known(said, meant):
    assert ended(said) == meant


def test_a_model_is_known_by_its_own_name_only():
    assert same_model("Qwen/qwen2.5", "qwen2.5") and same_model("m", "m:latest") and same_model("gpt-x", "gpt-x-2026-01-01")
    assert not same_model("qwen2.5", "qwen2.5-coder") and not same_model("qwen2.5-coder", "qwen2.5")
    assert not same_model("llama3:8b", "llama3:70b") and not same_model("m", "")
    assert same_model("alias", "first-name", frozenset({"first-name"})) and not same_model("alias", "first-name")


def test_thoughts_in_a_stream_are_one_line_too(monkeypatch):
    piece = {"model": MODEL, "choices": [{"index": 0, "delta": {"reasoning_content": "Let"}, "finish_reason": None}]}
    monkeypatch.setattr(Wire, "messages", lambda self, path, body: iter([json.loads(json.dumps(piece))]))
    with FakeServer() as fake, pytest.raises(WireError, match="it thinks"):
        OpenAI(fake.url, MODEL).chat(QUESTION, max_tokens=7, stream=True)


@pytest.mark.parametrize(
    "answer",
    [
        {}, {"message": None, "done": True}, {"message": "text", "response": 1, "done": True},
        {"choices": [None]}, {"choices": {"a": 1}},
        {"choices": "text"}, {"choices": [{"finish_reason": "stop", "delta": "text", "message": None}], "usage": 1},
    ],
)  # fmt: skip
def test_an_answer_of_another_shape_is_one_line(answer, monkeypatch):
    monkeypatch.setattr(Wire, "post", lambda self, path, body: answer)
    monkeypatch.setattr(Wire, "messages", lambda self, path, body: iter([answer]))
    for dialect, ask, stream in itertools.product((Ollama, OpenAI), ("complete", "chat"), (False, True)):
        with pytest.raises(WireError) as caught:
            question = QUESTION if ask == "chat" else QUESTION[0]["content"]
            getattr(dialect("http://127.0.0.1:9", MODEL), ask)(question, max_tokens=7, stream=stream)
        assert "\n" not in str(caught.value) and "http://127.0.0.1:9" in str(caught.value)


@pytest.mark.parametrize(
    "answer", [{}, {"models": None, "data": None}, {"models": [None], "data": [None]}, {"models": 1, "data": 1}]
)
def test_a_list_of_models_of_another_shape_is_one_line(answer, monkeypatch):
    monkeypatch.setattr(Wire, "get", lambda self, path: answer)
    for ask in (Ollama("http://127.0.0.1:9", MODEL).tag, OpenAI("http://127.0.0.1:9", MODEL).models):
        with pytest.raises(WireError):
            ask()


@pytest.mark.parametrize(
    "said", [{"error": {"message": None, "code": 500}}, {"error": {"code": 1}}, {"error": "so"}, {"error": [1]}]
)
def test_an_error_of_any_shape_is_read(said):
    with pytest.raises(Broken, match=r"reported an error: ."):
        parsed(json.dumps({"error": said}))
