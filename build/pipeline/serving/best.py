"""The best tokens that a server reports at a step, mapped back to ids where their text can be one token only. Asks nothing."""

from collections import defaultdict

from pipeline.lab import LoadedModel


class Vocabulary:
    """Which token a text stands for. A token that ends in part of a character comes as U+FFFD, or with the part left out."""

    def __init__(self, loaded: LoadedModel):
        ids_of: dict[str, set[int]] = defaultdict(set)
        for token_id in loaded.tokenizer.get_vocab().values():
            piece = loaded.piece_bytes(token_id)
            for errors in ("replace", "ignore"):
                ids_of[piece.decode(errors=errors)].add(token_id)
        self._ids_of = ids_of

    def id_of(self, text: str) -> int | None:
        """The one token that can have given a text; None when several can, or none."""
        ids = self._ids_of.get(text, set())
        return next(iter(ids)) if len(ids) == 1 and text else None
