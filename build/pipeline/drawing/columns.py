"""Columns of bars over the same tokens: one row per token, the last row for all the other tokens of the vocabulary."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Bar, bars, label_room
from pipeline.drawing.layout import BODY, GAP, TITLE, Box
from pipeline.drawing.palette import BLUE, GREY, ORANGE
from pipeline.drawing.sheet import Line

HEADS = 240  # pixels: width of the tiles that name the rows
FOOT = 60  # pixels: the row under the columns


@dataclass(frozen=True)
class Column:
    """One column: its two headings, and for each token, and for all others last, a value and how it is written.

    `expected` says where each bar should end; `foot` is written under the column.
    """

    title: str
    under: str
    values: Sequence[float]
    labels: Sequence[str]
    expected: Sequence[float] | None = None
    foot: str = ""


def compared(canvas: Canvas, box: Box, pieces: Sequence[str], vocabulary: int, columns: Sequence[Column], full: float) -> Box:
    """The columns side by side on one scale, `full` the value of the longest bar; returns the foot of the row names."""
    head, table, foot = box.rows((TITLE + BODY) * 1.5, ..., FOOT, gap=2 * GAP)
    names, *spots = table.columns(HEADS, *[...] * len(columns), gap=4 * GAP)
    lanes = names.even_rows(len(pieces) + 1, gap=GAP)
    for number, (lane, piece) in enumerate(zip(lanes, pieces, strict=False)):
        canvas.put_tile(lane, piece, accent=BLUE if number == 0 else None)
    canvas.put(lanes[-1], f"{vocabulary - len(pieces):,} others", color=ORANGE, align="right")
    colors = [BLUE, *[GREY] * (len(pieces) - 1), ORANGE]
    drawn = []
    for column in columns:
        expected = column.expected or [0] * len(column.values)
        drawn.append(
            [
                Bar(value, label, canvas.tint(color, 0.85), color, mark)
                for value, label, color, mark in zip(column.values, column.labels, colors, expected, strict=True)
            ]
        )
    room = label_room(canvas, [bar for rows in drawn for bar in rows])
    for column, rows, spot in zip(columns, drawn, spots, strict=True):
        title, under = Line(column.title, TITLE, weight="bold"), Line(column.under, color=GREY)
        canvas.stack(Box(spot.x, head.y, spot.w, head.h), title, under)
        bars(canvas, [Box(spot.x, lane.y, spot.w, lane.h) for lane in lanes], rows, full=full, room=room, axis=True)
        canvas.put(Box(spot.x, foot.y, spot.w, foot.h), column.foot, weight="bold")
    return Box(names.x, foot.y, names.w, foot.h)
