"""A concept card: where the weights live, and the same call made twice.

It proves of the two requests it draws that they differ in base URL, key and model and in nothing else. Neither is sent:
it needs no model and no server.
"""

import copy
from urllib.parse import urlsplit

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import GAP, PAD, Box
from pipeline.drawing.palette import BLUE, GREY, INK
from pipeline.lab import Lab
from pipeline.serving.messages import chat_call, differing, spelled_out
from pipeline.slide import Data, Slide, Verdict, run_topic

FIELDS = ("base_url", "api_key", "model", "path", "messages", "temperature", "max_tokens")  # in the order drawn
DIFFERING = FIELDS[:3]
SIDES = (260, ..., ...)  # the name of a field, the local call, the hosted one
HEAD = 70  # pixels over what a machine holds, for its name


def capture_same_call(lab: Lab) -> Data:
    call = chat_call(lab.sentence)
    return {
        "local": {"base_url": "http://127.0.0.1:11434/v1", "api_key": "any text", "model": "qwen2.5:0.5b", **call},
        "hosted": {"base_url": "https://provider.example/v1", "api_key": "$PROVIDER_KEY", "model": "their-model", **call},
    }


def oracle_same_call(data: Data) -> Verdict:
    local, hosted = data["local"], data["hosted"]
    differ = differing(local, hosted)
    loopback = [urlsplit(request["base_url"]).hostname == "127.0.0.1" for request in (local, hosted)]
    named = all(isinstance(request[field], str) and request[field] for request in (local, hosted) for field in DIFFERING)
    placeholder = named and hosted["api_key"].startswith("$")  # a variable's name, never a key
    return Verdict(
        differ == set(DIFFERING) and loopback == [True, False] and placeholder and local.keys() == hosted.keys() == set(FIELDS),
        f"they differ in {', '.join(field for field in FIELDS if field in differ)}",
        f"exactly these {len(DIFFERING)} of {len(FIELDS)} fields",
    )


def sabotage_same_call(data: Data, lab: Lab) -> Data:
    """The hosted call is also given another temperature."""
    sabotaged = copy.deepcopy(data)
    sabotaged["hosted"]["temperature"] = 1
    return sabotaged


def draw_same_call(canvas: Canvas, data: Data) -> None:
    local, hosted = data["local"], data["hosted"]
    differ = differing(local, hosted)
    body = canvas.titled(
        "Local or hosted, it is the same call",
        "Above: where the weights live. Below: the two requests, field by field; what they share is grey.",
    )
    upper, lower = body.rows(206, ..., gap=PAD)
    name, *sides = upper.columns(*SIDES, gap=PAD)
    canvas.put(name, "where the\nweights live", weight="bold", lines=2)
    one, two = (side.columns(..., ..., gap=4 * PAD) for side in sides)
    draw_machine(canvas, one[0].until(one[1]), "your machine")
    draw_machine(canvas, two[0], "your machine")
    draw_machine(canvas, two[1], "the provider's")
    draw_parts(canvas, one)
    draw_parts(canvas, two)
    for field, lane in zip(FIELDS, lower.even_rows(len(FIELDS), gap=GAP), strict=True):
        name, left, right = lane.columns(*SIDES, gap=PAD)
        same = field not in differ
        canvas.put(name, field, mono=True, color=GREY if same else INK)
        if same:
            both = canvas.box(left.until(right), edge=GREY, width=1)
            canvas.put(both.inset(PAD, 0), spelled_out(local[field]), mono=True, color=GREY)
            continue
        for box, request in ((left, local), (right, hosted)):
            canvas.box(box, fill=canvas.tint(BLUE), edge=BLUE, width=2)
            canvas.put(box.inset(PAD, 0), str(request[field]), mono=True, weight="bold", color=BLUE)


def draw_machine(canvas: Canvas, box: Box, name: str) -> None:
    canvas.box(box, edge=BLUE, width=3, radius=16, fill=canvas.tint(BLUE, 0.06))
    canvas.put(box.rows(HEAD, ...)[0].inset(PAD, 0), name, weight="bold", color=BLUE)


def draw_parts(canvas: Canvas, boxes: list[Box]) -> None:
    """The program in the first box calls the weights in the second."""
    program, weights = (box.rows(HEAD, ..., PAD)[1].inset(PAD, 0) for box in boxes)
    canvas.box(program, edge=INK, width=2)
    canvas.put(program, "your program", weight="bold", align="center")
    canvas.box(weights, edge=INK, width=2, fill=canvas.tint(BLUE, 0.85))
    canvas.put(weights, "the weights", weight="bold", color="white", align="center")
    canvas.arrow(program.inset(-4).east, weights.inset(-4).west)


SLIDES = [
    Slide(
        name="same_call",
        section="Hosted vs local",
        claim="The two requests differ in base URL, key and model, and in nothing else.",
        capture=capture_same_call,
        oracle=oracle_same_call,
        sabotage=sabotage_same_call,
        draw=draw_same_call,
        kind="concept",
        needs=("sentence",),
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
