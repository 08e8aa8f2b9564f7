"""The highest raw scores, the distribution they become, and what each layer would have said.

They prove that NumPy ranks the scores as torch does, that a softmax in float64 agrees and is blind to a constant, and that
the last row of the logit lens is the model's own answer. They need the model.
"""

import numpy as np

from pipeline.distributions import by_rank, seven_digits, smallest_prefix, softmax
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Bar, Plane, tiles_and_bars
from pipeline.drawing.layout import BODY_BOTTOM, BODY_TOP, MARGIN, NOTE, TILE, Box
from pipeline.drawing.palette import BLUE, FAINT, GREY, INK, PALE, mix
from pipeline.lab import Lab
from pipeline.model.parts import anatomy, hidden_states
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted, power_of_ten

TOP = 15
SAMPLE = 300  # ids whose raw scores are kept: the highest, and others spread over the vocabulary
SHARES = (0.5, 0.9, 0.99)
CONSTANT = 100.0
RELATIVE_BOUND = 1e-9  # two float64 softmaxes over 50,000 terms: rounding leaves about 1e-13
LENS_BOUND = 1e-3  # float32 scores near 20, the same modules called once more: nothing or a few 1e-6
ONE_COLUMN = 16  # layers that one column has room for
ROWS = 32  # layers shown: more are thinned out evenly


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
        "sample_ids": sample,
        "sample_logits": logits[sample],
        "highest_outside_sample": float(np.delete(logits, sample).max()),
        "median": float(np.median(logits)),
    }


def oracle_top_scores(data: Data) -> Verdict:
    ids, logits = np.array(data["sample_ids"]), np.array(data["sample_logits"])
    order = ids[np.argsort(-logits, kind="stable")][:TOP].tolist()
    alike = sum(a == b for a, b in zip(order, data["torch_order"], strict=True))
    complete = np.sort(logits)[-TOP] >= data["highest_outside_sample"]
    return Verdict(alike == TOP and bool(complete), f"NumPy and torch agree on {alike} of {TOP} places", f"{TOP} of {TOP}")


def sabotage_top_scores(data: Data, lab: Lab) -> Data:
    """The two highest scores swapped."""
    logits = list(data["sample_logits"])
    first, second = (data["sample_ids"].index(token_id) for token_id in data["torch_order"][:2])
    logits[first], logits[second] = logits[second], logits[first]
    return {**data, "sample_logits": logits}


def signed(number: str) -> str:
    """A true minus for a hyphen."""
    return number.replace("-", "−")


def draw_top_scores(canvas: Canvas, data: Data) -> None:
    score = dict(zip(data["sample_ids"], data["sample_logits"], strict=True))
    scores = [score[token_id] for token_id in data["torch_order"]]
    highest, middle = signed(f"{scores[0]:z.1f}"), signed(f"{data['median']:z.1f}")
    body = canvas.titled(
        f"Raw scores, no unit, no sum: the highest is {highest}, the middle of all is {middle}",
        f"The {TOP} highest of {data['vocabulary']:,} logits. A bar starts at the median score of the vocabulary.",
    )
    lanes = [lane.columns(50, ...) for lane in body.even_rows(TOP, gap=6)]
    for row, (number, _) in enumerate(lanes, 1):
        canvas.put(number, f"{row}", size=NOTE, color=GREY)
    colors = [(BLUE, BLUE), *[(PALE, GREY)] * (TOP - 1)]
    shown = [Bar(value - data["median"], signed(f"{value:.2f}"), *color) for value, color in zip(scores, colors, strict=True)]
    tiles_and_bars(canvas, [lane for _, lane in lanes], data["pieces"], shown, tile=260)


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
    counts = [smallest_prefix(expected, row["share"]) for row in data["holding"]] == [row["tokens"] for row in data["holding"]]
    holds = bool((apart <= allowed).all()) and bool((moved <= allowed * 10).all()) and bool(sums.all()) and counts
    return Verdict(
        holds, f"NumPy apart by {(apart / wanted).max():.0e}, {data['constant']:g} added: {(moved / wanted).max():.0e}",
        "≤ 6e-09, ≤ 6e-08 of each probability",
    )  # fmt: skip


def sabotage_by_rank(data: Data, lab: Lab) -> Data:
    """The softmax of the same scores taken over the positions instead of over the vocabulary."""
    logits = lab.logits(lab.ids)  # [n, vocabulary]
    wrong = np.sort(lab.softmax(logits.T)[:, -1])[::-1]
    return {**data, "probabilities": wrong[np.array(data["ranks"]) - 1]}


