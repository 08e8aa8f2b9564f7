"""litellm in front of the same server: what it makes of the native answer, and the same question both ways.

They prove that every field all providers share is in the answer that litellm hands over, with counts that add up, and that
at temperature 0 the text is the one the server gives when asked directly. They need a server, no model in this process.
"""

import copy
from typing import TYPE_CHECKING, Any

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.json_panel import draw_json, spelled, wrap
from pipeline.drawing.layout import BODY_BOTTOM, BODY_TOP, LABEL, MARGIN, WIDTH, Box
from pipeline.drawing.palette import BLUE, FAINT, GREY, INK, PALE, mix
from pipeline.lab import Lab
from pipeline.serving.client import same_model
from pipeline.serving.messages import VARIES, flat, settle
from pipeline.slide import Data, Slide, Verdict, run_topic

if TYPE_CHECKING:
    from pipeline.serving.server import Server

SECTION = "litellm, one shape"
ANSWER_TOKENS = 24
SHARED = (  # what an answer holds whichever provider it came from
    "model", "id", "object", "created", "choices[0].message.role", "choices[0].message.content", "choices[0].finish_reason",
    "usage.prompt_tokens", "usage.completion_tokens", "usage.total_tokens",
)  # fmt: skip
IN_OLLAMA = {  # where Ollama keeps the same thing; what it lacks litellm makes
    "model": "model",
    "choices[0].message.role": "message.role",
    "choices[0].message.content": "message.content",
    "choices[0].finish_reason": "done_reason",
    "usage.prompt_tokens": "prompt_eval_count",
    "usage.completion_tokens": "eval_count",
}


def server(lab: Lab) -> "Server":
    """The server of this run, or the provider that `--ask` named."""

    from pipeline.serving.providers import ask_route
    from pipeline.serving.server import server_at

    return server_at(ask_route(lab.asked)) if lab.asked else lab.server


def question(lab: Lab) -> list[dict[str, str]]:
    return [{"role": "user", "content": lab.sentence}]


# --- the native answer and the one shape ---


def capture_shape(lab: Lab) -> Data:
    from pipeline.serving import gateway

    asked = server(lab)
    call = gateway.chat(asked, question(lab), max_tokens=ANSWER_TOKENS, temperature=0)
    return {
        "server": asked.provenance,
        "label": asked.label,
        "asked": gateway.route_to(asked).model,
        "path": call.path,
        "posted": settle(call.posted),
        "native": settle(call.native),
        "answer": settle(call.answer, drop_unset=True),  # litellm's object has a place for every field of every provider
        "shared": list(SHARED),
    }


def source(data: Data, field: str) -> str | None:
    """Where the native answer keeps what litellm hands over as `field`; None when litellm makes it."""
    native = dict(flat(data["native"]))
    place = IN_OLLAMA.get(field) if "done" in native else field
    return place if place in native and native[place] is not None else None


def oracle_shape(data: Data) -> Verdict:
    native, answer = dict(flat(data["native"])), dict(flat(data["answer"]))
    there = sum(answer.get(field) not in (None, "") for field in SHARED)
    prompt, completion, total = (answer.get(f"usage.{name}_tokens", 0) for name in ("prompt", "completion", "total"))
    adds_up = all(isinstance(count, int) and count > 0 for count in (prompt, completion)) and prompt + completion == total
    carried = {field: place for field in SHARED if (place := source(data, field))}
    unchanged = all(
        same_model(native[place], answer[field]) if field == "model" else answer.get(field) == native[place]
        for field, place in carried.items()
    )
    sum_text = f"{prompt} + {completion} = {total}" if adds_up else f"{prompt} + {completion} ≠ {total}"
    return Verdict(
        there == len(SHARED) and adds_up and unchanged and len(carried) >= len(IN_OLLAMA),
        f"{there} of {len(SHARED)} fields, {len(carried)} as received; {sum_text}",
        "all there, none altered, usage adds up",
    )


def sabotage_shape(data: Data, lab: Lab) -> Data:
    """The same answer with its total of tokens one too high."""
    sabotaged = copy.deepcopy(data)
    sabotaged["answer"]["usage"]["total_tokens"] += 1
    return sabotaged


