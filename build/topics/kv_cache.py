"""Slides 18-19: what a key/value cache holds, and what it weighs as the text grows.

They prove that its bytes follow from the model's shape, key/value heads and not query heads, and that each token adds the
same bytes. They need the model.
"""

import copy
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from pipeline.drawing.canvas import BLUE, GREY, INK, LABEL, MARGIN, ORANGE, PAPER, WIDTH, Canvas, mix, visible
from pipeline.lab import Lab
from pipeline.model.kv import bytes_of_a_token, counted_bytes, read, shape
from pipeline.slide import Data, Slide, Verdict
from pipeline.text import counted

SECTION = "The KV cache"
FED_ONE_BY_ONE = 18  # the last tokens of sentence and completion that slide 19 feeds one at a time


def upright(canvas: Canvas, piece: str, x: float, y: float, room: float, **style) -> None:
    """A token written upwards under a column, cut where it is longer than `room` pixels."""
    shown = visible(piece)
    while canvas.measure(shown, LABEL, mono=True)[0] > room:
        shown = shown.rstrip("…")[:-1] + "…"
    canvas.text(x, y, shown, size=LABEL, mono=True, rotation=90, align="center", **style)


# --- 18 · what is stored ---


def capture_stored(lab: Lab) -> Data:
    _, cache = lab.extend(None, lab.ids)
    held = read(cache)  # [layers, 2, heads, positions, size]
    lengths = np.linalg.norm(held, axis=-1)  # [layers, 2, heads, positions]
    return {
        "prompt": lab.pieces(lab.ids),
        "shape": shape(lab.model.config),
        "bytes_by_layer": [layer.keys.nbytes + layer.values.nbytes for layer in cache.layers],
        "bytes": counted_bytes(cache),
        "key_lengths": rounded(lengths[:, 0].reshape(-1, len(lab.ids))),
        "value_lengths": rounded(lengths[:, 1].reshape(-1, len(lab.ids))),
    }


def rounded(grid: np.ndarray) -> list[list[float]]:
    return [[float(f"{value:.5g}") for value in row] for row in grid.tolist()]


def judge_stored(data: Data) -> Verdict:
    of, positions = data["shape"], len(data["prompt"])
    expected = bytes_of_a_token(of) * positions
    drawn = all(
        np.shape(data[part]) == (of["layers"] * of["kv_heads"], positions) and bool((np.array(data[part]) >= 0).all())
        for part in ("key_lengths", "value_lengths")
    )
    whole = len(data["bytes_by_layer"]) == of["layers"] and sum(data["bytes_by_layer"]) == data["bytes"]
    factors = f"{of['layers']} × 2 × {of['kv_heads']} × {positions} × {of['head_size']} × {of['bytes_each']}"
    return Verdict(whole and drawn and data["bytes"] == expected, f"{data['bytes']:,} bytes in the cache object", f"= {factors}")


def spoil_stored(data: Data, lab: Lab) -> Data:
    """Query heads counted instead of key/value heads (one too many, where the model has as many of each)."""
    spoiled = copy.deepcopy(data)
    of = spoiled["shape"]
    of["kv_heads"] = of["query_heads"] if of["query_heads"] != of["kv_heads"] else of["query_heads"] + 1
    return spoiled


