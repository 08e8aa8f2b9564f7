"""What the cache holds and weighs, for models of both shapes."""

import copy

import numpy as np
import pytest

from pipeline.lab import Lab
from pipeline.model import find as find_model
from pipeline.model.kv import bytes_of_a_token, counted_bytes, read, shape
from pipeline.settings import DEFAULT_SENTENCE
from small_models import build_llama
from topics.kv_cache import FED_ONE_BY_ONE, capture_growth, capture_stored, feed, oracle_growth, oracle_stored, sabotage_stored


@pytest.fixture(scope="module")
def llama_lab(tmp_path_factory) -> Lab:
    loaded = find_model.choose(str(build_llama(tmp_path_factory.mktemp("llama"), heads=4, kv_heads=2))).load()
    return Lab(DEFAULT_SENTENCE, lambda: loaded)


def test_key_value_heads_are_asked_of_the_config_not_taken_for_query_heads(llama_lab, gpt2_lab):
    grouped, multi = shape(llama_lab.model.config), shape(gpt2_lab.model.config)
    assert (grouped["query_heads"], grouped["kv_heads"]) == (4, 2)
    assert multi["query_heads"] == multi["kv_heads"] == gpt2_lab.model.config.n_head


@pytest.mark.parametrize("name", ["lab", "llama_lab", "gpt2_lab"])
def test_the_formula_gives_the_bytes_of_the_cache_object(name, request):
    lab = request.getfixturevalue(name)
    _, cache = lab.extend(None, lab.ids)
    held = read(cache)
    of = shape(lab.model.config)
    assert held.shape == (of["layers"], 2, of["kv_heads"], len(lab.ids), of["head_size"])
    assert counted_bytes(cache) == held.nbytes == bytes_of_a_token(of) * len(lab.ids)


def test_an_empty_cache_weighs_nothing():
    assert counted_bytes(None) == 0


def test_what_was_read_is_a_copy(gpt2_lab):
    _, cache = gpt2_lab.extend(None, gpt2_lab.ids)
    held = read(cache)
    held[:] = 0
    assert (read(cache) != 0).any()


def test_a_cache_is_changed_in_place_and_so_copied_before_it_is_used_twice(gpt2_lab):
    _, cache = gpt2_lab.extend(None, gpt2_lab.ids)
    kept = copy.deepcopy(cache)
    first, _ = gpt2_lab.extend(cache, gpt2_lab.completion[:1])
    used_twice, _ = gpt2_lab.extend(cache, gpt2_lab.completion[:1])
    again, _ = gpt2_lab.extend(kept, gpt2_lab.completion[:1])
    assert np.array_equal(first, again)
    assert np.abs(first - used_twice).max() > 1e-3


@pytest.mark.parametrize("name", ["llama_lab", "gpt2_lab"])
def test_counting_the_wrong_heads_fails_for_both_shapes(name, request):
    lab = request.getfixturevalue(name)
    data = capture_stored(lab)
    assert oracle_stored(data).holds
    assert not oracle_stored(sabotage_stored(data, lab)).holds


@pytest.mark.parametrize("words", [1, 9, 10, 11, 40])
def test_every_step_adds_the_same_bytes_whatever_the_length(gpt2_lab, words):
    lab = Lab(" bee" * words, lambda: gpt2_lab.loaded)
    data = capture_growth(lab)
    assert oracle_growth(data).holds
    assert len(data["steps"]) == min(FED_ONE_BY_ONE, words + len(lab.completion))


def test_a_step_that_adds_two_positions_fails(gpt2_lab):
    data = {**capture_growth(gpt2_lab), **feed(gpt2_lab, doubled=0)}
    assert not oracle_growth(data).holds
