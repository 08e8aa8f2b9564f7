"""Slides 1-3: the sentence and its completion, the one call, and the running example, token by token.

They prove that the completion on every later slide is what the model really says: each of its tokens is the argmax of
one call on everything before it. They need the model.
"""

import copy
import sys
from itertools import pairwise
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from pipeline.drawing.canvas import BLUE, BODY_BOTTOM, FAINT, GREY, INK, MARGIN, PALE, WIDTH, Canvas, mix
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict
from pipeline.text import counted

RUNNERS_UP = 4  # candidates shown beside each choice
EXAMPLE_STEPS = 4
SUM_BOUND = 1e-5  # each probability is kept to six digits, which leaves about 1e-7; raw scores miss by thousands


def tokens(lab: Lab, ids: list[int]) -> list[Data]:
    """Ids as the tiles show them: id, text for the eye, and bytes for the oracle."""
    return [
        {"id": token_id, "text": text, "bytes": lab.piece_bytes(token_id).hex()}
        for token_id, text in zip(ids, lab.pieces(ids), strict=True)
    ]


# --- 1 · the title ---


def capture_title(lab: Lab) -> Data:
    steps = []
    for step, chosen in enumerate(lab.completion):
        logits = lab.next_logits(lab.ids + lab.completion[:step])  # [vocabulary]
        steps.append({"argmax": int(np.argmax(logits)), "probability": float(lab.softmax(logits)[chosen])})
    return {
        "sentence": lab.sentence,
        "prompt": tokens(lab, lab.ids),
        "completion": tokens(lab, lab.completion),
        "steps": steps,
        "decoded": lab.decode(lab.ids + lab.completion),
    }


def judge_title(data: Data) -> Verdict:
    tiles = data["prompt"] + data["completion"]
    joined = b"".join(bytes.fromhex(tile["bytes"]) for tile in tiles)
    prompt_is_sentence = b"".join(bytes.fromhex(tile["bytes"]) for tile in data["prompt"]) == data["sentence"].encode()
    # the last token may end inside a character: decoding replaces the cut bytes, so compare what decodes
    whole = joined.decode("utf-8", errors="replace") == data["decoded"]
    chosen = sum(tile["id"] == step["argmax"] for tile, step in zip(data["completion"], data["steps"], strict=True))
    steps = len(data["steps"])
    return Verdict(
        prompt_is_sentence and whole and chosen == steps > 0,
        f"{len(tiles)} tiles decode to the text; argmax at {chosen} of {steps} steps",
        f"exactly, and {steps} of {steps}",
    )


def spoil_title(data: Data, lab: Lab) -> Data:
    """Two neighbouring tiles of the completion swapped."""
    spoiled = copy.deepcopy(data)
    tiles = spoiled["completion"]
    first = next(i for i in range(len(tiles) - 1) if tiles[i]["id"] != tiles[i + 1]["id"])
    tiles[first], tiles[first + 1] = tiles[first + 1], tiles[first]
    return spoiled


def draw_title(canvas: Canvas, data: Data) -> None:
    given, chosen, steps = data["prompt"], data["completion"], data["steps"]
    canvas.headline(f"Ask {len(steps)} times for one more token, and the sentence goes on by itself")
    canvas.reading("The darker a blue tile, the more probable the model found that token: the percentage below. ␣ is a space.")
    canvas.text(MARGIN, 350, f"given: {counted(len(given), 'token')}", size=28, color=GREY)
    boxes = canvas.tiles([tile["text"] for tile in given], MARGIN, 382, rows=3, size=46, gap=10)
    top = max(box.bottom for box in boxes if box) + 100
    canvas.text(MARGIN, top, f"chosen: {len(chosen)} tokens, one call each, always the most probable", size=28, color=BLUE)
    shades = [mix(BLUE, 0.12 + 0.88 * step["probability"]) for step in steps]
    inks = ["white" if step["probability"] > 0.45 else INK for step in steps]
    pieces = [tile["text"] for tile in chosen]
    boxes = canvas.tiles(pieces, MARGIN, top + 32, rows=2, size=46, gap=10, row_gap=76, fills=shades, colors=inks)
    for box, step in zip(boxes, steps, strict=True):
        if box:
            canvas.text(box.center[0], box.bottom + 34, f"{step['probability']:.0%}", size=30, color=BLUE, align="center")


# --- 2 · one call ---


