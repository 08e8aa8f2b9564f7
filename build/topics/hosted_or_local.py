"""Slide 33, a concept card: where the weights live, and the same call made twice.

It proves of the two requests it draws that they differ in base URL, key and model and in nothing else. Neither is sent:
it needs no model and no server.
"""

import copy
import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from pipeline.drawing.canvas import BLUE, CONCEPT_PAPER, GREY, INK, MARGIN, ORANGE, WIDTH, Canvas, mix
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict

FIELDS = ("base_url", "api_key", "model", "path", "messages", "temperature", "max_tokens")  # in the order drawn
DIFFERING = FIELDS[:3]


def shared(lab: Lab) -> Data:
    """What is the same in every call of the slide."""
    messages = [{"role": "user", "content": lab.sentence}]
    return {"path": "/chat/completions", "messages": messages, "temperature": 0, "max_tokens": 8}


def capture_same_call(lab: Lab) -> Data:
    return {
        "local": {"base_url": "http://127.0.0.1:11434/v1", "api_key": "any text", "model": "qwen2.5:0.5b", **shared(lab)},
        "hosted": {"base_url": "https://provider.example/v1", "api_key": "$PROVIDER_KEY", "model": "their-model", **shared(lab)},
    }


def judge_same_call(data: Data) -> Verdict:
    local, hosted = data["local"], data["hosted"]
    differ = tuple(field for field in FIELDS if local[field] != hosted[field])
    loopback = [urlsplit(request["base_url"]).hostname == "127.0.0.1" for request in (local, hosted)]
    placeholder = hosted["api_key"].startswith("$")  # a variable's name, never a key
    return Verdict(
        differ == DIFFERING and loopback == [True, False] and placeholder and local.keys() == hosted.keys() == set(FIELDS),
        f"they differ in {', '.join(differ)}",
        f"exactly these {len(DIFFERING)} of {len(FIELDS)} fields",
    )


def spoil_same_call(data: Data, lab: Lab) -> Data:
    """The hosted call is also given another temperature."""
    spoiled = copy.deepcopy(data)
    spoiled["hosted"]["temperature"] = 1
    return spoiled


def draw_same_call(canvas: Canvas, data: Data) -> None:
    local, hosted = data["local"], data["hosted"]
    differ = [field for field in FIELDS if local[field] != hosted[field]]
    canvas.headline(f"Local or hosted, it is the same call: {len(differ)} of {len(FIELDS)} fields differ")
    canvas.reading("Above: where the weights live. Below: the two requests, field by field; what they share is grey.")
    left, width = 360, 730
    right = WIDTH - MARGIN - width
    canvas.text(MARGIN, 340, "where the\nweights live", size=28, weight="bold")
    draw_machine(canvas, left, width, BLUE, "your machine")
    draw_part(canvas, left + 36, "your program", INK, None)
    canvas.arrow(left + 306, 360, left + 420, 360, color=INK, width=3)
    draw_part(canvas, left + 430, "the weights", "white", BLUE)
    draw_machine(canvas, right, 320, BLUE, "your machine")
    draw_part(canvas, right + 30, "your program", INK, None)
    draw_machine(canvas, right + 410, 320, ORANGE, "the provider's machines")
    draw_part(canvas, right + 440, "the weights", "white", ORANGE)
    canvas.arrow(right + 300, 360, right + 430, 360, color=INK, width=3)
    for row, field in enumerate(FIELDS):
        y, same = 492 + row * 70, field not in differ
        canvas.text(MARGIN, y + 9, field, size=26, mono=True, color=GREY if same else INK, valign="baseline")
        if same:
            canvas.box(left, y - 28, WIDTH - MARGIN - left, 56, edge=GREY, width=1)
            canvas.text(left + 24, y + 9, written(local[field]), size=26, mono=True, color=GREY, valign="baseline",
                        wrap=WIDTH - MARGIN - left - 48, lines=1, smallest=22)  # fmt: skip
            continue
        for x, color, request in ((left, BLUE, local), (right, ORANGE, hosted)):
            canvas.box(x, y - 28, width, 56, fill=mix(color, 0.18, CONCEPT_PAPER), edge=color, width=2)
            canvas.text(x + 24, y + 9, str(request[field]), size=26, mono=True, weight="bold", color=color, valign="baseline")


def written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def draw_machine(canvas: Canvas, x: float, width: float, color: str, name: str) -> None:
    canvas.box(x, 236, width, 196, edge=color, width=3, radius=16, fill=mix(color, 0.06, CONCEPT_PAPER))
    canvas.text(x + 24, 282, name, size=26, weight="bold", color=color, valign="baseline")


def draw_part(canvas: Canvas, x: float, name: str, ink: str, color: str | None) -> None:
    canvas.box(x, 312, 260, 94, edge=INK, width=2, fill=mix(color, 0.85, CONCEPT_PAPER) if color else None)
    canvas.text(x + 130, 369, name, size=30, weight="bold", color=ink, align="center", valign="baseline")


SLIDES = [
    Slide(
        number=33,
        name="same_call",
        section="Hosted vs local",
        claim="The two requests differ in base URL, key and model, and in nothing else.",
        capture=capture_same_call,
        oracle=judge_same_call,
        sabotage=spoil_same_call,
        draw=draw_same_call,
        kind="concept",
        needs=("sentence",),
    ),
]

if __name__ == "__main__":
    from regen_all import main

    sys.exit(main(["--only", Path(__file__).stem, *sys.argv[1:]]))
