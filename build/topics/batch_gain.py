"""What a batch gains, in tokens per second, against single rows timed in turn with it. It needs the model."""

import copy
import time
from statistics import median
from typing import Any

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Scale
from pipeline.drawing.layout import LEADING, NUMBER, TITLE, Box
from pipeline.drawing.palette import BLUE, GREY, INK, PALE
from pipeline.drawing.sheet import Line
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic

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


def told(run: Data, steps: int, single: float) -> bool:
    """Whether the numbers drawn of a run follow from its seconds."""
    rates = [run["batch"] * steps / seconds for seconds in run["seconds"]]
    follows = [median(rates), median(rates) / single, min(rates) / single, max(rates) / single]
    drawn = [run[name] for name in ("tokens_per_second", "ratio", "lowest", "highest")]
    return min(run["seconds"]) > 0 and all(abs(a - b) <= 1e-3 * b for a, b in zip(drawn, follows, strict=True))


def oracle_throughput(data: Data) -> Verdict:
    rate = {run["batch"]: run["batch"] * data["steps"] / median(run["seconds"]) for run in data["runs"]}
    whole = tuple(rate) == BATCHES and all(len(run["seconds"]) == data["rounds"] == ROUNDS for run in data["runs"])
    consistent = all(told(run, data["steps"], rate[1]) for run in data["runs"]) and data["steps"] == STEPS
    ratio = rate[8] / rate[1]
    return Verdict(whole and consistent and ratio > 1, f"tokens/s at batch 8 = {ratio:.2f} × batch 1, medians", "> 1")


def sabotage_throughput(data: Data, lab: Lab) -> Data:
    """The series reversed: what batch 16 took is said of batch 1, and so on."""
    sabotaged = copy.deepcopy(data)
    rates = [[run["batch"] / seconds for seconds in run["seconds"]] for run in data["runs"]]
    for run, reversed_rates in zip(sabotaged["runs"], rates[::-1], strict=True):
        run["seconds"] = [run["batch"] / rate for rate in reversed_rates]
        run["tokens_per_second"] = run["batch"] * data["steps"] / median(run["seconds"])
    return sabotaged


def draw_throughput(canvas: Canvas, data: Data) -> None:
    runs = data["runs"]
    ratio = {run["batch"]: run["ratio"] for run in runs}
    body = canvas.titled(
        f"Eight rows at once give {ratio[8]:.1f} times the tokens per second",
        f"Tokens per second as a multiple of batch 1: bar = median of {data['rounds']} rounds, whisker = worst to best round.",
    )
    chart, foot = body.rows(..., 110)
    columns = chart.even_columns(len(runs))
    scale = Scale(0, max(run["highest"] for run in runs), chart.bottom, chart.y + NUMBER * LEADING)
    canvas.line([(chart.x, chart.bottom), (chart.right, chart.bottom)], color=PALE, width=3)
    for run, column in zip(runs, columns, strict=True):
        chosen, x = run["batch"] == 8, column.center[0]
        color, weight = (BLUE, "bold") if chosen else (INK, "regular")
        bar = column.place(170, chart.bottom - scale.at(run["ratio"]), down="bottom")
        canvas.box(bar, fill=BLUE if chosen else PALE, radius=4)
        top = scale.at(max(run["ratio"], run["highest"]))
        if run["highest"] > run["lowest"]:
            low, high = scale.at(run["lowest"]), scale.at(run["highest"])
            for ends in ([(x, low), (x, high)], [(x - 16, low), (x + 16, low)], [(x - 16, high), (x + 16, high)]):
                canvas.line(ends, width=3, z=3)
        label = Box(column.x, top - NUMBER * LEADING, column.w, NUMBER * LEADING)
        canvas.put(label, f"{run['ratio']:.1f} ×", size=NUMBER, weight="bold", color=color, align="center")
        rate = run["tokens_per_second"]
        speed = f"{rate:,.0f} tokens/s" if rate >= 100 else f"{rate:.3g} tokens/s"
        name = Line(f"batch {run['batch']}", TITLE, weight=weight)
        under = Line(speed, color=BLUE if chosen else GREY)
        canvas.stack(Box(column.x, foot.y, column.w, foot.h), name, under, align="center")


SLIDES = [
    Slide(
        name="throughput",
        section="Batching",
        claim="A batch of 8 makes more tokens per second than a batch of 1.",
        capture=capture_throughput,
        oracle=oracle_throughput,
        sabotage=sabotage_throughput,
        draw=draw_throughput,
        volatile=True,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
