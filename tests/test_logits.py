"""Slides 12-14: the order of the scores, the softmax and its counts, and what the logit lens reads."""

import itertools
import json
import math

import numpy as np
import pytest

from layout import problems
from pipeline import models
from pipeline.canvas import Canvas
from pipeline.lab import DEFAULT_SENTENCE, Lab
from pipeline.slide import OracleFailure, assert_holds, to_json
from small_models import build_llama
from topics.logits import LENS_BOUND, SLIDES, TOP

TOP_SCORES, BY_RANK, LENS = SLIDES


@pytest.fixture(scope="module", params=["tied", "untied"])
def llama_lab(request, tmp_path_factory) -> Lab:
    folder = build_llama(tmp_path_factory.mktemp(request.param), heads=4, kv_heads=2, tied=request.param == "tied")
    loaded = models.choose(str(folder)).load()
    return Lab(DEFAULT_SENTENCE, lambda: loaded)


def scored(lab: Lab, logits: np.ndarray) -> Lab:
    """The same model and sentence, its next-token logits replaced."""
    other = Lab(lab.sentence, lambda: lab.loaded)
    other._last_logits[tuple(other.ids)] = logits.astype(np.float32)
    return other


def taken(slide, lab: Lab) -> dict:
    return json.loads(to_json(slide.capture(lab)))


def flaws(slide, data: dict) -> list[str]:
    """What is wrong with the layout of the slide's figure."""
    canvas = Canvas(slide.kind)
    slide.draw(canvas, data)
    return problems(canvas)


def refused(slide, data) -> None:
    with pytest.raises(OracleFailure):
        assert_holds(slide, json.loads(to_json(data)))


@pytest.mark.parametrize("slide", SLIDES, ids=lambda slide: slide.name)
def test_a_grouped_query_model_holds_with_either_head_and_its_sabotage_does_not(slide, llama_lab, captured):
    data = captured(slide, llama_lab)
    assert assert_holds(slide, data).holds
    refused(slide, slide.sabotage(data, llama_lab))


# --- 12 ---


