"""Slides 22-24: what the key/value cache saves in arithmetic and in time, and that a long completion is the same with it.

They prove that recomputing grows with the prefix while the cached step stays nearly flat, that it is slower on the clock,
and that neither changes a token. The clock of slide 23 is read as a ratio only. They need the model.
"""

import copy
import math
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from pipeline.drawing.canvas import BLUE, FAINT, GREY, INK, MARGIN, ORANGE, PALE, PAPER, RED, WIDTH, Canvas, mix
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict

SECTION = "The KV cache"
# A cached step does the same for its one token each time, but for attention, which looks at one position more: less than
# 0.3 % more work a step for both shapes tried, so ten steps stay within this.
FLAT = 1.1
LONGEST_PREFIX = 256  # tokens; here a recompute is several times slower than a cached step, noise is not
ROUNDS = 5
LONG_COMPLETION = 50
TIE = 2e-3  # two logits nearer than this may change places: each may move by 1e-3 between the two ways


# --- 22 · floating-point operations ---


def operations(lab: Lab, call: Callable[[], Any]) -> tuple[int, int, Any]:
    """The floating-point operations of a call by torch's own counter, in all and in the output matrix; what it returned."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        returned = call()
    output = lab.model.get_output_embeddings()
    name = next(name for name, module in lab.model.named_modules() if module is output)
    inside = counter.get_flop_counts()[f"{type(lab.model).__name__}.{name}"]
    return counter.get_total_flops(), sum(inside.values()), returned


def capture_operations(lab: Lab) -> Data:
    cache = None
    steps: list[Data] = []
    for step, token_id in enumerate(lab.completion):
        prefix = lab.ids + lab.completion[:step]
        new = prefix[-1:] if step else prefix  # the first step fills the cache: both ways read the whole sentence
        recompute, _, _ = operations(lab, partial(lab.logits, prefix))
        cached, head, (_, cache) = operations(lab, partial(lab.extend, cache, new))
        steps.append({"prefix": len(prefix), "chosen": lab.pieces([token_id])[0], "recompute": recompute, "cached": cached})
    totals = {way: sum(step[way] for step in steps) for way in ("recompute", "cached")}
    return {"steps": steps, "totals": totals, "ratio": totals["recompute"] / totals["cached"], "output_share": head / cached}


def judge_operations(data: Data) -> Verdict:
    steps = data["steps"]
    recompute, cached = ([step[way] for step in steps] for way in ("recompute", "cached"))
    after = cached[1:]  # the first step fills the cache
    grows = all(b > a for a, b in pairwise(recompute))
    prefixes = all(b["prefix"] == a["prefix"] + 1 for a, b in pairwise(steps))
    flat = max(after) / min(after)
    ratio = sum(recompute) / sum(cached)
    totals = {"recompute": sum(recompute), "cached": sum(cached)}
    as_computed = data["totals"] == totals and abs(data["ratio"] - ratio) < 1e-6 * ratio
    return Verdict(
        len(steps) > 2 and prefixes and grows and flat <= FLAT and recompute[0] == cached[0] and as_computed and ratio > 1,
        f"recompute grows × {recompute[-1] / recompute[0]:.2f}, cached × {flat:.3f}; totals {ratio:.2f} : 1",
        f"grows each step; ≤ {FLAT}; > 1",
    )


def spoil_operations(data: Data, lab: Lab) -> Data:
    """Recompute counted once, at the first step, and taken for every step."""
    spoiled = copy.deepcopy(data)
    for step in spoiled["steps"]:
        step["recompute"] = data["steps"][0]["recompute"]
    spoiled["totals"]["recompute"] = data["steps"][0]["recompute"] * len(data["steps"])
    spoiled["ratio"] = spoiled["totals"]["recompute"] / spoiled["totals"]["cached"]
    return spoiled


def draw_operations(canvas: Canvas, data: Data) -> None:
    steps, largest = data["steps"], max(step["recompute"] for step in data["steps"])
    divisor, unit = (1e9, "billion") if largest >= 1e9 else (1e6, "million")
    digits = max(0, 2 - len(f"{largest / divisor:.0f}") + 1)
    canvas.headline(f"{len(steps)} tokens without the cache: {data['ratio']:.1f} times the arithmetic")
    canvas.reading(f"One pair a token: floating-point operations, counted, in {unit}s. Under each bar, how many tokens went in.")
    base, tall, pitch = 840, 500, (WIDTH - 2 * MARGIN + 24) / len(steps)
    wide = (pitch - 24) / 2
    for index, step in enumerate(steps):
        x = MARGIN + index * pitch
        fed = {"recompute": step["prefix"], "cached": 1 if index else step["prefix"]}
        for left, way, fill, color in ((x, "recompute", mix(ORANGE, 0.5), ORANGE), (x + wide, "cached", BLUE, BLUE)):
            height = max(tall * step[way] / largest, 3)
            canvas.box(left, base - height, wide - 4, height, fill=fill, radius=0)
            middle = left + wide / 2 - 2
            told = f"{step[way] / divisor:,.{digits}f}"
            canvas.text(middle, base - height - 20, told, size=26, weight="bold", color=color, align="center")
            canvas.text(middle, base + 24, f"{fed[way]:,}", size=26, color=color, align="center")
        canvas.tile(step["chosen"], x, base + 52, size=26, width=2 * wide - 4, fill=mix(BLUE, 0.18))
    canvas.line([(MARGIN, base), (WIDTH - MARGIN, base)], color=PALE, width=2)
    for y, way, name, color in ((238, "recompute", "without the cache", ORANGE), (282, "cached", "with the cache", BLUE)):
        canvas.text(MARGIN, y, f"{name}: {data['totals'][way] / divisor:,.1f} {unit}", size=30, weight="bold", color=color)


# --- 23 · milliseconds ---


def milliseconds(lab: Lab, ids: list[int], cache: Any = None) -> float:
    """How long the call alone takes."""
    tokens = lab.torch.tensor([ids])
    with lab.torch.inference_mode():
        start = time.perf_counter()
        lab.model(tokens, cache=cache, use_cache=cache is not None)
        return (time.perf_counter() - start) * 1000


def capture_milliseconds(lab: Lab) -> Data:
    longest = min(LONGEST_PREFIX, lab.context - 1)
    lengths = [longest // 8, longest // 4, longest // 2, longest]
    text = (lab.ids * (longest // len(lab.ids) + 1))[:longest]  # the sentence over and over
    cache, held, caches = None, 0, {}
    for length in lengths:  # all but the last token of each; this warms up too
        _, cache = lab.extend(cache, text[held : length - 1])
        held, caches[length] = length - 1, copy.deepcopy(cache)
    milliseconds(lab, text[-1:], copy.deepcopy(caches[longest]))
    recompute: dict[int, list[float]] = {length: [] for length in lengths}
    cached: dict[int, list[float]] = {length: [] for length in lengths}
    for _ in range(ROUNDS):  # interleaved, so that a busy moment of the machine falls on both
        for length in lengths:
            kept = copy.deepcopy(caches[length])  # a call changes its cache
            recompute[length].append(milliseconds(lab, text[:length]))
            cached[length].append(milliseconds(lab, text[length - 1 : length], kept))
    return {"readings": [timed(length, recompute[length], cached[length]) for length in lengths]}


def timed(prefix: int, recompute_ms: list[float], cached_ms: list[float]) -> Data:
    ratio = statistics.median(recompute_ms) / statistics.median(cached_ms)
    rounds = [r / c for r, c in zip(recompute_ms, cached_ms, strict=True)]
    return {"prefix": prefix, "recompute_ms": recompute_ms, "cached_ms": cached_ms, "ratio": ratio, "rounds": rounds}


def judge_milliseconds(data: Data) -> Verdict:
    readings = data["readings"]
    longest = max(readings, key=lambda reading: reading["prefix"])
    ratio = float(np.median(longest["recompute_ms"]) / np.median(longest["cached_ms"]))
    sound = all(
        len(reading["recompute_ms"]) == len(reading["cached_ms"]) == ROUNDS
        and min(reading["recompute_ms"] + reading["cached_ms"]) > 0
        and np.allclose(reading["rounds"], np.divide(reading["recompute_ms"], reading["cached_ms"]), rtol=1e-6)
        for reading in readings
    )
    told = f"median time at {longest['prefix']} tokens, without : with the cache = {ratio:.1f}"
    return Verdict(sound and ratio > 1 and abs(longest["ratio"] - ratio) < 1e-6 * ratio, told, "> 1")


def spoil_milliseconds(data: Data, lab: Lab) -> Data:
    """The two series swapped."""
    return {"readings": [timed(r["prefix"], r["cached_ms"], r["recompute_ms"]) for r in data["readings"]]}


def draw_milliseconds(canvas: Canvas, data: Data) -> None:
    readings = data["readings"]
    last = readings[-1]
    canvas.headline(f"At {last['prefix']} tokens, a step without the cache takes {last['ratio']:.1f} times as long")
    canvas.reading(f"Time without the cache over time with it. Dot: medians of {ROUNDS} interleaved rounds. Bar: all rounds.")
    left, base, tall = 300, 880, 620
    rounds = [ratio for reading in readings for ratio in reading["rounds"]]
    lowest, highest = math.log2(min(0.8, *rounds)), math.log2(max(2.5, *rounds))
    pitch = (WIDTH - MARGIN - left) / len(readings)

    def height(ratio: float) -> float:
        """Doublings are equally far apart: ratios are drawn by their logarithm."""
        return base - tall * (math.log2(ratio) - lowest) / (highest - lowest)

    for doubling in range(math.ceil(lowest), math.floor(highest) + 1):
        y, even = height(2.0**doubling), doubling == 0
        canvas.line([(left, y), (WIDTH - MARGIN, y)], color=INK if even else PALE, width=2 if even else 1, dashed=even)
        told = "the same time" if even else f"{2.0**doubling:g} × as long"
        canvas.text(left - 24, y, told, size=26, color=INK if even else GREY, weight="bold" if even else "regular", align="right")
    for index, reading in enumerate(readings):
        x, spread = left + (index + 0.4) * pitch, [height(ratio) for ratio in reading["rounds"]]
        canvas.line([(x, max(spread)), (x, min(spread))], color=mix(BLUE, 0.35), width=12, z=2)
        canvas.sheet.plot([x] * len(spread), spread, "_", color=BLUE, markersize=16, zorder=3)
        canvas.sheet.plot(x, height(reading["ratio"]), "o", color=BLUE, markersize=22, zorder=4)
        told, y = f"{reading['ratio']:.1f} ×", height(reading["ratio"]) - 4
        canvas.box(x + 34, y - 26, canvas.measure(told, 44, weight="bold")[0] + 20, 52, fill=PAPER, z=2)  # no line through it
        canvas.text(x + 44, y, told, size=44, weight="bold", color=BLUE)
        canvas.text(x, base + 40, f"{reading['prefix']} tokens", size=30, weight="bold", align="center")
    canvas.text(left - 24, base + 40, "read so far", size=26, color=GREY, align="right")


# --- 24 · the tempting mistake ---


def capture_long_completion(lab: Lab) -> Data:
    ids, cached = lab.ids, list[int]()
    logits, cache = lab.extend(None, ids)
    for _ in range(LONG_COMPLETION):
        cached.append(int(logits[-1].argmax()))
        logits, cache = lab.extend(cache, cached[-1:])
    recomputed = lab.greedy(ids, LONG_COMPLETION)
    steps = []
    for step, (with_cache, without) in enumerate(zip(cached, recomputed, strict=True)):
        scores = lab.next_logits(ids + recomputed[:step])
        second, first = np.partition(scores, -2)[-2:]
        steps.append(
            {
                "with": {"id": with_cache, "text": lab.pieces([with_cache])[0]},
                "without": {"id": without, "text": lab.pieces([without])[0]},
                "lead": float(first - second),
            }
        )
    return {"prompt_tokens": len(ids), "steps": steps, "compared": comparable(steps)}


def comparable(steps: list[Data]) -> int:
    """How many steps can be compared: up to where the two ways part at a tie, if they do, for then they read other texts."""
    for index, step in enumerate(steps):
        if step["with"]["id"] != step["without"]["id"] and step["lead"] < TIE:
            return index
    return len(steps)


def judge_long_completion(data: Data) -> Verdict:
    steps, reach = data["steps"], comparable(data["steps"])
    same = sum(step["with"] == step["without"] for step in steps[:reach])
    tied = f", then a tie within {TIE:.0e}" if reach < len(steps) else ""
    leads = all(step["lead"] >= 0 for step in steps)
    return Verdict(
        same == reach == data["compared"] > 0 and leads and len(steps) == LONG_COMPLETION,
        f"{same} of {reach} tokens the same with and without the cache{tied}",
        f"{reach} of {reach}, id for id",
    )


def spoil_long_completion(data: Data, lab: Lab) -> Data:
    """One token changed, where the choice was clearest."""
    spoiled = copy.deepcopy(data)
    step = max(spoiled["steps"][: data["compared"]], key=lambda step: step["lead"])
    step["with"]["id"] += 1 if step["with"]["id"] == 0 else -1
    return spoiled


def draw_long_completion(canvas: Canvas, data: Data) -> None:
    steps, reach = data["steps"], data["compared"]
    until = " before they tie" if reach < len(steps) else ""
    canvas.headline(f"{reach} tokens with the cache, {reach} without: not one differs{until}")
    canvas.reading("Each pair of rows from left to right. Upper row: with the cache. Lower: from scratch at every token.")
    bands, columns = 5, -(-len(steps) // 5)
    left, pitch_y = 210, 150
    width = (WIDTH - MARGIN - left) / columns
    for band in range(bands):
        y = 226 + band * pitch_y
        canvas.text(MARGIN, y + 24, "cached", size=24, weight="bold", color=BLUE)
        canvas.text(MARGIN, y + 78, "recomputed", size=24, weight="bold", color=GREY)
        for column, step in enumerate(steps[band * columns : (band + 1) * columns]):
            beyond = band * columns + column >= reach
            differs = step["with"]["id"] != step["without"]["id"] and not beyond
            for row, way in enumerate(("with", "without")):
                fill = mix(RED, 0.3) if differs else FAINT if beyond or row else mix(BLUE, 0.18)
                canvas.tile(step[way]["text"], left + column * width, y + row * 54, size=26, width=width - 8, fill=fill,
                            color=PALE if beyond else INK)  # fmt: skip


SLIDES = [
    Slide(
        number=22,
        name="operations",
        section=SECTION,
        claim="Counted in floating-point operations, recomputing grows with the prefix and the cached step stays nearly flat.",
        capture=capture_operations,
        oracle=judge_operations,
        sabotage=spoil_operations,
        draw=draw_operations,
    ),
    Slide(
        number=23,
        name="milliseconds",
        section=SECTION,
        claim="At the longest prefix a step without the cache takes longer than a step with it.",
        capture=capture_milliseconds,
        oracle=judge_milliseconds,
        sabotage=spoil_milliseconds,
        draw=draw_milliseconds,
        volatile=True,
    ),
    Slide(
        number=24,
        name="long_completion",
        section=SECTION,
        claim="A long completion has the same tokens with the cache and without it.",
        capture=capture_long_completion,
        oracle=judge_long_completion,
        sabotage=spoil_long_completion,
        draw=draw_long_completion,
    ),
]

if __name__ == "__main__":
    from regen_all import main

    sys.exit(main(["--only", Path(__file__).stem, *sys.argv[1:]]))
