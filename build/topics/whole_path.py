"""One sentence, five ways to run it: recompute, KV cache, batch, the model server, litellm in front of it.

It proves that the three ways inside this process give the same tokens, the two over HTTP the same text, and all five the
same where the server holds the very weights of the model in this process. It needs the model and a server.
"""

import copy
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.fonts import literal
from pipeline.drawing.layout import BODY, GAP, LABEL, LEADING, NUMBER, PAD, TILE, Box, Share
from pipeline.drawing.palette import BLUE, FAINT, GREY, ORANGE
from pipeline.lab import Lab
from pipeline.model.counting import operations
from pipeline.serving.best import BOUND, first_fault, gaps, ties
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted, in_words

if TYPE_CHECKING:
    from pipeline.serving.server import Server

STEPS = 8
BEST = 5  # log-probabilities that a server is asked for at each step
PIECE = 38  # text height in the rows
ROWS = 3  # of the batch: a shorter and a longer neighbour, so that both get padding
ATTENTION = 0.1  # of the work on a token: it alone grows with what stands before, by less than this over a few steps
COLUMNS = (330, ..., 600)  # pixels: who answers, the answer, its cost
UNFINISHED = "\ufffd"  # a text cut inside a character ends in this; who leaves it off and who shows it differs


def greedy_generation(lab: Lab, rows: list[list[int]], row: int, use_cache: bool) -> list[int]:
    """The greedy continuation of one row of a left-padded batch, by transformers' own generate(); an end token ends it."""
    import transformers

    torch = lab.torch
    longest, pad = max(map(len, rows)), rows[0][0]  # the mask keeps padding from being read: any id will do
    ids = torch.tensor([[pad] * (longest - len(ids)) + ids for ids in rows])  # [rows, longest]
    mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in rows])
    config = transformers.GenerationConfig(do_sample=False, max_new_tokens=STEPS, use_cache=use_cache, pad_token_id=pad)
    with torch.inference_mode():
        out = lab.model.generate(ids, attention_mask=mask, generation_config=config)
    return up_to_end(lab, out[row, longest:].tolist())  # a row that ended before its neighbours is padded


def greedy(lab: Lab, ids: list[int], cached: bool) -> list[int]:
    """The greedy continuation by calls of our own, with the cache or from scratch each time; an end token ends it."""
    run: list[int] = []
    cache = None
    while len(run) < STEPS and not lab.loaded.end_ids & set(run):
        logits, cache = lab.extend(cache, run[-1:] or ids) if cached else (lab.logits(ids + run), None)
        run.append(int(logits[-1].argmax()))
    return run


def up_to_end(lab: Lab, ids: list[int]) -> list[int]:
    """The ids up to and with the first end token: there every way stops, for the servers do."""
    return next((ids[: i + 1] for i, token_id in enumerate(ids) if token_id in lab.loaded.end_ids), ids)


def text_of(lab: Lab, ids: list[int]) -> str:
    """The text that a server gives for these ids: no special token is in it, the end token least of all."""
    return lab.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def over_http(lab: Lab, server: "Server") -> list[Data]:
    """The sentence continued by the server and by litellm in front of it, with the requests that each took.

    litellm asks an Ollama in a conversation only; with our own model in it, whose template adds nothing, that is the same.
    """
    from pipeline.serving import gateway

    options: dict[str, Any] = {"max_tokens": STEPS, "temperature": 0}
    conversation = [{"role": "user", "content": lab.sentence}]
    chats = server.kind == "ollama"
    talks = chats and not same_weights(lab, server)
    direct = server.chat(conversation, **options) if talks else server.complete(lab.sentence, **options)
    through = gateway.chat(server, conversation, **options) if chats else gateway.complete(server, lab.sentence, **options)
    return [
        {"way": server.label, "text": direct.text, "requests": [direct.path]},
        {"way": "litellm", "text": through.text, "requests": [through.path, *through.lookups]},
    ]


def same_weights(lab: Lab, server: "Server") -> bool:
    from pipeline.serving.start import weights_sha256

    served = server.provenance.get("sha256")
    return served is not None and served == weights_sha256(lab.loaded.path)


def step_by_step(lab: Lab, server: "Server", run: list[int]) -> list[Data]:
    """Each step of `run` asked with our own prefix: the server's best tokens beside what float32 says of them.

    Left out are the end token, which no server reports, and a prefix that is not cut into the same tokens as text.
    """
    from pipeline.serving.best import Vocabulary

    known, steps = Vocabulary(lab.loaded), []
    for number, token_id in enumerate(run):
        prefix = lab.ids + run[:number]
        prompt = lab.decode(prefix)
        if token_id in lab.loaded.end_ids or lab.encode(prompt) != prefix:
            continue
        answer = server.wire.next_token(prompt, BEST)
        ours = np.log(lab.softmax(lab.next_logits(prefix)))  # [vocabulary]
        first, second = np.sort(ours)[::-1][:2]
        reported = server.wire.best_of(answer.answer)
        found = {text: known.id_of(text) for text, _ in reported}
        best = {text: (value, float(ours[found[text]])) for text, value in reported if found[text] is not None}
        steps.append(
            {
                "step": number,
                "prefix": len(prefix),
                "read": answer.prompt_tokens,
                "lead": float(first - second),
                "reported": len(reported),
                "best": {text: {"server": theirs, "ours": mine} for text, (theirs, mine) in best.items()},
            }
        )
    return steps


