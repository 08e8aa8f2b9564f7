"""What a key/value cache holds and weighs: read from its tensors, and worked out from the model's own config.

Knows no slide. The two ways are independent of each other, so that slides can hold one against the other.
"""

from typing import Any

import numpy as np


def shape(config: Any) -> dict[str, int]:
    """What the model's own config says about its heads: key/value heads are not query heads."""
    query_heads = int(config.num_attention_heads)
    return {
        "layers": int(config.num_hidden_layers),
        "query_heads": query_heads,
        "kv_heads": int(getattr(config, "num_key_value_heads", None) or query_heads),
        "head_size": int(getattr(config, "head_dim", None) or config.hidden_size // query_heads),
        "bytes_each": 4,  # float32
    }


def bytes_of_a_token(of: dict[str, int]) -> int:
    """The closed form: layers x keys and values x heads x head size x bytes of a number."""
    return of["layers"] * 2 * of["kv_heads"] * of["head_size"] * of["bytes_each"]


def counted_bytes(cache: Any) -> int:
    """The bytes that the tensors of a cache hold; an empty cache (None) holds none."""
    return sum(tensor.nbytes for layer in (cache.layers if cache else ()) for tensor in (layer.keys, layer.values))


def read(cache: Any) -> np.ndarray:
    """A copy of what a cache holds: [layers, keys and values, key/value heads, positions, head size]."""
    return np.array([[held[0].float().numpy() for held in (layer.keys, layer.values)] for layer in cache.layers])
