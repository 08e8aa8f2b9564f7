"""Slides 31-32, concept cards: what fewer bits do to the bytes of a model, and to one weight.

The parameter count on slide 31 is the photographed model's own; the weights on slide 32 follow from a formula that the
card states. No model is quantized and no clock is read. Slide 31 needs the model, slide 32 nothing.
"""

import copy
import math
import sys
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from pipeline.drawing.canvas import BLUE, CONCEPT_PAPER, GREY, INK, MARGIN, ORANGE, Canvas, mix
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict

BITS = (32, 16, 8, 4)
WEIGHTS, GRID_BITS = 16, 4  # slide 32: weights in the row, bits for each on the grid
ROUNDING_SLACK = 1e-8  # a capture keeps nine significant digits of numbers below one


# --- 31 · fewer bits, fewer bytes ---


def capture_bits_and_bytes(lab: Lab) -> Data:
    """Walk through the model's tensors (a tied one comes once) and count what each would take at so many bits a weight."""
    tensors = [parameter.numel() for parameter in lab.model.parameters()]
    rows = [{"bits": bits, "parameters": sum(tensors), "bytes": sum(count * bits for count in tensors) / 8} for bits in BITS]
    return {"parameters": int(lab.loaded.provenance["parameters"]), "tensors": len(tensors), "rows": rows}


def judge_bits_and_bytes(data: Data) -> Verdict:
    count, rows = data["parameters"], data["rows"]
    same = sum(row["parameters"] == count for row in rows)
    exact = sum(row["bytes"] == count * row["bits"] / 8 for row in rows)
    return Verdict(
        same == exact == len(rows) == len(BITS),
        f"{count:,} parameters in {same} of {len(rows)} rows",
        f"every row, bytes = count × bits / 8 in {exact}",
    )


def spoil_bits_and_bytes(data: Data, lab: Lab) -> Data:
    """The common mistake: fewer bits taken for fewer parameters."""
    spoiled = copy.deepcopy(data)
    for row in spoiled["rows"]:
        row["parameters"] = data["parameters"] * row["bits"] // BITS[0]
    return spoiled


def draw_bits_and_bytes(canvas: Canvas, data: Data) -> None:
    rows = data["rows"]
    most = rows[0]
    less = f"{rows[-1]['bytes'] / 1e6:,.0f} MB at {rows[-1]['bits']}"
    canvas.headline(f"{data['parameters']:,} weights take {most['bytes'] / 1e6:,.0f} MB at {most['bits']} bits and {less}")
    canvas.reading("Left: one weight, a box a bit. Right: the whole model. The number of weights is the same in every row.")
    bit, left, bar = 21, 960, 660
    for place, row in enumerate(rows):
        y = 250 + place * 178
        canvas.text(MARGIN, y + 14, f"{row['bits']} bits a weight", size=30, weight="bold")
        for box in range(row["bits"]):
            x = MARGIN + box * (bit + 4)
            canvas.box(x, y + 46, bit, 62, fill=mix(GREY, 0.3, CONCEPT_PAPER), edge=INK, width=1.2, radius=3)
        canvas.text(left, y + 14, f"× {row['parameters']:,} weights", size=30, color=GREY)
        end = left + bar * row["bytes"] / most["bytes"]
        canvas.box(left, y + 46, end - left, 62, fill=mix(BLUE, 0.85, CONCEPT_PAPER), edge=INK, width=2)
        canvas.text(end + 20, y + 77, f"{row['bytes'] / 1e6:,.1f} MB", size=36, weight="bold", color=BLUE)


# --- 32 · rounding to a grid ---


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


