"""Temperature and top-p, and the NumPy they are judged by: ranks, entropies."""

import copy
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout import problems
from pipeline.distributions import by_rank, entropy_bits, nucleus, smallest_prefix, softmax
from pipeline.drawing.canvas import Canvas
from pipeline.lab import Lab
from pipeline.slide import OracleFailure, assert_holds, to_json
from topics import sampling

TEMPERATURE, TOP_P = sampling.SLIDES
LOGITS = st.lists(st.floats(-30, 30), min_size=2, max_size=60).map(np.array)


@pytest.fixture
def flat_lab(lab) -> Lab:
    """The real tokenizer over logits that hardly differ: top-p keeps tens of thousands of tokens."""
    flat = Lab(lab.sentence, lambda: lab.loaded)
    noise = flat.rng(7).normal(0, 0.01, len(lab.next_logits(lab.ids)))
    flat._last_logits[tuple(flat.ids)] = noise.astype(np.float32)
    return flat


@given(LOGITS, st.floats(-50, 50))
def test_softmax_sums_to_one_and_ignores_a_constant(logits, constant):
    assert softmax(logits).sum() == pytest.approx(1, abs=1e-12)
    assert softmax(logits + constant) == pytest.approx(softmax(logits), abs=1e-12)


@pytest.mark.parametrize("count", [2, 8, 1024])
def test_equal_chances_have_an_entropy_of_their_count_in_bits(count):
    assert entropy_bits(np.full(count, 1 / count)) == pytest.approx(math.log2(count))


def test_a_certain_token_has_no_entropy():
    assert entropy_bits(np.array([0.0, 1.0, 0.0])) == 0


@given(LOGITS, st.floats(0.1, 5), st.floats(1.001, 4))
def test_entropy_never_falls_when_the_temperature_rises(logits, temperature, times):
    cool, hot = (entropy_bits(softmax(logits / t)) for t in (temperature, temperature * times))
    assert cool <= hot + 1e-9


@given(LOGITS, st.floats(0.01, 0.999))
def test_the_nucleus_is_the_smallest_prefix_that_reaches_p(logits, p):
    probabilities = softmax(logits)
    ranked = np.sort(probabilities)[::-1]
    count = smallest_prefix(ranked, p)
    assert ranked[:count].sum() >= p - 1e-12
    assert ranked[: count - 1].sum() < p
    left = nucleus(probabilities, p)
    assert left.sum() == pytest.approx(1)
    assert np.count_nonzero(left) <= count
    assert left[by_rank(probabilities)[count:]].sum() == 0


@given(LOGITS, st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_a_smaller_p_keeps_a_subset(logits, p, q):
    probabilities = softmax(logits)
    small, large = (nucleus(probabilities, share) > 0 for share in sorted((p, q)))
    assert not (small & ~large).any()


def test_tokens_that_share_a_score_rank_by_id():
    assert by_rank(np.array([1.0, 2.0, 2.0, 1.0])).tolist() == [1, 2, 0, 3]


def refused(slide, data) -> None:
    with pytest.raises(OracleFailure):
        assert_holds(slide, json.loads(to_json(data)))


@pytest.mark.parametrize(
    ("place", "value"),
    [("entropy_bits", 1e-2), ("others", 1e-2), ("temperature", 0.05)],
)
def test_a_reading_that_is_slightly_off_is_refused(lab, captured, place, value):
    data = captured(TEMPERATURE, lab)
    data["readings"][1][place] += value
    refused(TEMPERATURE, data)


def test_a_temperature_that_changes_the_winner_is_refused(lab, captured):
    data = captured(TEMPERATURE, lab)
    data["readings"][2]["argmax"] = data["shown"][1]["id"]
    refused(TEMPERATURE, data)


def test_a_near_tie_still_finds_a_temperature_that_is_greedy(lab):
    tied = Lab(lab.sentence, lambda: lab.loaded)
    logits = lab.next_logits(lab.ids).copy()
    first, second = by_rank(logits)[:2]
    logits[second] = logits[first] - 1e-3
    tied._last_logits[tuple(tied.ids)] = logits
    data = json.loads(to_json(TEMPERATURE.capture(tied)))
    assert data["near_zero"]["temperature"] < 1e-4
    assert assert_holds(TEMPERATURE, data).holds


def edit_mask(run: dict, vocabulary: int, token: int, keep: bool) -> None:
    kept = np.unpackbits(np.frombuffer(bytes.fromhex(run["mask"]), np.uint8), count=vocabulary)
    kept[token] = keep
    run["mask"] = np.packbits(kept).tobytes().hex()


def test_one_token_too_few_is_refused(lab, captured):
    data = captured(TOP_P, lab)
    run = data["runs"][1]
    last = by_rank(np.array(data["logits"]))[run["kept"] - 1]
    edit_mask(run, data["vocabulary"], int(last), keep=False)
    run["kept"] -= 1
    refused(TOP_P, data)


def test_as_many_tokens_but_not_the_most_probable_is_refused(lab, captured):
    data = captured(TOP_P, lab)
    order = by_rank(np.array(data["logits"])).tolist()
    run = data["runs"][1]
    edit_mask(run, data["vocabulary"], order[run["kept"] - 1], keep=False)
    edit_mask(run, data["vocabulary"], order[-1], keep=True)
    refused(TOP_P, data)


def test_the_larger_p_taken_for_the_smaller_is_refused(lab, captured):
    data = captured(TOP_P, lab)
    sabotaged = copy.deepcopy(data)
    sabotaged["runs"].reverse()
    refused(TOP_P, sabotaged)


@pytest.mark.parametrize("slide", sampling.SLIDES, ids=lambda slide: slide.name)
def test_nearly_equal_logits_hold_and_are_drawn_whole(slide, flat_lab):
    data = json.loads(to_json(slide.capture(flat_lab)))
    assert_holds(slide, data)
    refused(slide, slide.sabotage(data, flat_lab))
    canvas = Canvas(slide.kind)
    slide.draw(canvas, data)
    assert problems(canvas) == []
    if slide is TOP_P:
        assert data["runs"][1]["kept"] > 0.85 * data["vocabulary"]
