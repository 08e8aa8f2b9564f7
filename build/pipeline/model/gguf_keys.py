"""What a GGUF file says beside its weights, held against the model and tokenizer read from it: honoured, or refused.

transformers reads a GGUF's tokens and merges, but not the rule that says what is split off before they are applied
(`tokenizer.ggml.pre`). Every key that changes ids or logits is looked at here; one that is not known is refused.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import MissingPart

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
# What is split off before the merges, by the name that GGUF files give it; `smollm` makes every digit a piece of its own.
SPLITS: dict[str, list[dict[str, Any]]] = {
    "gpt-2": [BYTE_LEVEL],
    "smollm": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL],
}
NORMAL, CONTROL = 1, 3  # of tokenizer.ggml.token_type: text, and special tokens that a text is searched for first
ANOTHER = "take another model with --model"
SILENT = ("GGUF.", "general.")  # the file's own counts, names, licence and storage types; the architecture is asked for below


def pre_of(tokenizer: Any) -> str | None:
    """The GGUF name of a tokenizer's split before the merges; None when it has none that we know."""
    stage = json.loads(tokenizer.backend_tokenizer.to_str())["pre_tokenizer"]
    steps = stage["pretokenizers"] if stage["type"] == "Sequence" else [stage]
    plain = [{key: value for key, value in step.items() if key != "trim_offsets"} for step in steps]
    return next((name for name, split in SPLITS.items() if split == plain), None)


def set_split(tokenizer: Any, pre: str) -> None:
    """Give a tokenizer the split that `pre` names. Raises KeyError for a name that is not in SPLITS."""
    from tokenizers import pre_tokenizers

    steps = [
        pre_tokenizers.Digits(individual_digits=True)
        if step["type"] == "Digits"
        else pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        for step in SPLITS[pre]
    ]
    tokenizer.backend_tokenizer.pre_tokenizer = steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)


def keys_of(gguf: Path) -> dict[str, Any]:
    """Everything that a GGUF file says beside its weights."""
    from gguf import GGUFReader

    return {name: field.contents() for name, field in GGUFReader(gguf).fields.items()}


def honour(said: Mapping[str, Any], config: Any, tokenizer: Any) -> None:
    """Set the split that a file names; refuse a file with a key that config and tokenizer do not follow."""
    if (pre := said.get("tokenizer.ggml.pre")) not in SPLITS:
        raise MissingPart(f"the GGUF's tokenizer.ggml.pre is {pre!r}, which is not known here; {ANOTHER}")
    set_split(tokenizer, pre)
    followed = _followed(config, tokenizer)
    for name, value in said.items():
        if name not in followed:
            if name.startswith(SILENT):
                continue
            raise MissingPart(f"the GGUF's key {name} is not known here and would be dropped; {ANOTHER}")
        ours = followed[name]
        if not (math.isclose(ours, value, rel_tol=1e-6) if isinstance(value, float) else ours == value):  # float32 there
            raise MissingPart(f"the GGUF's key {name} was not followed when it was read; {ANOTHER}")


def _followed(config: Any, tokenizer: Any) -> dict[str, Any]:
    """For each key that matters, what the model and the tokenizer have in its place."""
    backend = tokenizer.backend_tokenizer
    parts = json.loads(backend.to_str())
    vocabulary = tokenizer.get_vocab()  # a row without a token of its own has a name, so every id is there
    special = {entry["id"] for entry in parts["added_tokens"] if entry["special"]}
    empty = tokenizer("")["input_ids"]  # whatever is put around every text

    return {
        "general.architecture": config.model_type,
        "llama.block_count": config.num_hidden_layers,
        "llama.context_length": config.max_position_embeddings,
        "llama.embedding_length": config.hidden_size,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "llama.rope.freq_base": config.rope_parameters["rope_theta"],
        "llama.rope.dimension_count": config.head_dim,
        "llama.vocab_size": config.vocab_size,
        "tokenizer.ggml.model": "gpt2" if parts["model"]["type"] == "BPE" else parts["model"]["type"],
        "tokenizer.ggml.pre": pre_of(tokenizer),
        "tokenizer.ggml.add_space_prefix": parts["normalizer"] is not None,
        "tokenizer.ggml.add_bos_token": empty[:1] == [tokenizer.bos_token_id],
        "tokenizer.ggml.add_eos_token": empty[-1:] == [tokenizer.eos_token_id],
        "tokenizer.ggml.tokens": [token for token, _ in sorted(vocabulary.items(), key=lambda entry: entry[1])],
        "tokenizer.ggml.token_type": [CONTROL if i in special else NORMAL for i in range(len(vocabulary))],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in parts["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": tokenizer.bos_token_id,
        "tokenizer.ggml.eos_token_id": tokenizer.eos_token_id,
        "tokenizer.ggml.unknown_token_id": tokenizer.unk_token_id,
        "tokenizer.ggml.padding_token_id": tokenizer.pad_token_id,
        "tokenizer.chat_template": tokenizer.chat_template,
    }
