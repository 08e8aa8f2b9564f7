"""What the key/value cache saves in arithmetic and in time, and that a long completion is the same with it.

They prove that recomputing grows with the prefix while the cached step stays nearly flat, that it is slower on the clock,
and that neither changes a token. The clock is read as a ratio only. They need the model.
"""

import copy
import math
import statistics
import time
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.distributions import IMPLAUSIBLE
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Bar, Scale, towers
from pipeline.drawing.layout import GAP, LABEL, LEADING, NUMBER, TILE, TITLE, Box
from pipeline.drawing.palette import BLUE, GREY, INK, ORANGE, PALE, RED
from pipeline.drawing.sheet import Line
from pipeline.lab import Lab
from pipeline.model.counting import operations
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import in_words

SECTION = "The KV cache"
# A cached step does the same for its one token each time, but for attention, which looks at one position more: less than
# 0.3 % more work per step for both shapes tried, so ten steps stay within this.
FLAT = 1.1
LONGEST_PREFIX = 256  # tokens; here a recompute is several times slower than a cached step, noise is not
ROUNDS = 3
LONG_COMPLETION = 50
TIE = 2e-3  # two logits nearer than this may change places: each may move by 1e-3 between the two ways


# --- floating-point operations ---


def capture_operations(lab: Lab) -> Data:
    cache, steps = None, list[Data]()
    for step, token_id in enumerate(lab.completion):
        prefix = lab.ids + lab.completion[:step]
        new = prefix[-1:] if step else prefix  # the first step fills the cache: both ways read the whole sentence
        recompute, _, _ = operations(lab, partial(lab.logits, prefix))
        cached, head, (_, cache) = operations(lab, partial(lab.extend, cache, new))
        steps.append({"prefix": len(prefix), "chosen": lab.pieces([token_id])[0], "recompute": recompute, "cached": cached})
    totals = {way: sum(step[way] for step in steps) for way in ("recompute", "cached")}
    return {"steps": steps, "totals": totals, "ratio": totals["recompute"] / totals["cached"], "output_share": head / cached}


def oracle_operations(data: Data) -> Verdict:
    steps = data["steps"]
    recompute, cached = ([step[way] for step in steps] for way in ("recompute", "cached"))
    after = cached[1:]  # the first step fills the cache
    grows = all(b > a for a, b in pairwise(recompute))
    prefixes = all(b["prefix"] == a["prefix"] + 1 for a, b in pairwise(steps))
    flat = max(after) / min(after)
    ratio = sum(recompute) / sum(cached)
    totals = {"recompute": sum(recompute), "cached": sum(cached)}
    as_computed = data["totals"] == totals and abs(data["ratio"] - ratio) < 1e-6 * ratio
    as_computed = as_computed and 0 < data["output_share"] < 1
    return Verdict(
        len(steps) > 2 and prefixes and grows and flat <= FLAT and recompute[0] == cached[0] and as_computed and ratio > 1,
        f"recompute grows × {recompute[-1] / recompute[0]:.2f}, cached × {flat:.3f}; totals {ratio:.2f} : 1",
        f"grows each step; ≤ {FLAT}; > 1",
    )


def sabotage_operations(data: Data, lab: Lab) -> Data:
    """Recompute counted once, at the first step, and taken for every step."""
    sabotaged = copy.deepcopy(data)
    for step in sabotaged["steps"]:
        step["recompute"] = data["steps"][0]["recompute"]
    sabotaged["totals"]["recompute"] = data["steps"][0]["recompute"] * len(data["steps"])
    sabotaged["ratio"] = sabotaged["totals"]["recompute"] / sabotaged["totals"]["cached"]
    return sabotaged


