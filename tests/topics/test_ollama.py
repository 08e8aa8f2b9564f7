"""One request and where its time goes, on servers of either dialect, on hostile sentences, on servers that fail."""

import copy

import pytest

import fake_server
from fake_server import FAULTS, PIECES, FakeServer
from layout import problems
from pipeline.errors import MissingPart
from pipeline.serving.server import connect
from pipeline.settings import DEFAULT_SENTENCE
from pipeline.slide import OracleFailure, assert_holds, to_json
from recorded_ollama import VERSIONS, RecordedOllama
from serving_fixtures import SENTENCE, drawn, lab_of, server_of, taken
from tiers import of_the_slow_tier_but
from topics.ollama import SLIDES

REQUEST, TIME = SLIDES


@pytest.mark.parametrize("kind", ["ollama", "openai"])
@pytest.mark.parametrize("slide", SLIDES, ids=lambda slide: slide.name)
def test_either_dialect_can_be_photographed_and_drawn(kind, slide):
    with FakeServer() as fake:
        data = taken(slide, lab_of(server_of(fake, kind)))
    assert assert_holds(slide, data).holds
    assert problems(drawn(slide, data)) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_an_ollama_reads_a_prompt_once_and_says_so(version):
    calls = ["generate_cold", "generate_stream", "generate_stream", "generate_greedy"]
    with RecordedOllama(version, generate=calls) as ollama:
        server = connect("ollama", ollama.url, "qwen2.5:0.5b", "Ollama", version, None)
        data = taken(TIME, lab_of(server, DEFAULT_SENTENCE))
        asked = [body for _, path, body in ollama.asked if path == "/api/generate"]
    unload, load = [body for body in asked if "prompt" not in body]
    assert unload["keep_alive"] == 0 and load["options"]["num_ctx"] == asked[-1]["options"]["num_ctx"]
    assert asked[1:3] == [unload, load] and asked[3] == asked[4]
    assert data["reported"] == "durations" and data["clock"] == "the server's own" and len(data["runs"]) == 2
    assert [part["name"] for part in data["runs"][0]["parts"]] == ["getting ready", "prefill", "decode"]
    assert problems(drawn(TIME, data)) == []
    first, again = (run["reading_ms"] for run in data["runs"])
    assert TIME.oracle(data).measured.startswith(f"prompt read in {first:,.0f} ms, then {again:,.0f}")


def test_counts_of_cached_tokens_tell_of_a_cache_too_and_the_prompt_begins_as_no_cache_knows(monkeypatch):
    answers = iter([0, 9, 0, 9, 9])
    real = fake_server.whole

    def cached(path, model):
        answer = real(path, model)
        return {**answer, "usage": {**answer["usage"], "prompt_tokens_details": {"cached_tokens": next(answers, 9)}}}

    monkeypatch.setattr(fake_server, "whole", cached)
    with FakeServer() as fake:
        server = server_of(fake, "openai")
        data = taken(TIME, lab_of(server))
        prompts = [body["prompt"] for body in fake.posts()]
    assert data["reported"] == "counts" and data["beginning"] == "(varies)"
    assert prompts[-1] == prompts[-2] == prompts[-3] != prompts[0] == SENTENCE and prompts[-1].endswith(SENTENCE)
    assert assert_holds(TIME, data).holds and problems(drawn(TIME, data)) == []
    data["runs"][1]["cached_tokens"] = data["runs"][0]["cached_tokens"]
    with pytest.raises(OracleFailure):
        assert_holds(TIME, data)


def test_a_server_that_reports_no_reading_gets_the_plain_picture():
    with FakeServer() as fake:
        data = taken(TIME, lab_of(server_of(fake, "openai")))
    assert data["reported"] == "nothing" and data["clock"] == "our own" and data["beginning"] == "(none)"
    (run,) = data["runs"]
    assert sum(part["ms"] for part in run["parts"]) == pytest.approx(run["whole_ms"])
    assert assert_holds(TIME, data).holds and problems(drawn(TIME, data)) == []


