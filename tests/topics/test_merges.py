"""The replay of a word's merges, for any word and any text."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import HOSTILE_SENTENCES
from pipeline.lab import Lab
from pipeline.slide import OracleFailure, assert_holds
from topics import merges
from topics.merges import SLIDES, longest_that_draws, replay, spans, window

(MERGES,) = SLIDES
ODD = {**HOSTILE_SENTENCES, "one byte": "A", "one emoji": "🐝", "a special token": "<|endoftext|>", "dashes": "-" * 64}


def test_replay_merges_the_lowest_rank_first_and_the_leftmost_of_equals():
    ranks = {"61 61": 1, "61 62": 2, "6161 6162": 3}
    last = [stage["pieces"] for stage in replay(["61", "61", "61", "62"], ranks)]
    assert last == [["61", "61", "61", "62"], ["6161", "61", "62"], ["6161", "6162"], ["61616162"]]


@pytest.mark.parametrize("kind", ["lab", "gpt2_lab"])
@pytest.mark.parametrize("name", ODD)
def test_the_replayed_word_has_the_tokenizers_ids_whatever_the_sentence(kind: str, name: str, request):
    base = request.getfixturevalue(kind)
    data = MERGES.capture(Lab(ODD[name], lambda: base.loaded))
    assert assert_holds(MERGES, data).holds
    start, end = window(data)
    assert 0 <= start < end <= data["bytes"]


def test_merges_listed_as_strings_are_read_like_merges_listed_as_pairs(lab: Lab, captured, monkeypatch):
    loads = merges.json.loads

    def as_strings(text: str):
        settings_read = loads(text)
        settings_read["model"]["merges"] = [" ".join(pair) for pair in settings_read["model"]["merges"]]
        return settings_read

    good = captured(MERGES, lab)
    monkeypatch.setattr(merges.json, "loads", as_strings)
    assert MERGES.capture(lab)["stages"] == good["stages"]


def test_each_merge_left_out_alone_is_refused(lab: Lab, captured):
    good = captured(MERGES, lab)
    for step in range(1, len(good["stages"])):
        pair = merges.pair_of(good["stages"], step)
        without = {other: rank for other, rank in good["ranks"].items() if other != pair}
        with pytest.raises(OracleFailure):
            assert_holds(MERGES, {**good, "stages": replay(good["stages"][0]["pieces"], without)})


def test_a_merge_out_of_turn_is_refused(lab: Lab, captured):
    good = captured(MERGES, lab)
    reversed_ranks = {pair: -rank for pair, rank in good["ranks"].items()}
    with pytest.raises(OracleFailure):
        assert_holds(MERGES, {**good, "stages": replay(good["stages"][0]["pieces"], reversed_ranks)})


def test_the_longest_word_that_draws_whole_is_taken_and_else_the_shortest():
    assert longest_that_draws({"bee": 1, "keeper": 1, "x" * 40: 3}) == "keeper"
    assert longest_that_draws({"x" * 40: 3, "y" * 30: 2}) == "y" * 30


@given(st.lists(st.integers(1, 5), min_size=1))
def test_spans_cover_every_byte_once(lengths: list[int]):
    covered = spans(["20" * length for length in lengths])
    assert covered[0][0] == 0 and covered[-1][1] == sum(lengths)
    assert all(a[1] == b[0] for a, b in pairwise(covered))


ANY_CHARACTER = st.characters(codec="utf-8", exclude_categories=["Cs"])


@given(st.text(ANY_CHARACTER, min_size=1, max_size=60).filter(str.strip))
def test_merges_hold_for_any_text(gpt2_lab: Lab, text: str):
    other = Lab(text, lambda: gpt2_lab.loaded)
    assert assert_holds(MERGES, MERGES.capture(other)).holds
