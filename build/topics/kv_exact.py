"""Slides 20-21: the key/value cache keeps its past to the last bit, and leads to the logits of a recompute from scratch.

They prove that nothing in the cache changes once written, and that generating with it and without it comes to the same
scores at every step, while a position off by one is found out. They need the model.
"""

import copy
import math
import sys
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from pipeline.drawing.canvas import BLUE, FAINT, GREY, INK, MARGIN, ORANGE, PALE, PAPER, RED, WIDTH, Canvas, mix
from pipeline.lab import Lab
from pipeline.model.kv import read, shape
from pipeline.slide import Data, Slide, Verdict
from pipeline.text import amount, power_of_ten

SECTION = "The KV cache"
STEPS = 4  # generation steps compared
SAMPLED, EVERY = 50, 197  # logits kept to be looked at again: the largest, and every so many ids

# float32 rounding, summed in another order, leaves 1e-5 to 7e-5 in logits, keys and values (both shapes tried, 1 to 150
# tokens); the smallest real mistake tried, a position off by one, leaves 0.5, and bfloat16 0.1: the bound is far from all.
BOUND = 1e-3


# --- 20 · the past does not move ---


def watch(lab: Lab, nudged: bool = False) -> Data:
    """Run the steps and compare what is cached with what was first written, bit for bit.

    With `nudged`, one cached key is moved to the next float32 after the second step.
    """
    _, cache = lab.extend(None, lab.ids)
    written = read(cache)  # [layers, 2, heads, positions, size]
    steps = []
    for step, token_id in enumerate(lab.completion[:STEPS]):
        _, cache = lab.extend(cache, [token_id])
        now = read(cache)
        past = now[..., : written.shape[3], :]
        steps.append(
            {
                "changed": (past.view(np.int32) != written.view(np.int32)).sum(axis=(1, 2, 4)),  # [layers, positions]
                "compared": written.size,
            }
        )
        written = np.concatenate([written, now[..., written.shape[3] :, :]], axis=3)
        if nudged and step == 1:
            with lab.torch.inference_mode():
                first = cache.layers[0].keys[0, 0, 0, :1]
                first.copy_(lab.torch.nextafter(first, first + 1))
    fresh = read(lab.extend(None, lab.ids + lab.completion[:STEPS])[1])
    apart = np.abs(now - fresh).max(axis=(1, 2, 4))  # [layers, positions]
    return {"steps": steps, "recompute": [[float(f"{value:.3g}") for value in row] for row in apart.tolist()]}


def capture_past(lab: Lab) -> Data:
    pieces = lab.pieces(lab.ids + lab.completion[:STEPS])
    return {"shape": shape(lab.model.config), "prefill": len(lab.ids), "pieces": pieces, **watch(lab)}


def judge_past(data: Data) -> Verdict:
    of, steps = data["shape"], data["steps"]
    vector = 2 * of["kv_heads"] * of["head_size"]
    whole = len(steps) == STEPS and all(
        np.shape(step["changed"]) == (of["layers"], data["prefill"] + index)
        and step["compared"] == vector * of["layers"] * (data["prefill"] + index)
        for index, step in enumerate(steps)
    )
    changed = sum(sum(map(sum, step["changed"])) for step in steps)
    against = np.array(data["recompute"])
    largest = float(against.max())
    fresh = against.shape == (of["layers"], data["prefill"] + STEPS) == (of["layers"], len(data["pieces"]))
    return Verdict(
        whole and fresh and changed == 0 and largest < BOUND,
        f"{changed} of {sum(step['compared'] for step in steps):,} past numbers changed; recompute {largest:.1e}",
        f"0, and < {BOUND:.0e}",
    )


def spoil_past(data: Data, lab: Lab) -> Data:
    """A real run in which one cached key was nudged by the least that a float32 can be."""
    return {**data, **watch(lab, nudged=True)}


