"""Slides 10-11: where one attention head looks, and every raw logit of one call.

They prove that no position looks ahead: no weight lies above the diagonal in any head, and a later token changes no earlier
score. They need the model, loaded with eager attention.
"""

import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from pipeline.distributions import by_rank
from pipeline.drawing.canvas import BLUE, FAINT, GREY, HEIGHT, INK, MARGIN, ORANGE, WIDTH, Box, Canvas, mix, visible
from pipeline.errors import BadInput
from pipeline.lab import Lab
from pipeline.model.parts import enough_tokens
from pipeline.slide import Data, Slide, Verdict

ROW_BOUND = 1e-5  # a float32 softmax over at most 256 positions sums to 1 within a few 1e-7
AHEAD_BOUND = 1e-4  # the same kernels on the same shapes: earlier positions move by nothing at all, or a few 1e-6
SHOWN_POSITIONS = 14  # rows and columns shown: more would be too narrow for a token
SAMPLE = 12  # ids, spread over the vocabulary, whose logits slide 11 keeps of both runs at every position
LABELLED = 5  # of the highest logits


# --- 10 · one attention head ---


def attentions(lab: Lab, ids: list[int], causal: bool) -> list[np.ndarray]:
    """Attention weights of every layer, [heads, n, n]; with `causal` off, a real run with the mask left off."""
    torch = lab.torch
    mask = {} if causal else {"attention_mask": torch.zeros(1, 1, len(ids), len(ids))}
    with torch.inference_mode():
        out = lab.model(torch.tensor([ids]), output_attentions=True, use_cache=False, **mask)
    found = [weights[0].numpy() for weights in out.attentions or () if weights is not None]
    layers = lab.model.config.num_hidden_layers
    if len(found) != layers:
        raise BadInput(f"{len(found)} of {layers} layers of this model give attention weights: this deck needs all of them")
    return found


def looking_back(layers: list[np.ndarray]) -> np.ndarray:
    """How much each head gives to one earlier token, not counting the first, where many heads rest: [layers, heads].

    Of each row the largest such weight, and of those the mean; the first two rows have no such token.
    """
    everything = np.stack(layers)
    count = everything.shape[-1]
    earlier = np.tril(np.ones((count, count), dtype=np.float32), k=-1)  # row: who looks; column: at whom
    earlier[:, 0] = 0
    return (everything * earlier).max(axis=-1).sum(axis=-1) / (count - 2)


def capture_attention(lab: Lab) -> Data:
    return attention(lab, causal=True)


def attention(lab: Lab, causal: bool) -> Data:
    ids = enough_tokens(lab)
    layers = attentions(lab, ids, causal)
    back = looking_back(layers)
    layer, head = (int(index) for index in np.unravel_index(back.argmax(), back.shape))
    weights = layers[layer][head]  # [n, n]
    return {
        "pieces": lab.pieces(ids),
        "layer": layer + 1,
        "head": head + 1,
        "layers": back.shape[0],
        "heads": back.shape[1],
        "looking_back": back[layer, head],
        "one_back": np.diag(weights, k=-1)[1:].mean(),
        "rows": weights[-SHOWN_POSITIONS:],  # [shown, n]
        "row_sums": weights.sum(axis=-1, dtype=np.float64),  # [n]
        "worst_row_sum": max(float(np.abs(heads.sum(axis=-1, dtype=np.float64) - 1).max()) for heads in layers),
        "most_above_diagonal": max(float(np.triu(heads, k=1).max()) for heads in layers),
    }


def judge_attention(data: Data) -> Verdict:
    rows, sums = np.array(data["rows"]), np.array(data["row_sums"])  # [shown, n], [n]
    shown, count = rows.shape
    off = max(float(np.abs(rows.sum(axis=-1) - 1).max()), float(np.abs(sums - 1).max()), data["worst_row_sum"])
    ahead = max(float(np.triu(rows, k=count - shown + 1).max()), data["most_above_diagonal"])
    complete = count == len(sums) == len(data["pieces"])
    return Verdict(
        complete and off < ROW_BOUND and ahead == 0 and bool((rows >= 0).all()),
        f"row sums off by {off:.0e}, weight ahead {ahead:.2g}",
        f"< {ROW_BOUND:.0e}, exactly 0 in all {data['layers'] * data['heads']} heads",
    )


def spoil_attention(data: Data, lab: Lab) -> Data:
    """A real run with the causal mask left off."""
    return attention(lab, causal=False)


