"""Slides 8-9: every parameter is counted once, the shapes fit, and the last vector alone gives the logits."""

import copy
import json

import numpy as np
import pytest

from layout import problems
from pipeline import models
from pipeline.anatomy import anatomy, hidden_states
from pipeline.canvas import Canvas
from pipeline.errors import BadInput
from pipeline.lab import DEFAULT_SENTENCE, Lab
from pipeline.slide import OracleFailure, assert_holds, to_json
from small_models import build_llama
from topics.forward_pass import NORM_BOUND, SLIDES, normed

ANATOMY, HIDDEN = SLIDES


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {tied: build_llama(tmp_path_factory.mktemp(f"llama_{tied}"), heads=4, kv_heads=2, tied=tied) for tied in (True, False)}


@pytest.fixture(scope="module")
def llama_lab(folders) -> Lab:
    loaded = models.choose(str(folders[True])).load()
    return Lab(DEFAULT_SENTENCE, lambda: loaded)


@pytest.fixture(scope="module")
def untied_lab(folders) -> Lab:
    loaded = models.choose(str(folders[False])).load()
    return Lab(DEFAULT_SENTENCE, lambda: loaded)


EVERY_LAB = pytest.mark.parametrize("name", ["lab", "gpt2_lab", "llama_lab", "untied_lab"])


def taken(slide, lab: Lab) -> dict:
    return json.loads(to_json(slide.capture(lab)))


def refused(slide, data) -> None:
    with pytest.raises(OracleFailure):
        assert_holds(slide, json.loads(to_json(data)))


def parameters(data: dict) -> dict[str, int]:
    return {stage["name"]: stage["parameters"] for stage in data["stages"]}


# --- 8 ---


@EVERY_LAB
def test_both_shapes_hold_and_their_sabotage_does_not(name, request, captured):
    lab = request.getfixturevalue(name)
    for slide in SLIDES:
        data = captured(slide, lab)
        assert assert_holds(slide, data).holds
        refused(slide, slide.sabotage(data, lab))


@EVERY_LAB
def test_a_spoiled_run_leaves_the_model_as_it_was(name, request, captured):
    lab = request.getfixturevalue(name)
    before = lab.logits(lab.ids)
    ANATOMY.sabotage(captured(ANATOMY, lab), lab)
    assert np.array_equal(lab.logits(lab.ids), before)


def test_a_gpt2_shape_has_the_parameters_that_its_sizes_say(gpt2_lab, captured):
    config = gpt2_lab.model.config
    wide, vocabulary, positions = config.n_embd, config.vocab_size, config.n_positions
    norm = 2 * wide
    block = 2 * norm + (wide + 1) * 3 * wide + (wide + 1) * wide + (wide + 1) * 4 * wide + (4 * wide + 1) * wide
    data = captured(ANATOMY, gpt2_lab)
    found = parameters(data)
    assert found["token table"] + found.get("position table", 0) in (vocabulary * wide, (vocabulary + positions) * wide)
    assert found["block 1"] == found["block 2"] == block
    assert (found["final norm"], found["output matrix"]) == (norm, 0)
    assert data["total"] == (vocabulary + positions) * wide + config.n_layer * block + norm


def test_a_grouped_query_model_has_smaller_key_and_value_matrices(llama_lab, captured):
    config = llama_lab.model.config
    wide, narrow = config.hidden_size, config.hidden_size // config.num_attention_heads * config.num_key_value_heads
    assert narrow < wide
    block = 2 * wide * wide + 2 * wide * narrow + 3 * wide * config.intermediate_size + 2 * wide
    assert parameters(captured(ANATOMY, llama_lab))["block 1"] == block


def test_a_tied_matrix_counts_once_and_an_untied_one_for_itself(llama_lab, untied_lab, captured):
    tied, untied = captured(ANATOMY, llama_lab), captured(ANATOMY, untied_lab)
    matrix = untied_lab.model.config.vocab_size * untied_lab.model.config.hidden_size
    assert (tied["tied"], parameters(tied)["output matrix"]) == (True, 0)
    assert (untied["tied"], parameters(untied)["output matrix"]) == (False, matrix)
    assert untied["total"] - tied["total"] == matrix


@pytest.mark.parametrize("name", ["gpt2_lab", "llama_lab"])
def test_one_token_goes_through_as_a_single_row(name, request):
    lab = Lab("Hi", lambda: request.getfixturevalue(name).loaded)
    data = taken(ANATOMY, lab)
    assert data["stages"][0]["into"] == [1]
    assert data["stages"][-1]["out"] == [1, lab.model.config.vocab_size]
    assert assert_holds(ANATOMY, data).holds
    assert assert_holds(HIDDEN, taken(HIDDEN, lab)).holds