def test_a_request_is_kept_as_it_was_sent_and_what_varies_is_said_to_vary():
    with FakeServer() as fake:
        data = taken(REQUEST, lab_of(server_of(fake)))
        assert data["request"] == fake.posts()[0]
    assert data["answer"]["created_at"] == data["answer"]["total_duration"] == "(varies)"
    assert data["answer"]["eval_count"] == len(PIECES)


def test_what_the_server_does_not_report_is_shown_as_not_reported(monkeypatch):
    monkeypatch.setattr(fake_server, "ollama_end", lambda path, model, text, reason="": {"response": text, "done": True})
    with FakeServer() as fake:
        data = taken(REQUEST, lab_of(server_of(fake)))
    assert {data[name] for name in ("answered_model", "finish", "prompt_tokens", "completion_tokens")} == {"not reported"}
    assert assert_holds(REQUEST, data).holds
    canvas = drawn(REQUEST, data)
    words = [text.get_text() for text in canvas.figure.findobj(lambda artist: hasattr(artist, "get_text"))]
    assert words.count("not reported") == 3
    assert problems(canvas) == []


def test_a_sentence_with_nothing_to_add_is_asked_as_a_question(monkeypatch):
    real = fake_server.whole

    def silent_when_raw(path, model):
        answer = real(path, model)
        return {**answer, "response": "", "done_reason": "stop"} if path == "/api/generate" else answer

    monkeypatch.setattr(fake_server, "whole", silent_when_raw)
    with FakeServer() as fake:
        data = taken(REQUEST, lab_of(server_of(fake)))
    assert data["path"] == "/api/chat" and assert_holds(REQUEST, data).holds


@of_the_slow_tier_but("fault", FAULTS, "cut off", "no fields")
def test_a_server_that_fails_leaves_no_half_true_capture(fault):
    for slide in SLIDES:
        with FakeServer(fault) as fake, pytest.raises(MissingPart) as caught:
            slide.capture(lab_of(server_of(fake, read_s=0.3)))
        assert fake.url in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "sabotage",
    [
        lambda data: data.update(text=""),
        lambda data: data.update(answered_model="llama3:8b"),
        lambda data: data["answer"].update(done=False),
        lambda data: data.update(prompt_tokens=0),
        lambda data: data.update(total_tokens=data["prompt_tokens"] + data["completion_tokens"] + 1),
    ],
)
def test_an_answer_that_is_empty_foreign_unfinished_or_miscounted_is_refused(sabotage):
    with FakeServer() as fake:
        data = taken(REQUEST, lab_of(server_of(fake)))
    sabotage(data)
    with pytest.raises(OracleFailure):
        assert_holds(REQUEST, data)


@pytest.mark.parametrize("kind", ["ollama", "openai"])
@pytest.mark.parametrize(
    "sabotage", ["parts beyond the whole", "chunks out of order", "a chunk after the end", "other text", "read as long again"]
)
def test_times_that_cannot_be_and_other_text_are_refused(sabotage, kind):
    with FakeServer() as fake:
        data = taken(TIME, lab_of(server_of(fake, kind)))
    sabotaged = copy.deepcopy(data)
    run = sabotaged["runs"][-1]
    if sabotage == "parts beyond the whole":
        run["parts"][0]["ms"] = run["whole_ms"] + 1
    elif sabotage == "chunks out of order":
        run["chunks"][0]["ms"], run["chunks"][-1]["ms"] = run["chunks"][-1]["ms"] + 1, run["chunks"][0]["ms"]
    elif sabotage == "a chunk after the end":
        run["chunks"][-1]["ms"] = run["seen_ms"] + 1
    elif sabotage == "other text":
        sabotaged["unstreamed"] += "!"
    else:
        sabotaged["reported"], sabotaged["runs"] = "durations", [copy.deepcopy(run), copy.deepcopy(run)]
    assert_holds(TIME, data)
    with pytest.raises(OracleFailure):
        assert_holds(TIME, sabotaged)


def test_the_request_slide_taken_twice_is_the_same_to_the_byte(real_server):
    lab = lab_of(real_server)
    assert to_json(REQUEST.capture(lab)) == to_json(REQUEST.capture(lab))
