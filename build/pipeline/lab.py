"""What a capture may touch: the sentence, the model, the tokenizer, the server, the seed.

The model and the server are found, verified and loaded elsewhere (`model/`, `serving/`) and only when first asked for.
Arrays leave the lab as NumPy, so that topics need no torch of their own.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import BadInput
from pipeline.settings import COMPLETION_LENGTH, LONGEST, LONGEST_COMPLETION, SEED

if TYPE_CHECKING:
    import numpy as np  # a run that takes nothing goes without


@dataclass
class LoadedModel:
    """A model ready for its photographs: eval mode, float32, CPU, and a folder that a server can serve."""

    model: Any
    tokenizer: Any
    provenance: dict[str, Any]
    path: Path

    def piece_bytes(self, token_id: int) -> bytes:
        """The bytes one token stands for: through the byte table, or an added token's own text."""
        if token_id in self._added:
            return self._added[token_id].encode()
        token = self.tokenizer.convert_ids_to_tokens(token_id)
        if token is None:  # a row of the output matrix that the vocabulary does not use
            return f"<unused {token_id}>".encode()
        try:
            return bytes(self._byte_of[character] for character in token)
        except KeyError:
            return token.encode()

    @functools.cached_property
    def end_ids(self) -> frozenset[int]:
        """The tokens after which this model's generation stops."""
        config = getattr(self.model, "generation_config", None)
        ends = config.eos_token_id if config is not None and config.eos_token_id is not None else self.model.config.eos_token_id
        return frozenset(ends if isinstance(ends, list) else [ends]) - {None}

    @functools.cached_property
    def _added(self) -> dict[int, str]:
        return {token_id: str(token) for token_id, token in self.tokenizer.added_tokens_decoder.items()}

    @functools.cached_property
    def _byte_of(self) -> dict[str, int]:
        from transformers.convert_slow_tokenizer import bytes_to_unicode

        return {character: byte for byte, character in bytes_to_unicode().items()}


class Lab:
    """One sitting for the photographs: one sentence, one model, one server.

    load_model and start_server are called at most once, when a capture first needs them.
    """

    def __init__(
        self,
        sentence: str,
        load_model: Callable[[], LoadedModel],
        start_server: Callable[[], Any] | None = None,
        seed: int = SEED,
        own_server: Callable[[], Any] | None = None,
    ):
        self.sentence = sentence
        self.seed = seed
        self.asked: str | None = None  # a provider's model, by litellm's string, for the slides that may ask one
        self._load_model = load_model
        self._start_server = start_server
        self._own_server = own_server
        self._last_logits: dict[tuple[int, ...], np.ndarray] = {}

    @functools.cached_property
    def loaded(self) -> LoadedModel:
        return self._load_model()

    @functools.cached_property
    def server(self) -> Any:
        """The server of this run (serving.server.Server), started when first asked for."""
        if self._start_server is None:
            raise RuntimeError("this lab was given no server")
        return self._start_server()

    @functools.cached_property
    def own_server(self) -> Any:
        """The server that answers with this very model, where it can be put into one; else the server of this run."""
        return self.server if self._own_server is None else self._own_server()

    @property
    def model(self) -> Any:
        """The transformers model: eval mode, float32, CPU, gradients off for the whole process."""
        return self.loaded.model

    @property
    def tokenizer(self) -> Any:
        return self.loaded.tokenizer

    @property
    def torch(self) -> Any:
        import torch

        return torch

    def rng(self, salt: int = 0) -> np.random.Generator:
        """A seeded generator; a different `salt` gives an independent stream."""
        import numpy as np

        return np.random.default_rng([self.seed, salt])

    # --- text and tokens ---

    @functools.cached_property
    def ids(self) -> list[int]:
        """The sentence as token ids, at least one, no special tokens added. Raises BadInput when there are too many."""
        ids = self.encode(self.sentence)
        room = min(LONGEST, self.context - LONGEST_COMPLETION)
        if not 1 <= len(ids) <= room:
            raise BadInput(f"the sentence has {len(ids):,} tokens; this deck can show 1 to {room}: shorten it")
        if b"".join(map(self.piece_bytes, ids)) != self.sentence.encode():
            raise BadInput("this model's tokenizer has no token for some character of the sentence; leave out control characters")
        return ids

    @functools.cached_property
    def context(self) -> int:
        """The number of positions that the model can read."""
        return int(getattr(self.model.config, "max_position_embeddings", None) or LONGEST + LONGEST_COMPLETION)

    @functools.cached_property
    def sentence_sha256(self) -> str:
        return hashlib.sha256(self.sentence.encode()).hexdigest()

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: list[int]) -> str:
        """The text of ids, nothing cleaned up, special tokens kept."""
        return self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def piece_bytes(self, token_id: int) -> bytes:
        """The bytes that one token stands for."""
        return self.loaded.piece_bytes(token_id)

    def pieces(self, ids: list[int]) -> list[str]:
        """Each token as text for a tile; a token that is not whole UTF-8 shows its bytes as \\xNN."""
        return [self.piece_bytes(token_id).decode("utf-8", errors="backslashreplace") for token_id in ids]

    # --- the one call ---

    def logits(self, ids: list[int]) -> np.ndarray:
        """The one call, nothing cached: n ids -> float32 [n, vocabulary]."""
        with self.torch.inference_mode():
            out = self.model(self.torch.tensor([ids]), use_cache=False)  # [1, n] -> [1, n, vocabulary]
        return out.logits[0].float().numpy()

    def extend(self, cache: Any, ids: list[int], first: int | None = None) -> tuple[np.ndarray, Any]:
        """The same call with a cache (None: an empty one): only `ids`, which the cache does not hold yet, go in.

        Returns float32 [n, vocabulary] and the cache, changed in place: copy it before using it twice. `first` is the
        position of the first id; left to the model, it is the number of positions that the cache holds.
        """
        positions = {} if first is None else {"position_ids": self.torch.arange(first, first + len(ids))[None]}
        with self.torch.inference_mode():
            out = self.model(self.torch.tensor([ids]), cache=cache, use_cache=True, **positions)
        return out.logits[0].float().numpy(), out.cache

    def next_logits(self, ids: list[int]) -> np.ndarray:
        """The logits after the last of `ids`, float32 [vocabulary]; asked for twice, computed once."""
        key = tuple(ids)
        if key not in self._last_logits:
            self._last_logits[key] = self.logits(ids)[-1].copy()
        return self._last_logits[key]

    def greedy(self, ids: list[int], steps: int) -> list[int]:
        """The greedy completion: `steps` ids, each the argmax of a call on everything before it (no cache)."""
        grown = list(ids)
        for _ in range(steps):
            grown.append(int(self.next_logits(grown).argmax()))
        return grown[len(ids) :]

    @functools.cached_property
    def completion(self) -> list[int]:
        """COMPLETION_LENGTH greedy ids after the sentence: the completion every slide shows."""
        return self.greedy(self.ids, COMPLETION_LENGTH)

    def softmax(self, logits: np.ndarray) -> np.ndarray:
        """torch's softmax over the last axis, in float64, so that 50,000 terms sum to one."""
        import numpy as np

        scores = self.torch.from_numpy(np.ascontiguousarray(logits))
        return self.torch.softmax(scores, dim=-1, dtype=self.torch.float64).numpy()
