"""What holds for every slide of the deck: its oracle can pass and can fail, and its figure is fit to be shown."""

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conftest import HOSTILE_SENTENCES
from layout import problems
from pipeline.drawing.canvas import Canvas
from pipeline.lab import Lab
from pipeline.paths import COMMITTED, REPO, WORDS
from pipeline.slide import OracleFailure, Slide, assert_holds, to_json
from topics import TOPICS, slides

PHOTOGRAPHS, CONCEPTS = 32, 7  # the README says so too
EVERY = pytest.mark.parametrize("slide", slides(), ids=lambda slide: slide.id)
TIMED_OR_SERVED = {slide.id for slide in slides() if slide.volatile or "server" in slide.needs}


def test_there_are_39_slides_32_photographs_and_7_concept_cards():
    assert [slide.number for slide in slides()] == list(range(1, PHOTOGRAPHS + CONCEPTS + 1))
    assert Counter(slide.kind for slide in slides()) == {"photograph": PHOTOGRAPHS, "concept": CONCEPTS}
    promised = f"{PHOTOGRAPHS + CONCEPTS} slides: {PHOTOGRAPHS} *photographs*"
    assert promised in " ".join((REPO / "README.md").read_text("utf-8").split())


def test_no_two_slides_write_one_file():
    assert len({slide.id for slide in slides()}) == len(slides())


def test_each_topic_has_its_words_its_tests_and_its_figures():
    for topic in TOPICS:
        assert (WORDS / f"{topic}.md").is_file()
        assert (COMMITTED.root / "tests" / "topics" / f"test_{topic}.py").is_file()
    for slide in slides():
        assert COMMITTED.figure(slide.id).is_file()
        assert COMMITTED.capture(slide.id).is_file()


@EVERY
def test_the_oracle_holds_for_the_capture(slide: Slide, lab: Lab, captured):
    assert assert_holds(slide, captured(slide, lab)).holds


@EVERY
def test_the_oracle_refuses_the_sabotage(slide: Slide, lab: Lab, captured):
    good = captured(slide, lab)
    spoiled = json.loads(to_json(slide.sabotage(copy.deepcopy(good), lab)))
    assert spoiled != good
    with pytest.raises(OracleFailure):
        assert_holds(slide, spoiled)


@EVERY
def test_the_sabotage_leaves_the_good_capture_alone(slide: Slide, lab: Lab, captured):
    good = captured(slide, lab)
    before = to_json(good)
    slide.sabotage(good, lab)
    assert to_json(good) == before


@EVERY
def test_the_oracle_refuses_nan_and_an_empty_list_anywhere(slide: Slide, lab: Lab, captured):
    places = list(kinds_of_place(captured(slide, lab)))
    assert places
    for path, flaw in places:
        spoiled = captured(slide, lab)
        put(spoiled, path, flaw)
        with pytest.raises(OracleFailure):
            assert_holds(slide, spoiled)


@EVERY
def test_an_oracle_that_reads_floats_refuses_nan_by_itself(slide: Slide, lab: Lab, captured):
    """Without the guard of assert_holds: comparisons are written so that NaN fails. An oracle of whole numbers may hold."""

    def refuses(change: Callable[[float], float]) -> bool:
        try:
            return not slide.oracle(with_floats(captured(slide, lab), change)).holds
        except Exception:
            return True

    assert refuses(lambda value: float("nan")) or not refuses(lambda value: -value - 1e6)


@EVERY
def test_the_oracle_of_a_gpt2_shaped_model_holds(slide: Slide, gpt2_lab: Lab, captured):
    assert assert_holds(slide, captured(slide, gpt2_lab)).holds


@pytest.mark.parametrize("slide", [s for s in slides() if s.id not in TIMED_OR_SERVED], ids=lambda slide: slide.id)
def test_a_capture_taken_twice_is_the_same_to_the_byte(slide: Slide, lab: Lab, captured, loaded_model):
    again = Lab(lab.sentence, lambda: loaded_model)
    assert to_json(slide.capture(again)) == to_json(captured(slide, lab))


@EVERY
def test_the_figure_has_no_clipped_overlapping_or_tiny_text(slide: Slide, lab: Lab, captured):
    assert problems(drawn(slide, captured(slide, lab))) == []


@EVERY
def test_the_figure_of_a_gpt2_shaped_model_has_no_clipped_overlapping_or_tiny_text(slide: Slide, gpt2_lab: Lab, captured):
    assert problems(drawn(slide, captured(slide, gpt2_lab))) == []


@pytest.mark.parametrize("sentence", HOSTILE_SENTENCES)
@pytest.mark.parametrize(
    "slide", [s for s in slides() if s.needs and (not s.volatile or "server" in s.needs)], ids=lambda slide: slide.id
)
def test_a_hostile_sentence_holds_and_is_drawn_whole(slide: Slide, sentence: str, hostile_labs: dict[str, Lab], captured):
    data = captured(slide, hostile_labs[sentence])
    assert assert_holds(slide, data).holds
    assert problems(drawn(slide, data)) == []


@pytest.fixture(scope="session")
def hostile_labs(loaded_model, served) -> dict[str, Lab]:
    return {name: Lab(text, lambda: loaded_model, served) for name, text in HOSTILE_SENTENCES.items()}


def drawn(slide: Slide, data: dict[str, Any]) -> Canvas:
    """The slide's figure with its strip, not saved."""
    verdict = assert_holds(slide, data)
    canvas = Canvas(slide.kind)
    slide.draw(canvas, data)
    canvas.strip(
        "some-model · sha256 00000000 · float32 on CPU · sentence 00000000", f"{verdict.measured} · {verdict.bound}", True
    )
    return canvas


def kinds_of_place(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """One place of every kind in a capture, with the flaw to put there: NaN for a float, [] for a list.

    The entries of a list are one kind of place: the first stands for all.
    """
    if isinstance(value, float):
        yield path, float("nan")
    elif isinstance(value, list):
        yield path, []
        yield from kinds_of_place(value[0], (*path, 0))
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from kinds_of_place(child, (*path, key))


def with_floats(value: Any, change: Callable[[float], float]) -> Any:
    """A capture with `change` made to each of its floats."""
    if isinstance(value, dict):
        return {key: with_floats(child, change) for key, child in value.items()}
    if isinstance(value, list):
        return [with_floats(child, change) for child in value]
    return change(value) if isinstance(value, float) else value


def put(value: Any, path: tuple, flaw: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = flaw
