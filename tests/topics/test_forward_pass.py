"""Parameters by their closed forms, norms by their definitions, and models of other builds."""

import json
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout import problems
from pipeline import distributions
from pipeline.drawing.canvas import Canvas
from pipeline.errors import BadInput
from pipeline.lab import Lab
from pipeline.model import find as find_model
from pipeline.model.parts import FEWEST, anatomy, enough_tokens, hidden_states
from pipeline.settings import DEFAULT_SENTENCE
from pipeline.slide import OracleFailure, assert_holds, to_json
from small_models import VOCABULARY, build_gpt2, build_llama
from topics import forward_pass

ANATOMY, HIDDEN = forward_pass.SLIDES
VECTORS = st.lists(st.floats(-100, 100), min_size=2, max_size=20).map(np.array).filter(lambda vector: np.ptp(vector) > 0.1)


@pytest.fixture(scope="module", params=["untied, grouped-query", "one layer"])
def other_lab(request, tmp_path_factory) -> Lab:
    folder = tmp_path_factory.mktemp("other")
    path = build_gpt2(folder, layers=1) if request.param == "one layer" else build_llama(folder, layers=3, tied=False)
    loaded = find_model.choose(str(path)).load()
    return Lab(DEFAULT_SENTENCE, lambda: loaded)


def refused(slide, data) -> None:
    with pytest.raises(OracleFailure):
        assert_holds(slide, json.loads(to_json(data)))


@pytest.mark.parametrize("slide", forward_pass.SLIDES, ids=lambda slide: slide.name)
def test_a_model_of_another_build_holds_is_spoiled_and_is_drawn_whole(slide, other_lab, captured):
    data = captured(slide, other_lab)
    assert_holds(slide, data)
    refused(slide, slide.sabotage(data, other_lab))
    canvas = Canvas(slide.kind)
    slide.draw(canvas, data)
    assert problems(canvas) == []


def test_gpt2_parameters_are_those_of_the_closed_form(gpt2_lab, captured):
    config = gpt2_lab.model.config
    width, layers = config.n_embd, config.n_layer
    block = 12 * width**2 + 13 * width  # four attention and eight MLP squares; biases and two norms
    data = captured(ANATOMY, gpt2_lab)
    held = {stage["name"]: stage["parameters"] for stage in data["stages"]}
    assert held["token table"] == VOCABULARY * width
    assert held["position table"] == config.n_positions * width
    assert [held[f"block {number + 1}"] for number in range(layers)] == [block] * layers
    assert held["final norm"] == 2 * width
    assert held["output matrix"] == 0
    assert data["total"] == sum(held.values())


def test_llama_parameters_are_those_of_the_closed_form(lab, captured):
    config = lab.model.config
    width, keys = config.hidden_size, config.num_key_value_heads * config.head_dim
    queries = config.num_attention_heads * config.head_dim
    block = 2 * width * (queries + keys) + 3 * width * config.intermediate_size + 2 * width
    assert captured(ANATOMY, lab)["total"] == (config.vocab_size + 1) * width + config.num_hidden_layers * block


def test_an_untied_output_matrix_counts_for_itself(tmp_path):
    loaded = find_model.choose(str(build_llama(tmp_path, tied=False))).load()
    data = json.loads(to_json(ANATOMY.capture(Lab(DEFAULT_SENTENCE, lambda: loaded))))
    table, head = data["stages"][0], data["stages"][-1]
    assert not data["tied"]
    assert head["parameters"] == table["parameters"] == prod([VOCABULARY, head["into"][-1]])


def test_tied_weights_counted_twice_are_refused(lab, captured):
    data = captured(ANATOMY, lab)
    data["stages"][-1]["parameters"] = data["stages"][0]["parameters"]
    refused(ANATOMY, data)


def test_a_shape_that_does_not_feed_the_next_is_refused(lab, captured):
    data = captured(ANATOMY, lab)
    data["stages"][3]["out"][-1] += 1
    refused(ANATOMY, data)


def test_a_part_left_out_of_the_opened_block_is_refused(lab, captured):
    data = captured(ANATOMY, lab)
    refused(ANATOMY, {**data, "block": data["block"][1:]})


def test_the_dropped_layer_is_put_back(gpt2_lab, captured):
    data, layers = captured(ANATOMY, gpt2_lab), list(anatomy(gpt2_lab).layers)
    before = gpt2_lab.logits(gpt2_lab.ids)
    sabotaged = ANATOMY.sabotage(data, gpt2_lab)
    assert len(sabotaged["stages"]) == len(data["stages"]) - 1
    assert list(anatomy(gpt2_lab).layers) == layers
    assert np.array_equal(gpt2_lab.logits(gpt2_lab.ids), before)


