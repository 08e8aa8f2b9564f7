"""A concept card: three serving options, one call shape.

It proves of the three calls it draws that they differ in base URL and model and in nothing else. None is sent, nothing
is timed: it needs no model and no server.
"""

import copy
import json
from itertools import combinations

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import MARGIN, WIDTH, Box
from pipeline.drawing.palette import BLUE, CONCEPT_PAPER, GREY, INK, ORANGE, mix
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic

FIELDS = ("base_url", "model", "path", "messages", "temperature", "max_tokens")  # in the order drawn
DIFFERING = set(FIELDS[:2])


def shared(lab: Lab) -> Data:
    """What is the same in every call of the slide."""
    messages = [{"role": "user", "content": lab.sentence}]
    return {"path": "/chat/completions", "messages": messages, "temperature": 0, "max_tokens": 8}


def capture_three_options(lab: Lab) -> Data:
    options = (
        ("Ollama", "local runtime", "http://127.0.0.1:11434/v1", "qwen2.5:0.5b"),
        ("litellm", "gateway", "http://127.0.0.1:4000/v1", "any-provider/any-model"),
        ("vLLM", "throughput engine", "http://127.0.0.1:8000/v1", "Qwen/Qwen2.5-0.5B-Instruct"),
    )
    return {
        "options": [
            {"name": name, "role": role, "call": {"base_url": base_url, "model": model, **shared(lab)}}
            for name, role, base_url, model in options
        ]
    }


def oracle_three_options(data: Data) -> Verdict:
    calls = [option["call"] for option in data["options"]]
    differ = [{field for field in a.keys() | b.keys() if a.get(field) != b.get(field)} for a, b in combinations(calls, 2)]
    named = sorted(set().union(*differ))
    return Verdict(
        len(calls) == 3 and set().union(*calls) == set(FIELDS) and all(fields == DIFFERING for fields in differ),
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
    canvas.headline("Three ways to serve, one call shape: only the base URL and the model change")
    canvas.reading("Above: the fields that all three calls share. Below: what each call fills in, and what stands behind it.")
    call = options[0]["call"]
    shared = [field for field in FIELDS if all(option["call"][field] == call[field] for option in options)]
    canvas.box(Box(MARGIN, 232, WIDTH - 2 * MARGIN, 40 + 50 * len(shared)), edge=INK, width=2, radius=12)
    for row, field in enumerate(shared):
        y = 286 + row * 50
        canvas.text(MARGIN + 30, y, field, size=28, mono=True, color=GREY, valign="baseline")
        value = call[field] if isinstance(call[field], str) else json.dumps(call[field], ensure_ascii=False)
        canvas.text(MARGIN + 330, y, value, size=28, mono=True, valign="baseline",
                    wrap=WIDTH - 2 * MARGIN - 360, lines=1, smallest=22)  # fmt: skip
    width, gap = 580, 30
    top = 272 + 50 * len(shared) + 58
    for place, option in enumerate(options):
        x, color = MARGIN + place * (width + gap), ORANGE if place == len(options) - 1 else BLUE
        canvas.arrow((x + width / 2, top - 52), (x + width / 2, top - 6), color=INK, width=3)
        canvas.box(Box(x, top, width, 252), edge=color, width=3, radius=14, fill=mix(color, 0.06, CONCEPT_PAPER))
        canvas.text(x + 24, top + 48, option["name"], size=36, weight="bold", color=color, valign="baseline")
        canvas.text(x + width - 24, top + 48, option["role"], size=28, color=GREY, align="right", valign="baseline")
        for row, field in enumerate(field for field in FIELDS if field not in shared):
            y = top + 94 + row * 84
            canvas.text(x + 24, y, field, size=22, mono=True, color=GREY)
            canvas.text(x + 24, y + 38, option["call"][field], size=26, mono=True, weight="bold", color=color)
        draw_behind(canvas, place, x, top + 266, width, color)


def draw_behind(canvas: Canvas, place: int, x: float, y: float, width: float, color: str) -> None:
    """What stands behind an option: one model; many providers; one model with a full batch and a paged cache."""
    fill, high = mix(color, 0.85, CONCEPT_PAPER), 62
    canvas.arrow((x + width / 2, y - 8), (x + width / 2, y + 26), color=INK, width=3)
    y += 32
    if place == 0:
        canvas.box(Box(x + width / 2 - 140, y, 280, high), fill=fill, edge=INK, width=2)
        canvas.text(x + width / 2, y + high / 2, "one model, here", size=26, weight="bold", color="white", align="center")
    elif place == 1:
        for provider in range(4):
            canvas.box(Box(x + provider * 148, y, 136, high), fill=fill, edge=INK, width=2)
            canvas.text(x + provider * 148 + 68, y + high / 2, "provider", size=24, weight="bold", color="white", align="center")
    else:
        for slot in range(12):
            canvas.box(Box(x + slot * 49, y, 41, high), fill=fill, edge=INK, width=2, radius=4)
    under = ("one user, or a few", "one address, many providers", "many requests, one full batch")[place]
    canvas.text(x + width / 2, y + high + 28, under, size=26, color=GREY, align="center")


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
