"""What is particular to the slides on batching: ragged rows, and real runs without mask and positions."""

import copy

import numpy as np
import pytest

from pipeline.lab import Lab
from pipeline.slide import OracleFailure, assert_holds
from topics import batching
from topics.batching import BOUND, OTHERS, SLIDES, compared, next_logits, padded

PADDING, SAME_LOGITS = SLIDES


@pytest.mark.parametrize("sentence", ["Hi", *OTHERS, "bees " * 120])
def test_the_rows_stay_ragged_whatever_the_sentence(sentence: str, lab: Lab):
    data = PADDING.capture(Lab(sentence, lambda: lab.loaded))
    assert assert_holds(PADDING, data).holds
    assert data["shortest"] < data["longest"]


def test_padding_stands_in_front_and_positions_count_the_text(lab: Lab):
    batch = padded(lab, [[7, 8, 9], [5]])
    assert batch["input_ids"][0].tolist() == [7, 8, 9]
    assert batch["input_ids"][1, 2] == 5
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [0, 0, 1]]
    assert batch["position_ids"].tolist() == [[0, 1, 2], [0, 0, 0]]


def test_a_model_without_a_padding_token_is_padded_with_another(lab: Lab, monkeypatch):
    monkeypatch.setattr(batching, "next_logits", lambda *_, **__: None)
    spare = type("Tokenizer", (), {"pad_token_id": None, "eos_token_id": None})
    bare = type("Bare", (), {"tokenizer": spare})
    assert padded(bare, [[7, 8], [5]])["input_ids"].tolist() == [[7, 8], [0, 5]]


@pytest.mark.parametrize("kind", ["lab", "gpt2_lab"])
def test_which_token_pads_makes_no_difference(kind: str, request):
    this = request.getfixturevalue(kind)
    batch = padded(this, [this.ids, this.ids[:3]])
    other = {**batch, "input_ids": np.where(batch["attention_mask"] == 1, batch["input_ids"], 11)}
    np.testing.assert_allclose(next_logits(this, **batch), next_logits(this, **other), atol=1e-4, rtol=0)  # rounding only


@pytest.mark.parametrize("lengths", [(40, 25), (3, 1)])
@pytest.mark.parametrize("kind", ["lab", "gpt2_lab"])
def test_left_padded_rows_equal_each_row_alone(kind: str, lengths: tuple[int, int], request):
    this = request.getfixturevalue(kind)
    rows = [this.rng(salt=length).integers(0, 1000, length).tolist() for length in lengths]
    batched = next_logits(this, **padded(this, rows))
    for row, logits in zip(rows, batched, strict=True):
        np.testing.assert_allclose(logits, next_logits(this, input_ids=np.array([row]))[0], atol=BOUND, rtol=0)


@pytest.mark.parametrize("kind", ["lab", "gpt2_lab"])
def test_every_padded_row_goes_wrong_without_mask_and_positions(kind: str, request):
    rows = compared(request.getfixturevalue(kind))
    assert sum(row["pads"] > 0 for row in rows) >= len(OTHERS)
    assert all((row["careless"] > 10 * BOUND) == (row["pads"] > 0) for row in rows)


def test_a_differing_answer_is_refused_even_with_a_small_difference(lab: Lab, captured):
    sabotaged = copy.deepcopy(captured(SAME_LOGITS, lab))
    sabotaged["rows"][0]["next"]["careful"]["id"] += 1
    with pytest.raises(OracleFailure):
        assert_holds(SAME_LOGITS, sabotaged)


def test_a_difference_said_to_be_smaller_than_the_logits_show_is_refused(lab: Lab, captured):
    sabotaged = copy.deepcopy(captured(SAME_LOGITS, lab))
    sabotaged["rows"][0]["logits"][0]["careful"] += 10 * BOUND
    with pytest.raises(OracleFailure):
        assert_holds(SAME_LOGITS, sabotaged)