def draw_stored(canvas: Canvas, data: Data) -> None:
    of, positions = data["shape"], len(data["prompt"])
    vectors = of["layers"] * 2 * of["kv_heads"] * positions
    canvas.headline(f"The cache of {counted(positions, 'token')}: {vectors:,} vectors, {data['bytes']:,} bytes")
    canvas.reading(f"One cell is one stored vector of {of['head_size']} numbers: the darker, the longer. A column is a token.")
    top, height, wide = 400, 530, 500
    for left, name in ((180, "keys"), (720, "values")):
        grid = np.array(data[f"{name[:-1]}_lengths"])
        axes = canvas.chart(left, top, wide, height)
        axes.pcolormesh(grid / grid.max(), cmap=shades(), vmin=0, vmax=1)
        axes.set(xlim=(0, positions), ylim=(len(grid), 0), xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        for layer in range(1, of["layers"]):
            axes.axhline(layer * of["kv_heads"], color=PAPER, linewidth=1.5)
        column = wide / positions
        if column >= 1.6 * LABEL:  # room for a line of text set upright
            for position, piece in enumerate(data["prompt"]):
                upright(canvas, piece, left + (position + 0.5) * column, top - 12, 120, valign="bottom", color=GREY)
        else:
            canvas.text(left + wide / 2, top - 30, f"{positions} tokens, first to last", color=GREY, align="center")
        canvas.text(left, 260, name, size=30, weight="bold", valign="baseline")
    for layer, y in ((1, top + height / of["layers"] / 2), (of["layers"], top + height * (1 - 0.5 / of["layers"]))):
        canvas.text(164, y, f"layer {layer}", size=22, color=GREY, align="right")
    draw_product(canvas, of, positions, data["bytes"])


def draw_product(canvas: Canvas, of: Data, positions: int, total: int) -> None:
    """The multiplication, a factor a line, and what query heads would have cost."""
    middle, y = 1420, 260
    factors = [
        (of["layers"], "layers"), (2, "keys and values"), (of["kv_heads"], "key/value heads"),
        (positions, "tokens" if positions > 1 else "token"), (of["head_size"], "numbers a vector"),
        (of["bytes_each"], "bytes a number"),
    ]  # fmt: skip
    for line, (factor, name) in enumerate(factors):
        accent = name == "key/value heads"
        sign = "× " if line else ""
        canvas.text(middle, y, f"{sign}{factor:,}", size=36, weight="bold", align="right", color=BLUE if accent else INK,
                    valign="baseline")  # fmt: skip
        canvas.text(middle + 24, y, name, size=28, color=BLUE if accent else GREY, valign="baseline")
        y += 66
    canvas.line([(1280, y - 36), (WIDTH - MARGIN, y - 36)], color=INK, width=2)
    canvas.text(middle - 120, y + 28, f"= {total:,} bytes", size=44, weight="bold")
    if of["query_heads"] == of["kv_heads"]:
        told, color = f"Each of the {of['query_heads']} query heads has keys and values of its own.", GREY
    else:
        each = total // of["kv_heads"] * of["query_heads"]
        told = (
            f"The model asks with {of['query_heads']} query heads. Were keys and values kept for each of them, "
            f"it would be {each:,} bytes: {each / total:.3g} times as many."
        )
        color = ORANGE
    canvas.text(middle - 120, y + 88, told, size=28, color=color, valign="top", wrap=WIDTH - MARGIN - middle + 120, lines=5)


def shades() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("shades", [mix(BLUE, 0.04), mix(BLUE, 1)])


# --- 19 · bytes against tokens ---


def feed(lab: Lab, doubled: int | None = None) -> Data:
    """Feed sentence and completion, the last tokens one at a time; the step `doubled` feeds its token twice."""
    ids = lab.ids + lab.completion
    start = max(0, len(ids) - FED_ONE_BY_ONE)
    cache = lab.extend(None, ids[:start])[1] if start else None
    begun = counted_bytes(cache)
    steps = []
    for step, (token_id, piece) in enumerate(zip(ids[start:], lab.pieces(ids[start:]), strict=True)):
        _, cache = lab.extend(cache, [token_id] * (2 if step == doubled else 1))
        steps.append({"piece": piece, "tokens": cache.get_seq_length(), "bytes": counted_bytes(cache)})
    return {"start": {"tokens": start, "bytes": begun}, "steps": steps}


def capture_growth(lab: Lab) -> Data:
    return {"shape": shape(lab.model.config), "sentence_tokens": len(lab.ids), **feed(lab)}


def judge_growth(data: Data) -> Verdict:
    points = [data["start"], *data["steps"]]
    each = bytes_of_a_token(data["shape"])
    good = sum(b["tokens"] - a["tokens"] == 1 and b["bytes"] - a["bytes"] == each for a, b in pairwise(points))
    steps = len(data["steps"])
    line = all(point["bytes"] == point["tokens"] * each for point in points)
    shown = points[0]["tokens"] <= data["sentence_tokens"] < points[-1]["tokens"]
    return Verdict(
        line and shown and good == steps > 1,
        f"one token more, {each:,} bytes more at {good} of {steps} steps",
        f"{steps} of {steps}, as the model's shape says",
    )


def spoil_growth(data: Data, lab: Lab) -> Data:
    """A real run in which one step adds two positions."""
    return {**data, **feed(lab, doubled=len(data["steps"]) // 2)}


def draw_growth(canvas: Canvas, data: Data) -> None:
    each, steps, start = bytes_of_a_token(data["shape"]), data["steps"], data["start"]["tokens"]
    together = f" No columns: the first {counted(start, 'token')}, which went in together." if start else ""
    canvas.headline(f"Every token adds the same {each:,} bytes, and nothing leaves")
    canvas.reading(f"One column a step: what the cache holds once its token is in. Blue is what this step added.{together}")
    base, tall = 780, 490
    pitch = min((WIDTH - 2 * MARGIN) / len(steps), 170)
    for index, step in enumerate(steps):
        x, height = MARGIN + index * pitch, tall * step["bytes"] / steps[-1]["bytes"]
        canvas.box(x + 4, base - height, pitch - 8, height, fill=mix(GREY, 0.22), radius=0)
        canvas.box(x + 4, base - height, pitch - 8, max(tall * each / steps[-1]["bytes"], 4), fill=BLUE, radius=0, z=2)
        canvas.text(x + pitch / 2, base + 22, f"{step['tokens']:,}", size=24, color=GREY, align="center")
        given = step["tokens"] <= data["sentence_tokens"]
        upright(canvas, step["piece"], x + pitch / 2, base + 44, 150, valign="top", color=GREY if given else BLUE)
    split, end = MARGIN + (data["sentence_tokens"] - start) * pitch, MARGIN + len(steps) * pitch - 4
    held = data["sentence_tokens"] * each
    canvas.line([(split, 228), (split, base + 190)], color=INK, width=2, dashed=True)
    before = split > WIDTH * 0.4
    told = f"the sentence: {counted(data['sentence_tokens'], 'token')}, {held:,} bytes"
    canvas.text(split + (-16 if before else 16), 246, told, size=28, weight="bold", align="right" if before else "left")
    total = f"{steps[-1]['tokens']:,} tokens: {steps[-1]['bytes']:,} bytes"
    canvas.text(end, 246, total, size=28, weight="bold", color=BLUE, align="right")


SLIDES = [
    Slide(
        number=18,
        name="stored",
        section=SECTION,
        claim="The cache object's bytes are layers × keys and values × key/value heads × positions × head size × 4.",
        capture=capture_stored,
        oracle=judge_stored,
        sabotage=spoil_stored,
        draw=draw_stored,
    ),
    Slide(
        number=19,
        name="growth",
        section=SECTION,
        claim="Every step adds one position and the same bytes.",
        capture=capture_growth,
        oracle=judge_growth,
        sabotage=spoil_growth,
        draw=draw_growth,
    ),
]

if __name__ == "__main__":
    from regen_all import main

    sys.exit(main(["--only", Path(__file__).stem, *sys.argv[1:]]))
