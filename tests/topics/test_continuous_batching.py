"""The schedule of the concept card on batching, tried on lengths other than its own."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.slide import to_json
from slide_fixtures import refused
from topics import continuous_batching

(BATCHING,) = continuous_batching.SLIDES


def taken(slide) -> dict:
    return json.loads(to_json(slide.capture(None)))


@given(st.lists(st.integers(1, 12), min_size=4, max_size=12).filter(lambda lengths: len(lengths) % 4 == 0))
def test_continuous_batching_writes_the_same_tokens_and_is_never_worse(lengths):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(continuous_batching, "LENGTHS", {chr(65 + i): length for i, length in enumerate(lengths)})
        data = taken(BATCHING)
    written = [continuous_batching.tokens_of(data[kind]) for kind in ("static", "continuous")]
    assert written[0] == written[1] == data["lengths"]
    assert len(data["continuous"][0]) <= len(data["static"][0])
    assert continuous_batching.idle(data["continuous"]) <= continuous_batching.idle(data["static"])


def test_a_request_that_pauses_is_refused():
    data = taken(BATCHING)
    slot = data["continuous"][0]
    slot[4] = None
    slot.append("A")
    for other in data["continuous"][1:]:
        other.append(None)
    refused(BATCHING, data)


def test_a_reading_of_a_clock_is_refused():
    refused(BATCHING, {**taken(BATCHING), "seconds": 1.5})


@pytest.mark.parametrize("slide", continuous_batching.SLIDES, ids=lambda slide: slide.name)
def test_the_card_needs_neither_model_nor_server(slide):
    assert (slide.kind, slide.needs) == ("concept", ())
