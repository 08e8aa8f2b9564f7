"""One real HTTP request to a model server and its answer; then where the time of such an answer goes.

They prove that the answer is whole and from the model asked for, that its token counts agree, and that a streamed answer
is the unstreamed one in pieces. They need a server (an Ollama, or whichever was found), no model in this process.
"""

import copy

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Scale
from pipeline.drawing.fonts import literal
from pipeline.drawing.json_panel import draw_json
from pipeline.drawing.layout import BODY, GAP, LABEL, LEADING, NOTE, TILE, TITLE, WIDTH, Box
from pipeline.drawing.palette import BLUE, GREY, INK, PALE, mix
from pipeline.drawing.sheet import Line
from pipeline.lab import Lab
from pipeline.serving.client import Exchange, same_model
from pipeline.serving.messages import settle
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted

ANSWER_TOKENS, STREAM_TOKENS = 24, 24
WHOLE_SLACK = 1.001  # parts and whole are read off one clock; a thousandth allows for their rounding to microseconds
SECTION = "{server}, for real"


def ask(lab: Lab, tokens: int, stream: bool = False) -> Exchange:
    """The sentence continued; where the model has nothing to add to it, the sentence as a question."""
    exchange = lab.server.complete(lab.sentence, max_tokens=tokens, temperature=0, stream=stream)
    if exchange.text:
        return exchange
    question = [{"role": "user", "content": lab.sentence}]
    return lab.server.chat(question, max_tokens=tokens, temperature=0, stream=stream)


def reported(value: object) -> object:
    """What the server said, or that it did not say it."""
    return "not reported" if value is None else value


# --- one request, one answer ---


def capture_request(lab: Lab) -> Data:
    exchange = ask(lab, ANSWER_TOKENS)
    usage = exchange.answer.get("usage") or {}
    return {
        "server": lab.server.provenance,
        "label": lab.server.label,
        "path": exchange.path,
        "request": settle(exchange.request),
        "answer": settle(exchange.answer),
        "text": exchange.text,
        "asked_model": lab.server.model,
        "answered_model": reported(exchange.model),
        "finish": reported(exchange.finish),
        "max_tokens": ANSWER_TOKENS,
        "prompt_tokens": reported(exchange.prompt_tokens),
        "completion_tokens": reported(exchange.completion_tokens),
        "total_tokens": reported(usage.get("total_tokens")),
    }


def oracle_request(data: Data) -> Verdict:
    whole = data["answer"].get("done", data["finish"] in ("stop", "length")) is True
    right = data["answered_model"] == "not reported" or same_model(data["asked_model"], data["answered_model"])
    prompt, completion, total = (data[f"{name}_tokens"] for name in ("prompt", "completion", "total"))
    known = [count for count in (prompt, completion) if count != "not reported"]
    # a total is checked where one is given; and no more tokens may come out than were asked for
    agree = all(isinstance(count, int) and count > 0 for count in known) and (total == "not reported" or total == sum(known))
    agree = agree and (completion == "not reported" or completion <= data["max_tokens"])
    size = f"{completion} of at most {data['max_tokens']} tokens" if completion != "not reported" else "tokens not reported"
    return Verdict(
        whole and right and agree and data["text"] != "",
        f"{data['finish']}, {len(data['text'])} characters, {size}",
        "whole, not empty, model as asked, counts agree",
    )


def sabotage_request(data: Data, lab: Lab) -> Data:
    """The same answer with one token too many in its count."""
    sabotaged = copy.deepcopy(data)
    sabotaged["completion_tokens"] = data["max_tokens"] + 1
    return sabotaged


def draw_request(canvas: Canvas, data: Data) -> None:
    count = data["completion_tokens"]
    pieces = counted(count, "token") if count != "not reported" else counted(len(data["text"]), "character")
    body = canvas.titled(
        f"One HTTP request, one JSON answer: {pieces} from {data['label']}",
        "Exactly what was sent and what came back. Only ids and times, which differ from call to call, are replaced.",
    )
    heads, panels, counts, server = body.rows(TITLE * LEADING, ..., 84, 90, gap=GAP)
    sent, _, received = panels.columns(560, 84, ..., gap=GAP / 2)
    canvas.put(heads.columns(received.x - heads.x - GAP, ...)[0], f"We send POST {data['path']}", weight="bold")
    canvas.put(Box(received.x, heads.y, received.w, heads.h), f"{data['label']} answers", weight="bold")
    draw_json(canvas, data["request"], sent, size=NOTE)
    texts = ("response", "message.content", "choices[0].text", "choices[0].message.content")
    draw_json(canvas, data["answer"], received, accents=texts, size=NOTE)
    canvas.arrow(sent.inset(-GAP).east, received.inset(-GAP).west)
    draw_counts(canvas, data, counts)
    draw_server(canvas, data, server)