def draw_operations(canvas: Canvas, data: Data) -> None:
    steps, largest = data["steps"], max(step["recompute"] for step in data["steps"])
    divisor, unit = (1e9, "billion") if largest >= 1e9 else (1e6, "million")
    digits = max(0, 2 - len(f"{largest / divisor:.0f}") + 1)
    body = canvas.titled(
        "Without the cache, every token costs more than the last",
        f"One pair per token: floating-point operations, counted, in {unit}s. Under each bar, how many tokens went in.",
    )
    head, chart, counts, feet = body.rows(2 * TITLE * LEADING, ..., 44, LABEL * TILE)
    ways = (("recompute", "without the cache", canvas.tint(ORANGE, 0.5), ORANGE), ("cached", "with the cache", BLUE, BLUE))
    totals = [f"{name}: {in_words(data['totals'][way])}" for way, name, *_ in ways]
    places = head.until(chart).even_columns(len(steps), gap=24)  # the first towers are low: the totals stand over them
    for index, (step, place) in enumerate(zip(steps, places, strict=True)):
        if index == 1:
            canvas.step()  # the prompt costs the same either way; then the difference begins
        fed = {"recompute": step["prefix"], "cached": 1 if index else step["prefix"]}
        pair = place.even_columns(2, gap=4)
        rows = [Bar(step[way], f"{step[way] / divisor:,.{digits}f}", fill, ink, bold=True) for way, _, fill, ink in ways]
        towers(canvas, pair, rows, full=largest / 0.97)
        for column, (way, _, _, color) in zip(pair, ways, strict=True):
            canvas.put(Box(column.x, counts.y, column.w, counts.h), f"{fed[way]:,}", size=LABEL, color=color, align="center")
        canvas.put_tile(Box(place.x, feet.y, place.w, feet.h), step["chosen"], size=LABEL, accent=BLUE)
    canvas.line([(chart.x, chart.bottom), (chart.right, chart.bottom)], color=PALE)
    canvas.step()
    canvas.stack(head, *(Line(total, TITLE, way[-1], "bold") for total, way in zip(totals, ways, strict=True)))


# --- milliseconds ---


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