@given(VECTORS, st.floats(-50, 50))
def test_a_layer_norm_is_blind_to_a_shift_and_has_unit_variance(vector, shift):
    norm = {"kind": "layer", "weight": np.ones(len(vector)), "bias": None, "eps": 0.0}
    normed = distributions.normed(vector, norm)
    assert normed.mean() == pytest.approx(0, abs=1e-9)
    assert normed.std() == pytest.approx(1)
    assert distributions.normed(vector + shift, norm) == pytest.approx(normed, abs=1e-6)


@given(VECTORS, st.floats(0.1, 50))
def test_an_rms_norm_is_blind_to_a_factor_and_keeps_the_direction(vector, factor):
    norm = {"kind": "rms", "weight": np.ones(len(vector)), "bias": None, "eps": 0.0}
    normed = distributions.normed(vector, norm)
    assert (normed**2).mean() == pytest.approx(1)
    assert distributions.normed(vector * factor, norm) == pytest.approx(normed)
    assert normed * np.linalg.norm(vector) == pytest.approx(vector * np.linalg.norm(normed))


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_norm_by_hand_is_torchs(kind, gpt2_lab):
    torch, rng, width = gpt2_lab.torch, gpt2_lab.rng(5), 48
    state, weight, bias = rng.normal(3, 7, width), rng.normal(1, 0.3, width), rng.normal(0, 2, width)
    of_torch = getattr(torch.nn.functional, f"{kind}_norm")
    given_to_it = [torch.from_numpy(values) for values in (weight, bias)[: 2 if kind == "layer" else 1]]
    expected = of_torch(torch.from_numpy(state), (width,), *given_to_it, eps=1e-5).numpy()
    norm = {"kind": kind, "weight": weight, "bias": bias if kind == "layer" else None, "eps": 1e-5}
    assert distributions.normed(state, norm) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("spread", [0.0, 1e-3, 5.0])
def test_norms_that_hardly_vary_or_vary_widely_are_drawn_whole(spread, gpt2_lab, captured):
    data = captured(HIDDEN, gpt2_lab)
    norms = 10 * np.exp(spread * gpt2_lab.rng(2).uniform(0, 2, np.shape(data["norms"])))
    canvas = Canvas(HIDDEN.kind)
    HIDDEN.draw(canvas, {**data, "norms": norms.tolist()})
    assert problems(canvas) == []


@pytest.mark.parametrize("which", ["lab", "gpt2_lab"])
def test_the_whole_vocabulary_computed_by_hand_is_the_models(which, request, captured):
    chosen = request.getfixturevalue(which)
    data, parts = captured(HIDDEN, chosen), anatomy(chosen)
    matrix = parts.head.weight.detach().double().numpy()  # [vocabulary, width]
    by_hand = matrix @ distributions.normed(np.array(data["last_state"]), data["norm"])
    assert np.abs(by_hand - chosen.next_logits(chosen.ids)).max() < forward_pass.NORM_BOUND


def test_hidden_states_are_those_the_model_reports_before_its_last_norm(gpt2_lab):
    ours = hidden_states(gpt2_lab, gpt2_lab.ids)
    with gpt2_lab.torch.inference_mode():
        theirs = gpt2_lab.model(gpt2_lab.torch.tensor([gpt2_lab.ids]), output_hidden_states=True).hidden_states
    assert len(ours) == len(theirs) == gpt2_lab.model.config.num_hidden_layers + 1
    for mine, reported in zip(ours[:-1], theirs[:-1], strict=True):
        assert np.allclose(mine, reported[0].numpy(), atol=1e-5)


@pytest.mark.parametrize("place", ["last_state", "model_logits"])
def test_one_number_that_is_off_is_refused(lab, captured, place):
    data = captured(HIDDEN, lab)
    data[place][0] += 0.5 * max(1, abs(data[place][0]))
    refused(HIDDEN, data)


def test_a_short_sentence_is_followed_by_its_completion(lab):
    short = Lab("Hi", lambda: lab.loaded)
    seen = enough_tokens(short)
    assert len(seen) == FEWEST
    assert seen == (short.ids + short.completion)[:FEWEST]
    assert enough_tokens(lab) == lab.ids


def test_a_model_whose_layers_are_not_found_is_reported_in_one_line(gpt2_lab, monkeypatch):
    monkeypatch.setattr(gpt2_lab.model.config, "n_layer", 99)
    with pytest.raises(BadInput, match="layers"):
        anatomy(gpt2_lab)
