"""Sentences whose completion ends by itself, at every step that a slide shows: every slide that completes holds all the same."""

import functools

import pytest

from decks import ONE_CALL
from pipeline.lab import Lab
from pipeline.settings import COMPLETION_LENGTH
from pipeline.slide import assert_holds
from tiers import of_the_slow_tier_but

# The embedded model's completion of each has its first end token at that step.
ENDS_AT = {
    0: "What is the capital of France? Paris.",
    1: "What is the capital of Italy? The capital of Italy is Rome",
    2: "What is the capital of Germany? The capital of Germany is",
    3: "Is water wet? Yes, water is",
    4: "What is the capital of Japan? The capital of",
    5: "What is the capital of Italy? The capital",
    6: "What is the capital of France? Paris",
    7: "What is 2 + 2? 4",
}
COMPLETES = [
    "opening/title", "opening/one_call", "opening/running_example", "kv_cache/growth", "kv_exact/past",
    "kv_exact/beside_recompute", "kv_cost/operations", "whole_path/five_ways",
]  # fmt: skip
# A long completion takes seconds, and goes on past the end of every one of these: one stands for all.
TAKEN = [(step, name) for step in ENDS_AT for name in COMPLETES] + [(3, "kv_cost/long_completion")]
BY_NAME = {slide.id: slide for slide in ONE_CALL.slides}


@pytest.fixture(scope="module")
def ending(loaded_model, served):
    """ending(step) -> the lab of the sentence whose completion ends at that step."""
    if loaded_model.provenance["name"] != "SmolLM2-135M-Instruct":
        pytest.skip("the sentences were chosen for the embedded model")

    @functools.cache
    def lab_of(step: int) -> Lab:
        return Lab(ENDS_AT[step], lambda: loaded_model, served)

    return lab_of


@of_the_slow_tier_but("step", ENDS_AT, 0, 3)
def test_the_completion_of_each_sentence_ends_at_its_step(ending, step):
    completion, ends = ending(step).completion, ending(step).loaded.end_ids
    assert len(completion) == COMPLETION_LENGTH
    assert next(i for i, token_id in enumerate(completion) if token_id in ends) == step


@of_the_slow_tier_but(("step", "name"), TAKEN, *((step, name) for step, name in TAKEN if step in (0, 3)))
def test_a_completion_that_ends_by_itself_holds(ending, captured, step, name):
    assert_holds(BY_NAME[name], captured(BY_NAME[name], ending(step)))


@of_the_slow_tier_but("step", ENDS_AT, 0, 3)
def test_every_way_to_run_such_a_sentence_stops_at_its_end(ending, captured, step):
    lab = ending(step)
    data = captured(BY_NAME["whole_path/five_ways"], lab)
    for run in data["inside"]:
        assert len(run["ids"]) == step + 1 and run["ids"][-1] in lab.loaded.end_ids
    assert {run["text"] for run in data["outside"]} == {lab.decode(lab.completion[:step])}
