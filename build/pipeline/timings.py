"""Where a run's time goes: stretches of it by stage, in the order they end. Shown with `--timings`; decides nothing.

Stretches overlap where work does: figures are drawn beside the captures that are taken.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

BEGAN = time.perf_counter()  # when the command imported this, first of all


@dataclass(frozen=True)
class Stretch:
    """Seconds spent on one thing in one stage of a run."""

    stage: str
    what: str
    seconds: float


_spent: list[Stretch] = []


def add(stage: str, what: str, seconds: float) -> None:
    """Note a stretch that was measured elsewhere."""
    _spent.append(Stretch(stage, what, seconds))


@contextlib.contextmanager
def stretch(stage: str, what: str = "") -> Iterator[None]:
    """Note how long the block takes, even when it fails."""
    began = time.perf_counter()
    try:
        yield
    finally:
        add(stage, what, time.perf_counter() - began)


def spent() -> list[Stretch]:
    """Everything noted so far."""
    return list(_spent)


def total() -> float:
    """Seconds since the command began."""
    return time.perf_counter() - BEGAN
