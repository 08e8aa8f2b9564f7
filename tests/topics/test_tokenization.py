"""What is particular to the slides on tokenization: words and bytes, ids off by one, what text costs."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.lab import Lab
from pipeline.slide import OracleFailure, assert_holds
from topics import tokenization
from topics.tokenization import SLIDES, words

PIECES, IDS, COST = SLIDES


def test_the_default_sentence_has_a_word_in_several_pieces(lab: Lab, captured):
    assert captured(PIECES, lab)["most"]["pieces"] > 1


def test_words_name_the_tokens_that_hold_their_bytes():
    assert words("a bé\n c", [b"a", b" b\xc3", b"\xa9\n", b" c"]) == [
        {"text": "a", "first": 0, "last": 0, "pieces": 1},
        {"text": "bé", "first": 1, "last": 2, "pieces": 2},
        {"text": "c", "first": 3, "last": 3, "pieces": 1},
    ]


def test_every_single_id_off_by_one_is_refused(lab: Lab, captured):
    good = captured(IDS, lab)
    for index in range(len(good["tokens"])):
        ids = [token["id"] + (at == index) for at, token in enumerate(good["tokens"])]
        with pytest.raises(OracleFailure):
            assert_holds(IDS, {**good, "decoded": lab.decode(ids)})


def test_an_id_outside_the_vocabulary_is_refused(lab: Lab, captured):
    sabotaged = copy.deepcopy(captured(IDS, lab))
    sabotaged["tokens"][0]["id"] = sabotaged["vocabulary"]
    with pytest.raises(OracleFailure):
        assert_holds(IDS, sabotaged)


ANY_CHARACTER = st.characters(codec="utf-8", exclude_categories=["Cs"])


@given(st.text(ANY_CHARACTER, min_size=1, max_size=60).filter(str.strip))
def test_pieces_hold_for_any_text(gpt2_lab: Lab, text: str):
    other = Lab(text, lambda: gpt2_lab.loaded)
    assert assert_holds(PIECES, PIECES.capture(other)).holds


@pytest.mark.parametrize("name", tokenization.SAMPLES)
def test_a_sample_that_comes_back_changed_is_refused(name: str, lab: Lab, captured):
    sabotaged = copy.deepcopy(captured(COST, lab))
    row = next(row for row in sabotaged["samples"] if row["name"] == name)
    row["decoded"] = row["decoded"][:-1] + "\ufffd"
    with pytest.raises(OracleFailure):
        assert_holds(COST, sabotaged)
