"""Slide 27: what a batch gains, in tokens per second, against single rows timed in turn with it. It needs the model."""

import copy
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from pipeline.drawing.canvas import BLUE, GREY, INK, MARGIN, PALE, WIDTH, Canvas
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict

BATCHES = (1, 2, 4, 8, 16)
ROUNDS, STEPS, PREFIX = 5, 2, 12  # odd, for a median that was measured; a short prefix, for weights are most of what a step reads


def capture_throughput(lab: Lab) -> Data:
    """Seconds of the same few cached steps at each batch size, the sizes taken in turn, round after round."""
    prefix = lab.ids[:PREFIX]

    def steps(cache: Any, tokens: Any) -> float:
        began = time.perf_counter()
        for _ in range(STEPS):
            out = lab.model(tokens, cache=cache, use_cache=True)  # [batch, 1] -> [batch, 1, vocabulary]
            tokens = out.logits[:, -1].argmax(dim=-1, keepdim=True)
        seconds = time.perf_counter() - began
        cache.crop(-STEPS)  # the cache grew in place: back to the prefix
        return seconds

    with lab.torch.inference_mode():
        ready = {}
        for size in BATCHES:
            out = lab.model(lab.torch.tensor([prefix] * size), use_cache=True)
            ready[size] = out.cache, out.logits[:, -1].argmax(dim=-1, keepdim=True)
            steps(*ready[size])  # a warm-up
        seconds = [{size: steps(*ready[size]) for size in BATCHES} for _ in range(ROUNDS)]
    single = median(STEPS / one[1] for one in seconds)
    runs = []
    for size in BATCHES:
        rates = [size * STEPS / one[size] for one in seconds]
        runs.append(
            {
                "batch": size,
                "seconds": [one[size] for one in seconds],
                "tokens_per_second": median(rates),
                "ratio": median(rates) / single,
                "lowest": min(rates) / single,
                "highest": max(rates) / single,
            }
        )
    return {"runs": runs, "steps": STEPS, "rounds": ROUNDS, "prefix": len(prefix)}


def judge_throughput(data: Data) -> Verdict:
    rate = {run["batch"]: run["batch"] * data["steps"] / median(run["seconds"]) for run in data["runs"]}
    whole = tuple(rate) == BATCHES and all(len(run["seconds"]) == data["rounds"] == ROUNDS for run in data["runs"])
    told = all(abs(run["tokens_per_second"] - rate[run["batch"]]) <= 1e-3 * rate[run["batch"]] for run in data["runs"])
    ratio = rate[8] / rate[1]
    return Verdict(whole and told and ratio > 1, f"tokens/s at batch 8 = {ratio:.2f} × batch 1, medians", "> 1")


def spoil_throughput(data: Data, lab: Lab) -> Data:
    """The series reversed: what batch 16 took is said of batch 1, and so on."""
    spoiled = copy.deepcopy(data)
    rates = [[run["batch"] / seconds for seconds in run["seconds"]] for run in data["runs"]]
    for run, reversed_rates in zip(spoiled["runs"], rates[::-1], strict=True):
        run["seconds"] = [run["batch"] / rate for rate in reversed_rates]
        run["tokens_per_second"] = run["batch"] * data["steps"] / median(run["seconds"])
    return spoiled


def draw_throughput(canvas: Canvas, data: Data) -> None:
    write = partial(canvas.text, valign="center_baseline")
    runs = data["runs"]
    ratio = {run["batch"]: run["ratio"] for run in runs}
    canvas.headline(f"Eight rows at once: {ratio[8]:.1f} times the tokens per second of one row; sixteen: {ratio[16]:.1f} times")
    canvas.reading(
        f"Tokens per second as a multiple of batch 1: bar = median of {data['rounds']} rounds, whisker = worst to best round."
    )
    top, foot, room = 300, 845, (WIDTH - 2 * MARGIN) / len(runs)
    tall = (foot - top) / max(run["highest"] for run in runs)
    canvas.line([(MARGIN, foot), (WIDTH - MARGIN, foot)], color=PALE, width=3)
    for index, run in enumerate(runs):
        center, chosen = MARGIN + (index + 0.5) * room, run["batch"] == 8
        color = BLUE if chosen else PALE
        canvas.box(center - 85, foot - run["ratio"] * tall, 170, run["ratio"] * tall, fill=color, radius=4)
        if run["highest"] > run["lowest"]:
            ends = [foot - run[name] * tall for name in ("lowest", "highest")]
            canvas.line([(center, ends[0]), (center, ends[1])], color=INK, width=3, z=3)
            for y in ends:
                canvas.line([(center - 16, y), (center + 16, y)], color=INK, width=3, z=3)
        y = foot - max(run["ratio"], run["highest"]) * tall - 34
        weight = "bold" if chosen else "regular"
        write(center, y, f"{run['ratio']:.1f} ×", size=40, weight="bold", color=BLUE if chosen else INK, align="center")
        write(center, foot + 38, f"batch {run['batch']}", size=32, weight=weight, align="center")
        rate = run["tokens_per_second"]
        told = f"{rate:,.0f} tokens/s" if rate >= 100 else f"{rate:.3g} tokens/s"
        write(center, foot + 84, told, size=26, color=BLUE if chosen else GREY, align="center")


SLIDES = [
    Slide(
        number=27,
        name="throughput",
        section="Batching",
        claim="A batch of 8 makes more tokens per second than a batch of 1.",
        capture=capture_throughput,
        oracle=judge_throughput,
        sabotage=spoil_throughput,
        draw=draw_throughput,
        volatile=True,
    ),
]

if __name__ == "__main__":
    from regen_all import main

    sys.exit(main(["--only", Path(__file__).stem, *sys.argv[1:]]))
