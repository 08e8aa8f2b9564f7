"""Order, shares and the lens, against what they must be by definition."""

import itertools
import json
import math

import numpy as np
import pytest

from layout import problems
from pipeline.distributions import softmax
from pipeline.drawing.canvas import Canvas
from pipeline.lab import Lab
from pipeline.model import find as find_model
from pipeline.settings import DEFAULT_SENTENCE
from pipeline.slide import OracleFailure, assert_holds, to_json
from small_models import build_llama
from topics import logits

TOP_SCORES, BY_RANK, LENS = logits.SLIDES


def refused(slide, data) -> None:
    with pytest.raises(OracleFailure):
        assert_holds(slide, json.loads(to_json(data)))


def lab_with(lab: Lab, scores: np.ndarray) -> Lab:
    """The real tokenizer over the given scores for the sentence."""
    other = Lab(lab.sentence, lambda: lab.loaded)
    other._last_logits[tuple(other.ids)] = scores.astype(np.float32)
    return other


def test_tokens_with_equal_scores_stand_in_the_order_of_their_ids(lab):
    size = len(lab.next_logits(lab.ids))
    data = json.loads(to_json(TOP_SCORES.capture(lab_with(lab, np.zeros(size)))))
    assert data["torch_order"] == list(range(logits.TOP))
    assert_holds(TOP_SCORES, data)


def test_a_higher_score_outside_the_sample_is_refused(lab, captured):
    data = captured(TOP_SCORES, lab)
    data["highest_outside_sample"] = max(data["sample_logits"])
    refused(TOP_SCORES, data)


def test_scores_below_zero_are_ranked_and_drawn_whole(lab):
    data = json.loads(to_json(TOP_SCORES.capture(lab_with(lab, lab.next_logits(lab.ids) - 120))))
    assert_holds(TOP_SCORES, data)
    canvas = Canvas()
    TOP_SCORES.draw(canvas, data)
    assert problems(canvas) == []
    assert not any(text.get_text().startswith("-") for text in canvas.sheet.texts)


def test_equal_scores_share_the_probability_equally(lab):
    size = len(lab.next_logits(lab.ids))
    data = json.loads(to_json(BY_RANK.capture(lab_with(lab, np.full(size, -3.5)))))
    assert_holds(BY_RANK, data)
    assert data["probabilities"] == pytest.approx([1 / size] * len(data["ranks"]))
    assert [row["tokens"] for row in data["holding"]] == pytest.approx([size * share for share in logits.SHARES], abs=1)


def test_one_certain_token_holds_everything_and_is_drawn_whole(lab):
    scores = np.full(len(lab.next_logits(lab.ids)), -20.0)
    scores[7] = 20
    data = json.loads(to_json(BY_RANK.capture(lab_with(lab, scores))))
    assert_holds(BY_RANK, data)
    assert [row["tokens"] for row in data["holding"]] == [1, 1, 1]
    canvas = Canvas()
    BY_RANK.draw(canvas, data)
    assert problems(canvas) == []


@pytest.mark.parametrize("place", ["probabilities", "shifted", "cumulative"])
def test_a_share_that_is_slightly_off_is_refused(lab, captured, place):
    data = captured(BY_RANK, lab)
    data[place][4] *= 1 + 1e-6
    refused(BY_RANK, data)


def counted(scores: np.ndarray, share: float) -> int:
    """How many tokens reach the share, added up one by one: no softmax, no cumsum, no search."""
    weights = sorted((math.exp(score) for score in (scores - scores.max()).astype(float).tolist()), reverse=True)
    total = math.fsum(weights)
    return 1 + sum(1 for so_far in itertools.accumulate(weights) if so_far < share * total)


@pytest.mark.parametrize("which", ["lab", "gpt2_lab"])
def test_as_many_tokens_hold_each_share_as_an_independent_count_finds(which, request, captured):
    chosen = request.getfixturevalue(which)
    rows = captured(BY_RANK, chosen)["holding"]
    assert [row["share"] for row in rows] == [0.5, 0.9, 0.99]
    assert [row["tokens"] for row in rows] == [counted(chosen.next_logits(chosen.ids), row["share"]) for row in rows]


