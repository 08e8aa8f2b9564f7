"""Slides 10-11: where one attention head looks, and every raw logit of one call.

They prove that no position looks ahead: no weight lies above the diagonal in any head, and a later token changes no earlier
score. They need the model, loaded with eager attention.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from pipeline.canvas import BLUE, FAINT, GREY, INK, MARGIN, ORANGE, WIDTH, Canvas, mix
from pipeline.chances import by_rank
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict

ROW_BOUND = 1e-5  # a float32 softmax over at most 256 positions sums to 1 within a few 1e-7
AHEAD_BOUND = 1e-4  # the same kernels on the same shapes: earlier positions move by nothing at all, or a few 1e-6
SHOWN_POSITIONS = 14  # rows and columns shown: more would be too narrow for a token


def at_least_two(lab: Lab) -> list[int]:
    """The sentence, with the completion if it is one token only: nothing can look ahead in one token."""
    return lab.ids if len(lab.ids) > 1 else lab.ids + lab.completion


# --- 10 · one attention head ---


def attentions(lab: Lab, ids: list[int], causal: bool) -> list[np.ndarray]:
    """Attention weights of every layer, [heads, n, n]; with `causal` off, a real run with the mask left off."""
    torch = lab.torch
    mask = {} if causal else {"attention_mask": torch.zeros(1, 1, len(ids), len(ids))}
    with torch.inference_mode():
        out = lab.model(torch.tensor([ids]), output_attentions=True, use_cache=False, **mask)
    found = [weights[0].numpy() for weights in out.attentions or () if weights is not None]
    if len(found) != lab.model.config.num_hidden_layers:
        raise RuntimeError(f"{len(found)} layers gave attention weights: the model must be loaded with eager attention")
    return found


def most_looking_back(layers: list[np.ndarray]) -> tuple[int, int]:
    """The head whose last row puts the most weight on one earlier token that is neither the first nor itself."""
    last = np.stack(layers)[:, :, -1, :]  # [layers, heads, n]
    middle = last[:, :, 1:-1] if last.shape[-1] > 2 else last
    layer, head = np.unravel_index(middle.max(axis=-1).argmax(), middle.shape[:2])
    return int(layer), int(head)


def capture_attention(lab: Lab) -> Data:
    return attention(lab, causal=True)


def attention(lab: Lab, causal: bool) -> Data:
    ids = at_least_two(lab)
    layers = attentions(lab, ids, causal)
    layer, head = most_looking_back(layers)
    everything = np.stack(layers).astype(np.float64)  # [layers, heads, n, n]
    return {
        "pieces": lab.pieces(ids),
        "layer": layer + 1,
        "head": head + 1,
        "layers": everything.shape[0],
        "heads": everything.shape[1],
        "weights": layers[layer][head],  # [n, n]
        "worst_row_sum": float(np.abs(everything.sum(axis=-1) - 1).max()),
        "most_above_diagonal": float(np.triu(everything, k=1).max()),
    }


def judge_attention(data: Data) -> Verdict:
    weights = np.array(data["weights"], dtype=np.float64)
    rows = max(float(np.abs(weights.sum(axis=-1) - 1).max()), data["worst_row_sum"])
    ahead = max(float(np.triu(weights, k=1).max()), data["most_above_diagonal"])
    square = weights.shape == (len(data["pieces"]),) * 2
    return Verdict(
        square and rows < ROW_BOUND and ahead == 0 and bool((weights >= 0).all()),
        f"row sums off by {rows:.0e}, weight ahead {ahead:.2g}",
        f"< {ROW_BOUND:.0e}, exactly 0 in all {data['layers'] * data['heads']} heads",
    )


def spoil_attention(data: Data, lab: Lab) -> Data:
    """A real run with the causal mask left off."""
    return attention(lab, causal=False)


def draw_attention(canvas: Canvas, data: Data) -> None:
    weights, pieces = np.array(data["weights"]), data["pieces"]
    start = max(0, len(pieces) - SHOWN_POSITIONS)
    inner = weights[-1, 1:-1] if len(pieces) > 2 else weights[-1]
    target = int(inner.argmax()) + (1 if len(pieces) > 2 else 0)
    canvas.headline(f"No token looks ahead; the last one gives {weights[-1, target]:.0%} of its attention to token {target + 1}")
    canvas.reading("Each row is a token and where it looks: the darker, the more. Above the diagonal nothing is written yet.")
    count = len(pieces) - start
    cell = min(66.0, 700 / count)
    left, top = 420, 250
    for row in range(count):
        y = top + row * cell
        last = row == count - 1
        canvas.tile(
            pieces[start + row], left - 230, y + cell / 2 - 20, size=22, width=218, fill=mix(BLUE, 0.18) if last else FAINT
        )
        for column in range(count):
            share = weights[start + row, start + column]
            fill = mix(BLUE, share**0.5) if column <= row else None
            canvas.box(left + column * cell, y, cell - 3, cell - 3, fill=fill, edge=None if column <= row else FAINT, radius=1)
    x = left + count * cell + 90
    canvas.text(
        x, top + 24, f"layer {data['layer']} of {data['layers']}, head {data['head']} of {data['heads']}", size=28, weight="bold"
    )
    canvas.text(x, top + 76, "from the last token", size=24, color=GREY)
    canvas.tile(pieces[-1], x, top + 100, size=26, width=220, fill=mix(BLUE, 0.18))
    canvas.text(x, top + 190, "it looks at", size=24, color=GREY)
    for place, position in enumerate(np.argsort(-weights[-1], kind="stable")[:6].tolist()):
        y = top + 215 + place * 62
        room = WIDTH - MARGIN - x - 230 - 80
        canvas.tile(pieces[position], x, y, size=24, width=200, fill=FAINT)
        length = room * weights[-1, position]
        canvas.box(x + 214, y + 5, max(length, 2), 34, fill=BLUE, radius=2)
        share = f"{weights[-1, position]:.0%}" if weights[-1, position] >= 0.01 else "< 1%"
        canvas.text(x + 226 + length, y + 22, share, size=24, color=BLUE)
    if start:
        canvas.text(left - 230, top + count * cell + 20, f"the last {count} of {len(pieces)} tokens", size=22, color=GREY)


# --- 11 · every raw logit ---


def capture_every_logit(lab: Lab) -> Data:
    return every_logit(lab, causal=True)


def every_logit(lab: Lab, causal: bool) -> Data:
    ids = at_least_two(lab)
    replaced = [*ids[:-1], (ids[-1] + 1) % lab.model.config.vocab_size]
    first, second = both_ways(lab, ids, causal), both_ways(lab, replaced, causal)  # [n, vocabulary]
    best = by_rank(first[-1])[:5].tolist()
    return {
        "pieces": lab.pieces(ids),
        "replaced_by": lab.pieces(replaced[-1:])[0],
        "moved": np.abs(first - second).max(axis=-1),  # [n]
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
    *earlier, last = data["moved"]
    moved = max(earlier)
    complete = int(np.argmax(data["logits"])) == data["best"][0]["id"]
    return Verdict(
        moved < AHEAD_BOUND < last and complete,
        f"last token replaced: earlier positions move {moved:.1e}",
        f"< {AHEAD_BOUND:.0e}; the last moves {last:.1f}",
    )


def spoil_every_logit(data: Data, lab: Lab) -> Data:
    """Two real runs with attention both ways."""
    return every_logit(lab, causal=False)


def draw_every_logit(canvas: Canvas, data: Data) -> None:
    logits = np.array(data["logits"])
    canvas.headline(f"One call scores all {len(logits):,} tokens at once, and a later token changes no earlier score")
    canvas.reading(
        "Upper: one dot a token of the vocabulary, by id. Lower: how far each position's scores move when the last token is replaced."
    )
    axes = canvas.chart(170, 240, WIDTH - MARGIN - 170, 440, ylabel="raw logit", xlabel="token id")
    axes.plot(np.arange(len(logits)), logits, ".", color=GREY, markersize=1.6, alpha=0.35, rasterized=True, zorder=1)
    span = logits.max() - logits.min()
    axes.set(xlim=(0, len(logits)), ylim=(logits.min() - 0.05 * span, logits.max() + 0.12 * span))
    axes.xaxis.set_major_formatter(lambda value, _: f"{int(value):,}")
    winner = data["best"][0]
    axes.plot([winner["id"]], [logits[winner["id"]]], "o", color=BLUE, markersize=11, clip_on=False, zorder=3)
    x = 170 + (WIDTH - MARGIN - 170) * winner["id"] / len(logits)
    y = 240 + 440 * (logits.max() + 0.12 * span - logits[winner["id"]]) / (1.17 * span)
    side = 24 if winner["id"] < len(logits) * 0.7 else -24 - canvas.tile_width(winner["text"], 26)
    canvas.tile(winner["text"], x + side, y - 24, size=26, fill=mix(BLUE, 0.18))
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
    canvas.text(MARGIN, 852, "last replaced" if len(shown) == len(pieces) else f"the last {len(shown)}", size=24, color=ORANGE)
    canvas.text(MARGIN, 906, "scores move", size=24, color=GREY)


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
