"""The highest raw scores, the distribution they become, and what each layer would have said.

They prove that NumPy ranks the scores as torch does, that a softmax in float64 agrees and is blind to a constant, and that
the last row of the logit lens is the model's own answer. They need the model.
"""

import math
from itertools import pairwise

import numpy as np

from pipeline.distributions import by_rank, plausible, seven_digits, smallest_prefix, softmax
from pipeline.drawing.bands import Stack, joined
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Bar, Plane, Scale, bars
from pipeline.drawing.fonts import quoted
from pipeline.drawing.layout import BODY, GAP, LABEL, LEADING, NUMBER, PAD, TILE, TITLE, Box, Share
from pipeline.drawing.palette import BLUE, GREY, INK, PALE
from pipeline.lab import Lab
from pipeline.model.parts import anatomy, hidden_states
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted, percent, signed

TOP = 15
DRAWN = 5  # of them, one row each
SAMPLE = 300  # ids whose raw scores are kept: the highest, and others spread over the vocabulary
SHARES = (0.5, 0.9, 0.99)
CONSTANT = 100.0
RELATIVE_BOUND = 1e-9  # two float64 softmaxes over 50,000 terms: rounding leaves about 1e-13
RATIO_BOUND = 1e-6  # of probabilities kept to nine digits
LENS_BOUND = 1e-3  # float32 scores near 20, the same modules called once more: nothing or a few 1e-6
TAG_ROWS, TICKS = 3, 15  # of the lens: rows of tiles over it, layers named under it
AXIS, LONGEST = 80, 260  # pixels: room for a scale and its name, the widest of those tiles


# --- the highest scores ---


