"""The charts that recur: bars behind tiles, towers, a ruler of powers of ten with its bound, scales. Drawn on a canvas.

Knows no matplotlib: everything is put into boxes of the sheet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import BODY, FULL, GAP, LABEL, LEADING, Box, Point
from pipeline.drawing.palette import BLUE, GREY, PALE, Color
from pipeline.text import amount, power_of_ten

Span = tuple[float, float]  # the lowest and the highest value
Ticks = Mapping[float, str]  # a value, and what is written at it
THIN = 2  # pixels: the least of a bar, so that a very small value is still seen
DOT = 21  # pixels across a dot on a ruler


@dataclass(frozen=True)
class Bar:
    """A value as a bar, and what is written at its end. `mark` is where it was expected to end."""

    value: float
    label: str = ""
    color: Color = BLUE
    ink: Color | None = None  # of the label, where it is not the bar's colour
    mark: float | None = None
    bold: bool = False

    @property
    def label_style(self) -> dict[str, Any]:
        """How its label is set."""
        return {"color": self.color if self.ink is None else self.ink, "weight": "bold" if self.bold else "regular"}


def label_room(canvas: Canvas, rows: Iterable[Bar], size: float = LABEL) -> float:
    """The pixels that the longest of the labels takes behind its bar."""
    return max(canvas.width(row.label, size, weight=row.label_style["weight"]) for row in rows) + size / 2


def bars(
    canvas: Canvas,
    lanes: Sequence[Box],
    rows: Sequence[Bar],
    *,
    full: float | None = None,
    size: float = LABEL,
    rim: float = 0.2,
    axis: bool = False,
    edge: Color | None = None,
    room: float | None = None,
) -> list[Box]:
    """A bar a lane, from the left, its label behind its end; returns the bars' boxes.

    The longest ends where its label still fits the lane. `full` is the value of that length (the largest one unless
    said) and `room` what is left for labels: charts that share both share a scale. `rim` is the share of a lane free
    over and under its bar; `axis` draws the line that the bars start from, `edge` a line around each bar.
    """
    most = full if full is not None else max(max(row.value, row.mark or 0) for row in rows)
    room = label_room(canvas, rows, size) if room is None else room
    drawn = []
    for lane, row in zip(lanes, rows, strict=True):
        scale = (lane.w - room) / (most or 1)
        bar = Box(lane.x, lane.y, max(row.value * scale, THIN) if row.value > 0 else 0, lane.h).inset(0, lane.h * rim)
        end = bar.right
        if row.value > 0:
            canvas.box(bar, fill=row.color, edge=edge, radius=min(2, bar.w / 2))
        if row.mark:
            tick = lane.x + row.mark * scale
            canvas.line([(tick, bar.y - 5), (tick, bar.bottom + 5)], width=3, z=3)
            end = max(end, tick)
        canvas.text(end + size / 2, lane.center[1], row.label, size=size, **row.label_style)
        drawn.append(bar)
    if axis:
        canvas.line([(lanes[0].x, lanes[0].y - 4), (lanes[-1].x, lanes[-1].bottom + 4)], color=PALE)
    return drawn


def tiles_and_bars(
    canvas: Canvas,
    lanes: Sequence[Box],
    pieces: Sequence[str],
    rows: Sequence[Bar],
    *,
    tile: float,
    chosen: int | None = 0,
    full: float | None = None,
    size: float = LABEL,
) -> list[Box]:
    """A token a lane as a tile of `tile` pixels, the chosen one in blue, its bar behind it; returns the tiles' boxes."""
    halves = [lane.columns(tile, ..., gap=GAP) for lane in lanes]
    for number, ((head, _), piece) in enumerate(zip(halves, pieces, strict=True)):
        canvas.put_tile(head, piece, size=max(size, BODY), accent=BLUE if number == chosen else None)
    bars(canvas, [rest for _, rest in halves], rows, full=full, size=size)
    return [head for head, _ in halves]


def towers(
    canvas: Canvas,
    columns: Sequence[Box],
    rows: Sequence[Bar],
    *,
    full: float | None = None,
    size: float = LABEL,
    radius: float = 0,
) -> list[Box]:
    """One bar per column, from its foot, its label over it; returns the bars' boxes. The highest leaves room for its label."""
    most = full if full is not None else max(max(row.value, row.mark or 0) for row in rows)
    drawn = []
    for column, row in zip(columns, rows, strict=True):
        height = max(row.value * (column.h - size * LEADING) / (most or 1), THIN + 1)
        bar = canvas.box(column.place(column.w, height, "center", "bottom"), fill=row.color, radius=radius)
        if row.label:
            canvas.put(bar.above(size * LEADING), row.label, size=size, align="center", **row.label_style)
        drawn.append(bar)
    return drawn


