"""The best tokens that a server reports at a step: mapped back to ids where their text can be one token only, and compared.

Asks nothing.
"""

from collections import defaultdict
from typing import Any

from pipeline.lab import LoadedModel

# Of |Δ log p|. Over ten sentences on Ollama 0.24.0 the right weights came to at most 0.0152 (embedded model) and 0.0244 (a
# GPT-2 shape, random weights); with a wrong rope base, or one weight's sign changed, to 0.63 and more.
BOUND = 0.05

Step = dict[str, Any]  # one step: the server's log-probabilities of its best tokens beside ours


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


def ties(steps: list[Step]) -> list[Step]:
    """The steps whose two best are nearer to each other than a server's numbers are to ours."""
    return [step for step in steps if step["lead"] < BOUND]


def gaps(steps: list[Step]) -> list[tuple[float, int, str]]:
    """How far each of the server's best is from float32's, with its step and its text."""
    return [(abs(pair["server"] - pair["ours"]), step["step"], text) for step in steps for text, pair in step["best"].items()]


def first_fault(way: str, steps: list[Step]) -> str:
    """The first step at which the server does not have the model's numbers, or nothing."""
    for step in steps:
        if step["read"] not in (None, step["prefix"]):
            return f"{way}, step {step['step']}: it read {step['read']} tokens of {step['prefix']}"
        for text, pair in step["best"].items():
            if not abs(pair["server"] - pair["ours"]) <= BOUND:
                return f"{way}, step {step['step']}, {text!r}: |Δ log p| {abs(pair['server'] - pair['ours']):.3f}"
    compared, reported = len(gaps(steps)), sum(step["reported"] for step in steps)
    return "" if 2 * compared >= reported > 0 else f"{way}: only {compared} of {reported} reported tokens could be compared"
