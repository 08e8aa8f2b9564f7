"""The sentence and its completion, the one call, and the running example, token by token.

They prove that the completion on every later slide is what the model really says: each of its tokens is the argmax of
one call on everything before it. They need the model.
"""

import copy
from itertools import pairwise

import numpy as np

from pipeline.distributions import by_rank
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Bar, tiles_and_bars
from pipeline.drawing.layout import BODY, GAP, HERO, LABEL, LEADING, NUMBER, PAD, TILE, TITLE, Box, Share
from pipeline.drawing.palette import BLUE, FAINT, GREY, INK, PALE, Color, mix
from pipeline.drawing.sheet import Line
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import percent

RUNNERS_UP = 4  # candidates shown beside each choice
EXAMPLE_STEPS = 4
UNDER = 2 * LABEL  # pixels under a row of tiles, for what is written there
SUM_BOUND = 1e-5  # each probability is kept to six digits, which leaves about 1e-7; raw scores miss by thousands


def tokens(lab: Lab, ids: list[int]) -> list[Data]:
    """Ids as the tiles show them: id, text for the eye, and bytes for the oracle."""
    return [
        {"id": token_id, "text": text, "bytes": lab.piece_bytes(token_id).hex()}
        for token_id, text in zip(ids, lab.pieces(ids), strict=True)
    ]


# --- the title ---


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


def oracle_title(data: Data) -> Verdict:
    tiles = data["prompt"] + data["completion"]
    joined = b"".join(bytes.fromhex(tile["bytes"]) for tile in tiles)
    prompt_is_sentence = b"".join(bytes.fromhex(tile["bytes"]) for tile in data["prompt"]) == data["sentence"].encode()
    # the last token may end inside a character: decoding replaces the cut bytes, so compare what decodes
    whole = joined.decode("utf-8", errors="replace") == data["decoded"]
    chosen = sum(tile["id"] == step["argmax"] for tile, step in zip(data["completion"], data["steps"], strict=True))
    steps = len(data["steps"])
    return Verdict(
        prompt_is_sentence and whole and chosen == steps > 0 and all(0 < step["probability"] <= 1 for step in data["steps"]),
        f"{len(tiles)} tiles decode to the text; argmax at {chosen} of {steps} steps",
        f"exactly, and {steps} of {steps}",
    )


def sabotage_title(data: Data, lab: Lab) -> Data:
    """Two neighbouring tiles of the completion swapped."""
    sabotaged = copy.deepcopy(data)
    tiles = sabotaged["completion"]
    first = next(i for i in range(len(tiles) - 1) if tiles[i]["id"] != tiles[i + 1]["id"])
    tiles[first], tiles[first + 1] = tiles[first + 1], tiles[first]
    return sabotaged


def draw_title(canvas: Canvas, data: Data) -> None:
    given, chosen, steps = data["prompt"], data["completion"], data["steps"]
    body = canvas.titled(
        "One call, taken apart",
        "Grey was given. Each blue token took one call; the stronger the blue, the surer the model, as the percentage says.",
    )
    fills: list[Color] = [*[FAINT] * len(given), *(mix(BLUE, 0.12 + 0.88 * step["probability"]) for step in steps)]
    inks = [*[INK] * len(given), *("white" if step["probability"] > 0.45 else INK for step in steps)]
    canvas.put_tiles(
        body.inset(0, NUMBER),
        [tile["text"] for tile in (*given, *chosen)],
        rows=3,
        size=HERO,
        smallest=BODY,
        gap=GAP,
        row_gap=1.5 * HERO,
        fills=fills,
        colors=inks,
        under=[*[""] * len(given), *(percent(step["probability"], 0) for step in steps)],
        step_from=len(given),
    )


# --- one call ---


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


def oracle_one_call(data: Data) -> Verdict:
    distribution = np.array(data["distribution"], dtype=np.float64)
    gap = abs(distribution.sum() - 1)
    best = [token["id"] for token in data["top"]]
    drawn = np.array([token["probability"] for token in data["top"]])
    holds = (
        distribution.shape == (data["vocabulary"],)
        and data["positions"] == len(data["prompt"])
        and data["calls"] == 1
        and by_rank(distribution)[:RUNNERS_UP].tolist() == best
        and bool((np.abs(distribution[best] - drawn) <= SUM_BOUND * drawn).all())
        and bool((distribution >= 0).all())
        and gap <= SUM_BOUND
        and int(distribution.argmax()) == data["appended"]
    )
    return Verdict(holds, f"sum of {len(distribution):,} probabilities − 1 = {gap:.1e}", f"≤ {SUM_BOUND:.0e}, argmax appended")


def sabotage_one_call(data: Data, lab: Lab) -> Data:
    """The raw scores of the same call passed off as probabilities."""
    return {**data, "distribution": lab.next_logits(lab.ids).tolist()}