def draw_shape(canvas: Canvas, data: Data) -> None:
    carried = {field: place for field in SHARED if (place := source(data, field))}
    made = f"{len(SHARED) - len(carried)} it makes itself" if len(carried) < len(SHARED) else "none is invented"
    canvas.headline(f"One shape for every provider: litellm carries {len(carried)} of {len(SHARED)} shared fields over, {made}")
    canvas.reading(f"One call seen at both ends: left, the bytes that {data['label']} sent; right, the object that litellm made.")
    left, right, width = MARGIN, 1050, 810
    for x, words in ((left, f"{data['label']}: {data['path']}"), (right, f"litellm: {data['asked']}")):
        canvas.text(x, BODY_TOP + 40, words, size=30, weight="bold", valign="baseline", wrap=width, lines=1, smallest=22)
    native, answer = dict(flat(data["native"])), dict(flat(data["answer"]))
    places = list(carried.values())
    rest = [place for place, value in native.items() if place not in places and value is not None]
    top, bottom = BODY_TOP + 66, BODY_BOTTOM - 10
    at_left = draw_rows(canvas, [(place, native[place]) for place in places + rest], left, top, width, bottom, strong=set(places))
    extra = [field for field in answer if field not in SHARED]
    shown = [(field, answer[field]) for field in (*SHARED, *extra)]
    at_right = draw_rows(canvas, shown, right, top, width, bottom, strong=set(SHARED))
    for field, place in carried.items():
        if place in at_left and field in at_right:
            canvas.arrow((left + width + 8, at_left[place]), (right - 8, at_right[field]), color=BLUE, width=2.5)
    for field in SHARED:
        if field not in carried and field in at_right:
            canvas.text(right - 16, at_right[field], "made by litellm", size=22, color=GREY, align="right")


def draw_rows(canvas: Canvas, rows: list[tuple[str, Any]], x, top, width, bottom, *, strong: set[str]) -> dict[str, float]:
    """One leaf a row: its path in grey, its value; rows that take no part are paler. Returns the middle of each row."""
    most = int((bottom - top) / 46)
    kept = rows if len(rows) <= most else rows[: most - 1]
    step = min(66.0, (bottom - top) / (len(kept) + (len(kept) < len(rows))))
    advance = canvas.measure("0" * 20, 24, mono=True)[0] / 20
    places: dict[str, float] = {}
    for number, (path, value) in enumerate(kept):
        y = top + number * step
        taking_part = path in strong
        canvas.box(Box(x, y, width, step - 8), fill=FAINT if taking_part else None, edge=None if taking_part else PALE, radius=8)
        middle = y + (step - 8) / 2
        canvas.text(x + 18, middle, path, size=24, mono=True, color=GREY)
        room = width - 36 - (len(path) + 2) * advance
        color = INK if taking_part and value != VARIES else GREY
        text = wrap(spelled(value), max(int(room / advance), 4), 1)[0]
        canvas.text(x + width - 18, middle, text, size=24, mono=True, color=color, align="right",
                    wrap=room + advance, lines=1, smallest=LABEL)  # fmt: skip
        places[path] = middle
    if len(kept) < len(rows):
        canvas.text(x + 18, bottom - step / 2, f"and {len(rows) - len(kept)} more", size=24, color=GREY)
    return places


# --- direct and through litellm ---


def capture_both_ways(lab: Lab) -> Data:
    from pipeline.serving import gateway

    asked = server(lab)
    direct = asked.chat(question(lab), max_tokens=ANSWER_TOKENS, temperature=0)
    through = gateway.chat(asked, question(lab), max_tokens=ANSWER_TOKENS, temperature=0)
    return {
        "server": asked.provenance,
        "label": asked.label,
        "model": asked.model,
        "asked": gateway.route_to(asked).model,
        "direct": {"path": direct.path, "request": settle(direct.request), "text": direct.text},
        "through": {"path": through.path, "request": settle(through.posted), "text": through.text},
    }


def oracle_both_ways(data: Data) -> Verdict:
    direct, through = data["direct"]["text"], data["through"]["text"]
    agreeing = sum(a == b for a, b in zip(direct, through, strict=False))
    longest = max(len(direct), len(through))
    # greedy on one server: the same weights see the same tokens, so the texts are equal or something was altered
    return Verdict(direct == through != "", f"{agreeing} of {longest} characters the same", "all of them, at temperature 0")


