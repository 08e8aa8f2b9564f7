"""The loaded model as a GGUF file in float16, for a server that reads no safetensors. Knows no server.

The embedded model's own file is dequantized, every key kept. For GPT-2 and Llama shapes the file is written from the model,
with gguf's writer and its tensor names; any other shape is refused: a file that is nearly the model would be worse than none.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.checksum import file_sha256
from pipeline.errors import MissingPart
from pipeline.lab import LoadedModel
from pipeline.model.bundled import GGUF
from pipeline.model.gguf_keys import CONTROL, NORMAL, pre_of

MOSTLY_F16 = 1  # general.file_type of a file whose matrices are float16 and whose vectors are float32
UNUSED = 5  # of tokenizer.ggml.token_type: a row of the output matrix that the vocabulary does not use
WRONG_BASE = 10_000.0  # of the rotary positions, where a reader takes it that finds none
FLIPPED = "blk.0.attn_output.weight"


class NotWritable(MissingPart):
    """A model that cannot be put into a GGUF file here. The message says why, in a phrase for a slide."""


def write_gguf(loaded: LoadedModel, path: Path, *, spoiled: bool = False) -> str:
    """Write the model to `path` and return the file's sha256.

    `spoiled`, for sabotage: with another rope base, or, for a model of learned positions, one weight's sign turned.
    Raises NotWritable for a shape that this format or this module does not hold exactly.
    """
    original = loaded.path / GGUF
    writer = _of_original(original, path) if original.is_file() else _of_shape(loaded, path)
    if spoiled:
        _spoil(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file_sha256(path)


def _spoil(writer: Any) -> None:
    """A file that is nearly the model: the rope base of a reader that found none, or one weight's sign."""
    keys = {name: pair for shard in writer.kv_data for name, pair in shard.items()}
    bases = [pair for name, pair in keys.items() if name.endswith(".rope.freq_base")]
    for pair in bases:
        pair.value = WRONG_BASE if pair.value != WRONG_BASE else WRONG_BASE / 10
    if not bases:
        tensors = {name: held for shard in writer.tensors for name, held in shard.items()}
        tensors[FLIPPED].tensor = -tensors[FLIPPED].tensor


# --- the embedded model's own file ---


def _of_original(original: Path, path: Path) -> Any:
    """Every key as it stands, every tensor dequantized; float32 vectors stay float32."""
    from gguf import GGUFReader, GGUFValueType, GGUFWriter
    from gguf.quants import dequantize

    reader = GGUFReader(original)
    said = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    writer = GGUFWriter(path, said.pop("general.architecture").contents())
    for name, field in said.items():
        value = MOSTLY_F16 if name == "general.file_type" else field.contents()
        element = field.types[-1] if field.types[0] is GGUFValueType.ARRAY else None
        writer.add_key_value(name, value, field.types[0], element)
    for tensor in reader.tensors:
        _add(writer, tensor.name, dequantize(tensor.data, tensor.tensor_type))
    return writer


# --- a file written from the model ---


def _of_shape(loaded: LoadedModel, path: Path) -> Any:
    """Keys from the config, tokens from the tokenizer, tensors from the model in memory."""
    from gguf import GGUFWriter

    kind = loaded.model.config.model_type
    if kind not in SHAPES:
        raise NotWritable(f"a model of the shape {kind!r} is not written as GGUF here")
    say_keys, arrange = SHAPES[kind]
    if unfit := _unfit_tokenizer(loaded.tokenizer):
        raise NotWritable(unfit)
    writer = GGUFWriter(path, kind)
    writer.add_name(loaded.provenance["name"])
    writer.add_file_type(MOSTLY_F16)
    say_keys(writer, loaded.model.config)
    _add_tokenizer(writer, loaded)
    for name, weight in _named_tensors(loaded, kind):
        _add(writer, name, arrange(name, weight, loaded.model.config))
    return writer


def _named_tensors(loaded: LoadedModel, kind: str) -> list[tuple[str, np.ndarray]]:
    """Every weight under the name that GGUF gives it; tied weights once, as the format wants."""
    import gguf

    arch = next(arch for arch, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names = gguf.get_tensor_name_map(arch, loaded.model.config.num_hidden_layers)
    named = []
    for ours, weight in loaded.model.named_parameters():
        theirs = names.get_name(ours, try_suffixes=(".weight", ".bias"))
        if theirs is None:
            raise NotWritable(f"its weight {ours} has no place in a GGUF file")
        named.append((theirs, weight.detach().float().numpy()))
    return named


def _say_gpt2(writer: Any, config: Any) -> None:
    if config.activation_function not in ("gelu_new", "gelu_pytorch_tanh"):
        raise NotWritable(f"its activation {config.activation_function} is not GPT-2's")
    if not config.scale_attn_weights or config.scale_attn_by_inverse_layer_idx or config.add_cross_attention:
        raise NotWritable("its attention is scaled in another way than GPT-2's")
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(config.n_inner or 4 * config.n_embd)
    writer.add_block_count(config.n_layer)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)


