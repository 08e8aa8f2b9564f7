"""What two real Ollamas said, replayed: calls that mean what they say, prompts that were cut, answers that broke off."""

import pytest

from pipeline.serving import gateway
from pipeline.serving.counts import agrees, at_least
from pipeline.serving.dialects import Ollama
from pipeline.serving.line import WireError
from pipeline.serving.server import Server, connect
from pipeline.settings import DEFAULT_SENTENCE
from pipeline.slide import OracleFailure, assert_holds
from recorded_ollama import VERSIONS, RecordedOllama, said
from serving_fixtures import lab_of, taken
from topics.ollama import SLIDES

REQUEST = SLIDES[0]
MODEL = "qwen2.5:0.5b"
EACH_VERSION = pytest.mark.parametrize("version", VERSIONS)
QUESTION = [{"role": "user", "content": DEFAULT_SENTENCE}]


def at(ollama: RecordedOllama) -> Server:
    return connect("ollama", ollama.url, MODEL, "Ollama", ollama.version, None)


def test_there_are_recordings_of_two_versions():
    assert len(VERSIONS) == 2


# --- every call says what it means ---


@EACH_VERSION
def test_greedy_is_asked_for_without_penalty_in_a_context_that_holds_it_all_and_nothing_may_be_cut(version):
    with RecordedOllama(version, generate=["generate_greedy"], chat=["chat"]) as ollama:
        at(ollama).complete(DEFAULT_SENTENCE, max_tokens=24, temperature=0)
        at(ollama).chat(QUESTION, max_tokens=24, temperature=0)
        gateway.chat(at(ollama), QUESTION, max_tokens=24, temperature=0)
        raw, chat, through = [body for method, path, body in ollama.asked if path in ("/api/generate", "/api/chat")]
    meant = {"num_predict": 24, "temperature": 0, "repeat_penalty": 1, "num_ctx": 2048}
    assert raw["options"] == chat["options"] == through["options"] == meant
    assert all(body["truncate"] is False and body["shift"] is False for body in (raw, chat))


@pytest.mark.parametrize("sentence", ["", "a bee", "🐝" * 3000])
def test_the_context_asked_for_has_room_for_a_token_a_byte_and_the_answer(sentence):
    context = Ollama("http://127.0.0.1:9", MODEL).meant(sentence, 24)["num_ctx"]
    assert context >= len(sentence.encode()) + 24 and context % 2048 == 0


def test_greedy_without_the_penalty_is_the_same_text_in_both_versions():
    greedy = {said(version, "generate_greedy")["response"] for version in VERSIONS}
    assert len(greedy) == 1 and greedy != {said(VERSIONS[0], "generate_warm")["response"]}


# --- a prompt that was cut ---


@EACH_VERSION
def test_a_prompt_that_was_cut_without_a_word_is_refused_by_its_count(version):
    with RecordedOllama(version, generate=["truncated"]) as ollama:
        data = taken(REQUEST, lab_of(at(ollama), DEFAULT_SENTENCE))
    assert data["prompt_tokens"] < 10
    with pytest.raises(OracleFailure, match="in at least 9"):
        assert_holds(REQUEST, data)


@EACH_VERSION
def test_a_prompt_that_was_read_whole_holds(version):
    with RecordedOllama(version, generate=["generate_greedy"]) as ollama:
        assert assert_holds(REQUEST, taken(REQUEST, lab_of(at(ollama), DEFAULT_SENTENCE))).holds


def test_a_prompt_that_does_not_fit_is_one_line():
    with RecordedOllama("0.24.0", generate=["truncate_false"]) as ollama, pytest.raises(WireError) as caught:
        at(ollama).complete(DEFAULT_SENTENCE, max_tokens=24, temperature=0)
    assert "the input length exceeds the context length" in str(caught.value) and "\n" not in str(caught.value)


def test_an_exact_count_is_compared_exactly_and_a_bound_as_a_bound():
    assert agrees(10, {"tokens": 10, "exact": True}) and not agrees(9, {"tokens": 10, "exact": True})
    assert not agrees(11, {"tokens": 10, "exact": True})
    assert agrees(11, {"tokens": 9, "exact": False}) and not agrees(8, {"tokens": 9, "exact": False})
    assert agrees("not reported", {"tokens": 9, "exact": True})
    assert not agrees("10", {"tokens": 1, "exact": False}) and not agrees(True, {"tokens": 1, "exact": False})


@pytest.mark.parametrize(
    "text", [DEFAULT_SENTENCE, "a\tb\nc", "🤗 東京 naïve Привет", " " * 500, "x" * 1000, "Donaudampfschifffahrtsgesellschaft"]
)
def test_the_lower_bound_is_below_what_real_tokenizers_count(text, loaded_model, gpt2_folder):
    from transformers import AutoTokenizer

    for tokenizer in (loaded_model.tokenizer, AutoTokenizer.from_pretrained(gpt2_folder)):
        assert at_least(text) <= len(tokenizer(text, add_special_tokens=False)["input_ids"])


# --- an answer that broke off ---


@EACH_VERSION
@pytest.mark.parametrize(
    ("name", "stream", "words"),
    [
        ("runner_killed_stream", True, "reported an error"),
        ("runner_killed_unstreamed", False, "answered 500"),
        ("server_killed_stream", True, "cut its answer off before the end"),
        ("missing_model", False, rf"run `ollama pull {MODEL}`"),
        ("wrong_option", False, "answered 500"),
        ("malformed", False, "answered 400"),
    ],
)
def test_a_killed_runner_a_killed_server_and_a_refusal_are_one_line_each(version, name, stream, words):
    with RecordedOllama(version, generate=[name]) as ollama, pytest.raises(WireError, match=words) as caught:
        at(ollama).complete(DEFAULT_SENTENCE, max_tokens=24, temperature=0, stream=stream)
    assert "\n" not in str(caught.value) and ollama.url in str(caught.value)


@EACH_VERSION
@pytest.mark.parametrize("name", ["generate_stream", "generate_emoji_stream"])
def test_a_recorded_stream_is_read_whole(version, name):
    with RecordedOllama(version, generate=[name]) as ollama:
        exchange = at(ollama).complete(DEFAULT_SENTENCE, max_tokens=24, temperature=0, stream=True)
    assert exchange.text and exchange.completion_tokens and exchange.reading_ms and exchange.finish == "length"
