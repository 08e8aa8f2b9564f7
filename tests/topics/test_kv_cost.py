"""The arithmetic counted is the arithmetic done, the clock is read as a ratio, the tokens are the same."""

import copy

import pytest

from pipeline.lab import Lab
from pipeline.model import find as find_model
from pipeline.model.counting import operations
from pipeline.model.kv import shape
from pipeline.settings import DEFAULT_SENTENCE
from small_models import build_llama
from topics.kv_cost import (
    ROUNDS,
    SLIDES,
    TIE,
    capture_milliseconds,
    comparable,
    oracle_long_completion,
    oracle_milliseconds,
    oracle_operations,
    timed,
)

OPERATIONS, MILLISECONDS, LONG_COMPLETION = SLIDES
BOTH = pytest.mark.parametrize("name", ["llama_lab", "gpt2_lab"])


@pytest.fixture(scope="module")
def llama_lab(tmp_path_factory) -> Lab:
    loaded = find_model.choose(str(build_llama(tmp_path_factory.mktemp("llama")))).load()
    return Lab(DEFAULT_SENTENCE, lambda: loaded)


@BOTH
def test_the_counter_counts_every_matrix_and_attention(name, request):
    """The closed form: twice each weight of each matrix for each token, and attention's two products."""
    lab = request.getfixturevalue(name)
    of, tokens = shape(lab.model.config), len(lab.ids)
    multiplied = {"Linear", "Conv1D"}
    weights = sum(module.weight.numel() for module in lab.model.modules() if type(module).__name__ in multiplied)
    attention = of["layers"] * 2 * (2 * of["query_heads"] * of["head_size"] * tokens**2)
    counted, head, _ = operations(lab, lambda: lab.logits(lab.ids))
    assert counted == 2 * weights * tokens + attention
    assert head == 2 * lab.model.get_output_embeddings().weight.numel() * tokens


@BOTH
def test_a_recompute_of_m_tokens_costs_m_cached_steps(name, request, captured):
    data = captured(OPERATIONS, request.getfixturevalue(name))
    for step in data["steps"][1:]:
        assert step["recompute"] == step["prefix"] * step["cached"]


@pytest.mark.parametrize("sabotaged", ["ratio", "totals", "prefix"])
def test_operations_that_do_not_add_up_are_refused(sabotaged, gpt2_lab, captured):
    data = captured(OPERATIONS, gpt2_lab)
    if sabotaged == "ratio":
        data["ratio"] *= 1.01
    elif sabotaged == "totals":
        data["totals"]["cached"] += 1
    else:
        data["steps"][3]["prefix"] += 1
    assert not oracle_operations(data).holds


def test_a_short_context_is_never_exceeded(gpt2_lab):
    lab = Lab("Hi", lambda: gpt2_lab.loaded)
    lab.context = 65
    assert [reading["prefix"] for reading in capture_milliseconds(lab)["readings"]] == [8, 16, 32, 64]


SHORTER = [timed(prefix, [30.0] * ROUNDS, [10.0] * ROUNDS) for prefix in (8, 16, 32)]


def test_the_ratio_is_that_of_the_medians_and_its_spread_that_of_the_rounds():
    reading = timed(64, [30.0, 900.0, 22.0], [10.0, 10.0, 400.0])
    assert reading["ratio"] == 3.0
    assert reading["rounds"][0] == 3.0
    assert oracle_milliseconds({"readings": [*SHORTER, reading]}).holds


def test_a_stated_ratio_that_the_series_do_not_give_is_refused():
    reading = timed(64, [30.0] * ROUNDS, [10.0] * ROUNDS)
    assert oracle_milliseconds({"readings": [*SHORTER, reading]}).holds
    assert not oracle_milliseconds({"readings": [*SHORTER, {**reading, "ratio": 4.0}]}).holds
    assert not oracle_milliseconds({"readings": [*SHORTER, {**reading, "rounds": [4.0] * ROUNDS}]}).holds


def test_after_a_tie_two_completions_are_no_longer_compared(gpt2_lab, captured):
    data = captured(LONG_COMPLETION, gpt2_lab)
    assert comparable(data["steps"]) == len(data["steps"]) == data["compared"]
    parted = copy.deepcopy(data)
    for step in parted["steps"][7:]:
        step["with"] = {"id": step["without"]["id"] + 1, "text": "?"}
    assert not oracle_long_completion(parted).holds
    parted["steps"][7]["lead"], parted["compared"] = TIE / 2, 7
    verdict = oracle_long_completion(parted)
    assert verdict.holds
    assert "tie" in verdict.measured
