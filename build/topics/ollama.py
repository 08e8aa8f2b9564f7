"""One real HTTP request to a model server and its answer; then the same prompt twice, and its time.

They prove that the answer is whole and from the model asked for, that its token counts agree, that a prompt is read once
where the server reports how it reads, and that a streamed answer is the unstreamed one in pieces. They need a server (an
Ollama, or whichever was found), no model in this process.
"""

import copy
import secrets

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Scale
from pipeline.drawing.fonts import literal
from pipeline.drawing.layout import GAP, LABEL, LEADING, NUMBER, PAD, TITLE, WIDTH, Across, Box, Share
from pipeline.drawing.palette import BLUE, GREY, INK, PALE
from pipeline.drawing.sheet import Line
from pipeline.drawing.timeline import chunks_high, draw_axis, draw_chunks, draw_parts, milliseconds
from pipeline.errors import MissingPart
from pipeline.lab import Lab
from pipeline.serving.client import Exchange, ended, same_model
from pipeline.serving.counts import Expected, agrees, expectation, expected
from pipeline.serving.dialects import Ollama
from pipeline.serving.messages import VARIES, model_shown, reported, settle
from pipeline.serving.timing import UNFINISHED, joined, possible, run_of, what_is_reported
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted

ANSWER_TOKENS, STREAM_TOKENS = 24, 24
PROMPT_BYTES = 400  # of the prompt that is asked twice: some 80 tokens, which every cache keeps and slow machines read
SECTION = "{server}, for real"
WALL, THEIRS = 60, 420  # pixels: the wall between two processes, and the server behind it


def ask(lab: Lab, tokens: int, stream: bool = False, begin: str = "") -> tuple[Exchange, Expected]:
    """The sentence continued; where the model has nothing to add to it, the sentence as a question. And its true count."""
    prompt = begin + lab.sentence
    exchange = lab.server.complete(prompt, max_tokens=tokens, temperature=0, stream=stream)
    if exchange.text:
        return exchange, expected(lab.server, prompt)
    question = [{"role": "user", "content": prompt}]
    exchange = lab.server.chat(question, max_tokens=tokens, temperature=0, stream=stream)
    if not exchange.text:
        raise MissingPart(f"{lab.server.label} has nothing to say to this sentence: give another with --sentence")
    return exchange, expected(lab.server, question)


# --- 34 · one request, one answer ---


def capture_request(lab: Lab) -> Data:
    exchange, count = ask(lab, ANSWER_TOKENS)
    usage = exchange.answer.get("usage") or {}
    return {
        "server": lab.server.provenance,
        "label": lab.server.label,
        "path": exchange.path,
        "request": settle(exchange.request),
        "answer": settle(exchange.answer),
        "text": exchange.text,
        "asked_model": model_shown(lab.server.model),
        "answered_model": model_shown(str(reported(exchange.model))),
        "finish": reported(exchange.finish),
        "max_tokens": ANSWER_TOKENS,
        "names": sorted(map(model_shown, {lab.server.model, *lab.server.wire.also})),
        "prompt_tokens": reported(exchange.prompt_tokens),
        "expected": count,
        "completion_tokens": reported(exchange.completion_tokens),
        "total_tokens": reported(usage.get("total_tokens")),
    }


def as_answered(data: Data) -> bool:
    """Whether the text and the counts said of the answer are those that stand in it, in either dialect."""
    answer = data["answer"]
    first, usage = answer.get("choices", [answer])[0], answer.get("usage") or {}
    text = first["message"]["content"] if "message" in first else first.get("response", first.get("text"))
    prompt = usage.get("prompt_tokens", answer.get("prompt_eval_count"))
    completion = usage.get("completion_tokens", answer.get("eval_count"))
    counts = [reported(count) for count in (prompt, completion, usage.get("total_tokens"))]
    return [text, *counts] == [data["text"], *(data[f"{name}_tokens"] for name in ("prompt", "completion", "total"))]


def oracle_request(data: Data) -> Verdict:
    whole = data["answer"].get("done", ended(data["finish"]) in ("stop", "length")) is True
    whole = whole and as_answered(data) and data["max_tokens"] == ANSWER_TOKENS
    answered = data["answered_model"]
    right = data["asked_model"] in data["names"] and all(isinstance(name, str) and name for name in data["names"])
    right = right and (answered == "not reported" or same_model(data["asked_model"], answered, frozenset(data["names"])))
    prompt, completion, total = (data[f"{name}_tokens"] for name in ("prompt", "completion", "total"))
    known = [count for count in (prompt, completion) if count != "not reported"]
    # a total is checked where one is given; and no more tokens may come out than were asked for
    agree = all(isinstance(count, int) and count > 0 for count in known) and (total == "not reported" or total == sum(known))
    agree = agree and (completion == "not reported" or completion <= data["max_tokens"])
    # and the prompt was read whole: a second source counts it, for a server cuts one without a word
    read_whole = agrees(prompt, data["expected"])
    size = f"{completion} of at most {data['max_tokens']} tokens" if completion != "not reported" else "tokens not reported"
    return Verdict(
        whole and right and agree and read_whole and data["text"] != "",
        f"{data['finish']}, {len(data['text'])} characters, {size}; {prompt} in",
        f"whole, the model asked for, counts agree; in {expectation(data['expected'])}",
    )