def draw_attention(canvas: Canvas, data: Data) -> None:
    pieces, rows = data["pieces"], np.array(data["rows"])
    count, start = len(rows), len(pieces) - len(rows)
    if data["one_back"] >= 0.5:
        finding = f"this head spends {data['one_back']:.0%} of its attention on the one just before"
    else:
        finding = f"this head spends {data['looking_back']:.0%} of its attention on one token before"
    canvas.headline(f"No token looks ahead: {finding}")
    canvas.reading("Each row is a token, each column one it may look at, in percent. Each whole row sums to 100.")
    cell, left, top = min(90.0, 616 / count), 290, 232
    for row in range(count):
        y, last = top + row * cell, row == count - 1
        canvas.tile(pieces[start + row], MARGIN, y + cell / 2 - 20, size=22, width=218, fill=mix(BLUE, 0.18) if last else FAINT)
        for column in range(row + 1):
            share = rows[row, start + column]
            canvas.box(left + column * cell, y, cell - 3, cell - 3, fill=mix(BLUE, 0.04 + 0.96 * share), radius=1)
            if cell >= 54 and share >= 0.01:
                canvas.text(left + (column + 0.5) * cell - 1, y + cell / 2 - 1, f"{100 * share:.0f}", size=24, align="center",
                            color="white" if share > 0.45 else INK)  # fmt: skip
        canvas.text(left + (row + 0.5) * cell - 1, top + count * cell + 8, visible(pieces[start + row]), size=22, mono=True,
                    color=GREY, align="center", valign="top", rotation=90, wrap=110, lines=1, smallest=22)  # fmt: skip
    canvas.text(left + count * cell - 6, top + 0.5 * cell, "not yet written", size=26, color=GREY, align="right")
    x = left + count * cell + 90
    name = f"layer {data['layer']} of {data['layers']}, head {data['head']} of {data['heads']}"
    canvas.text(x, top + 20, name, size=28, weight="bold")
    if start:
        canvas.text(x, top + 64, f"the last {count} of {len(pieces)} tokens are shown", size=24, color=GREY)
    canvas.text(x, top + 130, "the last row: from", size=24, color=GREY)
    canvas.tile(pieces[-1], x, top + 152, size=26, width=220, fill=mix(BLUE, 0.18))
    canvas.text(x, top + 240, "it looks at", size=24, color=GREY)
    for place, position in enumerate(np.argsort(-rows[-1], kind="stable")[:6].tolist()):
        y, share = top + 265 + place * 62, rows[-1, position]
        canvas.tile(pieces[position], x, y, size=24, width=220, fill=FAINT)
        length = (WIDTH - MARGIN - x - 340) * share
        canvas.box(x + 234, y + 5, max(length, 2), 34, fill=BLUE, radius=1)
        canvas.text(x + 248 + length, y + 22, f"{share:.0%}" if share >= 0.01 else "< 1%", size=24, color=BLUE)


# --- 11 · every raw logit ---


def capture_every_logit(lab: Lab) -> Data:
    return every_logit(lab, causal=True)


def every_logit(lab: Lab, causal: bool) -> Data:
    ids = enough_tokens(lab)
    first = both_ways(lab, ids, causal)  # [n, vocabulary]
    likely = by_rank(first[-2])[:2].tolist()  # what the model itself would have put last
    replaced = [*ids[:-1], likely[likely[0] == ids[-1]]]
    second = both_ways(lab, replaced, causal)
    best = by_rank(first[-1])[:LABELLED].tolist()
    sample = np.linspace(0, first.shape[-1] - 1, SAMPLE).astype(int)
    return {
        "pieces": lab.pieces(ids),
        "replaced_by": lab.pieces(replaced[-1:])[0],
        "moved": np.abs(first - second).max(axis=-1),  # [n], over the whole vocabulary
        "sample_ids": sample,
        "sample_first": first[:, sample],  # [n, sample]
        "sample_second": second[:, sample],
        "logits": [float(f"{value:.5g}") for value in first[-1].tolist()],
        "best": [{"id": token_id, "text": text} for token_id, text in zip(best, lab.pieces(best), strict=True)],
    }


def both_ways(lab: Lab, ids: list[int], causal: bool) -> np.ndarray:
    """The logits of a run with the causal mask, or of a real run without: [n, vocabulary]."""
    if causal:
        return lab.logits(ids)
    with lab.torch.inference_mode():
        mask = lab.torch.zeros(1, 1, len(ids), len(ids))
        return lab.model(lab.torch.tensor([ids]), attention_mask=mask, use_cache=False).logits[0].numpy()


def judge_every_logit(data: Data) -> Verdict:
    moved = np.array(data["moved"])
    apart = np.abs(np.array(data["sample_first"]) - np.array(data["sample_second"])).max(axis=-1)  # [n]
    logits, order = np.array(data["logits"]), [token["id"] for token in data["best"]]
    # five digits are kept of each logit of the picture
    pictured = np.allclose(logits[data["sample_ids"]], data["sample_first"][-1], rtol=1e-4, atol=1e-6)
    ranked = bool((np.diff(logits[order]) <= 0).all()) and logits[order[0]] == logits.max()
    earlier = max(moved[:-1].max(), apart[:-1].max())
    return Verdict(
        bool(earlier < AHEAD_BOUND < apart[-1] and (apart <= moved + 1e-6).all() and pictured and ranked),
        f"last token replaced: earlier positions move {earlier:.1e}",
        f"< {AHEAD_BOUND:.0e}; the last moves {moved[-1]:.1f}",
    )


