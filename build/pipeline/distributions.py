"""Distributions in float64 NumPy, as the oracles compute them: a norm, softmax, ranks, nuclei, the chi-square test.

Knows no torch: what torch and transformers did is judged against this.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

SMALLEST_CELL = 5  # expected draws a cell: the usual least for chi-square
NORMAL_QUANTILE = 4.75  # one fair run in a million lies beyond: any sentence and model must pass, wrong weights miss by far

IMPLAUSIBLE = 1e5  # no model's scores lie so far apart: one that does was not its model's


def plausible(scores: np.ndarray) -> bool:
    """Whether scores can be one model's: a lowest one that was damaged changes no probability, and would pass unseen."""
    return bool(np.ptp(scores) < IMPLAUSIBLE)


def seven_digits(values: np.ndarray) -> np.ndarray:
    """float32 values as float64 at the seven digits that a capture keeps of them."""
    return np.array([float(f"{value:.7g}") for value in values.tolist()])


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def normed(state: np.ndarray, norm: Mapping[str, Any]) -> np.ndarray:
    """RMSNorm (Zhang and Sennrich 2019) or LayerNorm (Ba, Kiros and Hinton 2016), in float64."""
    if norm["kind"] == "layer":
        state = state - state.mean()
    scaled = state / np.sqrt((state**2).mean() + norm["eps"]) * np.array(norm["weight"])
    return scaled if norm["bias"] is None else scaled + np.array(norm["bias"])


def entropy_bits(probabilities: np.ndarray) -> float:
    some = probabilities[probabilities > 0]
    return -float((some * np.log2(some)).sum())


def by_rank(scores: np.ndarray) -> np.ndarray:
    """The ids from the highest score to the lowest."""
    return np.argsort(-scores, kind="stable")


def smallest_prefix(ranked: np.ndarray, p: float) -> int:
    """How many of the probabilities, ranked from the largest, it takes to reach p."""
    return min(int(np.searchsorted(ranked.cumsum(), p)) + 1, len(ranked))


def nucleus(probabilities: np.ndarray, p: float) -> np.ndarray:
    """The distribution that top-p leaves: its smallest prefix, brought back to a sum of one, and zero elsewhere."""
    order = by_rank(probabilities)
    inside = order[: smallest_prefix(probabilities[order], p)]
    left = np.zeros_like(probabilities)
    left[inside] = probabilities[inside] / probabilities[inside].sum()
    return left


def chi_square(drawn: list[int], probabilities: np.ndarray) -> tuple[float, int, float]:
    """Pearson's statistic of the draws, its degrees of freedom, and the bound it must not pass.

    Tokens are pooled in order of probability until a cell expects SMALLEST_CELL draws. The bound is the Wilson-Hilferty
    approximation to the chi-square quantile at NORMAL_QUANTILE.
    """
    counts = np.bincount(drawn, minlength=len(probabilities))
    cells = [[0.0, 0]]
    for token in by_rank(probabilities).tolist():
        if cells[-1][0] >= SMALLEST_CELL:
            cells.append([0.0, 0])
        cells[-1][0] += len(drawn) * float(probabilities[token])
        cells[-1][1] += int(counts[token])
    if cells[-1][0] < SMALLEST_CELL and len(cells) > 1:
        expected, observed = cells.pop()
        cells[-1] = [cells[-1][0] + expected, cells[-1][1] + observed]
    statistic = sum((observed - expected) ** 2 / expected for expected, observed in cells)
    freedom = len(cells) - 1
    if freedom == 0:  # one cell holds every draw: nothing is left to vary
        return statistic, 0, 1e-6
    spread = 2 / (9 * freedom)
    return statistic, freedom, freedom * (1 - spread + NORMAL_QUANTILE * spread**0.5) ** 3
