"""The model as a GGUF file, read back with gguf's own reader: keys, tensors, and what is refused."""

import json

import numpy as np
import pytest

from model_fixtures import edit_json, refused
from pipeline.checksum import file_sha256
from pipeline.errors import MissingPart
from pipeline.model.bundled import GGUF
from pipeline.model.find import choose
from pipeline.model.gguf_file import NotWritable, write_gguf
from small_models import END_OF_TEXT, build_llama


@pytest.fixture(scope="module")
def smollm2():
    try:
        return choose("smollm2").load(lambda line: None)
    except MissingPart as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def gpt2(gpt2_folder):
    return choose(str(gpt2_folder)).load()


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return choose(str(build_llama(tmp_path_factory.mktemp("llama_shaped")))).load()


def read(path):
    """The keys of a GGUF file, and its tensors as float32."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    reader = GGUFReader(path)
    keys = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    return keys, {tensor.name: dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}


def same(one, other) -> bool:
    """Whether two keys say the same; a number came through float32 on its way into the file."""
    return one == pytest.approx(other, rel=1e-6) if isinstance(one, float) else one == other


def test_the_embedded_models_file_keeps_every_key_and_every_weight(smollm2, tmp_path):
    digest = write_gguf(smollm2, tmp_path / "whole.gguf")
    assert digest == file_sha256(tmp_path / "whole.gguf")
    keys, tensors = read(tmp_path / "whole.gguf")
    original, weights = read(smollm2.path / GGUF)
    assert keys == original | {"general.file_type": 1}
    assert tensors.keys() == weights.keys()
    for name, weight in weights.items():
        rounded = weight.astype(np.float16).astype(np.float32) if weight.ndim > 1 else weight
        np.testing.assert_array_equal(tensors[name], rounded)


def test_a_file_written_from_a_llama_shape_is_the_one_that_was_published(smollm2, tmp_path, monkeypatch):
    """The embedded model once more, this time out of its safetensors: the publisher's own file is the answer."""
    monkeypatch.setattr(smollm2, "path", tmp_path)  # no GGUF beside it
    write_gguf(smollm2, tmp_path / "written.gguf")
    keys, tensors = read(tmp_path / "written.gguf")
    monkeypatch.undo()
    original, weights = read(smollm2.path / GGUF)
    ours = {"general.file_type", "general.name", "llama.attention.key_length", "llama.attention.value_length"}
    assert all(same(keys[name], original[name]) for name in keys.keys() - ours)
    dropped = {"tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"}  # no text needs either
    assert {name for name in original.keys() - keys.keys() if not name.startswith("general.")} == dropped
    assert tensors.keys() == weights.keys()
    for name, weight in weights.items():
        np.testing.assert_allclose(tensors[name], weight, rtol=2**-11, atol=1e-7)  # half a step of float16


def test_a_gpt2_shape_is_written_weight_for_weight(gpt2, tmp_path):
    write_gguf(gpt2, tmp_path / "gpt2.gguf")
    keys, tensors = read(tmp_path / "gpt2.gguf")
    assert keys["tokenizer.ggml.pre"] == "gpt-2" and keys["tokenizer.ggml.add_bos_token"] is False
    assert keys["tokenizer.ggml.tokens"][END_OF_TEXT] == "<|endoftext|>" and keys["tokenizer.ggml.eos_token_id"] == END_OF_TEXT
    assert (keys["gpt2.block_count"], keys["gpt2.context_length"], keys["gpt2.feed_forward_length"]) == (2, 1024, 256)
    block = gpt2.model.transformer.h[1]
    np.testing.assert_allclose(tensors["blk.1.ffn_up.weight"], block.mlp.c_fc.weight.detach().numpy().T, rtol=2**-10, atol=1e-7)
    np.testing.assert_array_equal(tensors["blk.1.attn_qkv.bias"], block.attn.c_attn.bias.detach().numpy())
    assert sum(tensor.size for tensor in tensors.values()) == gpt2.model.num_parameters()  # tied weights once


def test_the_same_model_gives_the_same_file(gpt2, tmp_path):
    assert write_gguf(gpt2, tmp_path / "one.gguf") == write_gguf(gpt2, tmp_path / "two.gguf")


@pytest.mark.parametrize("which", ["gpt2", "llama"])
def test_a_spoiled_file_differs_in_one_thing(which, tmp_path, request):
    loaded = request.getfixturevalue(which)
    write_gguf(loaded, tmp_path / "whole.gguf")
    write_gguf(loaded, tmp_path / "spoiled.gguf", spoiled=True)
    (keys, tensors), (other_keys, other) = read(tmp_path / "whole.gguf"), read(tmp_path / "spoiled.gguf")
    apart = [name for name in keys if keys[name] != other_keys[name]]
    apart += [name for name in tensors if not np.array_equal(tensors[name], other[name])]
    assert apart == {"gpt2": ["blk.0.attn_output.weight"], "llama": ["llama.rope.freq_base"]}[which]


def scaled_rope(folder):
    edit_json(folder / "config.json", rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0})


def spaces_taken(folder):
    parts = json.loads((folder / "tokenizer.json").read_text())
    parts["added_tokens"][0]["lstrip"] = True
    (folder / "tokenizer.json").write_text(json.dumps(parts))


def two_ends(folder):
    edit_json(folder / "generation_config.json", eos_token_id=[END_OF_TEXT, 0])


@pytest.mark.parametrize(
    ("change", "why"),
    [(scaled_rope, "rotary"), (spaces_taken, "spaces"), (two_ends, "end tokens")],
)
def test_what_the_format_cannot_hold_exactly_is_refused(tmp_path, change, why):
    folder = build_llama(tmp_path / "model")
    change(folder)
    loaded = choose(str(folder)).load()
    assert why in refused(lambda: write_gguf(loaded, tmp_path / "never.gguf"), NotWritable)


def test_a_split_that_has_no_name_is_refused(tmp_path):
    from tokenizers import pre_tokenizers

    loaded = choose(str(build_llama(tmp_path / "model"))).load()
    backend = loaded.tokenizer.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), backend.pre_tokenizer])
    assert "splits" in refused(lambda: write_gguf(loaded, tmp_path / "never.gguf"), NotWritable)


def test_another_shape_is_refused(gpt2, tmp_path, monkeypatch):
    monkeypatch.setattr(gpt2.model.config, "model_type", "gpt_neo")
    assert "gpt_neo" in refused(lambda: write_gguf(gpt2, tmp_path / "never.gguf"), NotWritable)


def test_values_beyond_float16_are_refused(tmp_path):
    import torch

    loaded = choose(str(build_llama(tmp_path / "model"))).load()
    with torch.no_grad():
        loaded.model.model.layers[0].mlp.up_proj.weight[0, 0] = 1e6
    assert "float16" in refused(lambda: write_gguf(loaded, tmp_path / "never.gguf"), NotWritable)
