"""Attention and every logit: the rule that picks the head, what a mask leaves, what a later token may change."""

import json

import numpy as np
import pytest

from conftest import HOSTILE_SENTENCES
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Plane
from pipeline.drawing.layout import Box
from pipeline.errors import BadInput
from pipeline.lab import Lab
from pipeline.model import find as find_model
from pipeline.settings import DEFAULT_SENTENCE
from pipeline.slide import OracleFailure, assert_holds, to_json
from small_models import build_llama
from topics import attention

HEAD, EVERY_LOGIT = attention.SLIDES


def refused(slide, data) -> None:
    with pytest.raises(OracleFailure):
        assert_holds(slide, json.loads(to_json(data)))


def test_every_query_head_of_a_grouped_query_model_has_its_own_square_of_weights(tmp_path, captured):
    loaded = find_model.choose(str(build_llama(tmp_path, heads=4, kv_heads=2))).load()
    grouped = Lab(DEFAULT_SENTENCE, lambda: loaded)
    layers, n = attention.attentions(grouped, grouped.ids, causal=True), len(grouped.ids)
    assert [weights.shape for weights in layers] == [(4, n, n)] * grouped.model.config.num_hidden_layers
    for slide in attention.SLIDES:
        data = captured(slide, grouped)
        assert assert_holds(slide, data).holds
        refused(slide, slide.sabotage(data, grouped))


def test_the_rule_counts_earlier_tokens_but_neither_the_first_nor_the_token_itself():
    count = 5
    to_first, to_itself, one_back = np.zeros((3, count, count))
    to_first[:, 0] = 1
    np.fill_diagonal(to_itself, 1)
    one_back[0, 0] = one_back[1, 0] = 1
    for row in range(2, count):
        one_back[row, row - 1] = 1
    assert attention.looking_back([np.stack([to_first, to_itself, one_back])]).tolist() == [[0, 0, 1]]


def test_the_rule_prefers_one_token_to_many():
    count = 8
    spread = np.tril(np.ones((count, count))) / np.arange(1, count + 1)[:, None]
    focused = np.eye(count, k=-1)
    focused[0, 0] = 1
    assert attention.looking_back([np.stack([spread, focused])]).argmax() == 1


def test_the_first_token_can_only_look_at_itself(lab, captured):
    assert captured(HEAD, lab)["rows"][0][0] == 1


def test_a_weight_moved_ahead_is_refused(lab, captured):
    data = captured(HEAD, lab)
    data["rows"][0] = data["rows"][0][::-1]
    refused(HEAD, data)


def test_a_weight_ahead_in_a_head_that_is_not_shown_is_refused(lab, captured):
    refused(HEAD, {**captured(HEAD, lab), "most_above_diagonal": 1e-9})


@pytest.mark.parametrize("place", ["rows", "row_sums"])
def test_a_row_that_does_not_sum_to_one_is_refused(lab, captured, place):
    data = captured(HEAD, lab)
    data[place][-1] = (np.array(data[place][-1]) * 0.999).tolist()
    refused(HEAD, data)


def test_a_row_that_is_left_out_is_refused(lab, captured):
    data = captured(HEAD, lab)
    refused(HEAD, {**data, "row_sums": data["row_sums"][1:]})


def test_a_long_sentence_keeps_the_last_rows_whole_and_the_capture_small(lab):
    long = Lab(HOSTILE_SENTENCES["long"], lambda: lab.loaded)
    text = to_json(HEAD.capture(long))
    data = json.loads(text)
    assert len(text) < 50_000
    assert np.shape(data["rows"]) == (attention.SHOWN_POSITIONS, len(long.ids))
    assert_holds(HEAD, data)


def test_a_model_that_gives_no_attention_weights_is_reported_in_one_line(gpt2_lab, monkeypatch):
    model = gpt2_lab.model

    class Silent:
        config = model.config

        def __call__(self, *args, **settings):
            out = model(*args, **settings)
            out.attentions = None
            return out

    silent = Lab(gpt2_lab.sentence, lambda: gpt2_lab.loaded)
    monkeypatch.setattr(Lab, "model", Silent())
    with pytest.raises(BadInput, match="attention weights"):
        attention.attentions(silent, silent.ids, causal=True)


def test_an_earlier_score_that_moves_in_the_sample_is_refused(lab, captured):
    data = captured(EVERY_LOGIT, lab)
    data["sample_second"][2][3] += 2 * attention.AHEAD_BOUND
    refused(EVERY_LOGIT, data)


def test_an_earlier_score_that_moves_elsewhere_is_refused(lab, captured):
    data = captured(EVERY_LOGIT, lab)
    data["moved"][0] = 2 * attention.AHEAD_BOUND
    refused(EVERY_LOGIT, data)


def test_a_second_run_with_the_same_last_token_is_refused(lab, captured):
    data = captured(EVERY_LOGIT, lab)
    data["moved"][-1] = 0.0
    data["sample_second"][-1] = data["sample_first"][-1]
    refused(EVERY_LOGIT, data)


def test_winners_out_of_order_are_refused(lab, captured):
    data = captured(EVERY_LOGIT, lab)
    data["best"].reverse()
    refused(EVERY_LOGIT, data)


def test_a_picture_of_other_logits_is_refused(lab, captured):
    data = captured(EVERY_LOGIT, lab)
    data["logits"] = data["logits"][1:] + data["logits"][:1]
    refused(EVERY_LOGIT, data)


def test_the_winner_is_labelled_and_no_label_covers_another(lab, captured):
    data = captured(EVERY_LOGIT, lab)
    canvas = Canvas()
    plane = Plane.over(Box(170, 240, 1690, 440), (0, 100), (0, 20))
    near = [{"id": token_id, "text": "a long token"} for token_id in (50, 51, 52, 90, 3)]
    before = len(canvas.sheet.texts)
    attention.label_best(canvas, plane, np.linspace(10, 12, 100), near)
    assert len(canvas.sheet.texts) - before == 3
    EVERY_LOGIT.draw(canvas, data)
    assert any(data["best"][0]["text"].strip() in text.get_text() for text in canvas.sheet.texts)