@dataclass(frozen=True)
class Scale:
    """Values between two pixels: `low` lies at `start`, `high` at `end`. On a log scale both are above nought.

    What lies beyond an end is drawn at that end.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value."""
        if self.log:
            least = min(self.low, self.high)
            share = math.log(max(value, least) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * min(max(share, 0), 1)

    def ticks(self, most: int = 10) -> list[float]:
        """Round values from `low` up to `high`, at most `most` + 1 of them; on a log scale powers of ten."""
        if self.log:
            powers = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            return [10.0**power for power in powers[:: -(-len(powers) // (most + 1))]]
        span = self.high - self.low
        step = next(unit * 10.0**power for power in range(-9, 13) for unit in (1, 2, 5) if span / (unit * 10.0**power) <= most)
        first = math.ceil(self.low / step - 1e-9)
        return [step * n for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Ruler:
    """How large differences are, in powers of ten along the foot of a box, and the bound they must stay under."""

    box: Box
    lowest: int
    highest: int
    limit: float

    @property
    def scale(self) -> Scale:
        return Scale(10.0**self.lowest, 10.0**self.highest, self.box.x, self.box.right, log=True)

    def at(self, value: float) -> float:
        """The pixel of a value; what is too small for the ruler, nought among it, lies at its left end."""
        return self.scale.at(value)

    def draw(self, canvas: Canvas) -> None:
        """The line with its powers, under the box, and the bound through the box with its name over it."""
        foot = self.box.bottom
        canvas.line([(self.box.x, foot), (self.box.right, foot)], color=PALE)
        powers = range(self.lowest, self.highest + 1)
        every = 1 if self.box.w / len(powers) > 3 * LABEL else 2
        for exponent in powers:
            x = self.at(10.0**exponent)
            canvas.line([(x, foot), (x, foot + 8)], color=PALE)
            if (exponent - self.lowest) % every:
                continue
            name = f"{'≤ ' if exponent == self.lowest else ''}{power_of_ten(exponent)}"
            canvas.text(x, foot + LABEL * LEADING, name, size=LABEL, color=GREY, align="center")
        x = self.at(self.limit)
        canvas.line([(x, self.box.y), (x, foot)], width=3, dashed=True)
        name = f"bound {power_of_ten(round(math.log10(self.limit)))}"
        canvas.text(x, self.box.y - LABEL * LEADING / 2, name, size=LABEL, weight="bold", align="center")

    def dot(self, canvas: Canvas, value: float, y: float, *, color: Color = BLUE, marker: str = "o") -> Point:
        """A mark with its value beside it, on the side away from the bound where there is room for it."""
        x, label = self.at(value), amount(value)
        canvas.dots([(x, y)], color=color, size=DOT, marker=marker)
        room = canvas.width(label, LABEL, weight="bold") + DOT
        left = x - self.box.x > room and (value < self.limit or x + room > FULL.right)
        gap = -DOT if left else DOT
        canvas.text(x + gap, y, label, size=LABEL, weight="bold", color=color, align="right" if left else "left")
        return x, y


@dataclass(frozen=True)
class Plane:
    """Two scales over one box: values run to the right and up."""

    box: Box
    across: Scale
    up: Scale

    @classmethod
    def over(cls, box: Box, across: Span, up: Span, *, log_across: bool = False, log_up: bool = False) -> Plane:
        """The plane whose box spans the two (lowest, highest)."""
        return cls(box, Scale(*across, box.x, box.right, log_across), Scale(*up, box.bottom, box.y, log_up))

    def at(self, x: float, y: float) -> Point:
        """The pixel of a pair of values."""
        return self.across.at(x), self.up.at(y)

    def frame(self, canvas: Canvas, across: Ticks, up: Ticks, *, across_name: str = "", up_name: str = "") -> None:
        """The two lines that the values are read from, with a label at each tick and a name along each line."""
        box, tick = self.box, LABEL / 4
        canvas.line([(box.x, box.y), (box.x, box.bottom), (box.right, box.bottom)], color=PALE)
        for value, label in across.items():
            x = self.across.at(value)
            canvas.line([(x, box.bottom), (x, box.bottom + tick)], color=PALE)
            middle = min(x, FULL.right - canvas.width(label, LABEL) / 2)  # a last label moves in from the margin
            canvas.text(middle, box.bottom + LABEL, label, size=LABEL, color=GREY, align="center")
        for value, label in up.items():
            y = self.up.at(value)
            canvas.line([(box.x - tick, y), (box.x, y)], color=PALE)
            canvas.text(box.x - GAP, y, label, size=LABEL, color=GREY, align="right")
        canvas.text(box.center[0], box.bottom + LABEL * LEADING + LABEL, across_name, size=LABEL, color=GREY, align="center")
        if up_name:
            left = box.x - GAP * 2 - max(canvas.width(label, LABEL) for label in up.values()) - LABEL / 2
            canvas.text(left, box.center[1], up_name, size=LABEL, color=GREY, align="center", upright=True)

    def curve(self, canvas: Canvas, points: Iterable[Point], *, color: Color = BLUE, width: float = 5) -> None:
        """A line through values."""
        canvas.line([self.at(x, y) for x, y in points], color=color, width=width, z=2)
