"""litellm in front of the same server: what it makes of the native answer, and the same question both ways.

They prove that every field all providers share is in the answer that litellm hands over, each as it was received but for
the gateway's own prefix, with counts that add up and can be true; and that at temperature 0 the text is the one the server
gives when asked directly. They need a server, no model in this process.
"""

import copy
from typing import TYPE_CHECKING, Any

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.json_panel import draw_json, spelled
from pipeline.drawing.layout import BODY, GAP, LABEL, LEADING, PAD, TITLE, Box, Share
from pipeline.drawing.palette import BLUE, FAINT, GREY, INK, ORANGE, PALE
from pipeline.drawing.sheet import Line
from pipeline.lab import Lab
from pipeline.serving.counts import agrees, expectation, expected
from pipeline.serving.fields import MADE, MISSING, RECEIVED, RENAMED, SHARED, allowed, compared
from pipeline.serving.messages import VARIES, flat, model_shown, settle
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted

if TYPE_CHECKING:
    from pipeline.serving.server import Server

SECTION = "litellm, one shape"
ANSWER_TOKENS = 24
NONE = "(none)"


def server(lab: Lab) -> "Server":
    """The server of this run, or the provider that `--ask` named."""

    from pipeline.serving.providers import ask_route
    from pipeline.serving.server import server_at

    return server_at(ask_route(lab.asked)) if lab.asked else lab.server


def question(lab: Lab) -> list[dict[str, str]]:
    return [{"role": "user", "content": lab.sentence}]


# --- 36 · the native answer and the one shape ---


def capture_shape(lab: Lab) -> Data:
    from pipeline.serving import gateway

    asked = server(lab)
    call = gateway.chat(asked, question(lab), max_tokens=ANSWER_TOKENS, temperature=0)
    return {
        "server": asked.provenance,
        "label": asked.label,
        "asked": model_shown(gateway.route_to(asked).model),
        "path": call.path,
        "posted": settle(call.posted),
        "native": settle(call.native),
        "answer": settle(call.answer, drop_unset=True),  # litellm's object has a place for every field of every provider
        "fields": compared(call.native, call.answer),
        "lookups": list(call.lookups) or NONE,
        "typed_tokens": typed_tokens(lab, asked),
        "expected": expected(asked, question(lab)),
        "template": asked.template(question(lab)) or "not reported",
    }


def typed_tokens(lab: Lab, asked: "Server") -> int | str:
    """What the server counts for the sentence alone, no template around it; a provider is not asked for that."""
    count = None if lab.asked else asked.complete(lab.sentence, max_tokens=1, temperature=0).prompt_tokens
    return "not reported" if count is None else count


def usage(data: Data) -> tuple[str, bool]:
    """The counts as a sum, and whether they add up; where the server reported none, litellm's own are only estimates."""
    native, answer = dict(flat(data["native"])), dict(flat(data["answer"]))
    prompt, completion, total = (answer.get(f"usage.{name}_tokens", 0) for name in ("prompt", "completion", "total"))
    reported = [native.get(one["place"]) for one in data["fields"] if one["field"].startswith("usage.") and one["place"]]
    counts = all(isinstance(count, int) and not isinstance(count, bool) for count in (prompt, completion, total))
    adds_up = counts and prompt + completion == total and (not reported or (prompt > 0 and completion > 0))
    said = f"{prompt} + {completion} {'=' if adds_up else '≠'} {total}"
    return (said if reported else "usage not reported", adds_up)


def oracle_shape(data: Data) -> Verdict:
    native, answer = dict(flat(data["native"])), dict(flat(data["answer"]))
    fields = {one["field"]: one for one in data["fields"]}
    kept = [name for name in SHARED if name in fields and true_of(fields[name], native, answer)]
    said, adds_up = usage(data)
    carried = sum(one["place"] is not None for one in data["fields"])
    content = fields["choices[0].message.content"]["how"] in (RECEIVED, RENAMED) and answer["choices[0].message.content"] != ""
    read_whole = agrees(native.get(fields["usage.prompt_tokens"]["place"], "not reported"), data["expected"])
    return Verdict(
        kept == list(SHARED) == list(fields) and adds_up and content and read_whole,
        f"{len(kept)} of {len(SHARED)} fields, {carried} from the server; {said}",
        f"none altered but by its prefix; adds up; in {expectation(data['expected'])}",
    )


