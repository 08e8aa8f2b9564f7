"""An answer on a time axis: its parts as one bar, and each chunk of text under the moment it arrived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Scale
from pipeline.drawing.layout import BODY, GAP, LABEL, LEADING, TILE, Box
from pipeline.drawing.palette import BLUE, GREY, INK, PALE, mix

Parts = Sequence[dict[str, Any]]  # {"name", "ms"}, one after another
Chunks = Sequence[dict[str, Any]]  # {"text", "ms"}
WIDEST = 230  # pixels of a chunk's tile


def draw_parts(canvas: Canvas, parts: Parts, scale: Scale, box: Box, accent: str) -> None:
    """The parts as one bar, the accented one in blue; those too short for their labels have them above, side by side."""
    head, bar = box.rows(LABEL * LEADING, ...)
    start, gap = 0.0, 2 * GAP
    above: list[tuple[str, float, float]] = []  # label, left, width
    for part in parts:
        x, w = scale.at(start), scale.at(part["ms"]) - scale.at(0)
        start += part["ms"]
        spot, lit = Box(x, bar.y, max(w - 2, 1), bar.h), part["name"] == accent
        if w >= 2:
            canvas.box(spot, fill=BLUE if lit else PALE, radius=min(4, w / 4))
        label = f"{part['name']}  {milliseconds(part['ms'])}"
        if w > canvas.width(label, weight="bold") + gap:
            canvas.put(spot, label, color="white" if lit else INK, weight="bold" if lit else "regular", align="center")
        else:
            left = max(x, above[-1][1] + above[-1][2] + gap) if above else x
            above.append((label, left, canvas.width(label, LABEL)))
    limit = box.right
    for label, left, room in reversed(above):
        left = min(left, limit - room)
        canvas.text(left, head.center[1], label, size=LABEL, color=BLUE if label.startswith(accent) else GREY)
        limit = left - gap


def milliseconds(ms: float) -> str:
    return f"{ms:,.0f} ms" if ms >= 1 else "< 1 ms"


def draw_axis(canvas: Canvas, scale: Scale, box: Box) -> None:
    """Round moments along the foot of the box."""
    canvas.line([(box.x, box.bottom), (box.right, box.bottom)], color=PALE)
    for ms in scale.ticks():
        x = scale.at(ms)
        if x < box.x + 0.96 * box.w:  # no label beyond the edge
            canvas.line([(x, box.bottom - 8), (x, box.bottom + 8)], color=PALE)
            align = "center" if ms else "left"
            canvas.text(x, box.center[1] - 4, f"{ms:,.0f} ms" if ms else "sent", size=LABEL, color=GREY, align=align)


def chunks_high(rows: int) -> float:
    """The pixels that so many rows of chunks take, with the count of those that found no place."""
    return GAP + rows * (BODY * TILE + GAP / 2) + LABEL * LEADING + GAP


def draw_chunks(canvas: Canvas, chunks: Chunks, scale: Scale, box: Box, rows: int = 4) -> None:
    """Each chunk's tile hangs from its moment, in the highest row that is still free there; the rest are counted."""
    _, *lanes, note = box.rows(GAP, *[BODY * TILE] * rows, ..., gap=GAP / 2)
    free = [box.x] * rows
    left_out = 0
    for chunk in chunks:
        x = scale.at(chunk["ms"])
        canvas.line([(x, box.y - 7), (x, box.y + 7)], color=BLUE, width=2.5, z=3)
        width = min(canvas.tile_width(chunk["text"]), WIDEST)
        spot = min(x, box.right - width)
        row = next((row for row in range(rows) if free[row] <= spot), None)
        if row is None:
            left_out += 1
            continue
        canvas.line([(x, box.y), (x, lanes[row].y + 4)], color=mix(BLUE, 0.35), width=1.5, z=0.5)
        canvas.put_tile(Box(spot, lanes[row].y, width, lanes[row].h), chunk["text"], edge=mix(BLUE, 0.5))
        free[row] = spot + width + GAP
    if left_out:
        label = f"and {left_out} more chunk{'s' * (left_out > 1)} between these"
        canvas.put(note, label, size=LABEL, color=GREY, align="right")
