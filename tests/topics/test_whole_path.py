"""Five ways, one sentence; with the very weights on both sides, and with others."""

import copy
import json

import pytest

from fake_server import FakeServer
from layout import problems
from pipeline.lab import Lab
from pipeline.slide import OracleFailure, assert_holds, to_json
from serving_fixtures import drawn, server_of
from topics.whole_path import SLIDES, STEPS, greedy_generation, text_of, up_to_end

(FIVE,) = SLIDES


@pytest.fixture(scope="module")
def taken_here(lab, captured):
    return captured(FIVE, lab)


def test_all_five_ways_agree_where_both_sides_hold_the_same_weights(taken_here, lab, real_server):
    if not taken_here["same_weights"]:
        pytest.skip("the model in this process is not the served one")
    assert {run["text"] for run in taken_here["inside"] + taken_here["outside"]} == {lab.decode(lab.completion)}


def test_other_weights_are_compared_each_within_itself(gpt2_lab, captured):
    data = captured(FIVE, gpt2_lab)
    assert data["same_weights"] is False
    verdict = assert_holds(FIVE, data)
    assert verdict.measured == "3 of 3 token for token, the same text over HTTP"


def test_an_ollama_is_asked_in_a_conversation_by_both(lab):
    with FakeServer() as fake:
        with_ollama = Lab(lab.sentence, lambda: lab.loaded, lambda: server_of(fake))
        data = json.loads(to_json(FIVE.capture(with_ollama)))
        assert [path for _, path, _, _ in fake.asked] == ["/api/chat", "/api/chat"]
    assert data["same_weights"] is False and assert_holds(FIVE, data).holds
    assert problems(drawn(FIVE, data)) == []


@pytest.mark.parametrize("row", range(3))
def test_a_row_of_the_batch_is_that_row_alone(lab, row):
    rows = [lab.ids[:3], lab.ids, lab.ids + lab.completion]
    assert greedy_generation(lab, rows, row, use_cache=True) == up_to_end(lab, lab.greedy(rows[row], STEPS))


def test_a_text_ends_where_generation_would_have_ended(lab):
    ids, (end, *_) = lab.completion, lab.loaded.end_ids
    assert up_to_end(lab, [*ids[:3], end, *ids[3:]]) == [*ids[:3], end]
    assert text_of(lab, [*ids[:3], end]) == lab.decode(ids[:3])
    assert up_to_end(lab, ids) == ids and text_of(lab, ids) == lab.decode(ids)


@pytest.mark.parametrize("sabotage", ["token", "http", "one way less", "a cache that saves nothing", "work that no token did"])
def test_any_way_that_strays_is_refused(taken_here, sabotage):
    data = copy.deepcopy(taken_here)
    if sabotage == "token":
        data["inside"][1]["ids"][-1] += 1
    elif sabotage == "http":
        data["outside"][0]["text"] += "x"
    elif sabotage == "one way less":
        data["inside"].pop()
    elif sabotage == "work that no token did":
        data["inside"][0]["operations"] *= 1.2
    else:
        data["inside"][1]["operations"] = data["inside"][0]["operations"]
    with pytest.raises(OracleFailure):
        assert_holds(FIVE, data)
