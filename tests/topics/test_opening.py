"""The completion is the model's own greedy one, whatever the sentence or the model's shape."""

import copy

import numpy as np
import pytest

from pipeline.lab import Lab
from pipeline.settings import COMPLETION_LENGTH, DEFAULT_SENTENCE
from pipeline.slide import OracleFailure, assert_holds
from topics.opening import EXAMPLE_STEPS, RUNNERS_UP, SLIDES

TITLE, ONE_CALL, EXAMPLE = SLIDES


@pytest.fixture(params=["lab", "gpt2_lab"])
def any_lab(request) -> Lab:
    return request.getfixturevalue(request.param)


def test_the_completion_is_what_transformers_generates_greedily(any_lab: Lab):
    out = any_lab.model.generate(
        any_lab.torch.tensor([any_lab.ids]),
        attention_mask=any_lab.torch.ones(1, len(any_lab.ids), dtype=any_lab.torch.long),
        max_new_tokens=COMPLETION_LENGTH,
        eos_token_id=any_lab.model.config.vocab_size,  # that no token has: these slides go on past an end token
        do_sample=False,
        pad_token_id=0,
    )
    assert out[0, len(any_lab.ids) :].tolist() == any_lab.completion


def test_the_default_sentence_is_worth_looking_at(lab: Lab, captured):
    """At least six tokens, one word in several pieces, and a top probability that leaves something to choose."""
    pieces = lab.pieces(lab.ids)
    assert lab.sentence == DEFAULT_SENTENCE and len(pieces) >= 6
    assert any(not piece.startswith(" ") and piece.isalpha() for piece in pieces[1:])
    assert 0.1 < captured(ONE_CALL, lab)["top"][0]["probability"] < 0.6


def test_the_shades_are_the_probabilities_of_the_chosen_tokens(any_lab: Lab, captured):
    data = captured(TITLE, any_lab)
    for step, (tile, shown) in enumerate(zip(data["completion"], data["steps"], strict=True)):
        logits = any_lab.next_logits(any_lab.ids + any_lab.completion[:step]).astype(np.float64)
        weights = np.exp(logits - logits.max())
        assert shown["probability"] == pytest.approx(weights[tile["id"]] / weights.sum(), rel=1e-5)


def test_the_runners_up_come_in_the_order_of_their_probability(any_lab: Lab, captured):
    for step in captured(EXAMPLE, any_lab)["steps"]:
        chances = [candidate["probability"] for candidate in step["candidates"]]
        assert len(chances) == RUNNERS_UP and chances == sorted(chances, reverse=True)


@pytest.mark.parametrize("sabotage", ["sum", "length", "argmax"])
def test_a_distribution_that_is_none_is_refused(lab: Lab, captured, sabotage):
    data = captured(ONE_CALL, lab)
    if sabotage == "sum":
        data["distribution"][0] += 1e-4
    elif sabotage == "length":
        data["distribution"].append(0.0)
    else:
        data["appended"] += 1
    with pytest.raises(OracleFailure):
        assert_holds(ONE_CALL, data)


@pytest.mark.parametrize("place", range(EXAMPLE_STEPS))
def test_a_wrong_choice_at_any_step_is_refused(lab: Lab, captured, place):
    data = copy.deepcopy(captured(EXAMPLE, lab))
    data["steps"][place]["chosen"] += 1
    with pytest.raises(OracleFailure):
        assert_holds(EXAMPLE, data)


def test_a_completion_cut_inside_a_character_still_decodes(loaded_model, captured):
    emoji = Lab("🤗🤗🤗🤗", lambda: loaded_model)
    assert assert_holds(TITLE, captured(TITLE, emoji)).holds