def capture_one_call(lab: Lab) -> Data:
    logits = lab.logits(lab.ids)  # [n, vocabulary]
    probabilities = lab.softmax(logits[-1])  # [vocabulary]
    top = np.argsort(-probabilities, kind="stable")[:RUNNERS_UP].tolist()
    return {
        "prompt": tokens(lab, lab.ids),
        "calls": 1,
        "positions": int(logits.shape[0]),
        "vocabulary": int(lab.model.config.vocab_size),
        "distribution": [float(f"{p:.6g}") for p in probabilities.tolist()],
        "top": [{**token, "probability": float(probabilities[token["id"]])} for token in tokens(lab, top)],
        "appended": lab.completion[0],
    }


def judge_one_call(data: Data) -> Verdict:
    distribution = np.array(data["distribution"], dtype=np.float64)
    gap = abs(distribution.sum() - 1)
    holds = (
        len(distribution) == data["vocabulary"]
        and data["positions"] == len(data["prompt"])
        and bool((distribution >= 0).all())
        and gap <= SUM_BOUND
        and int(distribution.argmax()) == data["appended"]
    )
    return Verdict(holds, f"sum of {len(distribution):,} probabilities − 1 = {gap:.1e}", f"≤ {SUM_BOUND:.0e}, argmax appended")


def spoil_one_call(data: Data, lab: Lab) -> Data:
    """The raw scores of the same call passed off as probabilities."""
    return {**data, "distribution": lab.next_logits(lab.ids).tolist()}


def draw_one_call(canvas: Canvas, data: Data) -> None:
    count, winner = len(data["prompt"]), data["top"][0]
    canvas.headline(f"One call: {count} ids in, one distribution over {data['vocabulary']:,} tokens out")
    canvas.reading("Left to right: what goes in, the call, the distribution that comes out. Its most probable token is appended.")
    inside = 560
    canvas.text(MARGIN, 260, f"{count} token ids in", size=28, weight="bold")
    boxes = canvas.tiles([tile["text"] for tile in data["prompt"]], MARGIN, 300, width=inside, rows=5, size=32, row_gap=66)
    for box, tile in zip(boxes, data["prompt"], strict=True):
        if box and box.w >= canvas.measure(str(tile["id"]), 22, mono=True)[0]:
            canvas.text(box.center[0], box.bottom + 24, str(tile["id"]), size=22, mono=True, color=GREY, align="center")
    canvas.arrow(640, 520, 720, 520, color=INK, width=3)
    canvas.box(730, 400, 320, 240, fill=INK, radius=14)
    canvas.text(890, 490, "the model", size=38, color="white", weight="bold", align="center")
    canvas.text(890, 550, "called once", size=28, color=PALE, align="center")
    canvas.arrow(1060, 520, 1140, 520, color=INK, width=3)
    left, bar = 1160, 360
    canvas.text(left, 260, "the most probable of all", size=28, weight="bold")
    for row, token in enumerate(data["top"]):
        y = 310 + row * 110
        color = BLUE if row == 0 else PALE
        box = canvas.tile(token["text"], left, y, size=30, width=230, fill=mix(BLUE, 0.18) if row == 0 else FAINT)
        length = bar * token["probability"] / winner["probability"]
        canvas.box(left + 245, y + 8, length, box.h - 16, fill=color, radius=3)
        canvas.text(left + 260 + length, box.center[1], f"{token['probability']:.1%}", size=26, color=BLUE if row == 0 else GREY)
    rest = 1 - sum(token["probability"] for token in data["top"])
    canvas.text(left, 765, f"and {rest:.1%} shared by the other {data['vocabulary'] - len(data['top']):,}", size=26, color=GREY)
    canvas.arrow(left + 115, 800, left + 115, 858, color=BLUE, width=3)
    canvas.text(left + 140, 828, "append it and call again", size=26, color=BLUE)
    tail = [tile["text"] for tile in data["prompt"][-3:]] + [winner["text"]]
    canvas.tiles(
        tail, left, 872, width=WIDTH - MARGIN - left, rows=1, size=30, fills=[FAINT] * (len(tail) - 1) + [mix(BLUE, 0.18)]
    )


# --- 3 · the running example ---


def capture_running_example(lab: Lab) -> Data:
    steps = []
    for step in range(EXAMPLE_STEPS):
        prefix = lab.ids + lab.completion[:step]
        probabilities = lab.softmax(lab.next_logits(prefix))
        top = np.argsort(-probabilities, kind="stable")[:RUNNERS_UP].tolist()
        steps.append(
            {
                "prefix_ids": prefix,
                "chosen": lab.completion[step],
                "candidates": [{**token, "probability": float(probabilities[token["id"]])} for token in tokens(lab, top)],
            }
        )
    return {"prompt": tokens(lab, lab.ids), "steps": steps}