def capture_top_scores(lab: Lab) -> Data:
    logits = lab.next_logits(lab.ids)  # [vocabulary]
    ranked = lab.torch.sort(lab.torch.from_numpy(logits), descending=True, stable=True).indices[:TOP].tolist()
    spread = np.linspace(0, len(logits) - 1, SAMPLE // 2).astype(int)
    sample = np.union1d(np.argpartition(-logits, SAMPLE // 2)[: SAMPLE // 2], spread)
    return {
        "vocabulary": len(logits),
        "torch_order": ranked,
        "pieces": lab.pieces(ranked),
        "probabilities": lab.softmax(logits)[ranked],
        "sample_ids": sample,
        "sample_logits": logits[sample],
        "highest_outside_sample": float(np.delete(logits, sample).max()),
        "median": float(np.median(logits)),
    }


def oracle_top_scores(data: Data) -> Verdict:
    ids, logits = np.array(data["sample_ids"]), np.array(data["sample_logits"])
    order = np.argsort(-logits, kind="stable")[:TOP]
    alike = sum(a == b for a, b in zip(ids[order].tolist(), data["torch_order"], strict=True))
    outside, spread = data["highest_outside_sample"], np.linspace(0, data["vocabulary"] - 1, SAMPLE // 2).astype(int)
    complete = np.sort(logits)[-TOP] >= outside >= data["median"] >= logits.min() and plausible(logits)
    complete = complete and bool((np.diff(ids) > 0).all()) and set(spread.tolist()) <= set(ids.tolist())
    shares = np.array(data["probabilities"])
    # a softmax knows differences alone: p / q = e to the power of the scores' difference
    as_scored = np.abs(shares / shares[0] / np.exp(logits[order] - logits[order[0]]) - 1).max() < RATIO_BOUND
    holds = alike == TOP == len(data["pieces"]) and bool(complete) and bool(as_scored)
    bound = f"{TOP} of {TOP}, probabilities in the ratios that the scores give"
    return Verdict(holds, f"NumPy and torch agree on {alike} of {TOP} places", bound)


def sabotage_top_scores(data: Data, lab: Lab) -> Data:
    """The two highest scores swapped."""
    logits = list(data["sample_logits"])
    first, second = (data["sample_ids"].index(token_id) for token_id in data["torch_order"][:2])
    logits[first], logits[second] = logits[second], logits[first]
    return {**data, "sample_logits": logits}


def draw_top_scores(canvas: Canvas, data: Data) -> None:
    score = dict(zip(data["sample_ids"], data["sample_logits"], strict=True))
    scores, shares = [score[token_id] for token_id in data["torch_order"][:DRAWN]], data["probabilities"][:DRAWN]
    body = canvas.titled(
        "A small lead in score is a large lead in probability",
        f"The {DRAWN} highest of {data['vocabulary']:,} scores. Softmax raises e to each score and divides by the sum of all.",
    )
    table, axis, foot = body.rows(..., 2 * LABEL, NUMBER * LEADING, gap=PAD)
    names, dots, between, chances = table.columns(270, Share(4), 300, Share(5), gap=PAD)
    scale = Scale(min(data["median"], scores[-1] - 1), scores[0], dots.x + PAD, dots.right - PAD)
    canvas.line([(dots.x, axis.y), (dots.right, axis.y)], color=PALE)
    for tick in scale.ticks(4):
        canvas.line([(scale.at(tick), axis.y), (scale.at(tick), axis.y + GAP)], color=PALE)
        canvas.text(scale.at(tick), axis.center[1] + GAP, signed(tick, 0), size=LABEL, color=GREY, align="center")
    for row, (name, lane) in enumerate(zip(names.even_rows(DRAWN, gap=PAD), dots.even_rows(DRAWN, gap=PAD), strict=True)):
        x, y = scale.at(scores[row]), lane.center[1]
        canvas.put_tile(name, data["pieces"][row], size=TITLE, accent=None if row else BLUE)
        canvas.line([(dots.x, y), (x, y)], color=PALE)
        canvas.dots([(x, y)], color=GREY if row else BLUE, size=NUMBER / 2)
        canvas.text(x - NUMBER, y - BODY, signed(scores[row], 1), color=GREY if row else BLUE, align="right")
    canvas.arrow(between.west, between.east)
    canvas.put(Box(between.x, between.y, between.w, between.h / 2 - GAP), "softmax", weight="bold", align="center", down="bottom")
    rows = [Bar(share, percent(share), PALE if row else BLUE, INK if row else BLUE) for row, share in enumerate(shares)]
    bars(canvas, chances.even_rows(DRAWN, gap=PAD), rows, size=TITLE, rim=0)
    canvas.put(dots.at(foot), f"{scores[0] - scores[1]:.1f} ahead", align="right", size=NUMBER, weight="bold", color=BLUE)
    canvas.arrow(between.at(foot).west, between.at(foot).east, color=BLUE)
    canvas.put(chances.at(foot), f"{shares[0] / shares[1]:.1f} times as probable", size=NUMBER, weight="bold", color=BLUE)


# --- probability by rank ---


def capture_by_rank(lab: Lab) -> Data:
    logits = seven_digits(lab.next_logits(lab.ids))  # [vocabulary], as the capture keeps them
    probabilities = np.sort(lab.softmax(logits))[::-1]
    shifted = np.sort(lab.softmax(logits + CONSTANT))[::-1]
    holding = [{"share": share, "tokens": smallest_prefix(probabilities, share)} for share in SHARES]
    spread = np.geomspace(1, len(logits), 300).round().astype(int)
    ranks = np.union1d(spread, [row["tokens"] for row in holding])
    return {
        "logits": logits,
        "ranks": ranks,
        "probabilities": probabilities[ranks - 1],
        "cumulative": probabilities.cumsum()[ranks - 1],
        "shifted": shifted[ranks - 1],
        "constant": CONSTANT,
        "holding": holding,
    }


def oracle_by_rank(data: Data) -> Verdict:
    expected = np.sort(softmax(np.array(data["logits"])))[::-1]
    at = np.array(data["ranks"]) - 1
    wanted = expected[at]
    # nine digits are kept of each probability, which leaves five in the tenth
    allowed = wanted * (RELATIVE_BOUND + 5e-9)
    apart = np.abs(np.array(data["probabilities"]) - wanted)
    moved = np.abs(np.array(data["shifted"]) - wanted)
    sums = np.abs(np.array(data["cumulative"]) - expected.cumsum()[at]) <= 2e-9  # nine digits of a number up to one
    holding = [(share, smallest_prefix(expected, share)) for share in SHARES]
    counts = holding == [(row["share"], row["tokens"]) for row in data["holding"]] and data["constant"] == CONSTANT
    holds = bool((apart <= allowed).all()) and bool((moved <= allowed * 10).all()) and bool(sums.all()) and counts
    measured = f"NumPy apart by {(apart / wanted).max():.0e}, {data['constant']:g} added: {(moved / wanted).max():.0e}"
    return Verdict(holds, measured, "≤ 6e-09, ≤ 6e-08 of each probability")


def sabotage_by_rank(data: Data, lab: Lab) -> Data:
    """The softmax of the same scores taken over the positions instead of over the vocabulary."""
    logits = lab.logits(lab.ids)  # [n, vocabulary]
    wrong = np.sort(lab.softmax(logits.T)[:, -1])[::-1]
    return {**data, "probabilities": wrong[np.array(data["ranks"]) - 1]}


def draw_by_rank(canvas: Canvas, data: Data) -> None:
    size = len(data["logits"])
    reached, counts = [0, *(row["share"] for row in data["holding"]), 1], [0, *(row["tokens"] for row in data["holding"]), size]
    body = canvas.titled(
        f"Half the probability sits on just {counted(counts[1], 'token')}",
        "Left: all the probability. Right: all tokens, the most probable on top. A band joins what belongs together.",
    )
    head, chart = body.rows(TITLE * LEADING, ..., gap=GAP)
    told, left, _, right, _, held = chart.columns(Share(1), Share(1), Share(2), Share(1), 2 * PAD, Share(2), gap=GAP)
    for bar, name in ((left, "probability"), (right, f"{size:,} tokens")):
        over = Box(bar.x - bar.w / 2, head.y, 2 * bar.w, head.h)
        canvas.put(over, name, size=TITLE, weight="bold", align="center")
    sums = Stack(left, told, [b - a for a, b in pairwise(reached)], [percent(b - a, 0) for a, b in pairwise(reached)])
    more = [f"{b - a:,} more" if a else counted(b, "token") for a, b in pairwise(counts)]
    joined(canvas, sums, Stack(right, held, [b - a for a, b in pairwise(counts)], more))


# --- the logit lens ---


def capture_lens(lab: Lab) -> Data:
    return lens(lab, with_norm=True)


def lens(lab: Lab, with_norm: bool) -> Data:
    """Each layer's hidden state at the last position through the final norm (or not) and the output matrix."""
    parts = anatomy(lab)
    states = lab.torch.from_numpy(hidden_states(lab, lab.ids)[:, -1])  # [layers + 1, width]
    with lab.torch.inference_mode():
        scores = (parts.head(parts.norm(states) if with_norm else states) * parts.scale).numpy()  # [layers + 1, vocabulary]
    model = lab.next_logits(lab.ids)
    sample = np.union1d(by_rank(model)[:20], np.linspace(0, len(model) - 1, 200).astype(int))
    best = scores.argmax(axis=-1).tolist()
    shares = [float(lab.softmax(row)[token_id]) for row, token_id in zip(scores, best, strict=True)]
    answer = int(model.argmax())
    ranks = [by_rank(row).tolist().index(answer) + 1 for row in scores]
    rows = [
        {"layer": layer, "id": token_id, "text": text, "probability": share, "rank": rank}
        for layer, (token_id, text, share, rank) in enumerate(zip(best, lab.pieces(best), shares, ranks, strict=True))
    ]
    return {
        "rows": rows,
        "answer": answer,
        "last_row_logits": scores[-1][sample],
        "model_logits": model[sample],
        "gap": float(np.diff(np.sort(model)[-2:])[0]),
    }


def oracle_lens(data: Data) -> Verdict:
    apart = float(np.abs(np.array(data["last_row_logits"]) - np.array(data["model_logits"])).max())
    *rows, last = data["rows"]
    same = (last["id"] == data["answer"] and last["rank"] == 1) or data["gap"] < LENS_BOUND  # a tie has no one answer
    ranked = all(row["rank"] >= 1 and (row["rank"] == 1) == (row["id"] == data["answer"]) for row in rows)
    numbered = [row["layer"] for row in data["rows"]] == list(range(len(rows) + 1))
    ranked = ranked and numbered and all(isinstance(row["id"], int) and 0 < row["probability"] <= 1 for row in data["rows"])
    return Verdict(
        apart < LENS_BOUND and same and ranked,
        f"last row against the model: max |Δ| {apart:.1e}",
        f"< {LENS_BOUND:.0e}, same token",
    )


def sabotage_lens(data: Data, lab: Lab) -> Data:
    """The final norm skipped."""
    return lens(lab, with_norm=False)


def draw_lens(canvas: Canvas, data: Data) -> None:
    rows, last, layers = data["rows"], data["rows"][-1], len(data["rows"]) - 1
    since = next(row["layer"] for row in rows if all(later["id"] == last["id"] for later in rows[row["layer"] :]))
    if since == layers:
        finding = f"Only the last of {layers} layers puts {quoted(last['text'])} first"
    else:
        start = f"layer {since} of {layers}" if since else "the start"
        finding = f"{quoted(last['text'])} comes first from {start} on"
    body = canvas.titled(
        finding,
        "Each layer's state read as if it were the last. A dot: where it ranks the final answer. A tile: its own favourite.",
    )
    tags, chart, _ = body.rows(TAG_ROWS * (TILE * LABEL + GAP), ..., AXIS, gap=GAP)
    lowest = 10 ** math.ceil(math.log10(max(10, *(row["rank"] for row in rows))))
    plane = Plane.over(chart.columns(AXIS + 4 * LABEL, ..., 4 * PAD)[1], (0, layers), (lowest, 1), log_up=True)
    ticks = {10.0**power: f"{10**power:,}" for power in range(round(math.log10(lowest)) + 1)}
    across = {float(layer): f"{layer}" for layer in range(0, layers + 1, math.ceil(layers / TICKS))}
    plane.frame(canvas, across, ticks, across_name="layer; 0 is the token table", up_name="rank of the answer")
    points = [(row["layer"], row["rank"]) for row in rows]
    plane.curve(canvas, points, width=3)
    canvas.dots([plane.at(*point) for point in points], size=12)
    canvas.dots([plane.at(*points[-1])], size=24)
    draw_favourites(canvas, rows, plane, tags)


def draw_favourites(canvas: Canvas, rows: list[Data], plane: Plane, tags: Box) -> None:
    """A tile over the layer at which another token comes first, the last one always, the others where there is room."""
    changes = [row for before, row in zip([{"id": None}, *rows], rows, strict=False) if row["id"] != before["id"]]
    lanes = tags.even_rows(TAG_ROWS, gap=GAP)
    ends = [tags.x] * TAG_ROWS  # where each lane is free from
    widths = [min(canvas.tile_width(row["text"], LABEL), LONGEST) for row in changes]
    starts = [min(plane.at(row["layer"], 1)[0] - GAP, tags.right - width) for row, width in zip(changes, widths, strict=True)]
    for row, start, width in zip(changes, starts, widths, strict=True):
        final = row is changes[-1]
        # no line may run through a tile: those to the left of it that reach over it lie higher
        free = [lane for lane in range(TAG_ROWS) if max(ends[lane:]) <= start]
        if final:
            free = [TAG_ROWS - 1]
        elif not free or (free[0] == TAG_ROWS - 1 and start + width + GAP > starts[-1]):
            continue
        spot = Box(start, lanes[free[0]].y, width, TILE * LABEL)
        ends[free[0]] = spot.right + GAP
        canvas.put_tile(spot, row["text"], size=LABEL, accent=BLUE if row["id"] == rows[-1]["id"] else None)
        x, y = plane.at(row["layer"], row["rank"])
        canvas.line([(x, spot.bottom), (x, y)], color=PALE, width=1.5, z=0)


SLIDES = [
    Slide(
        name="top_scores",
        section="The logit distribution",
        claim="NumPy and torch put the highest raw scores in the same order.",
        capture=capture_top_scores,
        oracle=oracle_top_scores,
        sabotage=sabotage_top_scores,
        draw=draw_top_scores,
    ),
    Slide(
        name="by_rank",
        section="The logit distribution",
        claim="A float64 NumPy softmax agrees with torch's, and adding a constant to every logit changes nothing.",
        capture=capture_by_rank,
        oracle=oracle_by_rank,
        sabotage=sabotage_by_rank,
        draw=draw_by_rank,
    ),
    Slide(
        name="lens",
        section="The logit distribution",
        claim="Read through the final norm and the output matrix, the last layer gives the model's own answer.",
        capture=capture_lens,
        oracle=oracle_lens,
        sabotage=sabotage_lens,
        draw=draw_lens,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