def draw_counts(canvas: Canvas, data: Data, box: Box) -> None:
    """The tokens that went in and came out as one bar, a cell a token."""
    counts = [(data["prompt_tokens"], "in", PALE, INK), (data["completion_tokens"], "out", BLUE, BLUE)]
    cell = box.w / max(sum(count for count, *_ in counts if count != "not reported"), 1)
    head, bar = box.rows(..., 34)
    x = box.x
    for count, way, fill, color in counts:
        known = count != "not reported"
        name = f"{counted(count, 'token')} {way}" if known else f"tokens {way}: not reported"
        room = canvas.width(name, NOTE, weight="bold")
        canvas.text(min(x, box.right - room), head.center[1], name, size=NOTE, color=color, weight="bold")
        for number in range(count if known else 0):
            spot = Box(x + number * cell, bar.y, max(cell - (3 if cell > 8 else 0), 1), bar.h)
            canvas.box(spot, fill=fill, radius=min(4, cell / 4))
        x += max(cell * count if known else 0, room + GAP)


def draw_server(canvas: Canvas, data: Data, box: Box) -> None:
    """Which server, which model, which weights: the same line at the same place whatever the server is."""
    server = data["server"]
    digest = server["digest"] or "not reported"
    facts = {
        "server": server["name"],
        "version": server["version"] or "not reported",
        "model": server["model"],
        "digest": digest if len(digest) < 24 else f"{digest.removeprefix('sha256:')[:16]}…",
    }
    for (name, value), column in zip(facts.items(), box.even_columns(len(facts), gap=30), strict=True):
        canvas.stack(column, Line(name, LABEL, GREY), Line(value, weight="bold"), down="bottom")


# --- where the time goes ---


def capture_time(lab: Lab) -> Data:
    ask(lab, 1)  # warm: the first answer loads and caches what the later ones find there
    unstreamed = ask(lab, STREAM_TOKENS)
    streamed = ask(lab, STREAM_TOKENS, stream=True)
    parts, whole, clock = times(streamed)
    return {
        "server": lab.server.provenance,
        "label": lab.server.label,
        "path": streamed.path,
        "unstreamed": unstreamed.text,
        "unstreamed_ms": unstreamed.seconds * 1000,
        "chunks": [{"ms": seconds * 1000, "text": text} for seconds, text in streamed.chunks],
        "parts": parts,
        "whole_ms": whole,
        "clock": clock,
        "seen_ms": streamed.seconds * 1000,
    }


def times(exchange: Exchange) -> tuple[list[Data], float, str]:
    """The parts of an answer's time, the whole, and whose clock: the server's where it reports one, else ours."""
    answer = exchange.answer
    if "total_duration" in answer:  # nanoseconds; a part that took none is left out of the answer
        names = (("loading", "load_duration"), ("reading the prompt", "prompt_eval_duration"), ("writing", "eval_duration"))
        parts = [{"name": name, "ms": answer.get(key, 0) / 1e6} for name, key in names]
        return parts, answer["total_duration"] / 1e6, "the server's own"
    first, last = exchange.chunks[0][0], exchange.chunks[-1][0]
    parts = [
        {"name": "until the first chunk", "ms": first * 1000},
        {"name": "first to last chunk", "ms": (last - first) * 1000},
        {"name": "closing", "ms": (exchange.seconds - last) * 1000},
    ]
    return parts, exchange.seconds * 1000, "our own"


def oracle_time(data: Data) -> Verdict:
    spent = sum(part["ms"] for part in data["parts"])
    arrivals = [chunk["ms"] for chunk in data["chunks"]]
    in_order = all(0 <= a <= b for a, b in zip(arrivals, [*arrivals[1:], data["seen_ms"]], strict=True))
    fits = 0 < spent <= data["whole_ms"] * WHOLE_SLACK and all(part["ms"] >= 0 for part in data["parts"])
    # a stream holds back a character whose bytes have not all come; an unstreamed answer shows it as U+FFFD
    joined = "".join(chunk["text"] for chunk in data["chunks"]).rstrip("\ufffd")
    same = joined == data["unstreamed"].rstrip("\ufffd")
    text = "streamed = unstreamed" if same else "streamed ≠ unstreamed"
    measured = f"parts {spent:.0f} of {data['whole_ms']:.0f} ms; {text}"
    return Verdict(fits and in_order and same, measured, "parts ≤ whole; same text")


def sabotage_time(data: Data, lab: Lab) -> Data:
    """One chunk lost on the way."""
    sabotaged = copy.deepcopy(data)
    kept = next(i for i, chunk in enumerate(data["chunks"]) if chunk["text"].strip("\ufffd"))
    sabotaged["chunks"][kept]["text"] = ""
    return sabotaged


