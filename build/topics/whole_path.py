"""One sentence, five ways to run it: recompute, KV cache, batch, the model server, litellm in front of it.

It proves that the three ways inside this process give the same tokens, the two over HTTP the same text, and all five the
same where the server holds the very weights of the model in this process. It needs the model and a server.
"""

import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import BODY_TOP, FULL, MARGIN, TILE, WIDTH, Box
from pipeline.drawing.palette import BLUE, FAINT, GREY, INK, PALE, mix
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic

if TYPE_CHECKING:
    from pipeline.serving.server import Server

STEPS = 8
BEST = 5  # log-probabilities that a server is asked for at each step
BOUND = 0.05  # of |Δ log p|; MEASURE
PIECE = 36  # text height in the rows
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


def up_to_end(lab: Lab, ids: list[int]) -> list[int]:
    """The ids up to and with the first end token: there every way stops, for the servers do."""
    return next((ids[: i + 1] for i, token_id in enumerate(ids) if token_id in lab.loaded.end_ids), ids)


def text_of(lab: Lab, ids: list[int]) -> str:
    """The text that a server gives for these ids: no special token is in it, the end token least of all."""
    return lab.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def over_http(lab: Lab, server: "Server") -> tuple[str, str, str]:
    """The sentence continued by the server and by litellm in front of it; and how it was asked.

    litellm asks an Ollama in a conversation only; with our own model in it, whose template adds nothing, that is the same.
    """
    from pipeline.serving import gateway

    options: dict[str, Any] = {"max_tokens": STEPS, "temperature": 0}
    if server.kind != "ollama":
        direct = server.complete(lab.sentence, **options)
        return direct.text, gateway.complete(server, lab.sentence, **options).text, direct.path
    conversation = [{"role": "user", "content": lab.sentence}]
    direct = server.complete(lab.sentence, **options) if same_weights(lab, server) else server.chat(conversation, **options)
    return direct.text, gateway.chat(server, conversation, **options).text, direct.path


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
    companions = [ids[: max(1, len(ids) // 2)], ids, ids + lab.completion]  # one shorter, one longer: both get padding
    runs = {
        "recompute": up_to_end(lab, lab.greedy(ids, STEPS)),
        "KV cache": greedy_generation(lab, [ids], 0, use_cache=True),
        f"batch of {len(companions)}": greedy_generation(lab, companions, 1, use_cache=True),
    }
    served, through, path = over_http(lab, server)
    same = same_weights(lab, server)
    inside = [
        {"way": way, "ids": run, "pieces": lab.pieces(run), "text": text_of(lab, run)} for way, run in runs.items()
    ]  # fmt: skip
    steps = step_by_step(lab, server, runs["recompute"]) if same else []
    return {
        "sentence": lab.sentence,
        "pieces": lab.pieces(ids),
        "model": lab.loaded.provenance["name"],
        "server": server.provenance,
        "label": server.label,
        "path": path,
        "inside": inside,
        "outside": [{"way": server.label, "text": served}, {"way": "litellm", "text": through}],
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
    fault = first_fault(data)
    seen = gaps(data)
    told = f"5 of 5 ways the same, |Δ log p| ≤ {max(gap for gap, _, _ in seen):.3f} over {len(seen)} of the best" if seen else ""
    return Verdict(not fault, fault or told, f"the same tokens, |Δ| ≤ {BOUND:g}")


def says(data: Data, text: str) -> bool:
    """Whether a text is the completion; where two tokens are as good as tied, one of them is as good as the other."""
    whole = data["prefixes"][-1].rstrip(UNFINISHED)
    return text == whole or any(text.startswith(data["prefixes"][step["step"]]) for step in ties(data))


def ties(data: Data) -> list[Data]:
    """The steps whose two best are nearer to each other than a server's numbers are to ours."""
    return [step for step in data.get("steps", []) if step["lead"] < BOUND]


def gaps(data: Data) -> list[tuple[float, int, str]]:
    """How far each of the server's best is from float32's, with its step and its text."""
    return [
        (abs(pair["server"] - pair["ours"]), step["step"], text) for step in data["steps"] for text, pair in step["best"].items()
    ]


def first_fault(data: Data) -> str:
    """The first step at which the server does not have the model's numbers, or nothing."""
    way = data["outside"][0]["way"]
    for step in data["steps"]:
        if step["read"] not in (None, step["prefix"]):
            return f"{way}, step {step['step']}: it read {step['read']} tokens of {step['prefix']}"
        for text, pair in step["best"].items():
            if not abs(pair["server"] - pair["ours"]) <= BOUND:
                return f"{way}, step {step['step']}, {text!r}: |Δ log p| {abs(pair['server'] - pair['ours']):.3f}"
    compared, reported = len(gaps(data)), sum(step["reported"] for step in data["steps"])
    return "" if 2 * compared >= reported > 0 else f"{way}: only {compared} of {reported} reported tokens could be compared"


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
    same = data["same_weights"]
    other = f"Five ways to run one sentence, but {data['server']['name']} holds another model"
    canvas.titled(
        "One sentence, five ways to run it, one answer" if same else other,
        "Above the line: inside this process, token by token. Below it: over HTTP, which hands over text, not tokens.",
    )
    canvas.put_tiles(Box(MARGIN, BODY_TOP + 14, FULL.w, 0), data["pieces"], rows=2, size=30)
    top, step = BODY_TOP + 160, 116.0
    left, right = 410, WIDTH - MARGIN - 150
    rows = [(run["way"], data["model"], run["pieces"], None) for run in data["inside"]]
    where = (f"POST {data['path']}", "to the same address")
    rows += [(run["way"], place, None, run["text"]) for run, place in zip(data["outside"], where, strict=True)]
    for number, (way, place, pieces, text) in enumerate(rows):
        y = top + number * step + (20 if pieces is None else 0)
        canvas.text(MARGIN, y + 28, way, size=30, weight="bold", valign="baseline", wrap=left - MARGIN - 20, lines=1, smallest=22)
        canvas.text(MARGIN, y + 67, place, size=22, color=GREY, valign="baseline", wrap=left - MARGIN - 20, lines=1, smallest=22)
        if pieces is not None:
            canvas.put_tiles(Box(left, y, right - left, 0), pieces, size=PIECE, fills=[mix(BLUE, 0.18)] * len(pieces))
        else:
            draw_text(canvas, text or "(it ends here)", left, y, right - left)
    line = top + 3 * step - 14
    canvas.line([(MARGIN, line), (WIDTH - MARGIN, line)], color=PALE, width=1.5)
    lowest = top + 4 * step + 84
    if same:
        bracket(canvas, right + 16, top, lowest, "all five\nthe same")
        if "steps" in data:
            canvas.text(left, lowest + 34, closeness(data), size=22, color=GREY, valign="baseline", wrap=right - left, lines=1)
    else:
        bracket(canvas, right + 16, top, top + 2 * step + 64, "same\ntokens")
        bracket(canvas, right + 16, top + 3 * step + 20, lowest, "same\ntext")


def closeness(data: Data) -> str:
    """How near the server's numbers are to ours, in a line."""
    found, reported = gaps(data), sum(step["reported"] for step in data["steps"])
    tied = [str(step["step"] + 1) for step in ties(data)]
    told = f"Log-probabilities of its best {BEST} at each step: within {max(gap for gap, _, _ in found):.3f} of ours"
    told += f" ({len(found)} of {reported}; the rest are parts of characters)" if len(found) < reported else ""
    return told + (f"; tied at step {', '.join(tied)}" if tied else "")


def draw_text(canvas: Canvas, text: str, x: float, y: float, room: float) -> None:
    """A text as one long tile: over HTTP nobody sees where its tokens begin."""
    width = min(canvas.tile_width(text, PIECE), room)
    canvas.put_tile(Box(x, y, width, TILE * PIECE), text, size=PIECE, fill=FAINT, edge=BLUE, color=INK)


def bracket(canvas: Canvas, x: float, top: float, bottom: float, text: str) -> None:
    canvas.line([(x, top), (x + 14, top), (x + 14, bottom), (x, bottom)], color=BLUE, width=3)
    canvas.text(x + 28, (top + bottom) / 2, text, size=26, color=BLUE, weight="bold")


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