def oracle_milliseconds(data: Data) -> Verdict:
    readings = data["readings"]
    longest = readings[-1]
    prefixes = [reading["prefix"] for reading in readings] == [longest["prefix"] // part for part in (8, 4, 2, 1)]
    prefixes = prefixes and longest["prefix"] <= LONGEST_PREFIX
    ratio = float(np.median(longest["recompute_ms"]) / np.median(longest["cached_ms"]))
    told = [np.median(reading["recompute_ms"]) / np.median(reading["cached_ms"]) for reading in readings]
    as_told = np.allclose([reading["ratio"] for reading in readings if reading["ratio"] > 0], told, rtol=1e-6)
    sound = all(
        len(reading["recompute_ms"]) == len(reading["cached_ms"]) == ROUNDS
        and min(reading["recompute_ms"] + reading["cached_ms"]) > 0
        and np.allclose(reading["rounds"], np.divide(reading["recompute_ms"], reading["cached_ms"]), rtol=1e-6)
        for reading in readings
    )
    measured = f"median time at {longest['prefix']} tokens, without : with the cache = {ratio:.1f}"
    return Verdict(sound and prefixes and ratio > 1 and bool(as_told), measured, "> 1")


def sabotage_milliseconds(data: Data, lab: Lab) -> Data:
    """The two series swapped."""
    return {"readings": [timed(r["prefix"], r["cached_ms"], r["recompute_ms"]) for r in data["readings"]]}


def draw_milliseconds(canvas: Canvas, data: Data) -> None:
    readings, last = data["readings"], data["readings"][-1]
    body = canvas.titled(
        f"At {last['prefix']} tokens, a step without the cache takes {last['ratio']:.1f} times as long",
        f"Time without the cache over time with it. Dot: medians of {ROUNDS} interleaved rounds. Bar: all rounds.",
    )
    rounds = [ratio for reading in readings for ratio in reading["rounds"]]
    upper, foot = body.rows(..., 70)
    names, chart = upper.columns(220, ..., gap=2 * GAP)
    scale = Scale(min(0.8, *rounds), max(2.5, *rounds), chart.bottom, chart.y + 2 * GAP, log=True)
    for doubling in range(math.ceil(math.log2(scale.low)), math.floor(math.log2(scale.high)) + 1):
        y, even = scale.at(2.0**doubling), doubling == 0
        color, weight = (INK, "bold") if even else (GREY, "regular")
        canvas.line([(chart.x, y), (chart.right, y)], color=INK if even else PALE, width=2 if even else 1, dashed=even)
        label = "the same time" if even else f"{2.0**doubling:g} × as long"
        canvas.text(names.right, y, label, color=color, weight=weight, align="right")
    for reading, column in zip(readings, chart.even_columns(len(readings)), strict=True):
        spot, spread = column.rows(..., 1)[1].center[0] - 60, [scale.at(ratio) for ratio in reading["rounds"]]
        canvas.line([(spot, max(spread)), (spot, min(spread))], color=canvas.tint(BLUE, 0.35), width=12, z=2)
        canvas.dots([(spot, y) for y in spread], size=22, marker="_", z=3)
        middle, number = (spot, scale.at(reading["ratio"])), f"{reading['ratio']:.1f} ×"
        canvas.dots([middle], size=30)
        beside = Box(spot + NUMBER, middle[1], canvas.width(number, NUMBER, weight="bold"), 0).inset(-GAP / 2, -NUMBER / 2)
        canvas.put(canvas.box(beside, fill=canvas.paper, z=2), number, size=NUMBER, weight="bold", color=BLUE, align="center")
        canvas.text(spot, foot.center[1], f"{reading['prefix']} tokens", weight="bold", align="center")
    canvas.put(Box(names.x, foot.y, names.w, foot.h), "read so far", color=GREY, align="right")


# --- the tempting mistake ---


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


def oracle_long_completion(data: Data) -> Verdict:
    steps, reach = data["steps"], comparable(data["steps"])
    same = sum(step["with"] == step["without"] for step in steps[:reach])
    tied = f", then a tie within {TIE:.0e}" if reach < len(steps) else ""
    leads = all(0 <= step["lead"] < IMPLAUSIBLE for step in steps)
    return Verdict(
        same == reach == data["compared"] > 0 and leads and len(steps) == LONG_COMPLETION,
        f"{same} of {reach} tokens the same with and without the cache{tied}",
        f"{reach} of {reach}, id for id",
    )


def sabotage_long_completion(data: Data, lab: Lab) -> Data:
    """One token changed, where the choice was clearest."""
    sabotaged = copy.deepcopy(data)
    step = max(sabotaged["steps"][: data["compared"]], key=lambda step: step["lead"])
    step["with"]["id"] += 1 if step["with"]["id"] == 0 else -1
    return sabotaged


def draw_long_completion(canvas: Canvas, data: Data) -> None:
    steps, reach = data["steps"], data["compared"]
    body = canvas.titled(
        f"{reach} tokens, and the cache changes none{' until two tie' if reach < len(steps) else ''}",
        "Each pair of rows from left to right. Upper row: with the cache. Lower: from scratch at every token.",
    )
    bands, columns = 5, -(-len(steps) // 5)
    for number, band in enumerate(body.even_rows(bands, gap=4 * GAP)):
        ways = (("with", "cached", BLUE), ("without", "afresh", GREY))
        for (way, name, color), lane in zip(ways, band.even_rows(2, gap=6), strict=True):
            head, rest = lane.columns(150, ...)
            canvas.put(head, name, size=LABEL, weight="bold", color=color)
            here = range(number * columns, min((number + 1) * columns, len(steps)))
            for index, spot in zip(here, rest.even_columns(columns, gap=8), strict=False):
                step, beyond = steps[index], index >= reach
                differs = step["with"]["id"] != step["without"]["id"] and not beyond
                accent = RED if differs else None if beyond or way == "without" else BLUE
                canvas.put_tile(spot, step[way]["text"], accent=accent, color=PALE if beyond else INK)


SLIDES = [
    Slide(
        name="operations",
        section=SECTION,
        claim="Counted in floating-point operations, recomputing grows with the prefix and the cached step stays nearly flat.",
        capture=capture_operations,
        oracle=oracle_operations,
        sabotage=sabotage_operations,
        draw=draw_operations,
    ),
    Slide(
        name="milliseconds",
        section=SECTION,
        claim="At the longest prefix a step without the cache takes longer than a step with it.",
        capture=capture_milliseconds,
        oracle=oracle_milliseconds,
        sabotage=sabotage_milliseconds,
        draw=draw_milliseconds,
        volatile=True,
    ),
    Slide(
        name="long_completion",
        section=SECTION,
        claim="A long completion has the same tokens with the cache and without it.",
        capture=capture_long_completion,
        oracle=oracle_long_completion,
        sabotage=sabotage_long_completion,
        draw=draw_long_completion,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