def draw_past(canvas: Canvas, data: Data) -> None:
    steps, first = data["steps"], data["prefill"]
    moved = [sum(map(sum, step["changed"])) for step in steps]
    total = sum(step["compared"] for step in steps)
    canvas.headline(f"{sum(moved):,} changes in {total:,} comparisons over {len(steps)} steps: the past does not move")
    canvas.reading("A cell: keys and values of one token in a layer. Blue: written by this step. Grey: the same to the last bit.")
    slot, room, top, tall, kept = (WIDTH - 2 * MARGIN) / (STEPS + 1), 325, 312, 410, min(first, 10)
    side = min(room / (kept + STEPS), 60)
    shown = f", {kept} shown" if kept < first else ""
    canvas.text(MARGIN, 238, "the sentence", size=28, weight="bold")
    canvas.text(MARGIN, 280, f"{first} written{shown}", size=24, color=GREY)
    draw_cells(canvas, np.ones((data["shape"]["layers"], kept)), MARGIN, top, side, tall)
    for number, step in enumerate(steps, 1):
        x = MARGIN + number * slot
        past = np.array(step["changed"])[:, -(kept + number - 1) :] > 0
        cells = np.concatenate([past * 2, np.ones((len(past), 1))], axis=1)  # 0 as it was, 1 new, 2 changed
        draw_cells(canvas, cells, x, top, side, tall)
        width = canvas.measure(f"step {number} +", 28, weight="bold")[0] + 12
        canvas.text(x, 238, f"step {number} +", size=28, weight="bold")
        piece = data["pieces"][first + number - 1]
        canvas.tile(piece, x + width, 216, size=24, fill=mix(BLUE, 0.18), width=min(room - width, canvas.tile_width(piece, 24)))
        canvas.text(x, 280, f"{first + number - 1} kept, 1 written", size=24, color=GREY)
        told = f"{moved[number - 1]:,} of {step['compared']:,} changed"
        canvas.text(x, top + tall + 30, told, size=24, weight="bold", color=RED if moved[number - 1] else INK)
    canvas.text(MARGIN, top + tall + 30, f"↑ {data['shape']['layers']} layers, one a row", size=24, color=GREY)
    y = 905
    canvas.text(MARGIN, y - 40, "The same cache computed", size=28, weight="bold")
    canvas.text(MARGIN, y, "from scratch, all at once,", size=28, weight="bold")
    canvas.text(MARGIN, y + 40, "differs by at most", size=28, weight="bold")
    scale = Ruler(MARGIN + slot, WIDTH - MARGIN - 120, -8, 1)
    scale.draw(canvas, y + 10)
    scale.bound(canvas, y - 36, y + 10)
    scale.dot(canvas, max(map(max, data["recompute"])), y - 10)


