"""Concept cards: what fewer bits do to the bytes of a model, and to one weight.

The parameter count is the photographed model's own; the weights on the grid follow from a formula that the card states. No
model is quantized and no clock is read. The bytes need the model, the grid nothing.
"""

import copy
import math
from collections.abc import Callable

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Bar, Scale, bars
from pipeline.drawing.layout import GAP, LABEL, LEADING, NUMBER, PAD, TITLE, Box
from pipeline.drawing.palette import BLUE, GREY, INK, ORANGE
from pipeline.drawing.sheet import Line
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic

BITS = (32, 16, 8, 4)
HIGH = 62  # pixels: a bit, and the bar of all bytes
WEIGHTS, GRID_BITS = 16, 4  # weights in the row, bits for each on the grid
ROUNDING_SLACK = 1e-8  # a capture keeps nine significant digits of numbers below one


# --- fewer bits, fewer bytes ---


def capture_bits_and_bytes(lab: Lab) -> Data:
    """Walk through the model's tensors (a tied one comes once) and count what each would take at so many bits per weight."""
    tensors = [parameter.numel() for parameter in lab.model.parameters()]
    rows = [{"bits": bits, "parameters": sum(tensors), "bytes": sum(count * bits for count in tensors) / 8} for bits in BITS]
    return {"parameters": int(lab.loaded.provenance["parameters"]), "tensors": len(tensors), "rows": rows}


def oracle_bits_and_bytes(data: Data) -> Verdict:
    count, rows = data["parameters"], data["rows"]
    same = sum(row["parameters"] == count for row in rows)
    exact = sum(row["bytes"] == count * row["bits"] / 8 for row in rows)
    return Verdict(
        same == exact == len(rows) and [row["bits"] for row in rows] == [*BITS],
        f"{count:,} parameters in {same} of {len(rows)} rows",
        f"every row, bytes = count × bits / 8 in {exact}",
    )


def sabotage_bits_and_bytes(data: Data, lab: Lab) -> Data:
    """The common mistake: fewer bits taken for fewer parameters."""
    sabotaged = copy.deepcopy(data)
    for row in sabotaged["rows"]:
        row["parameters"] = data["parameters"] * row["bits"] // BITS[0]
    return sabotaged


def draw_bits_and_bytes(canvas: Canvas, data: Data) -> None:
    rows = data["rows"]
    most = rows[0]
    body = canvas.titled(
        "Fewer bits per weight make the same weights smaller",
        "Left: one weight, one box per bit. Right: the whole model. The number of weights is the same in every row.",
    )
    halves = [lane.columns(800, ..., gap=100) for lane in body.even_rows(len(rows), gap=PAD)]
    spots = [[half.rows(TITLE * LEADING, ..., gap=GAP) for half in pair] for pair in halves]
    for row, ((name, bits), (count, _)) in zip(rows, spots, strict=True):
        canvas.put(name, f"{row['bits']} bits per weight", weight="bold")
        for bit in bits.even_columns(most["bits"], gap=4)[: row["bits"]]:
            canvas.box(bit.place(bit.w, HIGH, down="top"), fill=canvas.tint(GREY, 0.3), edge=INK, radius=3)
        canvas.put(count, f"× {row['parameters']:,} weights", color=GREY)
    lanes = [right[1].place(right[1].w, HIGH, down="top") for _, right in spots]
    shown = [Bar(row["bytes"], f"{row['bytes'] / 1e6:,.1f} MB", canvas.tint(BLUE, 0.85), BLUE, bold=True) for row in rows]
    bars(canvas, lanes, shown, size=NUMBER, rim=0, edge=INK)


# --- rounding to a grid ---


def capture_rounding(lab: Lab, to_level: Callable[[float], int] = round) -> Data:
    """A row of weights by the formula sin(i²), put on a grid of 2**GRID_BITS levels between its extremes."""
    weights = [math.sin(i * i) for i in range(1, WEIGHTS + 1)]
    low, high = min(weights), max(weights)
    step = (high - low) / (2**GRID_BITS - 1)
    codes = [to_level((weight - low) / step) for weight in weights]
    return {
        "formula": "sin(i²)",
        "bits": GRID_BITS,
        "weights": weights,
        "low": low,
        "step": step,
        "codes": codes,
        "restored": [low + step * code for code in codes],
    }


