"""A concept card: three serving options, one call shape.

It proves of the three calls it draws that they differ in base URL and model and in nothing else. None is sent, nothing
is timed: it needs no model and no server.
"""

import copy
from itertools import combinations

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import BODY, GAP, LABEL, LEADING, PAD, TITLE, Box
from pipeline.drawing.palette import BLUE, GREY, INK
from pipeline.lab import Lab
from pipeline.serving.messages import chat_call, differing, spelled_out
from pipeline.slide import Data, Slide, Verdict, run_topic

FIELDS = ("base_url", "model", "path", "messages", "temperature", "max_tokens")  # in the order drawn
DIFFERING = set(FIELDS[:2])
ARROW, CARD = 40, 256  # pixels: height of the room for an arrow, and of what one call fills in
SLOTS = 12  # requests in the full batch


def capture_three_options(lab: Lab) -> Data:
    options = (
        ("Ollama", "local runtime", "http://127.0.0.1:11434/v1", "qwen2.5:0.5b"),
        ("litellm", "gateway", "http://127.0.0.1:4000/v1", "any-provider/any-model"),
        ("vLLM", "throughput engine", "http://127.0.0.1:8000/v1", "Qwen/Qwen2.5-0.5B-Instruct"),
    )
    return {
        "options": [
            {"name": name, "role": role, "call": {"base_url": base_url, "model": model, **chat_call(lab.sentence)}}
            for name, role, base_url, model in options
        ]
    }


def oracle_three_options(data: Data) -> Verdict:
    calls = [option["call"] for option in data["options"]]
    differ = [differing(*pair) for pair in combinations(calls, 2)]
    filled = all(isinstance(call.get(field), str) and call[field] for call in calls for field in DIFFERING)
    filled = filled and [option["name"] for option in data["options"]] == ["Ollama", "litellm", "vLLM"]
    named = sorted(set().union(*differ))
    return Verdict(
        filled and set().union(*calls) == set(FIELDS) and all(fields == DIFFERING for fields in differ),
        f"{len(calls)} calls differ in {', '.join(named)}",
        "base_url and model only, every pair",
    )


def sabotage_three_options(data: Data, lab: Lab) -> Data:
    """One option is given a field under a name of its own."""
    sabotaged = copy.deepcopy(data)
    call = sabotaged["options"][0]["call"]
    call["prompt"] = call.pop("messages")
    return sabotaged


def draw_three_options(canvas: Canvas, data: Data) -> None:
    options = data["options"]
    body = canvas.titled(
        "Three ways to serve, one call shape: only the base URL and the model change",
        "Above: the fields that all three calls share. Below: what each call fills in, and what stands behind it.",
    )
    differ = differing(*(option["call"] for option in options))
    shared, own = ([field for field in FIELDS if (field in differ) == told] for told in (False, True))
    upper, _, lower = body.rows(len(shared) * BODY * LEADING + PAD, ARROW, ...)
    canvas.box(upper, edge=INK, width=2, radius=12)
    for field, lane in zip(shared, upper.inset(PAD, PAD / 2).even_rows(len(shared)), strict=True):
        name, value = lane.columns(280, ...)
        canvas.put(name, field, mono=True, color=GREY)
        canvas.put(value, spelled_out(options[0]["call"][field]), mono=True)
    for place, (option, column) in enumerate(zip(options, lower.even_columns(len(options), gap=PAD), strict=True)):
        card, gap, behind = column.rows(CARD, ARROW, ...)
        canvas.arrow((card.center[0], upper.bottom + 6), (card.center[0], card.y - 6))
        canvas.box(card, edge=BLUE, width=3, radius=14, fill=canvas.tint(BLUE, 0.06))
        head, *lanes = card.inset(PAD, PAD / 2).rows(TITLE * LEADING, *[...] * 2 * len(own))
        canvas.put(head, option["name"], size=TITLE, weight="bold", color=BLUE)
        canvas.put(head, option["role"], color=GREY, align="right")
        for field, name, value in zip(own, lanes[::2], lanes[1::2], strict=True):
            canvas.put(name, field, size=LABEL, mono=True, color=GREY)
            canvas.put(value, option["call"][field], mono=True, weight="bold", color=BLUE)
        for lane in gap.even_columns(SLOTS if place == len(options) - 1 else 1, gap=GAP):
            canvas.arrow((lane.center[0], gap.y + 6), (lane.center[0], gap.bottom - 6))
        draw_behind(canvas, place, behind)


def draw_behind(canvas: Canvas, place: int, box: Box) -> None:
    """What stands behind an option: one model; many providers; one model that works on many requests at each step."""
    works, under = box.rows(..., BODY * LEADING, gap=GAP / 2)
    fill = canvas.tint(BLUE, 0.85)
    if place == 0:
        canvas.box(works, fill=fill, edge=INK, width=2)
        canvas.put(works, "one model, here", weight="bold", color="white", align="center")
    elif place == 1:
        for cell in (cell for row in works.grid(2, 2, gap=GAP) for cell in row):
            canvas.box(cell, fill=fill, edge=INK, width=2)
            canvas.put(cell, "provider", size=LABEL, weight="bold", color="white", align="center")
    else:
        for cell in (cell for row in works.grid(3, SLOTS, gap=GAP) for cell in row):
            canvas.box(cell, fill=fill, edge=INK, width=1.5, radius=3)
    told = ("one user, or a few", "one address, many providers", "many requests, every step a full batch")[place]
    canvas.put(under, told, color=GREY, align="center")


SLIDES = [
    Slide(
        name="three_options",
        section="vLLM, the throughput path",
        claim="The three calls drawn differ in base URL and model, and in nothing else.",
        capture=capture_three_options,
        oracle=oracle_three_options,
        sabotage=sabotage_three_options,
        draw=draw_three_options,
        kind="concept",
        needs=("sentence",),
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