def draw_time(canvas: Canvas, data: Data) -> None:
    biggest = max(data["parts"], key=lambda part: part["ms"])
    share = biggest["ms"] / data["whole_ms"]
    body = canvas.titled(
        f"An answer of {counted(len(data['chunks']), 'chunk')}: {share:.0%} of its time goes by {PHRASES[biggest['name']]}",
        f"Time runs to the right, to scale, by {data['clock']} clock. Each tile is one chunk, under the moment it arrived.",
    )
    scale = Scale(0, max(data["whole_ms"], data["seen_ms"], data["unstreamed_ms"]), body.x, body.right)
    parts, ticks, chunks, _, whole, server = body.rows(110, 66, ..., GAP, 140, 90)
    draw_parts(canvas, data, scale, parts, biggest)
    canvas.line([(ticks.x, ticks.bottom), (ticks.right, ticks.bottom)], color=PALE)
    for ms in scale.ticks():
        x = scale.at(ms)
        if x < body.x + 0.96 * body.w:  # no label beyond the edge
            canvas.line([(x, ticks.bottom - 8), (x, ticks.bottom + 8)], color=PALE)
            align = "center" if ms else "left"
            canvas.text(x, ticks.center[1], f"{ms:,.0f} ms" if ms else "sent", size=LABEL, color=GREY, align=align)
    draw_chunks(canvas, data, scale, chunks)
    draw_unstreamed(canvas, data, scale, whole)
    draw_server(canvas, data, server)


def draw_parts(canvas: Canvas, data: Data, scale: Scale, box: Box, biggest: Data) -> None:
    """The parts as one bar; parts too short for their labels have them above, side by side."""
    head, bar = box.rows(LABEL * LEADING, ...)
    start, gap = 0.0, 2 * GAP
    above: list[tuple[str, float, float]] = []  # label, left, width
    for part in data["parts"]:
        x, w = scale.at(start), scale.at(part["ms"]) - scale.at(0)
        start += part["ms"]
        spot = Box(x, bar.y, max(w - 2, 1), bar.h)
        if w >= 2:
            canvas.box(spot, fill=BLUE if part is biggest else mix(INK, 0.2), radius=min(4, w / 4))
        label = f"{part['name']}  " + (f"{part['ms']:,.0f} ms" if part["ms"] >= 1 else "< 1 ms")
        if w > canvas.width(label) + gap:
            canvas.put(spot, label, color="white" if part is biggest else INK, align="center")
        else:
            left = max(x, above[-1][1] + above[-1][2] + gap) if above else x
            above.append((label, left, canvas.width(label, LABEL)))
    limit = box.right
    for label, left, room in reversed(above):
        left = min(left, limit - room)
        canvas.text(left, head.center[1], label, size=LABEL, color=GREY)
        limit = left - gap


def draw_chunks(canvas: Canvas, data: Data, scale: Scale, box: Box) -> None:
    """Each chunk's tile hangs from its moment, in the highest row that is still free there."""
    _, *rows, note = box.rows(2 * GAP, *[BODY * TILE] * 4, ..., gap=GAP)
    free = [box.x] * len(rows)
    left_out = 0
    for chunk in data["chunks"]:
        x = scale.at(chunk["ms"])
        canvas.line([(x, box.y - 7), (x, box.y + 7)], color=BLUE, width=2.5, z=3)
        width = min(canvas.tile_width(chunk["text"]), 230)
        spot = min(x, box.right - width)
        row = next((row for row in range(len(rows)) if free[row] <= spot), None)
        if row is None:
            left_out += 1
            continue
        canvas.line([(x, box.y), (x, rows[row].y + 4)], color=mix(BLUE, 0.35), width=1.5, z=0.5)
        canvas.put_tile(Box(spot, rows[row].y, width, rows[row].h), chunk["text"], edge=mix(BLUE, 0.5))
        free[row] = spot + width + GAP
    if left_out:
        told = f"and {left_out} more chunks between these"
        canvas.put(note, told, size=LABEL, color=GREY, align="right", down="top")


def draw_unstreamed(canvas: Canvas, data: Data, scale: Scale, box: Box) -> None:
    """The same answer asked for without streaming: nothing, then everything."""
    head, rest = box.rows(BODY * LEADING + GAP / 2, ...)
    x, text = scale.at(data["unstreamed_ms"]), rest.inset(0, GAP)
    said = f"Without streaming: nothing for {data['unstreamed_ms']:,.0f} ms, then the same text at once"
    canvas.put(head, said)
    canvas.line([(rest.x, rest.y), (x, rest.y)], color=GREY, width=3, dashed=True)
    canvas.line([(x, rest.y - GAP), (x, rest.y + GAP)], width=4)
    left, right = text.columns(x - text.x, ...)
    whole = f"“{literal(data['unstreamed'].strip())}”"
    early = x < WIDTH * 0.55
    side = right if early else left
    canvas.put(side, whole, size=NOTE, mono=True, align="left" if early else "right", down="top", lines=2)


PHRASES = {
    "loading": "loading the model",
    "reading the prompt": "reading the prompt",
    "writing": "writing",
    "until the first chunk": "before the first chunk",
    "first to last chunk": "between the first chunk and the last",
    "closing": "closing the answer",
}


SLIDES = [
    Slide(
        name="request",
        section=SECTION,
        claim="One HTTP request brings a whole answer from the model that was asked for, and its token counts agree.",
        capture=capture_request,
        oracle=oracle_request,
        sabotage=sabotage_request,
        draw=draw_request,
        needs=("server",),
    ),
    Slide(
        name="time",
        section=SECTION,
        claim="The parts of an answer's time add up to no more than the whole, and a streamed text is the unstreamed one.",
        capture=capture_time,
        oracle=oracle_time,
        sabotage=sabotage_time,
        draw=draw_time,
        needs=("server",),
        volatile=True,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