def draw_one_call(canvas: Canvas, data: Data) -> None:
    winner, best = data["top"][0], [token["probability"] for token in data["top"]]
    body = canvas.titled(
        "Tokens go in, a probability for every token comes out",
        "Under each token its id. The model is called once; its most probable token joins the input of the next call.",
    )
    upper, again = body.rows(..., NUMBER * LEADING)
    given, call, chances, side = upper.columns(Share(5), Share(2), Share(5), PAD, gap=NUMBER)
    spots = draw_input(canvas, given, data["prompt"])
    model = canvas.box(call.place(call.w, 5 * NUMBER), fill=INK, radius=14)
    canvas.stack(model, Line("the model", NUMBER, "white", "bold"), Line("one call", color=PALE), align="center")
    canvas.arrow((given.right, model.center[1]), model.inset(-GAP / 2, 0).west)
    canvas.step()
    canvas.arrow(model.inset(-GAP / 2, 0).east, (chances.x - GAP / 2, model.center[1]))
    table, rest = chances.rows(..., TITLE * LEADING, gap=PAD)
    shown = [Bar(share, percent(share), *(PALE, INK) if row else (BLUE, BLUE)) for row, share in enumerate(best)]
    lanes = table.even_rows(len(best), gap=PAD)
    tiles_and_bars(canvas, lanes, [token["text"] for token in data["top"]], shown, tile=5 * NUMBER, size=TITLE)
    canvas.put(rest, f"{percent(1 - sum(best))} shared by {data['vocabulary'] - len(best):,} others", color=GREY)
    canvas.step()
    last = next(spot for spot in reversed(spots) if spot)
    width = min(canvas.tile_width(winner["text"], last.h / TILE), given.w)
    fits = last.right + GAP + width <= given.right
    slot = Box(last.right + GAP, last.y, width, last.h) if fits else Box(given.x, last.bottom + UNDER, width, last.h)
    canvas.put_tile(slot, winner["text"], size=last.h / TILE, fill=BLUE, color="white")
    foot = again.center[1]
    turn = [
        (chances.right + GAP, lanes[0].center[1]),
        (side.right, lanes[0].center[1]),
        (side.right, foot),
        (slot.center[0], foot),
    ]
    canvas.line(turn, color=BLUE, width=5)
    canvas.arrow(turn[-1], slot.inset(0, -GAP / 2).south, color=BLUE, width=5)
    label = again.place(canvas.width("append it, and call again", TITLE, weight="bold") + 2 * PAD, again.h)
    canvas.box(label, fill=canvas.paper, z=2)
    canvas.put(label, "append it, and call again", size=TITLE, weight="bold", color=BLUE, align="center")


def draw_input(canvas: Canvas, box: Box, prompt: list[Data]) -> list[Box | None]:
    """The tokens that go in, row by row, with the ids that are not too wide for their tiles."""
    widths = [canvas.tile_width(tile["text"]) for tile in prompt]
    ids = [str(tile["id"]) for tile in prompt]
    under = [told if canvas.width(told, LABEL) <= width else "" for told, width in zip(ids, widths, strict=True)]
    texts = [tile["text"] for tile in prompt]
    return canvas.put_tiles(box, texts, rows=4, size=NUMBER, gap=GAP, row_gap=UNDER, under=under)


# --- the running example ---


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
    chances = [candidate["probability"] for candidate in step["candidates"]]
    ranked = all(a >= b for a, b in pairwise([*chances, 0.0]))  # NaN is never the larger one
    return step["candidates"][0]["id"] == step["chosen"] and ranked and sum(chances) <= 1 and len(chances) == RUNNERS_UP


def oracle_running_example(data: Data) -> Verdict:
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


def sabotage_running_example(data: Data, lab: Lab) -> Data:
    """One step skipped."""
    return {**data, "steps": [data["steps"][0], *data["steps"][2:]]}


def draw_running_example(canvas: Canvas, data: Data) -> None:
    steps, given = data["steps"], data["prompt"]
    body = canvas.titled(
        "Each answer becomes part of the next question",
        "One row per call. The token in full blue was the most probable; grey beside it: those that came next.",
    )
    *lanes, last = body.even_rows(len(steps) + 1, gap=PAD)
    chosen: list[str] = []
    for number, (step, lane) in enumerate(zip(steps, lanes, strict=True), 1):
        if number > 1:
            canvas.step()
        slots = stair(canvas, given, chosen, lane, f"call {number}")
        for candidate, slot in zip(step["candidates"][:3], slots, strict=False):
            best = candidate["id"] == step["chosen"]
            canvas.put_tile(slot, candidate["text"], fill=BLUE if best else None, color="white" if best else GREY)
            chance, under = percent(candidate["probability"], 0), slot.below(BODY * LEADING, GAP / 2)
            canvas.put(under, chance, align="center", color=BLUE if best else GREY, weight="bold" if best else "regular")
        chosen.append(next(one["text"] for one in step["candidates"] if one["id"] == step["chosen"]))
    canvas.step()
    stair(canvas, given, chosen, last, "and so on")


def stair(canvas: Canvas, given: list[Data], chosen: list[str], lane: Box, name: str) -> list[Box]:
    """One row: the sentence as one grey block, what was chosen so far; returns the places that are left."""
    head, prefix, *slots = lane.rows(TITLE * TILE, ...)[0].columns(140, 330, *[...] * (EXAMPLE_STEPS + 2), gap=GAP)
    canvas.put(head, name, size=LABEL, color=GREY)
    canvas.put_tile(prefix, "…" + "".join(tile["text"] for tile in given[-3:]))
    for slot, text in zip(slots, chosen, strict=False):
        canvas.put_tile(slot, text, accent=BLUE)
    return slots[len(chosen) :]


SLIDES = [
    Slide(
        name="title",
        section="One call, taken apart",
        claim="The tiles decode to the sentence and its completion exactly, and each completion tile was the argmax of its step.",
        capture=capture_title,
        oracle=oracle_title,
        sabotage=sabotage_title,
        draw=draw_title,
    ),
    Slide(
        name="one_call",
        section="One call, taken apart",
        claim="One call on n tokens gives one distribution over the vocabulary that sums to one; its argmax is the id appended.",
        capture=capture_one_call,
        oracle=oracle_one_call,
        sabotage=sabotage_one_call,
        draw=draw_one_call,
    ),
    Slide(
        name="running_example",
        section="The running example",
        claim="The prefix of each step is the previous prefix with the chosen token appended.",
        capture=capture_running_example,
        oracle=oracle_running_example,
        sabotage=sabotage_running_example,
        draw=draw_running_example,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