@pytest.mark.parametrize("name", ["lab", "gpt2_lab"])
def test_the_scores_shown_are_the_highest_of_the_whole_vocabulary(name, request, captured):
    lab = request.getfixturevalue(name)
    data = captured(TOP_SCORES, lab)
    logits = lab.next_logits(lab.ids)
    shown = set(data["torch_order"])
    assert len(shown) == TOP
    assert min(logits[list(shown)]) >= max(value for token_id, value in enumerate(logits.tolist()) if token_id not in shown)
    assert data["median"] == pytest.approx(sorted(logits.tolist())[len(logits) // 2], abs=1e-2)


def test_equal_scores_are_ranked_by_id_on_both_sides(gpt2_lab):
    logits = gpt2_lab.next_logits(gpt2_lab.ids).copy()
    logits[[900, 70, 4000]] = logits.max() + 1
    data = taken(TOP_SCORES, scored(gpt2_lab, logits))
    assert data["torch_order"][:3] == [70, 900, 4000]
    assert assert_holds(TOP_SCORES, data).holds


def test_a_vocabulary_of_equal_scores_holds_and_is_drawn_whole(gpt2_lab):
    data = taken(TOP_SCORES, scored(gpt2_lab, np.full(gpt2_lab.model.config.vocab_size, -3.0)))
    assert flaws(TOP_SCORES, data) == []


def test_a_score_left_out_of_the_sample_is_found(gpt2_lab, captured):
    data = captured(TOP_SCORES, gpt2_lab)
    refused(TOP_SCORES, {**data, "highest_outside_sample": max(data["sample_logits"])})


# --- 13 ---


def counted(logits: np.ndarray, share: float) -> int:
    """How many tokens reach the share, added up one by one without rounding: no softmax, no cumsum, no search."""
    weights = sorted((math.exp(value) for value in (logits - logits.max()).astype(float).tolist()), reverse=True)
    total = math.fsum(weights)
    return 1 + sum(1 for so_far in itertools.accumulate(weights) if so_far < share * total)


@pytest.mark.parametrize("name", ["lab", "gpt2_lab"])
def test_as_many_tokens_hold_each_share_as_an_independent_count_finds(name, request, captured):
    lab = request.getfixturevalue(name)
    logits = lab.next_logits(lab.ids)
    rows = captured(BY_RANK, lab)["holding"]
    assert [row["share"] for row in rows] == [0.5, 0.9, 0.99]
    assert [row["tokens"] for row in rows] == [counted(logits, row["share"]) for row in rows]


def test_a_geometric_distribution_is_counted_in_closed_form(gpt2_lab):
    logits = -np.log(2) * np.arange(gpt2_lab.model.config.vocab_size).clip(max=100)  # 1/2, 1/4, 1/8 …
    data = taken(BY_RANK, scored(gpt2_lab, logits))
    # k tokens hold 1 - 2^-k; at exactly one half rounding may ask for a second
    assert [row["tokens"] for row in data["holding"]][1:] == [4, 7]
    assert data["probabilities"][:3] == pytest.approx([1 / 2, 1 / 4, 1 / 8], rel=1e-6)
    assert assert_holds(BY_RANK, data).holds


@pytest.mark.parametrize(("spread", "lead"), [(0.01, 0), (1, 40), (60, 0)], ids=["flat", "certain", "steep"])
def test_any_distribution_holds_and_is_drawn_whole(spread, lead, gpt2_lab):
    logits = gpt2_lab.rng(3).normal(0, spread, gpt2_lab.model.config.vocab_size)
    logits[5] += lead
    data = taken(BY_RANK, scored(gpt2_lab, logits))
    assert assert_holds(BY_RANK, data).holds
    assert flaws(BY_RANK, data) == []


@pytest.mark.parametrize("place", ["probabilities", "shifted", "cumulative"])
def test_a_point_of_a_curve_that_is_slightly_off_is_refused(place, gpt2_lab, captured):
    data = captured(BY_RANK, gpt2_lab)
    data[place][7] *= 1 + 1e-6
    refused(BY_RANK, data)


def test_one_token_too_many_is_refused(gpt2_lab, captured):
    data = captured(BY_RANK, gpt2_lab)
    data["holding"][1]["tokens"] += 1
    refused(BY_RANK, data)


# --- 14 ---


@pytest.mark.parametrize("name", ["lab", "gpt2_lab"])
def test_the_lens_reads_the_token_table_first_and_the_models_answer_last(name, request, captured):
    lab = request.getfixturevalue(name)
    data = captured(LENS, lab)
    assert [row["layer"] for row in data["rows"]] == list(range(lab.model.config.num_hidden_layers + 1))
    model = lab.next_logits(lab.ids).astype(float)
    assert data["rows"][-1]["id"] == model.argmax() == lab.completion[0]
    assert data["rows"][-1]["probability"] == pytest.approx(1 / np.exp(model - model.max()).sum(), rel=1e-4)


def test_another_answer_in_the_last_row_is_refused_unless_the_two_tie(gpt2_lab, captured):
    data = captured(LENS, gpt2_lab)
    data["rows"][-1]["id"] = data["rows"][0]["id"]
    refused(LENS, {**data, "gap": 2 * LENS_BOUND})
    assert assert_holds(LENS, {**data, "gap": LENS_BOUND / 10}).holds


def test_a_last_row_that_is_slightly_off_is_refused(gpt2_lab, captured):
    data = captured(LENS, gpt2_lab)
    data["last_row_logits"][3] += 2 * LENS_BOUND
    refused(LENS, data)


@pytest.mark.parametrize("layers", [1, 2, 12, 15, 16, 30, 31, 32, 80])
@pytest.mark.parametrize("agreeing", ["all", "last", "none but every second"])
def test_any_number_of_layers_is_drawn_whole(layers, agreeing, gpt2_lab, captured):
    data = captured(LENS, gpt2_lab)
    answer = data["rows"][-1]
    other = {**answer, "id": answer["id"] + 1, "text": " somewhere-else-entirely", "probability": 0.004}
    same = {"all": lambda n: True, "last": lambda n: n == layers, "none but every second": lambda n: n % 2 == layers % 2}
    rows = [{**(answer if same[agreeing](n) else other), "layer": n} for n in range(layers + 1)]
    assert flaws(LENS, {**data, "rows": rows}) == []