def chose_the_most_probable(step: Data) -> bool:
    chances = {candidate["id"]: candidate["probability"] for candidate in step["candidates"]}
    return all(chances[step["chosen"]] >= chance for chance in chances.values())  # NaN is never the larger one


def judge_running_example(data: Data) -> Verdict:
    steps = data["steps"]
    good = steps[0]["prefix_ids"] == [tile["id"] for tile in data["prompt"]]
    grown = sum(b["prefix_ids"] == [*a["prefix_ids"], a["chosen"]] for a, b in pairwise(steps))
    best = sum(chose_the_most_probable(step) for step in steps)
    links = EXAMPLE_STEPS - 1
    return Verdict(
        good and grown == links and best == len(steps) == EXAMPLE_STEPS,
        f"prefix + chosen = next prefix at {grown} of {links} links",
        f"{links} of {links}, each choice the most probable",
    )


def spoil_running_example(data: Data, lab: Lab) -> Data:
    """One step skipped."""
    return {**data, "steps": [data["steps"][0], *data["steps"][2:]]}


def draw_running_example(canvas: Canvas, data: Data) -> None:
    steps = data["steps"]
    canvas.headline(f"Each chosen token joins the prefix: {len(steps)} calls, {len(steps)} tokens longer")
    canvas.reading(
        "One row a call. Left: what goes in. Right: the candidates with their probabilities; the blue one is appended."
    )
    top, pitch = 240, (BODY_BOTTOM - 240) / len(steps)
    ids = {tile["id"]: tile["text"] for tile in data["prompt"]} | {
        c["id"]: c["text"] for step in steps for c in step["candidates"]
    }
    given, split = len(data["prompt"]), 1000
    for row, step in enumerate(steps):
        y = top + row * pitch
        if row:
            canvas.line([(MARGIN, y - 14), (WIDTH - MARGIN, y - 14)], color=PALE, width=1)
        canvas.text(MARGIN, y + 14, f"call {row + 1}", size=24, weight="bold", color=GREY)
        pieces = [ids[i] for i in step["prefix_ids"]]
        fills = [FAINT] * given + [mix(BLUE, 0.18)] * row
        canvas.tiles(pieces, MARGIN, y + 42, width=split - 2 * MARGIN, rows=2, size=28, row_gap=10, fills=fills)
        canvas.arrow(split - 50, y + 70, split, y + 70, color=INK, width=3)
        x, room = split + 20.0, (WIDTH - MARGIN - split - 20) / len(step["candidates"])
        for candidate in step["candidates"]:
            chosen = candidate["id"] == step["chosen"]
            box = canvas.tile(
                candidate["text"], x, y + 42, size=28, width=room - 14, fill=mix(BLUE, 0.18) if chosen else FAINT,
                edge=BLUE if chosen else None,
            )  # fmt: skip
            shown = f"{candidate['probability']:.1%}" if candidate["probability"] >= 0.001 else "< 0.1%"
            canvas.text(box.center[0], box.bottom + 26, shown, size=26, align="center",
                        color=BLUE if chosen else GREY, weight="bold" if chosen else "regular")  # fmt: skip
            x += room


SLIDES = [
    Slide(
        number=1,
        name="title",
        section="One call, taken apart",
        claim="The tiles decode to the sentence and its completion exactly, and each completion tile was the argmax of its step.",
        capture=capture_title,
        oracle=judge_title,
        sabotage=spoil_title,
        draw=draw_title,
    ),
    Slide(
        number=2,
        name="one_call",
        section="One call, taken apart",
        claim="One call on n tokens gives one distribution over the vocabulary that sums to one; its argmax is the id appended.",
        capture=capture_one_call,
        oracle=judge_one_call,
        sabotage=spoil_one_call,
        draw=draw_one_call,
    ),
    Slide(
        number=3,
        name="running_example",
        section="The running example",
        claim="The prefix of each step is the previous prefix with the chosen token appended.",
        capture=capture_running_example,
        oracle=judge_running_example,
        sabotage=spoil_running_example,
        draw=draw_running_example,
    ),
]

if __name__ == "__main__":
    from regen_all import main

    sys.exit(main(["--only", Path(__file__).stem, *sys.argv[1:]]))
