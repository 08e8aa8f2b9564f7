"""The arithmetic of the concept cards on fewer bits."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.slide import assert_holds, to_json
from slide_fixtures import refused
from topics import quantization

BYTES, ROUNDING = quantization.SLIDES


def taken(slide, lab=None) -> dict:
    return json.loads(to_json(slide.capture(lab)))


def test_the_count_is_the_models_own_with_tied_weights_once(lab, gpt2_lab, captured):
    for one in (lab, gpt2_lab):
        data = captured(BYTES, one)
        seen = {parameter.data_ptr(): parameter.numel() for parameter in one.model.parameters()}
        assert data["parameters"] == sum(seen.values()) == data["rows"][0]["parameters"]


def test_the_32_bit_row_is_what_the_weights_take_in_memory(lab, captured):
    weights = sum(parameter.nbytes for parameter in lab.model.parameters())
    assert captured(BYTES, lab)["rows"][0]["bytes"] == weights


def test_half_the_bits_are_half_the_bytes(lab, captured):
    rows = captured(BYTES, lab)["rows"]
    assert [row["bytes"] * 32 / row["bits"] for row in rows] == [rows[0]["bytes"]] * len(rows)


@pytest.mark.parametrize("place", ["bytes", "parameters"])
def test_a_row_that_is_off_by_one_is_refused(lab, captured, place):
    data = captured(BYTES, lab)
    data["rows"][2][place] += 1
    refused(BYTES, data)


@given(st.integers(2, 8), st.integers(2, 200))
def test_rounding_moves_a_weight_by_at_most_half_a_step(bits, count):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantization, "GRID_BITS", bits)
        patch.setattr(quantization, "WEIGHTS", count)
        data = taken(ROUNDING)
        assert_holds(ROUNDING, data)
    assert len(set(data["codes"])) <= 2**bits


@pytest.mark.parametrize("to_level", [math.floor, math.ceil, lambda value: round(value) ^ 1])
def test_another_rule_than_the_nearest_level_is_refused(to_level):
    refused(ROUNDING, json.loads(to_json(quantization.capture_rounding(None, to_level))))


def test_a_weight_between_two_levels_is_not_on_the_grid():
    data = taken(ROUNDING)
    data["restored"][3] = data["weights"][3]
    refused(ROUNDING, data)


def test_weights_that_the_formula_does_not_give_are_refused():
    data = taken(ROUNDING)
    data["weights"][5] += data["step"] / 1000
    refused(ROUNDING, data)
