"""Every slide that is not timed, of another model, twice, and of hostile sentences: its oracle holds, its figure is whole."""

import json
from typing import Any

import pytest

from conftest import HOSTILE_SENTENCES
from decks import ONE_CALL
from layout import problems
from pipeline.drawing.canvas import Canvas
from pipeline.lab import Lab
from pipeline.slide import Slide, assert_holds, first_flaw, to_json
from slide_fixtures import committed, drawn

UNTIMED = [slide for slide in ONE_CALL.slides if not slide.volatile]  # a timed one may say otherwise on a busy machine


def every(found: list[Slide]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("slide", found, ids=lambda slide: slide.id)


@every(UNTIMED)
def test_a_gpt2_shaped_model_holds_and_is_drawn_whole(slide: Slide, gpt2_lab: Lab, captured):
    data = captured(slide, gpt2_lab)
    assert assert_holds(slide, data).holds
    assert problems(drawn(slide, data), hostile=True) == []


@every([slide for slide in UNTIMED if "server" not in slide.needs])
def test_a_capture_taken_twice_is_the_same_to_the_byte(slide: Slide, lab: Lab, captured, loaded_model):
    again = Lab(lab.sentence, lambda: loaded_model)
    assert to_json(slide.capture(again)) == to_json(captured(slide, lab))


@pytest.mark.parametrize("sentence", HOSTILE_SENTENCES)
@every([slide for slide in UNTIMED if slide.needs])
def test_a_hostile_sentence_holds_and_is_drawn_whole(slide: Slide, sentence: str, hostile_labs: dict[str, Lab], captured):
    data = captured(slide, hostile_labs[sentence])
    assert assert_holds(slide, data).holds
    assert problems(drawn(slide, data), hostile=True) == []


@pytest.fixture(scope="session")
def hostile_labs(loaded_model, served) -> dict[str, Lab]:
    return {name: Lab(text, lambda: loaded_model, served) for name, text in HOSTILE_SENTENCES.items()}


@every([slide for slide in ONE_CALL.slides if slide.volatile])
def test_a_timed_slide_can_be_taken_and_drawn_whatever_its_clock_says(slide: Slide, gpt2_lab: Lab):
    data = json.loads(to_json(slide.capture(gpt2_lab)))
    assert first_flaw(data) is None
    assert shape(data) == shape(committed(slide))
    canvas = Canvas(slide.kind)
    slide.draw(canvas, data)
    assert problems(canvas, hostile=True) == []


def shape(value: Any) -> Any:
    """The keys of a capture and the kinds of its values; the first entry of a list stands for all."""
    if isinstance(value, dict):
        return {key: shape(child) for key, child in value.items()}
    return [shape(value[0])] if isinstance(value, list) else type(value)