def sabotage_request(data: Data, lab: Lab) -> Data:
    """The same answer with one token too many in its count."""
    spoiled = copy.deepcopy(data)
    spoiled["completion_tokens"] = data["max_tokens"] + 1
    return spoiled


def draw_request(canvas: Canvas, data: Data) -> None:
    body = canvas.titled(
        "Now the model answers from another process",
        "What was posted, and the answer's text; the request and the answer in full are in the evidence.",
    )
    ours, wall, theirs = body.columns(..., WALL, THEIRS, gap=3 * PAD)
    sent, received = ours.rows(..., Share(2), gap=2 * PAD)
    canvas.box(wall, fill=PALE, radius=0)
    canvas.text(*wall.rows(Share(2), ...)[1].center, "process boundary", size=LABEL, align="center", upright=True)
    canvas.box(theirs, edge=INK, width=3, radius=16)
    name, model = Line(data["label"], TITLE, weight="bold"), Line(data["server"]["model"], LABEL, GREY, mono=True)
    canvas.stack(theirs.inset(PAD), name, model, align="center")
    head, prompt, options = sent.rows(LABEL * LEADING, ..., LABEL * LEADING)
    canvas.put(head, f"POST {data['path']}", size=LABEL, mono=True, color=GREY)
    canvas.put(prompt, f"“{literal(asked_of(data['request']))}”", size=NUMBER, weight="bold", lines=2)
    canvas.put(options, f"at most {counted(data['max_tokens'], 'token')}, temperature 0", size=LABEL, color=GREY)
    cross(canvas, prompt, theirs)
    canvas.step()
    text, callouts = received.rows(..., (LABEL + TITLE) * LEADING, gap=GAP)
    canvas.put(text, f"“{literal(data['text'].strip())}”", size=NUMBER, color=BLUE, lines=4)
    cross(canvas, text, theirs, back=True)
    canvas.step()
    named = (("why it stopped", "finish"), ("tokens read", "prompt_tokens"), ("tokens written", "completion_tokens"))
    for (fact, key), cell in zip(named, callouts.even_columns(len(named), gap=PAD), strict=True):
        canvas.line([(cell.x, cell.y), (cell.x, cell.bottom)], color=BLUE)
        canvas.stack(cell.inset(GAP, 0), Line(fact, LABEL, GREY), Line(str(data[key]), TITLE, weight="bold"))


def asked_of(request: Data) -> str:
    """The text that a request holds: a prompt, or what was said last in a conversation."""
    return request["prompt"] if "prompt" in request else request["messages"][-1]["content"]


def cross(canvas: Canvas, ours: Box, theirs: Box, back: bool = False) -> None:
    """An arrow through the wall at the middle of our box, to the server or back from it."""
    ends = (ours.right + GAP, ours.center[1]), (theirs.x - GAP, ours.center[1])
    canvas.arrow(*(ends[::-1] if back else ends), color=BLUE if back else INK, width=6, z=4)


# --- 35 · the same prompt twice ---


def capture_time(lab: Lab) -> Data:
    unstreamed, times_said, runs = asked_twice(lab)
    reported_by = what_is_reported(runs)
    if reported_by == "nothing":
        runs = runs[1:]  # nothing tells the two apart but our own clock
    return {
        "server": lab.server.provenance,
        "label": lab.server.label,
        "path": unstreamed.path,
        "times_said": times_said,
        "beginning": "(none)" if isinstance(lab.server.wire, Ollama) or runs[-1].cached_tokens is None else VARIES,
        "reported": reported_by,
        "runs": [run_of(exchange) for exchange in runs],
        "unstreamed": unstreamed.text,
        "unstreamed_ms": unstreamed.seconds * 1000,
        "clock": "the server's own" if "total_duration" in runs[0].answer else "our own",
    }


