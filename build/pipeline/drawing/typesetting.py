"""Breaking and cutting a text to a width. Knows no canvas: it is handed what measures a text, and no matplotlib."""

import bisect
from collections.abc import Callable

NARROWEST = 0.1  # of a letter's size: no letter is narrower

Measure = Callable[[str, float], float]  # (text, size) -> its width in pixels


def fit(measure: Measure, text: str, size: float, width: float, lines: int, smallest: float) -> tuple[str, float]:
    """The text in at most `lines` lines of `width` pixels, and its size.

    What does not fit shrinks down to `smallest` and then ends in an ellipsis.
    """
    room = int(lines * width / (NARROWEST * smallest)) + 1
    text = text if len(text) <= room else text[:room] + "…"  # what cannot fit anyhow is not measured
    broken = broken_at_spaces(measure, text, size, width)
    while len(broken) > lines and size > smallest:
        size = max(smallest, size - 1)
        broken = broken_at_spaces(measure, text, size, width)
    if len(broken) > lines:
        broken = [*broken[: lines - 1], elided(measure, broken[lines - 1], size, width)]
    return "\n".join(broken), size


def fit_tile(measure: Measure, shown: str, size: float, width: float, smallest: float) -> tuple[str, float]:
    """A token on one line of `width` pixels, never broken: it shrinks down to `smallest`, then it is cut."""
    width += 0.5  # a tile made for its token holds it, whatever the last bit of a sum says
    while measure(shown, size) > width and size > smallest:
        size = max(smallest, size - 1)
    return (shown if measure(shown, size) <= width else elided(measure, shown, size, width)), size


def elided(measure: Measure, text: str, size: float, width: float) -> str:
    """The longest beginning of `text` that fits `width` with an ellipsis after it."""
    return text[: longest(measure, text, "…", size, width)].rstrip() + "…"


def longest(measure: Measure, text: str, after: str, size: float, width: float) -> int:
    """How many characters of `text` fit `width` with `after` behind them."""
    wide = bisect.bisect_right(range(len(text) + 1), width, key=lambda n: measure(text[:n] + after, size))
    return max(wide - 1, 0)


def broken_at_spaces(measure: Measure, text: str, size: float, width: float) -> list[str]:
    """The lines of `text`; a single word wider than `width` is broken between characters."""
    broken: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            candidate = f"{line} {word}" if line else word
            if measure(candidate, size) <= width:
                line = candidate
                continue
            if line:
                broken.append(line)
            while measure(word, size) > width and len(word) > 1:
                cut = max(1, longest(measure, word[:-1], "", size, width))
                broken.append(word[:cut])
                word = word[cut:]
            line = word
        broken.append(line)
    return broken
