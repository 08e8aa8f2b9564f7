"""A run of tokens: folded into rows, shrunk, and where it still does not fit, its middle counted and left out.

Knows no canvas: it is handed what measures a tile and a note.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.drawing.layout import TILE, Box, Point

Widths = Callable[[float], list[float]]  # size -> the width of each tile at that size


@dataclass(frozen=True)
class Run:
    """Where each piece stands (None: left out), at which size, and where a note says how many are missing."""

    size: float
    spots: list[Box | None]
    note: tuple[str, Box] | None


def run(
    box: Box,
    widths_at: Widths,
    note_width: Callable[[str, float], float],
    rows: int,
    size: float,
    smallest: float,
    gap: float,
    row_gap: float,
) -> Run:
    """A run from the box's top left corner, in at most `rows` rows of its width."""
    while True:
        widths = [min(width, box.w) for width in widths_at(size)]
        if rows_needed(widths, box.w, gap) <= rows or size <= smallest:
            break
        size = max(smallest, size - 1)
    count, head, tail, note, room = len(widths), len(widths), 0, "", 0.0
    while rows_needed([*widths[:head], *[room] * bool(note), *widths[count - tail :]], box.w, gap) > rows:
        if head + tail <= 2:  # the first and the last stay, cut so that they share a row with the note
            widths = [min(width, (box.w - room - 2 * gap) / 2) for width in widths]
            break
        kept = head + tail - 1
        head, tail = (kept + 1) // 2, kept // 2
        note = f"⋯ {count - kept} more ⋯"
        room = note_width(note, size) + 2 * gap
    shown = [*range(head), *([None] if note else []), *range(count - tail, count)]
    lengths = [room if i is None else widths[i] for i in shown]
    spots = dict(zip(shown, fold(lengths, size * TILE, (box.x, box.y), box.w, gap, row_gap), strict=True))
    return Run(size, [spots.get(i) for i in range(count)], (note, spots[None]) if note else None)


def rows_needed(widths: list[float], width: float, gap: float) -> int:
    """How many rows of `width` pixels a run takes that is folded where it does not fit."""
    return len({spot.y for spot in fold(widths, 1, (0, 0), width, gap, 0)})


def fold(widths: list[float], height: float, at: Point, width: float, gap: float, row_gap: float) -> list[Box]:
    """Boxes of these widths from `at` on, each beside the last or at the start of the next row."""
    x, y = at
    placed = []
    for w in widths:
        if x > at[0] and x + w > at[0] + width + 0.5:
            x, y = at[0], y + height + row_gap
        placed.append(Box(x, y, w, height))
        x += w + gap
    return placed