def spoil_every_logit(data: Data, lab: Lab) -> Data:
    """Two real runs with attention both ways."""
    return every_logit(lab, causal=False)


def draw_every_logit(canvas: Canvas, data: Data) -> None:
    logits = np.array(data["logits"])
    canvas.headline(f"One call scores all {len(logits):,} tokens at once, and a later token changes no earlier score")
    canvas.reading(
        "Upper: one dot a token of the vocabulary, by id. Lower: how far each position's scores move with another last token."
    )
    axes = canvas.chart(170, 240, WIDTH - MARGIN - 170, 440, ylabel="raw logit", xlabel="token id")
    axes.plot(np.arange(len(logits)), logits, ".", color=GREY, markersize=1.6, alpha=0.35, rasterized=True, zorder=1)
    span = logits.max() - logits.min()
    axes.set(xlim=(0, len(logits)), ylim=(logits.min() - 0.05 * span, logits.max() + 0.16 * span))
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick < 0.97 * len(logits)])  # no label beyond the edge
    axes.xaxis.set_major_formatter(lambda value, _: f"{int(value):,}")
    label_best(canvas, axes, logits, data["best"])
    pieces, moved = data["pieces"], data["moved"]
    shown = list(range(max(0, len(pieces) - SHOWN_POSITIONS), len(pieces)))
    width = min(200.0, (WIDTH - 2 * MARGIN - 190) / len(shown))
    for place, position in enumerate(shown):
        last = position == len(pieces) - 1
        left = MARGIN + 190 + place * width
        canvas.tile(data["replaced_by"] if last else pieces[position], left, 830, size=24, width=width - 8,
                    fill=mix(ORANGE, 0.2) if last else FAINT)  # fmt: skip
        text = f"{moved[position]:.1f}" if last else "0" if moved[position] == 0 else f"{moved[position]:.0e}"
        canvas.text(left + width / 2 - 4, 906, text, size=24, color=ORANGE if last else INK, weight="bold", align="center")
    whole = len(shown) == len(pieces)
    canvas.text(MARGIN, 852, "last replaced" if whole else f"the last {len(shown)}", size=24, color=ORANGE if whole else GREY)
    canvas.text(MARGIN, 906, "scores move", size=24, color=GREY)


def label_best(canvas: Canvas, axes: Any, logits: np.ndarray, best: list[Data]) -> None:
    """Tiles over the dots of the highest logits; one that would cover another, or another's dot, is left out."""
    spots = [axes.transData.transform((token["id"], logits[token["id"]])) for token in best]
    taken = [Box(x - 8, HEIGHT - y - 8, 16, 16) for x, y in spots]
    for rank, (token, (x, y)) in enumerate(zip(best, spots, strict=True)):
        color, size = (BLUE, 26) if rank == 0 else (INK, 22)
        axes.plot([token["id"]], [logits[token["id"]]], "o", color=color, markersize=8, clip_on=False, zorder=3)
        width = min(canvas.tile_width(token["text"], size), 300.0)
        left = min(max(x - width / 2, 180), WIDTH - MARGIN - width)
        spot = Box(left, HEIGHT - y - 12 - 1.8 * size, width, 1.8 * size)
        if not any(overlap(spot, other) for other in taken):
            fill = mix(BLUE, 0.18) if rank == 0 else FAINT
            taken.append(canvas.tile(token["text"], spot.x, spot.y, size=size, width=width, fill=fill))


def overlap(one: Box, other: Box) -> bool:
    return one.x < other.right and other.x < one.right and one.y < other.bottom and other.y < one.bottom


SLIDES = [
    Slide(
        number=10,
        name="attention",
        section="The forward pass",
        claim="Each token's attention sums to one, and none of it goes to a later token.",
        capture=capture_attention,
        oracle=judge_attention,
        sabotage=spoil_attention,
        draw=draw_attention,
    ),
    Slide(
        number=11,
        name="every_logit",
        section="The forward pass",
        claim="Replacing the last token changes no logit of any earlier position.",
        capture=capture_every_logit,
        oracle=judge_every_logit,
        sabotage=spoil_every_logit,
        draw=draw_every_logit,
    ),
]

if __name__ == "__main__":
    from regen_all import main

    sys.exit(main(["--only", Path(__file__).stem, *sys.argv[1:]]))