def draw_by_rank(canvas: Canvas, data: Data) -> None:
    half, most = data["holding"][0], data["holding"][-1]
    size = len(data["logits"])
    tokens = counted(half["tokens"], "token")
    body = canvas.titled(
        f"Half the probability sits on {tokens}, {most['share']:.0%} on {most['tokens']:,} of {size:,}",
        "All tokens, from the most to the least probable. Ranks and probabilities run in powers of ten.",
    )
    upper, lower = body.rows(30, ..., 80)[1].columns(190, ...)[1].grid(2, 1, gap=60)
    least = max(min(data["probabilities"]), 1e-30)
    top = Plane.over(upper[0], (1, size), (least, 1), log_across=True, log_up=True)
    powers = range(0, int(np.floor(np.log10(least))), -3)
    top.frame(canvas, {}, {10.0**power: power_of_ten(power) for power in powers}, up_name="probability")
    top.curve(canvas, zip(data["ranks"], data["probabilities"], strict=True))
    low = Plane.over(lower[0], (1, size), (0, 1.04), log_across=True)
    ranks = {rank: f"{rank:,.0f}" for rank in low.across.ticks() if rank < 0.97 * size}
    low.frame(canvas, ranks, {0: "0", 0.5: "50%", 1: "100%"}, across_name="rank of the token", up_name="sum so far")
    # a staircase that climbs at each rank: the point where a share is reached lies on it
    stairs, sum_so_far = [(1.0, 0.0)], 0.0
    for rank, total in zip(data["ranks"], data["cumulative"], strict=True):
        stairs += [(rank, sum_so_far), (rank, total)]
        sum_so_far = total
    low.curve(canvas, stairs)
    label_holding(canvas, low, data["holding"])


def label_holding(canvas: Canvas, plane: Plane, holding: list[Data]) -> None:
    """The points at which a share of the probability is reached."""
    for row in holding:
        x, y = plane.at(row["tokens"], row["share"])
        canvas.dots([(x, y)], color=INK, size=12)
        right = x < plane.box.x + 0.75 * plane.box.w
        text = f"{row['tokens']:,} hold{'s' * (row['tokens'] == 1)} {row['share']:.0%}"
        # right of a point the curve runs above it, left of it below; over the highest there is room on both sides
        y += -34 if row["share"] > 0.95 else NOTE if right else -NOTE
        side = NOTE if right else -NOTE
        canvas.text(x + side, y, text, size=NOTE, weight="bold", align="left" if right else "right")


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
    rows = [
        {"layer": layer, "id": token_id, "text": text, "probability": share}
        for layer, (token_id, text, share) in enumerate(zip(best, lab.pieces(best), shares, strict=True))
    ]
    return {
        "rows": rows,
        "answer": int(model.argmax()),
        "last_row_logits": scores[-1][sample],
        "model_logits": model[sample],
        "gap": float(np.diff(np.sort(model)[-2:])[0]),
    }


def oracle_lens(data: Data) -> Verdict:
    apart = float(np.abs(np.array(data["last_row_logits"]) - np.array(data["model_logits"])).max())
    same = data["rows"][-1]["id"] == data["answer"] or data["gap"] < LENS_BOUND  # a tie has no one answer
    return Verdict(
        apart < LENS_BOUND and same, f"last row against the model: max |Δ| {apart:.1e}", f"< {LENS_BOUND:.0e}, same token"
    )


def sabotage_lens(data: Data, lab: Lab) -> Data:
    """The final norm skipped."""
    return lens(lab, with_norm=False)


def draw_lens(canvas: Canvas, data: Data) -> None:
    rows, answer = data["rows"], data["rows"][-1]["id"]
    since = len(rows) - next((i for i, row in enumerate(reversed(rows)) if row["id"] != answer), len(rows))
    if since == len(rows) - 1:
        finding = f"only the last of {since} layers says what the model answers"
    else:
        finding = f"its answer stands from layer {since} of {len(rows) - 1} on" if since else "its answer stands from the start"
    canvas.headline(f"Read layer by layer, {finding}")
    canvas.reading(
        "Each row: one layer's state read as if it were the last; its top token and probability. Blue is the final answer."
    )
    keep = np.unique(np.linspace(0, len(rows) - 1, min(ROWS, len(rows))).round().astype(int)).tolist()
    columns = 1 if len(keep) <= ONE_COLUMN else 2
    per_column = -(-len(keep) // columns)
    room = BODY_BOTTOM - BODY_TOP - 6
    pitch = min(150.0, room / per_column) if columns == 1 else min(70.0, room / per_column)
    size = min(36.0, max(22.0, 0.42 * pitch)) if columns == 1 else 22.0
    top = BODY_TOP + (room - pitch * per_column) / 2
    longest = (330 if columns == 2 else 1000) / max(rows[index]["probability"] for index in keep)
    for place, index in enumerate(keep):
        row = rows[index]
        x, y = MARGIN + (place // per_column) * 920, top + (place % per_column) * pitch
        final = row["id"] == answer
        name = "token table" if index == 0 else f"layer {index}"
        middle, bar = y + 0.9 * size, x + 6.5 * size + 281
        canvas.text(x, middle, name, size=size, color=INK if final else GREY)
        canvas.put_tile(
            Box(x + 6.5 * size + 7, y, 260, TILE * size), row["text"], size=size, fill=mix(BLUE, 0.18) if final else FAINT
        )
        length = max(longest * row["probability"], 2)
        canvas.box(Box(bar, y + 0.25 * size, length, 1.3 * size), fill=BLUE if final else PALE, radius=2)
        share = f"{row['probability']:.0%}" if row["probability"] >= 0.01 else "< 1%"
        canvas.text(bar + length + 12, middle, share, size=size, color=BLUE if final else GREY)


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