def sabotage_both_ways(data: Data, lab: Lab) -> Data:
    """The text that came through litellm loses its last character."""
    sabotaged = copy.deepcopy(data)
    sabotaged["through"]["text"] = data["through"]["text"][:-1]
    return sabotaged


def draw_both_ways(canvas: Canvas, data: Data) -> None:
    direct, through = data["direct"], data["through"]
    size = len(direct["text"])
    canvas.headline(f"Asked directly or through litellm, the answer is the same: {size} of {size} characters")
    canvas.reading("Top: the request that each way really posted, temperature 0. Bottom: the text that each got back, cut alike.")
    width, gap = 870, 60
    lanes = ((MARGIN, "Direct", direct), (MARGIN + width + gap, f'litellm.completion("{data["asked"]}")', through))
    top, panel = BODY_TOP + 62, 368
    server_top = top + panel + 46
    for x, name, way in lanes:
        path = f"POST {way['path']}"
        room = canvas.measure(path, 22)[0]
        canvas.text(
            x, BODY_TOP + 40, name, size=28, weight="bold", valign="baseline", wrap=width - room - 20, lines=1, smallest=22
        )
        canvas.text(x + width, BODY_TOP + 40, path, size=22, color=GREY, align="right", valign="baseline")
        draw_json(canvas, way["request"], Box(x, top, width, panel), size=26)
        canvas.arrow((x + width / 2, top + panel + 4), (x + width / 2, server_top - 4), color=INK, width=2.5)
        canvas.arrow((x + width / 2, server_top + 60), (x + width / 2, server_top + 98), color=INK, width=2.5)
    canvas.box(Box(MARGIN, server_top, WIDTH - 2 * MARGIN, 56), fill=INK, radius=8)
    face = f"{data['label']}  ·  {data['model']}"
    canvas.text(WIDTH / 2, server_top + 28, face, size=28, weight="bold", color="white", align="center",
                wrap=WIDTH - 2 * MARGIN - 40, lines=1, smallest=22)  # fmt: skip
    draw_answers(canvas, direct["text"], through["text"], server_top + 104)


def draw_answers(canvas: Canvas, direct: str, through: str, top: float) -> None:
    """Two texts, cut at the same columns, one under the other."""
    left, gap = MARGIN + 150, 10
    block = (BODY_BOTTOM - 12 - top - gap) / 2
    size, rows, step = 28, [""], 0.0
    for size in range(28, LABEL - 1, -1):
        advance = canvas.measure("0" * 20, size, mono=True)[0] / 20
        columns, step = int((WIDTH - MARGIN - left - 20) / advance), size * 1.56
        rows = wrap(spelled(direct), columns, 99)
        if len(rows) * step <= block - 4:
            break
    for number, (name, text) in enumerate((("direct", direct), ("litellm", through))):
        y = top + number * (block + gap)
        canvas.box(Box(MARGIN, y, WIDTH - 2 * MARGIN, block), fill=mix(BLUE, 0.12), radius=8)
        canvas.text(MARGIN + 20, y + block / 2, name, size=26, color=BLUE, weight="bold")
        rows = wrap(spelled(text), columns, max(int((block - 4) / step), 1))
        start = y + block / 2 - (len(rows) - 1) * step / 2
        for line, row in enumerate(rows):
            canvas.text(left, start + line * step, row, size=size, mono=True,
                        wrap=WIDTH - MARGIN - left - 10, lines=1, smallest=LABEL)  # fmt: skip


SLIDES = [
    Slide(
        name="native_and_normalised",
        section=SECTION,
        claim="The answer that litellm hands over holds every field that all providers share, unaltered, and its usage adds up.",
        capture=capture_shape,
        oracle=oracle_shape,
        sabotage=sabotage_shape,
        draw=draw_shape,
        needs=("server",),
        asks=True,
    ),
    Slide(
        name="direct_and_through",
        section=SECTION,
        claim="The same question, asked directly and through litellm, gets the same text at temperature 0.",
        capture=capture_both_ways,
        oracle=oracle_both_ways,
        sabotage=sabotage_both_ways,
        draw=draw_both_ways,
        needs=("server",),
        asks=True,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
