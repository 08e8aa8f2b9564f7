"""One request and where its time goes, on servers of either dialect, on hostile sentences, on servers that fail."""

import copy

import pytest

from fake_server import FAULTS, PIECES, FakeServer
from layout import problems
from pipeline.errors import MissingPart
from pipeline.slide import OracleFailure, assert_holds, to_json
from serving_fixtures import drawn, lab_of, server_of, taken
from topics.ollama import SLIDES

REQUEST, TIME = SLIDES


@pytest.mark.parametrize("kind", ["ollama", "openai"])
@pytest.mark.parametrize("slide", SLIDES, ids=lambda slide: slide.name)
def test_either_dialect_can_be_photographed_and_drawn(kind, slide):
    with FakeServer() as fake:
        data = taken(slide, lab_of(server_of(fake, kind)))
    assert assert_holds(slide, data).holds
    assert problems(drawn(slide, data)) == []


def test_ollamas_own_durations_are_the_parts_and_ours_stand_in_where_there_are_none():
    with FakeServer() as fake:
        own = taken(TIME, lab_of(server_of(fake, "ollama")))
        ours = taken(TIME, lab_of(server_of(fake, "openai")))
    assert [(part["name"], part["ms"]) for part in own["parts"]] == [
        ("loading", 20),
        ("reading the prompt", 80),
        ("writing", 190),
    ]
    assert own["whole_ms"] == 300 and own["clock"] == "the server's own"
    assert ours["clock"] == "our own" and sum(part["ms"] for part in ours["parts"]) == pytest.approx(ours["whole_ms"])


def test_a_request_is_kept_as_it_was_sent_and_what_varies_is_said_to_vary():
    with FakeServer() as fake:
        data = taken(REQUEST, lab_of(server_of(fake)))
        assert data["request"] == fake.posts()[0]
    assert data["answer"]["created_at"] == data["answer"]["total_duration"] == "(varies)"
    assert data["answer"]["eval_count"] == len(PIECES)


def test_what_the_server_does_not_report_is_shown_as_not_reported(monkeypatch):
    import fake_server

    monkeypatch.setattr(fake_server, "ollama_end", lambda path, model, text, reason="": {"response": text, "done": True})
    with FakeServer() as fake:
        data = taken(REQUEST, lab_of(server_of(fake)))
    assert {data[name] for name in ("answered_model", "finish", "prompt_tokens", "completion_tokens")} == {"not reported"}
    assert assert_holds(REQUEST, data).holds
    canvas = drawn(REQUEST, data)
    words = [text.get_text() for text in canvas.figure.findobj(lambda artist: hasattr(artist, "get_text"))]
    assert "tokens out: not reported" in words and "not reported" in words
    assert problems(canvas) == []


def test_a_sentence_with_nothing_to_add_is_asked_as_a_question(monkeypatch):
    import fake_server

    real = fake_server.whole

    def silent_when_raw(path, model):
        answer = real(path, model)
        return {**answer, "response": "", "done_reason": "stop"} if path == "/api/generate" else answer

    monkeypatch.setattr(fake_server, "whole", silent_when_raw)
    with FakeServer() as fake:
        data = taken(REQUEST, lab_of(server_of(fake)))
    assert data["path"] == "/api/chat" and assert_holds(REQUEST, data).holds


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("slide", SLIDES, ids=lambda slide: slide.name)
def test_a_server_that_fails_leaves_no_half_true_capture(slide, fault):
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


@pytest.mark.parametrize("sabotage", ["parts beyond the whole", "chunks out of order", "a chunk after the end", "other text"])
def test_times_that_cannot_be_and_other_text_are_refused(sabotage):
    with FakeServer() as fake:
        data = taken(TIME, lab_of(server_of(fake)))
    sabotaged = copy.deepcopy(data)
    if sabotage == "parts beyond the whole":
        sabotaged["parts"][0]["ms"] = data["whole_ms"]
    elif sabotage == "chunks out of order":
        sabotaged["chunks"][0]["ms"], sabotaged["chunks"][-1]["ms"] = data["chunks"][-1]["ms"] + 1, data["chunks"][0]["ms"]
    elif sabotage == "a chunk after the end":
        sabotaged["chunks"][-1]["ms"] = data["seen_ms"] + 1
    else:
        sabotaged["unstreamed"] += "!"
    assert_holds(TIME, data)
    with pytest.raises(OracleFailure):
        assert_holds(TIME, sabotaged)


def test_the_request_slide_taken_twice_is_the_same_to_the_byte(real_server):
    lab = lab_of(real_server)
    assert to_json(REQUEST.capture(lab)) == to_json(REQUEST.capture(lab))