def oracle_rounding(data: Data) -> Verdict:
    weights, step, levels = data["weights"], data["step"], 2 ** data["bits"]
    stated = max(abs(weight - math.sin(i * i)) for i, weight in enumerate(weights, 1))
    errors = [abs(weight - restored) for weight, restored in zip(weights, data["restored"], strict=True)]
    on_grid = data["bits"] == GRID_BITS and all(
        0 <= code < levels and abs(data["low"] + step * code - restored) <= ROUNDING_SLACK
        for code, restored in zip(data["codes"], data["restored"], strict=True)
    )
    return Verdict(
        max(errors) <= step / 2 + ROUNDING_SLACK and on_grid and stated <= ROUNDING_SLACK and len(weights) == WEIGHTS,
        f"largest error {max(errors):.4f}",
        f"≤ half a step = {step / 2:.4f}, on {levels} levels",
    )


def sabotage_rounding(data: Data, lab: Lab) -> Data:
    """The same row with each weight cut down to the level below instead of rounded to the nearest."""
    return capture_rounding(lab, math.floor)


def draw_rounding(canvas: Canvas, data: Data) -> None:
    weights, codes, step = data["weights"], data["codes"], data["step"]
    levels = 2 ** data["bits"]
    worst = max(abs(weight - restored) for weight, restored in zip(weights, data["restored"], strict=True))
    body = canvas.titled(
        f"Rounded to {levels} levels, no weight moves more than half a step",
        f"The weights {data['formula']} for i = 1 … {len(weights)}. Ring: where a weight lies. Dot: the level stored for it.",
    )
    words, middle, facts = body.columns(220, ..., 260, gap=4 * GAP)
    _, grid, foot = middle.rows(GAP, ..., 70)
    scale = Scale(data["low"], data["low"] + (levels - 1) * step, grid.bottom, grid.y)
    for level in range(levels):
        y = scale.at(data["low"] + level * step)
        canvas.line([(grid.x, y), (grid.right, y)], color=GREY, width=0.8)
        canvas.text(grid.x - GAP, y, str(level), size=LABEL, color=GREY, align="right")
    canvas.put(words, f"{levels} levels:\nwhat {data['bits']} bits\ncan name", lines=3)
    for weight, code, column in zip(weights, codes, grid.even_columns(len(weights)), strict=True):
        x, y, stored = column.center[0], scale.at(weight), scale.at(data["low"] + code * step)
        canvas.line([(x, y), (x, stored)], color=ORANGE, width=4, z=3)
        canvas.dots([(x, stored)], size=18)
        canvas.dots([(x, y)], color=ORANGE, size=26, hollow=True)
        canvas.put(Box(column.x, foot.y, column.w, foot.h), str(code), weight="bold", color=BLUE, align="center")
    canvas.put(Box(words.x, foot.y, words.w, foot.h), "stored", weight="bold", color=BLUE)
    lengths = (("one step", step, INK), ("half a step", step / 2, INK), ("largest error", worst, ORANGE))
    for (name, value, color), box in zip(lengths, facts.place(facts.w, 400).even_rows(len(lengths), gap=2 * GAP), strict=True):
        canvas.stack(box, Line(name, color=GREY if color == INK else color), Line(f"{value:.4f}", NUMBER, color, "bold"))


SLIDES = [
    Slide(
        name="bits_and_bytes",
        section="Quantization",
        claim="The bytes are the parameter count times the bits over eight; the count itself never changes.",
        capture=capture_bits_and_bytes,
        oracle=oracle_bits_and_bytes,
        sabotage=sabotage_bits_and_bytes,
        draw=draw_bits_and_bytes,
        kind="concept",
    ),
    Slide(
        name="rounding",
        section="Quantization",
        claim="Rounding a weight to the nearest level of a grid moves it by at most half a step.",
        capture=capture_rounding,
        oracle=oracle_rounding,
        sabotage=sabotage_rounding,
        draw=draw_rounding,
        kind="concept",
        needs=(),
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