def true_of(one: Data, native: dict[str, Any], answer: dict[str, Any]) -> bool:
    """Whether what is said of a field is so, and may be; ids and times are said by the capture alone."""
    received, handed = native.get(one["place"]), answer.get(one["field"])
    if one["how"] == MISSING or (one["how"] == MADE) != (one["place"] is None):
        return False
    return handed is not None and allowed(one["field"], one["how"], received, handed)


def sabotage_shape(data: Data, lab: Lab) -> Data:
    """The same answer with its total of tokens one too high."""
    spoiled = copy.deepcopy(data)
    spoiled["answer"]["usage"]["total_tokens"] += 1
    return spoiled


def draw_shape(canvas: Canvas, data: Data) -> None:
    native, answer = dict(flat(data["native"])), dict(flat(data["answer"]))
    held = "" if data["lookups"] == NONE else f" {counted(len(data['lookups']), 'look-up')} of its own were held back."
    body = canvas.titled(
        "One shape for every provider",
        f"One call seen at both ends: left, what {data['label']} sent; right, the object that litellm made of it.{held}",
    )
    head, table, foot = body.rows(TITLE * LEADING, ..., 84, gap=GAP)
    columns = (Box(0, 0, head.w, 1)).columns(..., 300, ..., gap=GAP)
    titles = (f"{data['label']}: POST {data['path']}", "", f"litellm: {data['asked']}")
    for spot, words in zip(columns, titles, strict=True):
        canvas.put(Box(head.x + spot.x, head.y, spot.w, head.h), words, weight="bold")
    shares = [Share(2 if one["field"].endswith("content") else 1) for one in data["fields"]]
    for row, one in zip(table.rows(*shares, gap=6), data["fields"], strict=True):
        left, middle, right = row.columns(..., 300, ..., gap=GAP)
        how, _, detail = one["how"].partition(": ")
        color = {RECEIVED: GREY, RENAMED: BLUE, MADE: ORANGE}.get(how, ORANGE)
        draw_field(canvas, left, one["place"], native.get(one["place"]))
        draw_field(canvas, right, one["field"], answer.get(one["field"]))
        if one["place"]:
            canvas.arrow((middle.x, row.bottom - GAP / 2), (middle.right, row.bottom - GAP / 2), color=color, width=2)
        canvas.put(Box(middle.x, row.y, middle.w, row.h - GAP), detail or how, size=LABEL, color=color, align="center")
    draw_template(canvas, data, foot)


def draw_field(canvas: Canvas, box: Box, path: str | None, value: Any) -> None:
    """A field's path in grey and its value; an empty frame where there is none."""
    canvas.box(box, fill=FAINT if path else None, edge=None if path else PALE, radius=8, dashed=path is None)
    if path is None:
        return
    inside = box.inset(GAP * 1.5, 0)
    name, rest = inside.columns(canvas.width(path, LABEL, mono=True) + GAP, ...)
    canvas.put(name, path, size=LABEL, mono=True, color=GREY)
    color = GREY if value == VARIES else INK
    canvas.put(rest, spelled(value), size=LABEL, mono=True, color=color, align="right", lines=int(box.h / (LEADING * LABEL)))


def draw_template(canvas: Canvas, data: Data, box: Box) -> None:
    """Why a conversation is more tokens than what was typed: what the chat template puts around it."""
    typed, read = data["typed_tokens"], dict(flat(data["answer"])).get("usage.prompt_tokens", "not reported")
    template = data["template"] if isinstance(data["template"], dict) else {}
    if typed == "not reported":
        first = f"Read as a conversation: {counted(read, 'token')}" if isinstance(read, int) else "Tokens read: not reported"
    else:
        first = f"{counted(typed, 'token')} typed, {read} read: the chat template says who speaks"
        first += ", and a system prompt is put before" if template.get("system") else ""
    shown = template.get("read") or template.get("system") or template.get("template") or "the server does not show its template"
    name = "as read: " if "read" in template else "system: " if "system" in template else "template: " if template else ""
    canvas.stack(box, Line(first, BODY, weight="bold"), Line(name + spelled(shown), LABEL, GREY, mono=True), down="bottom")