def asked_twice(lab: Lab) -> tuple[Exchange, int, list[Exchange]]:
    """One prompt asked twice of a cache that does not hold it, streamed; then unstreamed; and how often it says the sentence.

    Where the reading is reported the prompt is the sentence over and over: a few tokens are read so fast that a busy
    machine's pauses are longer.
    """
    ask(lab, 1)  # whatever is loaded or compiled at a first answer
    times_said = max(1, PROMPT_BYTES // len(lab.sentence.encode()))
    begin = f"{lab.sentence}. " * (times_said - 1)
    if isinstance(lab.server.wire, Ollama):
        lab.server.wire.forget(begin + lab.sentence, STREAM_TOKENS)
    elif any(ask(lab, 1, stream=True)[0].cached_tokens is not None for _ in range(2)):
        begin = f"{secrets.token_hex(4)}: {begin}"  # a beginning that no cache knows
    else:
        begin, times_said = "", 1
    runs = [ask(lab, STREAM_TOKENS, stream=True, begin=begin)[0] for _ in range(2)]
    return ask(lab, STREAM_TOKENS, begin=begin)[0], times_said, runs


def oracle_time(data: Data) -> Verdict:
    runs = data["runs"]
    same = joined(runs[-1]) == data["unstreamed"].rstrip(UNFINISHED) != ""
    text = "streamed = unstreamed" if same else "streamed ≠ unstreamed"
    fits = all(possible(run) for run in runs)
    if data["reported"] == "nothing":
        spent = sum(part["ms"] for part in runs[0]["parts"])
        measured = f"parts {spent:.0f} of {runs[0]['whole_ms']:.0f} ms; {text}"
        return Verdict(fits and same and len(runs) == 1, measured, "parts ≤ whole; same text")
    first, again = runs
    if data["reported"] == "durations":
        known = first["reading_ms"] > again["reading_ms"] >= 0
        measured = f"prompt read in {first['reading_ms']:,.0f} ms, then {again['reading_ms']:,.0f}; {text}"
    else:
        known = 0 <= first["cached_tokens"] < again["cached_tokens"] <= again["prompt_tokens"]
        measured = f"{first['cached_tokens']}, then {again['cached_tokens']} prompt tokens from the cache; {text}"
    return Verdict(fits and same and known, measured, "known the second time; parts ≤ whole; same text")


def sabotage_time(data: Data, lab: Lab) -> Data:
    """One chunk lost on the way."""
    spoiled = copy.deepcopy(data)
    chunks = spoiled["runs"][-1]["chunks"]
    next(chunk for chunk in chunks if chunk["text"].strip(UNFINISHED))["text"] = ""
    return spoiled


def draw_time(canvas: Canvas, data: Data) -> None:
    body = canvas.titled(finding(data), how_to_read(data))
    runs, twice = data["runs"], len(data["runs"]) == 2
    scale = Scale(0, max(max(run["whole_ms"], run["seen_ms"]) for run in [*runs, {**runs[0], **alone(data)}]), body.x, body.right)
    axis, *lanes = body.rows(2 * LABEL, Share(1 if twice else 2), ..., gap=GAP)
    draw_axis(canvas, scale, axis)
    names = ["Asked first", "Asked again"] if twice else ["Streamed"]
    for lane, name, run in zip(lanes, names, runs, strict=False):
        head, parts, chunks = lane.rows(NUMBER + GAP, ..., chunks_high(2))
        canvas.put(head, name, size=TITLE, weight="bold")
        first = f"first word after {milliseconds(run['chunks'][0]['ms'])}"
        canvas.put(head, first, size=NUMBER, weight="bold", color=BLUE, align="right")
        draw_parts(canvas, run["parts"], scale, parts, "prefill")
        draw_chunks(canvas, run["chunks"], scale, chunks, rows=2)
        canvas.step()
    if not twice:
        draw_unstreamed(canvas, data, scale, lanes[1])


def alone(data: Data) -> Data:
    """The unstreamed answer as a run that is as long as it took."""
    return {"whole_ms": data["unstreamed_ms"], "seen_ms": data["unstreamed_ms"]} if len(data["runs"]) == 1 else {}


def finding(data: Data) -> str:
    if data["reported"] == "nothing":
        return "Streamed, the first word is there long before the last"
    return "Asked again, the prompt is not read again"


def how_to_read(data: Data) -> str:
    clock = f"Time runs to the right, by {data['clock']} clock; a tile is a chunk, under the moment it came."
    if data["reported"] == "nothing":
        return f"{clock} No cache of prompts is reported."
    said = f", the sentence {data['times_said']} times over" if data["times_said"] > 1 else ""
    return f"One prompt{said}, sent twice. {clock}"


def draw_unstreamed(canvas: Canvas, data: Data, scale: Scale, box: Box) -> None:
    """The same answer asked for without streaming: nothing, then everything."""
    head, rest = box.rows(NUMBER * LEADING, ...)
    x = scale.at(data["unstreamed_ms"])
    canvas.put(head, "Not streamed", size=TITLE, weight="bold")
    first = f"first word after {milliseconds(data['unstreamed_ms'])}"
    canvas.put(head, first, size=NUMBER, weight="bold", color=GREY, align="right")
    wait, words = rest.rows(2 * PAD, ..., gap=GAP)
    canvas.box(Box(wait.x, wait.y, x - wait.x, wait.h), edge=GREY, dashed=True)
    left, right = words.columns(x - rest.x, ...)
    early = x < WIDTH / 2
    whole = f"“{literal(data['unstreamed'].strip())}”"
    side: Across = "left" if early else "right"
    canvas.put(right if early else left, whole, size=LABEL, mono=True, align=side, down="top", lines=2)


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
        claim="A prompt that the server has read before is not read again; the streamed text is the unstreamed one.",
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
