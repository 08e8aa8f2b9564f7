"""What stands beside what: boxes that divide, the type sizes, and what the body of a figure is. Knows no matplotlib.

Lengths are pixels of the sheet. A part of a box is a fixed number of pixels, or a share of what the fixed parts and the
gaps leave: `...` is one share, `Share(2)` is two. So `body.rows(60, ..., 40)` is a head, the rest, and a foot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Literal

WIDTH, HEIGHT, MARGIN = 1920, 1080, 60
BODY_TOP, BODY_BOTTOM = 200, 954  # the drawing goes between the reading line and the strip

# The type sizes, in pixels of an em, for a room's back row; a figure uses no other.
HEADLINE, HEADLINE_LEAST = 52, 40  # the finding; a long one takes two lines before it shrinks
HERO = 64  # the few tokens or numbers that a whole figure is about
NUMBER = 48  # a number that matters
TITLE = 34  # what a part of the drawing is called
BODY = 30  # what is said in the drawing, and tokens
LABEL = 28  # the line under the headline, the values of a chart, ticks: the least of anything
STRIP = 22  # the provenance strip alone
LEADING, TILE = 1.5, 1.8  # height of a line of text and of a tile, in type sizes
HEADLINE_LEADING = 1.2  # a headline's two lines belong together
TILE_RIM = 0.9  # both ends of a tile together, beside its letters, in type sizes
GAP, PAD = 12, 24  # between things that belong together; between a frame and what it holds

Across = Literal["left", "center", "right"]
Down = Literal["top", "center", "bottom"]
Point = tuple[float, float]


@dataclass(frozen=True)
class Share:
    """So many shares of what the fixed parts leave."""

    weight: float = 1


Part = float | EllipsisType | Share


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels: x, y of its top left corner."""

    x: float
    y: float
    w: float
    h: float

    @property
    def right(self) -> float:
        return self.x + self.w

    @property
    def bottom(self) -> float:
        return self.y + self.h

    @property
    def center(self) -> Point:
        return self.x + self.w / 2, self.y + self.h / 2

    @property
    def north(self) -> Point:
        return self.x + self.w / 2, self.y

    @property
    def south(self) -> Point:
        return self.x + self.w / 2, self.bottom

    @property
    def west(self) -> Point:
        return self.x, self.y + self.h / 2

    @property
    def east(self) -> Point:
        return self.right, self.y + self.h / 2

    # --- dividing ---

    def columns(self, *parts: Part, gap: float = 0) -> list[Box]:
        """Side by side, from the left; the gap stands between any two. Raises ValueError when the parts do not fit."""
        spots = _divide(self.w, parts, gap)
        return [Box(self.x + start, self.y, length, self.h) for start, length in spots]

    def rows(self, *parts: Part, gap: float = 0) -> list[Box]:
        """One under another, from the top; the gap stands between any two. Raises ValueError when the parts do not fit."""
        spots = _divide(self.h, parts, gap)
        return [Box(self.x, self.y + start, self.w, length) for start, length in spots]

    def even_columns(self, count: int, *, gap: float = 0, most: float | None = None) -> list[Box]:
        """`count` columns of one width, no wider than `most`; what is over stays free at the right."""
        width = _even(self.w, count, gap, most)
        return [Box(self.x + i * (width + gap), self.y, width, self.h) for i in range(count)]

    def even_rows(self, count: int, *, gap: float = 0, most: float | None = None) -> list[Box]:
        """`count` rows of one height, no higher than `most`; what is over stays free at the foot."""
        height = _even(self.h, count, gap, most)
        return [Box(self.x, self.y + i * (height + gap), self.w, height) for i in range(count)]

    def grid(self, rows: int, columns: int, *, gap: float = 0) -> list[list[Box]]:
        """Equal cells, row by row."""
        return [row.even_columns(columns, gap=gap) for row in self.even_rows(rows, gap=gap)]

    # --- neighbours and parts ---

    def inset(self, across: float, down: float | None = None) -> Box:
        """The box without a rim; `down` is as `across` where it is left out. A negative rim makes the box larger."""
        down = across if down is None else down
        return Box(self.x + across, self.y + down, self.w - 2 * across, self.h - 2 * down)

    def place(self, w: float, h: float, across: Across = "center", down: Down = "center") -> Box:
        """A box of w by h inside this one."""
        free = {"left": 0.0, "top": 0.0, "center": 0.5, "right": 1.0, "bottom": 1.0}
        return Box(self.x + free[across] * (self.w - w), self.y + free[down] * (self.h - h), w, h)

    def below(self, height: float, gap: float = 0) -> Box:
        """The strip of this box's width right under it."""
        return Box(self.x, self.bottom + gap, self.w, height)

    def above(self, height: float, gap: float = 0) -> Box:
        """The strip of this box's width right over it."""
        return Box(self.x, self.y - gap - height, self.w, height)

    def at(self, row: Box) -> Box:
        """Where this column crosses a row."""
        return Box(self.x, row.y, self.w, row.h)

    def until(self, other: Box) -> Box:
        """From this box's top left corner to the other's bottom right corner."""
        return Box(self.x, self.y, other.right - self.x, other.bottom - self.y)


HEADLINE_LINE = Box(MARGIN, 62, WIDTH - 2 * MARGIN, HEADLINE * HEADLINE_LEADING)
READING_LINE = HEADLINE_LINE.below(LABEL * LEADING, 4)
FULL = Box(MARGIN, BODY_TOP, WIDTH - 2 * MARGIN, BODY_BOTTOM - BODY_TOP)  # where a figure draws


def _divide(length: float, parts: Sequence[Part], gap: float) -> list[tuple[float, float]]:
    """Start and length of each part."""
    shares = [1.0 if part is ... else part.weight if isinstance(part, Share) else 0.0 for part in parts]
    fixed = [float(part) if isinstance(part, int | float) else 0.0 for part in parts]
    rest = length - sum(fixed) - gap * (len(parts) - 1)
    if rest < -0.5:
        raise ValueError(f"parts of {sum(fixed):g} px and their gaps do not fit {length:g} px")
    lengths = [own + max(rest, 0) * share / (sum(shares) or 1) for own, share in zip(fixed, shares, strict=True)]
    return [(sum(lengths[:i]) + i * gap, own) for i, own in enumerate(lengths)]


def _even(length: float, count: int, gap: float, most: float | None) -> float:
    each = (length - gap * (count - 1)) / count
    return each if most is None else min(each, most)