def test_one_parameter_too_many_or_a_shape_that_does_not_fit_is_refused(gpt2_lab, captured):
    data = captured(ANATOMY, gpt2_lab)
    more, other = copy.deepcopy(data), copy.deepcopy(data)
    more["stages"][-2]["parameters"] += 1
    other["stages"][-2]["out"][-1] += 1
    refused(ANATOMY, more)
    refused(ANATOMY, other)


def test_a_model_whose_layers_stand_in_no_list_is_told_in_one_line(gpt2_lab):
    loaded = copy.deepcopy(gpt2_lab.loaded)
    loaded.model.transformer.h.append(copy.deepcopy(loaded.model.transformer.h[0]))  # more layers than the config says
    with pytest.raises(BadInput, match="one list"):
        anatomy(Lab("Hi", lambda: loaded))


# --- 9 ---


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_norm_by_hand_is_torchs_norm(kind, gpt2_lab):
    torch, rng, wide = gpt2_lab.torch, gpt2_lab.rng(5), 48
    state, weight, bias = rng.normal(3, 7, wide), rng.normal(1, 0.3, wide), rng.normal(0, 2, wide)
    tensors = [torch.from_numpy(values) for values in (state, weight, bias)]
    if kind == "layer":
        expected = torch.nn.functional.layer_norm(tensors[0], (wide,), tensors[1], tensors[2], eps=1e-5)
    else:
        expected = torch.nn.functional.rms_norm(tensors[0], (wide,), tensors[1], eps=1e-5)
        bias = None
    assert normed(state, {"kind": kind, "weight": weight, "bias": bias, "eps": 1e-5}) == pytest.approx(
        expected.numpy(), abs=1e-10
    )


def test_a_layer_norm_takes_the_mean_out_and_an_rms_norm_does_not():
    plain = {"weight": np.ones(4), "bias": None, "eps": 0.0}
    state = np.array([3.0, 3.0, 5.0, 5.0])
    assert normed(state, {**plain, "kind": "layer"}) == pytest.approx([-1, -1, 1, 1])
    assert normed(state, {**plain, "kind": "rms"}) == pytest.approx(state / np.sqrt(17))


@EVERY_LAB
def test_the_norm_is_known_for_what_it_is(name, request, captured):
    norm = captured(HIDDEN, request.getfixturevalue(name))["norm"]
    gpt2 = name == "gpt2_lab"
    assert norm["kind"] == ("layer" if gpt2 else "rms") or name == "lab"
    assert (norm["bias"] is None) == (norm["kind"] == "rms")


@EVERY_LAB
def test_the_first_row_is_what_the_first_layer_gets_and_the_last_one_makes_the_logits(name, request):
    lab = request.getfixturevalue(name)
    parts, states = anatomy(lab), hidden_states(lab, lab.ids)
    assert states.shape == (lab.model.config.num_hidden_layers + 1, len(lab.ids), lab.model.get_input_embeddings().embedding_dim)
    table = parts.table(lab.torch.tensor(lab.ids)).detach().numpy()
    if "gpt2" in name or hasattr(lab.model, "transformer"):
        table = table + lab.model.transformer.wpe.weight.detach().numpy()[: len(lab.ids)]
    assert states[0] == pytest.approx(table, abs=1e-5)
    with lab.torch.inference_mode():
        logits = (parts.head(parts.norm(lab.torch.from_numpy(states[-1]))) * parts.scale).numpy()
    assert np.abs(logits - lab.logits(lab.ids)).max() < NORM_BOUND


def test_a_logit_or_a_norm_that_is_slightly_off_is_refused(gpt2_lab, captured):
    for change in ("logit", "eps", "kind"):
        data = captured(HIDDEN, gpt2_lab)
        if change == "logit":
            data["model_logits"][-1] += 2 * NORM_BOUND
        elif change == "eps":
            data["norm"]["eps"] = 1.0
        else:
            data["norm"]["kind"] = "rms"
            data["last_state"] = [value + 1 for value in data["last_state"]]
        refused(HIDDEN, data)


@pytest.mark.parametrize("layers", [1, 12, 80])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 5.0])
def test_norms_that_hardly_vary_or_vary_widely_are_drawn_whole(layers, spread, gpt2_lab, captured):
    data = captured(HIDDEN, gpt2_lab)
    norms = 10 * np.exp(spread * gpt2_lab.rng(2).uniform(0, 2, (layers + 1, len(data["pieces"]))))
    canvas = Canvas(HIDDEN.kind)
    HIDDEN.draw(canvas, {**data, "norms": norms.tolist()})
    assert problems(canvas) == []
