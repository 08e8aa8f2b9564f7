"""The cache keeps its past and changes no answer, and what would change it is found out."""

import copy

import numpy as np
import pytest

from pipeline.lab import Lab
from pipeline.model import find as find_model
from pipeline.settings import DEFAULT_SENTENCE
from pipeline.slide import OracleFailure, assert_holds
from small_models import build_llama
from topics.kv_exact import BOUND, SLIDES, beside_recompute, oracle_beside, oracle_past, watch

PAST, BESIDE = SLIDES


@pytest.fixture(scope="module")
def llama_lab(tmp_path_factory) -> Lab:
    loaded = find_model.choose(str(build_llama(tmp_path_factory.mktemp("llama")))).load()
    return Lab(DEFAULT_SENTENCE, lambda: loaded)


@pytest.mark.parametrize("name", ["llama_lab", "gpt2_lab"])
def test_one_cached_key_moved_by_its_last_bit_is_found(name, request, captured):
    lab = request.getfixturevalue(name)
    good = captured(PAST, lab)
    assert oracle_past(good).holds
    nudged = {**good, **watch(lab, nudged=True)}
    assert sum(sum(map(sum, step["changed"])) for step in nudged["steps"]) > 0
    assert not oracle_past(nudged).holds


@pytest.mark.parametrize("name", ["lab", "llama_lab", "gpt2_lab"])
def test_cached_logits_match_a_recompute(name, request, captured):
    assert assert_holds(BESIDE, captured(BESIDE, request.getfixturevalue(name))).holds


@pytest.mark.parametrize("name", ["llama_lab", "gpt2_lab"])
def test_a_position_off_by_one_is_found_with_rotary_and_with_learned_positions(name, request):
    assert all(step["largest"] > 10 * BOUND for step in beside_recompute(request.getfixturevalue(name), shift=1))


def test_moving_every_position_alike_changes_learned_positions_only(llama_lab, gpt2_lab):
    def moved(lab: Lab) -> float:
        return float(np.abs(lab.extend(None, lab.ids, first=5)[0] - lab.logits(lab.ids)).max())

    assert moved(llama_lab) < BOUND < moved(gpt2_lab)


def test_the_real_model_loaded_in_bfloat16_fails_and_the_difference_is_shown():
    loaded = find_model.choose("auto").load(dtype="bfloat16")
    assert_refused(Lab(DEFAULT_SENTENCE, lambda: loaded))


def test_a_gpt2_shaped_model_in_bfloat16_fails_and_the_difference_is_shown(gpt2_folder):
    loaded = find_model.choose(str(gpt2_folder)).load(dtype="bfloat16")
    assert_refused(Lab(DEFAULT_SENTENCE, lambda: loaded))


def assert_refused(low: Lab) -> None:
    data = BESIDE.capture(low)
    largest = max(step["largest"] for step in data["steps"])
    assert largest > 10 * BOUND
    with pytest.raises(OracleFailure, match=f"{largest:.1e}".replace("+", r"\+")):
        assert_holds(BESIDE, data)


def test_a_logit_that_was_stored_wrong_is_found(captured, gpt2_lab):
    data = captured(BESIDE, gpt2_lab)
    data["steps"][2]["cached"][0] += 2 * BOUND
    assert not oracle_beside(data).holds


def test_another_winner_is_refused_unless_the_two_tie(captured, gpt2_lab):
    data = captured(BESIDE, gpt2_lab)
    step = data["steps"][1]
    winner = step["sample"].index(step["recomputed_top"]["id"])
    other = int(np.argsort(step["cached"])[-2])

    def let_other_win(lead: float) -> dict:
        copied = copy.deepcopy(data)
        sabotaged = copied["steps"][1]
        sabotaged["recomputed"][other] = sabotaged["recomputed"][winner] - lead
        sabotaged["cached"][other] = sabotaged["cached"][winner] + 1e-4
        sabotaged["largest"] = max(sabotaged["largest"], 7e-4)
        sabotaged["cached_top"] = {"id": sabotaged["sample"][other], "text": "", "logit": sabotaged["cached"][other]}
        return copied

    assert oracle_beside(let_other_win(lead=5e-4)).holds
    assert not oracle_beside(let_other_win(lead=0.1)).holds