def draw_cells(canvas: Canvas, cells: np.ndarray, x: float, y: float, side: float, tall: float) -> None:
    """A grid of layers (rows) and positions (columns): 0 grey, 1 blue, 2 red."""
    from matplotlib.colors import ListedColormap

    layers, columns = cells.shape
    axes = canvas.chart(x, y, side * columns, tall)
    line = 1.5 if layers <= 40 else 0.5
    axes.pcolormesh(cells, cmap=ListedColormap([PALE, BLUE, RED]), vmin=0, vmax=2, edgecolors=PAPER, linewidth=line)
    axes.set(xlim=(0, columns), ylim=(layers, 0), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


@dataclass(frozen=True)
class Ruler:
    """A row of powers of ten between two pixels: where a difference lies, and how far from the bound."""

    left: float
    right: float
    lowest: int
    highest: int

    def at(self, value: float) -> float:
        """The pixel of a value; what is too small for the ruler, nought among it, lies at its left end."""
        share = (math.log10(max(value, 10.0**self.lowest)) - self.lowest) / (self.highest - self.lowest)
        return self.left + (self.right - self.left) * min(share, 1)

    def draw(self, canvas: Canvas, y: float) -> None:
        canvas.line([(self.left, y), (self.right, y)], color=PALE, width=2)
        for exponent in range(self.lowest, self.highest + 1):
            x = self.at(10.0**exponent)
            canvas.line([(x, y), (x, y + 8)], color=PALE, width=2)
            canvas.text(x, y + 30, power_of_ten(exponent), size=22, color=GREY, align="center")

    def bound(self, canvas: Canvas, top: float, bottom: float) -> None:
        x = self.at(BOUND)
        canvas.line([(x, top), (x, bottom)], color=INK, width=3, dashed=True)
        canvas.text(x, top - 22, f"bound {power_of_ten(round(math.log10(BOUND)))}", size=26, weight="bold", align="center")

    def dot(self, canvas: Canvas, value: float, y: float, *, color: str = BLUE, marker: str = "o") -> None:
        """A mark with its value beside it, on the side away from the bound."""
        x, below = self.at(value), value < BOUND
        canvas.sheet.plot(x, y, marker=marker, color=color, markersize=15, zorder=4)
        side = "right" if below else "left"
        canvas.text(x - 22 if below else x + 22, y, amount(value), size=26, weight="bold", color=color, align=side)


# --- 21 · cached beside recomputed ---


def whole_precision(lab: Lab) -> Lab:
    """The lab that recomputes: always in float32, so that a model loaded in less on purpose is found out.

    Without this, bfloat16 may go unseen: its rounding is so coarse that cached and recomputed can agree to the last bit.
    """
    if lab.model.dtype == lab.torch.float32:
        return lab
    loaded = replace(lab.loaded, model=copy.deepcopy(lab.model).float())
    return Lab(lab.sentence, lambda: loaded)


def beside_recompute(lab: Lab, shift: int = 0) -> list[Data]:
    """Logits of each step with the cache and without; with `shift`, each new token is told a wrong position."""
    full = whole_precision(lab)
    _, cache = lab.extend(None, lab.ids)
    steps = []
    for step in range(STEPS):
        ids = lab.ids + full.completion[: step + 1]
        cached = lab.extend(cache, ids[-1:], first=len(ids) - 1 + shift)[0][-1]  # [vocabulary]
        recomputed = full.next_logits(ids)  # [vocabulary]
        best = np.argsort(-recomputed, kind="stable")[:SAMPLED]
        sample = sorted({*best.tolist(), int(cached.argmax()), *range(0, len(cached), EVERY)})
        steps.append(
            {
                "tokens": len(ids),
                "fed": lab.pieces(ids[-1:])[0],
                "vocabulary": len(cached),
                "largest": np.abs(cached - recomputed).max(),
                "sample": sample,
                "cached": cached[sample],
                "recomputed": recomputed[sample],
                "cached_top": top(lab, cached),
                "recomputed_top": top(lab, recomputed),
            }
        )
    return steps


def top(lab: Lab, logits: np.ndarray) -> Data:
    best = int(logits.argmax())
    return {"id": best, "text": lab.pieces([best])[0], "logit": float(logits[best])}


def capture_beside(lab: Lab) -> Data:
    shifted = beside_recompute(lab, shift=1)
    return {"steps": beside_recompute(lab), "shifted": [step["largest"] for step in shifted]}


def judge_beside(data: Data) -> Verdict:
    steps = data["steps"]
    below = same = 0
    largest = 0.0
    for step in steps:
        cached, recomputed = (dict(zip(step["sample"], step[way], strict=True)) for way in ("cached", "recomputed"))
        here = max(step["largest"], *(abs(cached[i] - recomputed[i]) for i in step["sample"]))
        below += here < BOUND
        largest = max(largest, here)
        stated = all(step[f"{way}_top"]["logit"] == logits[step[f"{way}_top"]["id"]] == max(logits.values())
                     for way, logits in (("cached", cached), ("recomputed", recomputed)))  # fmt: skip
        # where two tokens tie to within what the bound lets both move, either may come first
        behind = recomputed[step["recomputed_top"]["id"]] - recomputed[step["cached_top"]["id"]]
        same += stated and (step["cached_top"]["id"] == step["recomputed_top"]["id"] or 0 <= behind < 2 * BOUND)
    caught = all(difference >= BOUND for difference in data["shifted"]) and len(data["shifted"]) == len(steps)
    grown = all(b["tokens"] == a["tokens"] + 1 for a, b in pairwise(steps))
    return Verdict(
        below == same == len(steps) == STEPS and caught and grown,
        f"max |Δ| {largest:.1e}, same argmax at {same} of {len(steps)} steps",
        f"< {BOUND:.0e} at {STEPS} of {STEPS}",
    )


def spoil_beside(data: Data, lab: Lab) -> Data:
    """A real run in which each new token is told a position one too high."""
    return {**data, "steps": beside_recompute(lab, shift=1)}


def draw_beside(canvas: Canvas, data: Data) -> None:
    steps = data["steps"]
    largest = max(step["largest"] for step in steps)
    good = f"{len(steps)} of {len(steps)} steps"
    canvas.headline(f"With the cache or from scratch: the same logits at {good}, to within {amount(largest)}")
    logits = f"{steps[0]['vocabulary']:,} logits"
    canvas.reading(f"One row a step. Left: the top token and its logit, both ways. Right: the largest difference over {logits}.")
    head, top_row, pitch = 246, 290, 154
    columns = ((250, "with the cache"), (590, "from scratch"))
    for x, name in columns:
        canvas.text(x + 140, head, name, size=28, weight="bold", align="center", color=BLUE if x == 250 else INK)
    scale = Ruler(960, WIDTH - MARGIN - 60, -7, 2)
    for number, (step, wrong) in enumerate(zip(steps, data["shifted"], strict=True), 1):
        y = top_row + (number - 1) * pitch
        canvas.line([(MARGIN, y), (WIDTH - MARGIN, y)], color=PALE, width=1)
        canvas.text(MARGIN, y + 52, f"step {number}", size=30, weight="bold")
        canvas.text(MARGIN, y + 92, f"{step['tokens']:,} tokens", size=24, color=GREY)
        for x, way in zip((250, 590), ("cached_top", "recomputed_top"), strict=True):
            box = canvas.tile(step[way]["text"], x, y + 22, size=32, width=280, fill=mix(BLUE, 0.18) if x == 250 else FAINT)
            canvas.text(box.center[0], box.bottom + 30, f"{step[way]['logit']:.4f}", size=28, mono=True, align="center")
        sign = "=" if step["cached_top"]["id"] == step["recomputed_top"]["id"] else "≈"
        canvas.text(560, y + 52, sign, size=40, align="center")
        canvas.text(560, box.bottom + 30, "≈", size=28, color=GREY, align="center")
        scale.dot(canvas, step["largest"], y + 77)
        scale.dot(canvas, wrong, y + 77, color=ORANGE, marker="D")
    bottom = top_row + len(steps) * pitch
    scale.draw(canvas, bottom)
    scale.bound(canvas, head + 22, bottom)
    canvas.text(scale.at(6e-6), head, "this run", size=26, weight="bold", color=BLUE, align="center")
    canvas.text(scale.at(3), head, "position off by one", size=26, weight="bold", color=ORANGE, align="center")


SLIDES = [
    Slide(
        number=20,
        name="past",
        section=SECTION,
        claim="What is cached keeps its last bit through every step, and is what a recompute finds, within the bound.",
        capture=capture_past,
        oracle=judge_past,
        sabotage=spoil_past,
        draw=draw_past,
    ),
    Slide(
        number=21,
        name="beside_recompute",
        section=SECTION,
        claim=f"Cached next-token logits equal a full recompute within the bound at {STEPS} of {STEPS} steps, same argmax.",
        capture=capture_beside,
        oracle=judge_beside,
        sabotage=spoil_beside,
        draw=draw_beside,
    ),
]

if __name__ == "__main__":
    from regen_all import main

    sys.exit(main(["--only", Path(__file__).stem, *sys.argv[1:]]))
