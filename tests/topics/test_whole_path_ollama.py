"""The last slide against a real Ollama with the deck's own model in it, of either shape; and spoiled for real."""

import shutil

import pytest

from pipeline.lab import Lab
from pipeline.serving.choice import OWN, ServerChoice
from pipeline.serving.dialects import Ollama
from pipeline.serving.own_server import put_in
from pipeline.settings import DEFAULT_SENTENCE
from pipeline.slide import OracleFailure, assert_holds
from topics.whole_path import SLIDES, five_ways

PROGRAM = shutil.which("ollama")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no ollama on PATH, and these tests need a real one")
(FIVE,) = SLIDES


def said(line: str) -> None:
    """Says nothing."""


@pytest.fixture(scope="module", params=["lab", "gpt2_lab"])
def own_lab(request):
    loaded = request.getfixturevalue(request.param).loaded
    choice = ServerChoice("ollama", "Ollama", "", (), None, PROGRAM, OWN, None, None)
    with put_in(choice, loaded, said) as server:
        yield Lab(DEFAULT_SENTENCE, lambda: loaded, own_server=lambda: server)


def test_five_ways_of_the_same_weights_give_the_same_tokens_and_numbers(own_lab, captured):
    data = captured(FIVE, own_lab)
    verdict = assert_holds(FIVE, data)
    assert data["same_weights"] and verdict.measured.startswith("5 of 5 ways the same")
    # random weights write tokens that are cut in another way when they come back as text: such steps are left out
    asked = [
        step for step in range(8) if own_lab.encode(own_lab.decode(prefix := own_lab.ids + own_lab.completion[:step])) == prefix
    ]
    assert [step["step"] for step in data["steps"]] == asked != []
    assert all(step["read"] == step["prefix"] for step in data["steps"])


def test_a_file_that_is_nearly_the_model_is_refused_by_step_and_token(own_lab, captured):
    with pytest.raises(OracleFailure, match=r"step \d+|text for text"):
        assert_holds(FIVE, FIVE.sabotage(captured(FIVE, own_lab), own_lab))


def test_a_penalty_left_on_is_refused(own_lab, monkeypatch, request):
    if "gpt2" in request.node.name:
        pytest.skip("random weights repeat themselves so that a penalty changes nothing worth the name")
    monkeypatch.setattr(Ollama, "meant", lambda wire, prompt, most: {"repeat_penalty": 1.1})
    with pytest.raises(OracleFailure, match="text for text"):
        assert_holds(FIVE, five_ways(own_lab, own_lab.own_server))