def judge_rounding(data: Data) -> Verdict:
    weights, step, levels = data["weights"], data["step"], 2 ** data["bits"]
    stated = max(abs(weight - math.sin(i * i)) for i, weight in enumerate(weights, 1))
    errors = [abs(weight - restored) for weight, restored in zip(weights, data["restored"], strict=True)]
    on_grid = all(
        0 <= code < levels and abs(data["low"] + step * code - restored) <= ROUNDING_SLACK
        for code, restored in zip(data["codes"], data["restored"], strict=True)
    )
    return Verdict(
        max(errors) <= step / 2 + ROUNDING_SLACK and on_grid and stated <= ROUNDING_SLACK and len(weights) == WEIGHTS,
        f"largest error {max(errors):.4f}",
        f"≤ half a step = {step / 2:.4f}, on {levels} levels",
    )


def spoil_rounding(data: Data, lab: Lab) -> Data:
    """The same row with each weight cut down to the level below instead of rounded to the nearest."""
    return capture_rounding(lab, math.floor)


def draw_rounding(canvas: Canvas, data: Data) -> None:
    weights, codes, step = data["weights"], data["codes"], data["step"]
    levels = 2 ** data["bits"]
    worst = max(abs(weight - restored) for weight, restored in zip(weights, data["restored"], strict=True))
    canvas.headline(f"Rounded to {levels} levels, no weight moves more than half a step")
    stated = f"The weights {data['formula']} for i = 1 … {len(weights)}."
    canvas.reading(f"{stated} Ring: where a weight lies. Dot: the level that is stored for it.")
    left, right, bottom, pitch = 330, 1580, 890, 43

    def height(value: float) -> float:
        return bottom - (value - data["low"]) / step * pitch

    for level in range(levels):
        canvas.line([(left, bottom - level * pitch), (right, bottom - level * pitch)], color=GREY, width=0.8)
        canvas.text(left - 20, bottom - level * pitch, str(level), size=22, color=GREY, align="right")
    canvas.text(MARGIN, bottom - 7.5 * pitch, f"{levels} levels:\nwhat {data['bits']} bits\ncan name", size=28)
    for place, (weight, code) in enumerate(zip(weights, codes, strict=True)):
        x, y, stored = left + 45 + place * (right - left - 90) / (len(weights) - 1), height(weight), bottom - code * pitch
        canvas.line([(x, y), (x, stored)], color=ORANGE, width=4, z=3)
        canvas.box(x - 9, stored - 9, 18, 18, fill=BLUE, radius=8.9, z=4)
        canvas.box(x - 13, y - 13, 26, 26, edge=ORANGE, width=3, radius=12.9, z=5)
        canvas.text(x, bottom + 42, str(code), size=26, weight="bold", color=BLUE, align="center")
    canvas.text(MARGIN, bottom + 42, "stored", size=28, weight="bold", color=BLUE)
    x = right + 70
    canvas.text(x, 380, "one step", size=26, color=GREY)
    canvas.text(x, 428, f"{step:.4f}", size=38, weight="bold")
    canvas.text(x, 520, "half a step", size=26, color=GREY)
    canvas.text(x, 568, f"{step / 2:.4f}", size=38, weight="bold")
    canvas.text(x, 660, "largest error", size=26, color=ORANGE)
    canvas.text(x, 708, f"{worst:.4f}", size=38, weight="bold", color=ORANGE)


SLIDES = [
    Slide(
        number=31,
        name="bits_and_bytes",
        section="Quantization",
        claim="The bytes are the parameter count times the bits over eight; the count itself never changes.",
        capture=capture_bits_and_bytes,
        oracle=judge_bits_and_bytes,
        sabotage=spoil_bits_and_bytes,
        draw=draw_bits_and_bytes,
        kind="concept",
    ),
    Slide(
        number=32,
        name="rounding",
        section="Quantization",
        claim="Rounding a weight to the nearest level of a grid moves it by at most half a step.",
        capture=capture_rounding,
        oracle=judge_rounding,
        sabotage=spoil_rounding,
        draw=draw_rounding,
        kind="concept",
        needs=(),
    ),
]

if __name__ == "__main__":
    from regen_all import main

    sys.exit(main(["--only", Path(__file__).stem, *sys.argv[1:]]))
