"""What holds for every slide of the deck: its oracle can pass and can fail, and its figure is fit to be shown."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from decks import ONE_CALL
from layout import problems
from pipeline.errors import BadInput
from pipeline.lab import Lab
from pipeline.paths import BUILD, COMMITTED, WORDS
from pipeline.slide import Deck, OracleFailure, Part, Slide, Verdict, assert_holds, slides_of, to_json
from slide_fixtures import committed, drawn

EVERY = pytest.mark.parametrize("slide", ONE_CALL.slides, ids=lambda slide: slide.id)


def test_a_slides_number_is_its_place_in_the_deck():
    assert [slide.number for slide in ONE_CALL.slides] == list(range(1, len(ONE_CALL.slides) + 1))
    assert [slide.is_title for slide in ONE_CALL.slides] == [slide.id == "opening/title" for slide in ONE_CALL.slides]


def test_every_slide_of_every_topic_stands_in_the_deck_once():
    scripts = {path.stem for path in (BUILD / "topics").glob("*.py")} - {"__init__", "pipeline"}
    written = [slide.id for topic in sorted(scripts) for slide in slides_of(topic)]
    assert sorted(written) == sorted(slide.id for slide in ONE_CALL.slides)


@pytest.mark.parametrize("entry", ["nothing", "opening/nothing"])
def test_an_entry_that_names_no_slide_is_reported_in_one_line(entry):
    deck = Deck("a_deck", "A deck", "", (Part("A part", ("opening", entry)),))
    with pytest.raises(BadInput, match=f"a_deck in build/decks.py names {entry}, "):
        _ = deck.slides


def test_each_topic_has_its_words_its_tests_and_its_figures():
    for topic in ONE_CALL.topics:
        assert (WORDS / f"{topic}.md").is_file()
        assert (COMMITTED.root / "tests" / "topics" / f"test_{topic}.py").is_file()
    for slide in ONE_CALL.slides:
        assert COMMITTED.figure(slide.id).is_file()
        assert COMMITTED.capture(slide.id).is_file()


@EVERY
def test_the_oracle_holds_for_the_capture_and_refuses_its_sabotage(slide: Slide, lab: Lab, captured):
    good = captured(slide, lab)
    before = to_json(good)
    assert assert_holds(slide, good).holds
    sabotaged = json.loads(to_json(slide.sabotage(good, lab)))
    assert to_json(good) == before  # spoiling leaves the good capture alone
    assert sabotaged != good
    with pytest.raises(OracleFailure):
        assert_holds(slide, sabotaged)


def test_a_verdict_with_numpys_truth_in_it_holds_and_can_be_kept_as_json():
    slide = dataclasses.replace(ONE_CALL.slides[0], oracle=lambda data: Verdict(np.bool_(data["small"] < 1), "0", "< 1"))
    assert json.loads(json.dumps(dataclasses.asdict(assert_holds(slide, {"small": 0}))))["holds"] is True
    with pytest.raises(OracleFailure, match="must hold: < 1"):
        assert_holds(slide, {"small": 2})


@EVERY
def test_the_oracle_refuses_nan_and_an_empty_list_anywhere(slide: Slide):
    places = list(kinds_of_place(committed(slide)))
    assert places
    for path, flaw in places:
        sabotaged = committed(slide)
        put(sabotaged, path, flaw)
        with pytest.raises(OracleFailure):
            assert_holds(slide, sabotaged)


@EVERY
def test_an_oracle_that_reads_floats_refuses_nan_by_itself(slide: Slide):
    """Without the guard of assert_holds: comparisons are written so that NaN fails. An oracle of whole numbers may hold."""

    def refuses(change: Callable[[float], float]) -> bool:
        try:
            return not slide.oracle(with_floats(committed(slide), change)).holds
        except Exception:
            return True

    assert refuses(lambda value: float("nan")) or not refuses(lambda value: -value - 1e6)


@EVERY
def test_the_figure_has_no_clipped_overlapping_or_tiny_text(slide: Slide):
    assert problems(drawn(slide, committed(slide))) == []


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