def capture_five_ways(lab: Lab) -> Data:
    return five_ways(lab, lab.own_server)


def five_ways(lab: Lab, server: "Server") -> Data:
    ids = lab.ids
    companions = [ids[: max(1, len(ids) // 2)], ids, ids + lab.completion]
    ways = {
        "recompute": partial(greedy, lab, ids, cached=False),
        "KV cache": partial(greedy, lab, ids, cached=True),
        f"batch of {ROWS}": partial(greedy_generation, lab, companions, 1, use_cache=True),
    }
    work = {way: operations(lab, call) for way, call in ways.items()}
    runs = {way: run for way, (_, _, run) in work.items()}
    outside = over_http(lab, server)
    same = same_weights(lab, server)
    inside: list[Data] = [
        {"way": way, "ids": run, "pieces": lab.pieces(run), "text": text_of(lab, run), "operations": work[way][0], "answers": 1}
        for way, run in runs.items()
    ]
    inside[-1]["answers"] = ROWS
    steps = step_by_step(lab, server, runs["recompute"]) if same else []
    return {
        "sentence": lab.sentence,
        "pieces": lab.pieces(ids),
        "model": lab.loaded.provenance["name"],
        "server": server.provenance,
        "label": server.label,
        "path": outside[0]["requests"][0],
        "inside": inside,
        "outside": outside,
        "same_weights": same,
        "prefixes": [text_of(lab, runs["recompute"][:number]) for number in range(STEPS + 1)],
        **({"steps": steps} if any(step["reported"] for step in steps) else {}),
    }


def oracle_five_ways(data: Data) -> Verdict:
    inside, outside = data["inside"], data["outside"]
    tokens = sum(run["ids"] == inside[0]["ids"] and len(run["ids"]) > 0 for run in inside)
    http = [run["text"].rstrip(UNFINISHED) for run in outside]
    agree = tokens == len(inside) == 3 and [run["way"] for run in outside] == [data["label"], "litellm"]
    agree = agree and [run["way"] for run in inside[:2]] == ["recompute", "KV cache"] and isinstance(data["same_weights"], bool)
    agree = agree and costs_as_counted(inside, len(data["pieces"]))
    grown = [text.rstrip(UNFINISHED) for text in data["prefixes"]]
    agree = agree and grown[0] == "" and len(grown) == STEPS + 1 and all(b.startswith(a) for a, b in pairwise(grown))
    if not data["same_weights"]:  # other weights answer in other words: only the two that ask the same server can be compared
        two = "the same" if http[0] == http[1] else "two"
        same = agree and http[0] == http[1] != ""
        return Verdict(same, f"{tokens} of 3 token for token, {two} text over HTTP", "3 of 3, the same text")
    alike = sum(says(data, text) for text in [*(run["text"].rstrip(UNFINISHED) for run in inside), *http])
    measured, bound = f"{tokens} of 3 token for token, {alike} of 5 text for text", "all: same weights"
    holds = agree and alike == 5
    if not holds or "steps" not in data:
        return Verdict(holds, measured, bound)
    fault = first_fault(outside[0]["way"], data["steps"])
    seen = gaps(data["steps"])
    told = f"5 of 5 ways the same, |Δ log p| ≤ {max(gap for gap, _, _ in seen):.3f} over {len(seen)} of the best" if seen else ""
    return Verdict(not fault, fault or told, f"the same tokens, |Δ| ≤ {BOUND:g}")


def costs_as_counted(inside: list[Data], prompt: int) -> bool:
    """Whether the arithmetic is that of the tokens that went in: with the cache each once, from scratch at every step again."""
    steps = len(inside[0]["ids"])
    fed = sum(range(prompt, prompt + steps)), prompt + steps - 1
    recompute, cached = (run["operations"] / tokens for run, tokens in zip(inside, fed, strict=False))
    batched = [run["answers"] for run in inside] == [1, 1, ROWS] and inside[2]["operations"] > inside[1]["operations"]
    return batched and recompute > 0 and abs(recompute - cached) < ATTENTION * cached


def says(data: Data, text: str) -> bool:
    """Whether a text is the completion; where two tokens are as good as tied, one of them is as good as the other."""
    whole = data["prefixes"][-1].rstrip(UNFINISHED)
    return text == whole or any(text.startswith(data["prefixes"][step["step"]]) for step in ties(data.get("steps", [])))


def sabotage_five_ways(data: Data, lab: Lab) -> Data:
    """The same once more of a file that is nearly the model; of a server that took no file: one character more from litellm."""
    wrong = lab.own_server.spoiled()
    if wrong is not None:
        with wrong:
            return five_ways(lab, wrong)
    sabotaged = copy.deepcopy(data)
    sabotaged["outside"][-1]["text"] += "."
    return sabotaged


def draw_five_ways(canvas: Canvas, data: Data) -> None:
    same, rows = data["same_weights"], [*data["inside"], *data["outside"]]
    words = "Five ways to run it, and the same answer every time"
    if not same:
        words = f"Five ways to run it, but {data['server']['name']} holds another model"
    body = canvas.titled(words, how_to_read(data))
    prompt, table, foot = body.rows(BODY * TILE, ..., 2 * LABEL * LEADING, gap=PAD)
    canvas.put_tiles(prompt, [*data["pieces"], "…"], size=BODY)
    lanes = table.even_rows(len(rows), gap=GAP)
    names, room, costs = table.columns(*COLUMNS, gap=PAD)
    texts = [literal(run["text"].rstrip(UNFINISHED).lstrip()) or "(it ends here)" for run in rows]
    size = grid_size(canvas, texts, room.w)
    for group in [lanes] if same else [lanes[:3], lanes[3:]]:  # one block of letters for each model
        width = canvas.measure(texts[lanes.index(group[0])], size, mono=True)[0]
        block = Box(room.x, group[0].y, min(width, room.w), group[-1].bottom - group[0].y)
        canvas.box(block.inset(-GAP, 0), fill=canvas.tint(BLUE))
    for run, text, lane in zip(rows, texts, lanes, strict=True):
        canvas.put(Box(names.x, lane.y, names.w, lane.h), run["way"], weight="bold")
        canvas.put(Box(room.x, lane.y, room.w, lane.h), text, size=size, mono=True)
        canvas.step()
    for run, lane in zip(rows, lanes, strict=True):
        draw_cost(canvas, run, data["inside"], Box(costs.x, lane.y, costs.w, lane.h))
    canvas.step()
    closing, told = foot.columns(..., Share(1.3), gap=PAD)
    if same:
        canvas.put(closing, "Same words. Different bill.", size=NUMBER, weight="bold", color=BLUE)
    if "steps" in data:
        canvas.put(told, closeness(data), size=LABEL, color=GREY, align="right", lines=2)


def how_to_read(data: Data) -> str:
    read = "Top three: inside this process. Bottom two: over HTTP. Right: what one answer cost."
    return f"{read} All five hold the same weights." if data["same_weights"] else read


def grid_size(canvas: Canvas, texts: list[str], room: float) -> float:
    """One size for all texts, so that the same letter stands in the same column."""
    size: float = PIECE
    while size > LABEL and max(canvas.measure(text, size, mono=True)[0] for text in texts) > room:
        size -= 1
    return size


def draw_cost(canvas: Canvas, run: Data, counted_ways: list[Data], box: Box) -> None:
    """What one answer took: counted operations, in orange what is more than the least; or requests."""
    mark, label = box.even_rows(2)
    mark = mark.inset(0, GAP / 2)
    if "requests" in run:
        canvas.box(mark, fill=FAINT)
        canvas.put(mark.inset(GAP, 0), "POST " + ", ".join(run["requests"]), size=LABEL, mono=True)
        further = ", through one more program" if run["way"] == "litellm" else ""
        canvas.put(label, counted(len(run["requests"]), "request") + further, size=LABEL)
        return
    each = [way["operations"] / way["answers"] for way in counted_ways]
    mine, pixel = run["operations"] / run["answers"], mark.w / max(each)
    for length, color in ((mine, ORANGE), (min(each), BLUE)):
        canvas.box(Box(mark.x, mark.y, length * pixel, mark.h), fill=color)
    shared = f", weights read once for {run['answers']}" if run["answers"] > 1 else ""
    canvas.put(label, f"{in_words(mine)} operations{shared}", size=LABEL)


def closeness(data: Data) -> str:
    """How near the server's numbers are to ours, in a line."""
    found, reported = gaps(data["steps"]), sum(step["reported"] for step in data["steps"])
    tied = [str(step["step"] + 1) for step in ties(data.get("steps", []))]
    told = f"Log-probabilities of its best {BEST} at each step: within {max(gap for gap, _, _ in found):.3f} of ours"
    told += f" ({len(found)} of {reported}; the rest are parts of characters)" if len(found) < reported else ""
    return told + (f"; tied at step {', '.join(tied)}" if tied else "")


SLIDES = [
    Slide(
        name="five_ways",
        section="The whole path",
        claim="One sentence run five ways: the three in this process agree token for token, the two over HTTP text for text.",
        capture=capture_five_ways,
        oracle=oracle_five_ways,
        sabotage=sabotage_five_ways,
        draw=draw_five_ways,
        needs=("model", "server"),
        own=True,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