# --- 37 · direct and through litellm ---


def capture_both_ways(lab: Lab) -> Data:
    from pipeline.serving import gateway

    asked = server(lab)
    direct = asked.chat(question(lab), max_tokens=ANSWER_TOKENS, temperature=0)
    through = gateway.chat(asked, question(lab), max_tokens=ANSWER_TOKENS, temperature=0)
    return {
        "server": asked.provenance,
        "label": asked.label,
        "model": model_shown(asked.model),
        "asked": model_shown(gateway.route_to(asked).model),
        "expected": expected(asked, question(lab)),
        "lookups": list(through.lookups) or NONE,
        "direct": way(direct.path, direct.request, direct.text, direct.prompt_tokens),
        "through": way(through.path, through.posted, through.text, through.prompt_tokens),
    }


def way(path: str, request: Data, text: str, prompt_tokens: int | None) -> Data:
    count = "not reported" if prompt_tokens is None else prompt_tokens
    return {"path": path, "request": settle(request), "text": text, "prompt_tokens": count}


def oracle_both_ways(data: Data) -> Verdict:
    direct, through = data["direct"]["text"], data["through"]["text"]
    agreeing = sum(a == b for a, b in zip(direct, through, strict=False))
    longest = max(len(direct), len(through))
    counts = [data[name]["prompt_tokens"] for name in ("direct", "through")]
    known = [count for count in counts if count != "not reported"]
    read_whole = all(agrees(count, data["expected"]) for count in counts) and len(set(known)) < 2
    tokens = " and ".join(map(str, counts))
    # greedy on one server: the same weights see the same tokens, so the texts are equal or something was altered
    return Verdict(
        direct == through != "" and read_whole,
        f"{agreeing} of {longest} characters the same; {tokens} tokens in",
        f"all, at temperature 0; in {expectation(data['expected'])}, both",
    )


def sabotage_both_ways(data: Data, lab: Lab) -> Data:
    """The text that came through litellm loses its last character."""
    spoiled = copy.deepcopy(data)
    spoiled["through"]["text"] = data["through"]["text"][:-1]
    return spoiled


def draw_both_ways(canvas: Canvas, data: Data) -> None:
    body = canvas.titled(
        "Directly or through litellm, the answer is the same",
        "Top: the request that each way really posted, temperature 0. Bottom: the one text that both got back.",
    )
    lanes, face, _, answer = body.rows(..., 56, 32, 130)
    names = (("Direct", data["direct"]), ("Through litellm", data["through"]))
    for lane, (name, one) in zip(lanes.even_columns(2, gap=60), names, strict=True):
        head, panel, below = lane.rows(TITLE * LEADING, ..., 32)
        path = f"POST {one['path']}"
        title, place = head.columns(..., canvas.width(path, LABEL) + 2, gap=PAD)
        canvas.put(title, name, weight="bold")
        canvas.put(place, path, size=LABEL, color=GREY, align="right")
        draw_json(canvas, one["request"], panel, size=LABEL)
        canvas.arrow((below.north[0], below.y + 4), (below.south[0], below.bottom - 4))
        canvas.arrow((below.south[0], face.bottom + 4), (below.south[0], answer.y - 4))
    canvas.box(face, fill=INK, radius=8)
    canvas.put(face.inset(PAD, 0), f"{data['label']}  ·  {data['model']}", weight="bold", color="white", align="center")
    draw_answer(canvas, data, answer)


def draw_answer(canvas: Canvas, data: Data, box: Box) -> None:
    """The one text that both ways brought, and that it is one."""
    canvas.box(box, fill=canvas.tint(BLUE), radius=8)
    name, text = box.inset(PAD, 0).columns(150, ..., gap=PAD)
    canvas.stack(name, Line("both", BODY, BLUE, "bold"), Line("the same", LABEL, BLUE))
    canvas.put(text, spelled(data["direct"]["text"]), size=TITLE, mono=True, lines=3)


SLIDES = [
    Slide(
        name="native_and_normalised",
        section=SECTION,
        claim="The answer that litellm hands over holds every field that all providers share, none altered but by its prefix.",
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
