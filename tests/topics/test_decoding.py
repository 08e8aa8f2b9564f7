"""Three ways to decode, and the chi-square test they are judged by."""

import json

import numpy as np
import pytest

from layout import problems
from pipeline.distributions import by_rank, chi_square, nucleus, softmax
from pipeline.drawing.canvas import Canvas
from pipeline.lab import Lab
from pipeline.slide import OracleFailure, assert_holds, to_json
from topics import decoding

(THREE_WAYS,) = decoding.SLIDES
SEEDS = range(200)


def draws(probabilities: np.ndarray, seed: int, count: int = 500) -> list[int]:
    return np.random.default_rng(seed).choice(len(probabilities), count, p=probabilities).tolist()


SHAPES = {
    "a few tokens": np.array([0.5, 0.3, 0.15, 0.05]),
    "one token and a long tail": np.array([0.6, *np.full(4000, 0.4 / 4000)]),
    "all alike": np.full(5000, 1 / 5000),
    "a steep slope": softmax(-np.arange(300) / 20),
}


@pytest.mark.parametrize("probabilities", SHAPES.values(), ids=SHAPES)
def test_fair_draws_are_accepted_whatever_the_seed(probabilities):
    results = [chi_square(draws(probabilities, seed), probabilities) for seed in SEEDS]
    assert all(statistic <= bound for statistic, _, bound in results)
    freedom = results[0][1]
    assert np.mean([statistic for statistic, _, _ in results]) == pytest.approx(freedom, rel=0.15)  # as theory has it


@pytest.mark.parametrize("probabilities", [SHAPES["a few tokens"], SHAPES["a steep slope"]])
def test_draws_at_another_temperature_are_refused(probabilities):
    flatter = probabilities**0.5 / (probabilities**0.5).sum()
    for seed in range(20):
        statistic, _, bound = chi_square(draws(flatter, seed), probabilities)
        assert statistic > bound


def test_the_statistic_of_two_equal_cells_is_the_one_of_the_textbook():
    statistic, freedom, _ = chi_square([0] * 60 + [1] * 40, np.array([0.5, 0.5]))
    assert (statistic, freedom) == (pytest.approx(4.0), 1)


@pytest.mark.parametrize("freedom", [1, 2, 5, 10, 30, 87])
def test_the_bound_lets_one_fair_run_in_a_million_fail_or_fewer(freedom):
    """The chance beyond the bound by the incomplete gamma function; the approximation errs on the lenient side."""
    torch = pytest.importorskip("torch")
    cells = freedom + 1
    _, found, bound = chi_square(list(range(cells)) * 10, np.full(cells, 1 / cells))
    beyond = float(torch.special.gammaincc(torch.tensor(freedom / 2).double(), torch.tensor(bound / 2).double()))
    assert found == freedom
    assert 1e-7 < beyond < 1.2e-6


def test_a_certain_token_leaves_nothing_to_vary():
    certain = np.array([0.0, 1.0])
    assert chi_square([1] * 500, certain) == (pytest.approx(0), 0, 1e-6)


def refused(data) -> None:
    with pytest.raises(OracleFailure):
        assert_holds(THREE_WAYS, json.loads(to_json(data)))


def test_a_second_greedy_token_is_refused(lab, captured):
    data = captured(THREE_WAYS, lab)
    data["methods"][0]["drawn"][17] = int(by_rank(np.array(data["logits"]))[1])
    refused(data)


def test_a_single_draw_outside_the_nucleus_is_refused(lab, captured):
    data = captured(THREE_WAYS, lab)
    order = by_rank(np.array(data["logits"]))
    just_outside = order[np.count_nonzero(nucleus(softmax(np.array(data["logits"])), data["top_p"]))]
    data["methods"][2]["drawn"][3] = int(just_outside)
    refused(data)


def test_a_lost_draw_is_refused(lab, captured):
    data = captured(THREE_WAYS, lab)
    data["methods"][1]["drawn"].pop()
    refused(data)


def test_the_draws_of_one_method_passed_off_as_those_of_another_are_refused(lab, captured):
    data = captured(THREE_WAYS, lab)
    _, hot, inside = data["methods"]
    hot["drawn"], inside["drawn"] = inside["drawn"], hot["drawn"]
    refused(data)


def test_another_seed_draws_other_tokens_and_holds(lab, captured):
    other = Lab(lab.sentence, lambda: lab.loaded, seed=lab.seed + 1)
    data = json.loads(to_json(THREE_WAYS.capture(other)))
    assert data["methods"][1]["drawn"] != captured(THREE_WAYS, lab)["methods"][1]["drawn"]
    assert assert_holds(THREE_WAYS, data).holds


@pytest.mark.parametrize("spread", [0.01, 30.0], ids=["nearly equal", "one certain token"])
def test_extreme_logits_hold_and_are_drawn_whole(lab, spread):
    extreme = Lab(lab.sentence, lambda: lab.loaded)
    logits = extreme.rng(7).normal(0, spread, len(lab.next_logits(lab.ids)))
    logits[1000] += 8 * spread
    extreme._last_logits[tuple(extreme.ids)] = logits.astype(np.float32)
    data = json.loads(to_json(THREE_WAYS.capture(extreme)))
    assert_holds(THREE_WAYS, data)
    refused(THREE_WAYS.sabotage(data, extreme))
    canvas = Canvas(THREE_WAYS.kind)
    THREE_WAYS.draw(canvas, data)
    assert problems(canvas) == []


@pytest.mark.parametrize(("method", "key", "value"), [(0, "rank", 2), (2, "rank", 10**6), (1, "id", -1)])
def test_a_text_that_does_not_go_on_as_its_method_picks_is_refused(lab, captured, method, key, value):
    data = captured(THREE_WAYS, lab)
    data["methods"][method]["goes_on"][0][key] = value
    refused(data)
