"""Slides 10-11: no head looks ahead and no later token reaches back, in models of both shapes."""

import copy
import json

import numpy as np
import pytest

from pipeline import models
from pipeline.errors import BadInput
from pipeline.lab import DEFAULT_SENTENCE, Lab
from pipeline.slide import OracleFailure, assert_holds, to_json
from small_models import build_llama
from topics.attention import SLIDES, attentions, both_ways, looking_back

ATTENTION, EVERY_LOGIT = SLIDES
LABS = pytest.mark.parametrize("name", ["lab", "gpt2_lab", "llama_lab"])


@pytest.fixture(scope="module")
def llama_lab(tmp_path_factory) -> Lab:
    loaded = models.choose(str(build_llama(tmp_path_factory.mktemp("llama"), heads=4, kv_heads=2))).load()
    return Lab(DEFAULT_SENTENCE, lambda: loaded)


def refused(slide, data) -> None:
    with pytest.raises(OracleFailure):
        assert_holds(slide, json.loads(to_json(data)))


# --- 10 ---


@LABS
def test_every_query_head_has_its_own_square_of_weights_whatever_it_shares(name, request):
    lab = request.getfixturevalue(name)
    layers = attentions(lab, lab.ids, causal=True)
    config, n = lab.model.config, len(lab.ids)
    assert [weights.shape for weights in layers] == [(config.num_attention_heads, n, n)] * config.num_hidden_layers
    assert all((np.triu(weights, k=1) == 0).all() for weights in layers)


@LABS
def test_both_shapes_hold_and_are_refused_with_the_mask_left_off(name, request, captured):
    lab = request.getfixturevalue(name)
    for slide in SLIDES:
        data = captured(slide, lab)
        assert assert_holds(slide, data).holds
        refused(slide, slide.sabotage(data, lab))


def test_the_mask_left_off_lets_every_token_but_the_last_look_ahead(gpt2_lab):
    for weights in attentions(gpt2_lab, gpt2_lab.ids, causal=False):
        assert (np.triu(weights, k=1).sum(axis=-1)[:, :-1] > 0).all()
        assert weights.sum(axis=-1) == pytest.approx(1, abs=1e-5)


def test_equal_scores_give_each_token_an_equal_share_of_what_it_may_see(gpt2_lab):
    flat = copy.deepcopy(gpt2_lab.loaded)
    for block in flat.model.transformer.h:
        block.attn.c_attn.weight.data.zero_()
    lab = Lab(gpt2_lab.sentence, lambda: flat)
    n = len(lab.ids)
    expected = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    for weights in attentions(lab, lab.ids, causal=True):
        assert weights == pytest.approx(np.broadcast_to(expected, weights.shape), abs=1e-6)


def test_attention_weights_that_come_back_empty_are_refused(gpt2_lab):
    fused = copy.deepcopy(gpt2_lab.loaded)
    fused.model.set_attn_implementation("sdpa")  # never writes the weights down
    with pytest.raises(BadInput, match="0 of 2 layers"):
        attentions(Lab(gpt2_lab.sentence, lambda: fused), gpt2_lab.ids, causal=True)


def test_looking_back_counts_neither_the_first_token_nor_the_token_itself():
    resting, itself, back = (np.zeros((4, 4)) for _ in range(3))
    resting[:, 0] = 1
    np.fill_diagonal(itself, 1)
    back[0, 0] = back[1, 0] = back[2, 1] = back[3, 1] = 1
    half = (resting + back) / 2
    assert looking_back([np.stack([resting, itself]), np.stack([back, half])]) == pytest.approx(np.array([[0, 0], [1, 0.5]]))


def test_the_head_shown_looks_back_most(gpt2_lab, captured):
    data = captured(ATTENTION, gpt2_lab)
    every = looking_back(attentions(gpt2_lab, gpt2_lab.ids, causal=True))
    assert data["looking_back"] == pytest.approx(every.max()) == every[data["layer"] - 1, data["head"] - 1]


@pytest.mark.parametrize(
    ("row", "column", "change"), [(0, 1, 1e-7), (3, 2, 1e-3), (3, 2, -2.0)], ids=["ahead", "sum", "negative"]
)
def test_one_weight_that_is_off_is_refused(row, column, change, gpt2_lab, captured):
    data = captured(ATTENTION, gpt2_lab)
    data["rows"][row][column] += change
    refused(ATTENTION, data)


@pytest.mark.parametrize(("place", "value"), [("most_above_diagonal", 1e-6), ("worst_row_sum", 1e-3)])
def test_a_flaw_in_a_head_that_is_not_shown_is_refused(place, value, gpt2_lab, captured):
    refused(ATTENTION, {**captured(ATTENTION, gpt2_lab), place: value})


@pytest.mark.parametrize("slide", SLIDES, ids=lambda slide: slide.name)
def test_a_sentence_of_one_token_is_shown_with_its_completion(slide, gpt2_lab):
    lab = Lab("Hi", lambda: gpt2_lab.loaded)
    assert len(lab.ids) == 1
    data = json.loads(to_json(slide.capture(lab)))
    assert len(data["pieces"]) > 2
    assert data["pieces"] == lab.pieces(lab.ids + lab.completion)[: len(data["pieces"])]
    assert assert_holds(slide, data).holds


# --- 11 ---


@LABS
def test_another_last_token_moves_no_earlier_logit(name, request):
    lab = request.getfixturevalue(name)
    other = [*lab.ids[:-1], lab.ids[0]]
    moved = np.abs(both_ways(lab, lab.ids, causal=True) - both_ways(lab, other, causal=True)).max(axis=-1)
    assert moved[:-1].max() < 1e-4 < moved[-1]
    moved = np.abs(both_ways(lab, lab.ids, causal=False) - both_ways(lab, other, causal=False)).max(axis=-1)
    assert moved.min() > 1e-4


def test_the_dots_are_the_logits_of_the_call(gpt2_lab, captured):
    data = captured(EVERY_LOGIT, gpt2_lab)
    assert data["logits"] == pytest.approx(gpt2_lab.next_logits(gpt2_lab.ids), rel=1e-4)
    assert data["best"][0]["id"] == gpt2_lab.completion[0]


def test_the_last_token_is_replaced_by_another_even_where_it_is_the_models_own_choice(gpt2_lab):
    lab = Lab(gpt2_lab.sentence, lambda: gpt2_lab.loaded)
    lab.ids = gpt2_lab.ids + gpt2_lab.completion[:1]
    data = json.loads(to_json(EVERY_LOGIT.capture(lab)))
    assert data["replaced_by"] != data["pieces"][-1]
    assert assert_holds(EVERY_LOGIT, data).holds


@pytest.mark.parametrize("flaw", ["an earlier position moves", "the last does not move", "another winner"])
def test_a_capture_that_tells_another_story_is_refused(flaw, gpt2_lab, captured):
    data = captured(EVERY_LOGIT, gpt2_lab)
    if flaw == "an earlier position moves":
        data["moved"][2] = 1e-3
    elif flaw == "the last does not move":
        data["moved"][-1] = 0.0
    else:
        data["best"].reverse()
    refused(EVERY_LOGIT, data)
