"""Any text and any damage: a sentence of any Unicode becomes a slide, and what is read back damaged is one clear line."""

import contextlib
import copy
import io
import json
import re

import pptx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decks import ONE_CALL
from doubt.damage import Data, cases
from fake_server import whole
from pipeline.deck import page, powerpoint, words
from pipeline.deck.page import Shown
from pipeline.drawing.worker import draw_slide
from pipeline.errors import BadInput, DeckError, MissingPart
from pipeline.lab import Lab
from pipeline.paths import COMMITTED, DECK_SOURCES, Out
from pipeline.run import build, manifest
from pipeline.run.compare import differences
from pipeline.run.flags import checked_sentence
from pipeline.serving.client import Wire
from pipeline.serving.dialects import Ollama, OpenAI
from pipeline.serving.line import WireError
from pipeline.serving.stream import Broken, events, json_lines
from pipeline.slide import Deck, Part, Tolerance, assert_holds
from tiers import of_the_slow_tier_but

SLIDE = next(slide for slide in ONE_CALL.slides if slide.id == "tokenization/pieces")
DECK = Deck("a_deck", "A deck", "", (Part("A part", (SLIDE.id,)),))
THOROUGH = settings().max_examples > 100
FEW = settings(max_examples=40 if THOROUGH else 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
ANY_TEXT = st.text(min_size=1, max_size=60)
OWN_SCRIPTS = (DECK_SOURCES / "deck.html.j2").read_text("utf-8").count("<script")
NO_NAME = re.compile(r"\b[A-Z]\w+(Error|Exception)\b|Traceback")  # of an exception, which no user should read


AWKWARD = ["I ❤️ bees", "\ufffe\uffff\x00 \x1b[31m", "</script><b>&amp;|`*_", "مرحبا يا عالم", "\u202e\u200d\u0301"]


@of_the_slow_tier_but("sentence", AWKWARD, AWKWARD[1])
def test_awkward_text_becomes_a_slide(sentence, lab, tmp_path):
    becomes_a_slide(sentence, lab, tmp_path)


@FEW
@given(ANY_TEXT)
def test_any_text_is_refused_in_one_line_or_becomes_a_slide(lab, tmp_path, sentence):
    try:
        becomes_a_slide(checked_sentence(sentence), lab, tmp_path)
    except BadInput as refusal:  # of words there are none, or of a character no token
        assert "\n" not in str(refusal) and not NO_NAME.search(str(refusal))


def becomes_a_slide(sentence: str, lab: Lab, tmp_path) -> None:
    hostile = Lab(sentence, lambda: lab.loaded)
    assert b"".join(map(hostile.piece_bytes, hostile.ids)) == sentence.encode()
    capture = json.loads(COMMITTED.capture(SLIDE.id).read_text("utf-8"))
    capture["data"] = json.loads(json.dumps(SLIDE.capture(hostile)))
    verdict, figure = assert_holds(SLIDE, capture["data"]), tmp_path / "figure.png"
    draw_slide(SLIDE, capture, verdict, figure)
    assert words.render(SLIDE, capture).blocks
    shown = [Shown(slide=DECK.slides[0], capture=capture, verdict=verdict, figure=figure, flags="")]
    assert page.html(DECK, shown).count("<script") == OWN_SCRIPTS
    assert len(pptx.Presentation(io.BytesIO(powerpoint.pptx(DECK, shown))).slides) == 1


PLAIN = json.loads(COMMITTED.capture(SLIDE.id).read_text("utf-8"))


def some(damaged: Data, every: int) -> list:
    """Of all damages to a value every so many, and all of them in the second tier."""
    return list(cases(damaged))[:: 1 if THOROUGH else every]


@pytest.fixture
def out(tmp_path) -> Out:
    (tmp_path / "figures").mkdir()
    return Out(tmp_path)


def test_a_manifest_damaged_anywhere_is_read_or_said_to_be_damaged(out):
    document = json.loads(COMMITTED.manifest.read_text("utf-8"))
    document["slides"] = document["slides"][:2]
    for case in some(document, every=9):
        out.manifest.write_text(case.done_to(document, json.dumps), "utf-8")
        known = manifest.read(out)
        assert known.damage or known.entries is not None
        verified(known)


@FEW
@given(st.binary(max_size=80))
def test_bytes_of_any_kind_in_place_of_manifest_and_ledger_stop_nothing(out, content):
    out.manifest.write_bytes(content)
    manifest.ledger(out).write_bytes(content)
    assert manifest.read(out).entries == {}


def verified(known: manifest.Manifest) -> None:
    try:
        outcome = build.verify([SLIDE], known)
    except DeckError as refusal:
        assert "\n" not in str(refusal)
    else:
        assert outcome.failures


def test_a_capture_damaged_anywhere_is_one_line(out):
    entry = manifest.read(COMMITTED).entries[SLIDE.id]
    known = manifest.Manifest(out, {SLIDE.id: entry})
    out.capture(SLIDE.id).parent.mkdir(parents=True)
    for case in some(copy.deepcopy(PLAIN), every=9):
        document = copy.deepcopy(PLAIN)
        out.capture(SLIDE.id).write_text(case.done_to(document, json.dumps), "utf-8")
        row = None
        try:
            row = build.judge(SLIDE, known)
        except (BadInput, MissingPart) as refusal:
            assert not NO_NAME.search(str(refusal))
        if row and row.failure:
            assert not NO_NAME.search(row.failure) and "\n" not in row.failure
        assert known.flaw_of_capture(SLIDE.id) == "its capture was changed by hand"


def test_captures_of_any_two_shapes_can_be_compared():
    for case in some(copy.deepcopy(PLAIN["data"]), every=5):
        data = copy.deepcopy(PLAIN["data"])
        found = case.done_to(data, lambda damaged: list(map(str, differences(PLAIN["data"], damaged, Tolerance()))))
        assert found


@pytest.mark.parametrize(("dialect", "path"), [(Ollama, "/api/chat"), (OpenAI, "/v1/chat/completions")])
def test_an_answer_damaged_anywhere_is_read_or_refused_in_one_line(monkeypatch, dialect, path):
    answer = whole(path, "a-model")
    for case in some(answer, every=3):
        monkeypatch.setattr(Wire, "post", lambda self, path, body, case=case: case.done_to(answer, copy.deepcopy))
        try:
            dialect("http://127.0.0.1:9", "a-model").chat([{"role": "user", "content": "x"}], max_tokens=3)
        except WireError as refusal:
            assert "\n" not in str(refusal) and not NO_NAME.search(str(refusal))


@given(st.lists(st.binary(max_size=30), max_size=5))
def test_a_stream_of_any_bytes_is_messages_or_broken(chunks):
    for reader in (events, json_lines):
        with contextlib.suppress(Broken, UnicodeDecodeError):  # the line to a server makes one WireError of either
            assert all(isinstance(message, dict) for message in reader(iter(chunks)))