@pytest.mark.parametrize("spread", [0.01, 60], ids=["flat", "steep"])
def test_a_flat_and_a_steep_distribution_hold_and_are_drawn_whole(spread, gpt2_lab):
    scores = gpt2_lab.rng(3).normal(0, spread, gpt2_lab.model.config.vocab_size)
    data = json.loads(to_json(BY_RANK.capture(lab_with(gpt2_lab, scores))))
    assert assert_holds(BY_RANK, data).holds
    canvas = Canvas(BY_RANK.kind)
    BY_RANK.draw(canvas, data)
    assert problems(canvas) == []


def test_a_count_that_is_one_off_is_refused(lab, captured):
    data = captured(BY_RANK, lab)
    data["holding"][1]["tokens"] += 1
    refused(BY_RANK, data)


def test_a_lead_of_one_nearly_triples_the_probability():
    shares = softmax(np.array([5.0, 4.0, -2.0]))
    assert shares[0] / shares[1] == pytest.approx(np.e)


@pytest.mark.parametrize("which", ["lab", "gpt2_lab"])
def test_the_lens_has_a_row_for_the_table_and_for_each_layer(which, request, captured):
    chosen = request.getfixturevalue(which)
    rows = captured(LENS, chosen)["rows"]
    assert [row["layer"] for row in rows] == list(range(chosen.model.config.num_hidden_layers + 1))
    assert rows[-1]["id"] == chosen.completion[0]
    assert rows[-1]["probability"] == pytest.approx(chosen.softmax(chosen.next_logits(chosen.ids)).max(), abs=1e-5)


def test_the_token_table_read_through_a_tied_head_repeats_the_last_token(lab, captured):
    assert captured(LENS, lab)["rows"][0]["id"] == lab.ids[-1]


def test_another_answer_in_the_last_row_is_refused_unless_the_two_tie(lab, captured):
    data = captured(LENS, lab)
    data["rows"][-1].update(id=data["rows"][0]["id"], rank=2)
    refused(LENS, data)
    assert assert_holds(LENS, {**data, "gap": logits.LENS_BOUND / 10}).holds


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_a_grouped_query_model_holds_with_either_output_matrix(tied, tmp_path, captured):
    loaded = find_model.choose(str(build_llama(tmp_path, heads=4, kv_heads=2, tied=tied))).load()
    grouped = Lab(DEFAULT_SENTENCE, lambda: loaded)
    for slide in logits.SLIDES:
        data = captured(slide, grouped)
        assert assert_holds(slide, data).holds
        refused(slide, slide.sabotage(data, grouped))


@pytest.mark.parametrize("which", ["lab", "gpt2_lab"])
def test_the_lens_ranks_the_answer_as_the_scores_of_each_layer_do(which, request, captured):
    chosen = request.getfixturevalue(which)
    rows, answer = captured(LENS, chosen)["rows"], captured(LENS, chosen)["answer"]
    with chosen.torch.inference_mode():
        out = chosen.model(chosen.torch.tensor([chosen.ids]), output_hidden_states=True)
        head = chosen.model.get_output_embeddings()
        norm = next(module for name, module in chosen.model.named_modules() if name.endswith((".norm", ".ln_f")))
        *states, last = out.hidden_states  # the last comes normed
        scores = [head(norm(state))[0, -1] for state in states] + [head(last)[0, -1]]
    above = [int((row > row[answer]).sum()) for row in scores]
    assert [row["rank"] for row in rows] == pytest.approx([count + 1 for count in above], rel=1e-3)


def test_a_rank_that_the_rows_own_token_denies_is_refused(lab, captured):
    for row, rank in ((-1, 2), (0, 1), (0, 0)):
        data = captured(LENS, lab)
        data["rows"][row]["rank"] = rank
        refused(LENS, data)


def test_the_row_before_the_last_passed_off_as_the_last_is_refused(lab, captured):
    data = captured(LENS, lab)
    data["last_row_logits"] = [value + 0.01 for value in data["last_row_logits"]]
    refused(LENS, data)


@pytest.mark.parametrize("layers", [1, 12, 16, 48, 120])
def test_a_lens_of_any_depth_is_drawn_whole(layers, lab, captured):
    data = captured(LENS, lab)
    rows = [{**data["rows"][-1 - layer % 2], "layer": layer} for layer in range(layers)]
    canvas = Canvas()
    LENS.draw(canvas, {**data, "rows": [*rows, {**data["rows"][-1], "layer": layers}]})
    assert problems(canvas) == []