def _arrange_gpt2(name: str, weight: np.ndarray, config: Any) -> np.ndarray:
    """Conv1D keeps [in, out]; GGUF, like a linear layer, [out, in]."""
    is_conv = name.endswith(("attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"))
    return np.ascontiguousarray(weight.T) if is_conv else weight


def _say_llama(writer: Any, config: Any) -> None:
    rope = config.rope_parameters
    if rope.get("rope_type", "default") != "default" or rope.get("partial_rotary_factor") not in (None, 1.0):
        raise NotWritable("its rotary positions are scaled, which is not written as GGUF here")
    if config.hidden_act != "silu" or config.attention_bias or config.mlp_bias:
        raise NotWritable("its layers have biases or another activation than Llama's")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_vocab_size(config.vocab_size)


def _arrange_llama(name: str, weight: np.ndarray, config: Any) -> np.ndarray:
    """Rotary pairs stand half a head apart in transformers, side by side in GGUF: rows of queries and keys are permuted."""
    heads = {"attn_q.weight": config.num_attention_heads, "attn_k.weight": config.num_key_value_heads}.get(name.split(".", 2)[-1])
    if heads is None:
        return weight
    halves = weight.reshape(heads, 2, -1, weight.shape[1])  # [heads, half, pair, in]
    return halves.swapaxes(1, 2).reshape(weight.shape)


SHAPES = {"gpt2": (_say_gpt2, _arrange_gpt2), "llama": (_say_llama, _arrange_llama)}


# --- the tokenizer ---


def _unfit_tokenizer(tokenizer: Any) -> str | None:
    """Why a tokenizer cannot be written exactly; None when it can."""
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    model = parts["model"]
    if model["type"] != "BPE" or pre_of(tokenizer) is None or parts["normalizer"]:
        return "its tokenizer splits text in a way that has no name in a GGUF file here"
    odd = [key for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback") if model.get(key)]
    if odd or model.get("ignore_merges"):
        return f"its tokenizer has a {odd[0] if odd else 'ignore_merges'} that is not written as GGUF here"
    odd = [entry["content"] for entry in parts["added_tokens"] if entry["lstrip"] or entry["rstrip"] or entry["single_word"]]
    if odd:
        return f"its special token {odd[0]!r} takes the spaces beside it"
    return None


def _add_tokenizer(writer: Any, loaded: LoadedModel) -> None:
    tokenizer = loaded.tokenizer
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    rows = loaded.model.config.vocab_size
    token_of = {token_id: token for token, token_id in tokenizer.get_vocab().items()}
    added = {entry["id"] for entry in parts["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre_of(tokenizer))
    writer.add_token_list([token_of.get(i, f"[unused{i}]") for i in range(rows)])
    writer.add_token_types([CONTROL if i in added else NORMAL if i in token_of else UNUSED for i in range(rows)])
    writer.add_token_merges([" ".join(pair) for pair in parts["model"]["merges"]])
    writer.add_add_bos_token(False)  # no slide puts a token before the sentence
    writer.add_add_space_prefix(False)
    if len(loaded.end_ids) > 1:
        raise NotWritable("it has several end tokens, of which a GGUF file names one")
    for end in loaded.end_ids:
        writer.add_eos_token_id(end)
    if tokenizer.bos_token_id is not None:
        writer.add_bos_token_id(tokenizer.bos_token_id)
    if isinstance(tokenizer.chat_template, str):
        writer.add_chat_template(tokenizer.chat_template)


def _add(writer: Any, name: str, array: np.ndarray) -> None:
    """A matrix as float16, a vector as float32. Raises NotWritable where float16 does not reach."""
    if array.ndim > 1 and not float(np.abs(array).max()) < float(np.finfo(np.float16).max):
        raise NotWritable(f"its weight {name} has values that float16 does not hold")
    writer.add_tensor(name, array.astype(np.float16 if array.ndim > 1 else np.float32))
