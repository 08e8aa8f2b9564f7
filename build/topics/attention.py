"""Where one attention head looks, and every raw logit of one call.

They prove that no position looks ahead: no weight lies above the diagonal in any head, and a later token changes no earlier
score. They need the model, loaded with eager attention.
"""

import numpy as np

from pipeline.distributions import IMPLAUSIBLE, by_rank, plausible
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Plane
from pipeline.drawing.layout import GAP, HERO, LABEL, NUMBER, PAD, TILE, TITLE, Box, Share
from pipeline.drawing.palette import BLUE, GREY, INK, PALE, mix
from pipeline.drawing.sheet import Line
from pipeline.errors import BadInput
from pipeline.lab import Lab
from pipeline.model.parts import enough_tokens
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import percent, signed

ROW_BOUND = 1e-5  # a float32 softmax over at most 256 positions sums to 1 within a few 1e-7
AHEAD_BOUND = 1e-4  # the same kernels on the same shapes: earlier positions move by nothing at all, or a few 1e-6
SHOWN_POSITIONS = 12  # rows and columns shown: more would be too narrow for a token
SAMPLE = 12  # ids, spread over the vocabulary, whose logits are kept of both runs at every position
LABELLED = 5  # of the highest logits
WIDEST = 300  # pixels of a tile over its dot
UPRIGHT = 122  # pixels under the triangle for the tokens of its columns


# --- one attention head ---


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


def oracle_attention(data: Data) -> Verdict:
    rows, sums = np.array(data["rows"]), np.array(data["row_sums"])  # [shown, n], [n]
    shown, count = rows.shape
    off = max(float(np.abs(rows.sum(axis=-1) - 1).max()), float(np.abs(sums - 1).max()), abs(data["worst_row_sum"]))
    ahead = max(float(np.triu(rows, k=count - shown + 1).max()), abs(data["most_above_diagonal"]))
    complete = count == len(sums) == len(data["pieces"]) and shown == min(count, SHOWN_POSITIONS)
    complete = complete and 0 <= data["looking_back"] <= 1 and 0 <= data["one_back"] <= 1
    return Verdict(
        complete and off < ROW_BOUND and ahead == 0 and bool((rows >= 0).all()),
        f"row sums off by {off:.0e}, weight ahead {ahead:.2g}",
        f"< {ROW_BOUND:.0e}, exactly 0 in every head",
    )


def sabotage_attention(data: Data, lab: Lab) -> Data:
    """A real run with the causal mask left off."""
    return attention(lab, causal=False)


def draw_attention(canvas: Canvas, data: Data) -> None:
    pieces, rows = data["pieces"], np.array(data["rows"])
    count, start = len(rows), len(pieces) - len(rows)
    share = max(data["one_back"], data["looking_back"]) if data["one_back"] >= 0.5 else data["looking_back"]
    body = canvas.titled(
        "A token looks back, never ahead",
        "Each row is a token, each column one that it may look at. The stronger the blue, the more it looks; a row sums to 100.",
    )
    upper, feet = body.rows(..., UPRIGHT, gap=GAP)
    heads, grid, beside = upper.columns(250, Share(3), Share(1), gap=GAP)
    cells = grid.grid(count, count)
    for row, (lane, piece) in enumerate(zip(heads.even_rows(count), pieces[start:], strict=True)):
        tile = lane.place(lane.w, min(lane.h - 3, LABEL * TILE))
        canvas.put_tile(tile, piece, size=LABEL, accent=BLUE if row == count - 1 else None)
        for share_of, cell in zip(rows[row, start:], cells[row][: row + 1], strict=False):
            canvas.box(cell.inset(1.5), fill=mix(BLUE, 0.04 + 0.96 * share_of), radius=1)
            told = percent(share_of, 0).removesuffix("%")
            if share_of >= 0.01 and canvas.width(told, LABEL) < cell.w - 3 and cell.h > LABEL:
                canvas.put(cell, told, size=LABEL, align="center", color="white" if share_of > 0.45 else INK)
    for piece, foot in zip(pieces[start:], grid.at(feet).even_columns(count), strict=True):
        canvas.put_upright(foot, piece, color=GREY)
    hatch(canvas, cells)
    corner = cells[0][count // 2].until(cells[count // 4][-1])
    canvas.box(corner.place(canvas.width("not written yet", TITLE, weight="bold") + PAD, TITLE * TILE), fill=canvas.paper, z=2)
    canvas.put(corner, "not written yet", size=TITLE, weight="bold", color=GREY, align="center")
    where = f"on {'the token just' if data['one_back'] >= 0.5 else 'one token'} before"
    said = Line(percent(share, 0), HERO, BLUE, "bold"), Line("of its attention"), Line(where), Line("")
    here = f"layer {data['layer']} of {data['layers']}", f"head {data['head']} of {data['heads']}"
    shown = f"the last {count} of {len(pieces)} tokens" if start else ""
    canvas.stack(beside.inset(GAP, 0), *said, *(Line(one, color=GREY) for one in (*here, shown)))


def hatch(canvas: Canvas, cells: list[list[Box]]) -> None:
    """Slanted lines over the half in which nothing may be looked at."""
    for row, lane in enumerate(cells):
        for cell in lane[row + 1 :]:
            canvas.line([(cell.x, cell.bottom), (cell.right, cell.y)], color=PALE, width=1, z=0.5)


# --- every raw logit ---


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


def oracle_every_logit(data: Data) -> Verdict:
    moved = np.array(data["moved"])
    apart = np.abs(np.array(data["sample_first"]) - np.array(data["sample_second"])).max(axis=-1)  # [n]
    logits, order = np.array(data["logits"]), [token["id"] for token in data["best"]]
    # five digits are kept of each logit of the picture
    pictured = np.allclose(logits[data["sample_ids"]], data["sample_first"][-1], rtol=1e-4, atol=1e-6)
    ranked = np.array_equal(np.sort(logits)[: -LABELLED - 1 : -1], logits[order]) and len(set(order)) == LABELLED
    ranked = ranked and plausible(logits) and bool((np.abs(moved) < IMPLAUSIBLE).all()) and len(moved) == len(data["pieces"])
    earlier = max(moved[:-1].max(), apart[:-1].max())
    return Verdict(
        bool(earlier < AHEAD_BOUND < apart[-1] and (apart <= moved + 1e-6).all() and pictured and ranked),
        f"last token replaced: earlier positions move {earlier:.1e}",
        f"< {AHEAD_BOUND:.0e}; the last moves {moved[-1]:.1f}",
    )


def sabotage_every_logit(data: Data, lab: Lab) -> Data:
    """Two real runs with attention both ways."""
    return every_logit(lab, causal=False)


def draw_every_logit(canvas: Canvas, data: Data) -> None:
    logits = np.array(data["logits"])
    body = canvas.titled(
        "One call scores every token there is",
        f"One dot for each of {len(logits):,} tokens, by id: its raw score. Below: the same call with another last token.",
    )
    upper, lower = body.rows(..., 3 * (LABEL * TILE + GAP), gap=3 * LABEL + PAD)
    span = logits.max() - logits.min()
    heights = (logits.min() - 0.05 * span, logits.max() + 0.2 * span)
    plane = Plane.over(upper.columns(2 * NUMBER, ...)[1], (0, len(logits)), heights)
    ids, scores = ({value: signed(value, 0) for value in scale.ticks(5)} for scale in (plane.across, plane.up))
    plane.frame(canvas, ids, scores)
    canvas.dots([plane.at(*point) for point in enumerate(logits.tolist())], color=GREY, size=3, strength=0.35, z=1)
    label_best(canvas, plane, logits, data["best"])
    draw_moved(canvas, data, lower)


def draw_moved(canvas: Canvas, data: Data, box: Box) -> None:
    """The tokens of two calls that differ in the last one, and between which of them the scores moved."""
    pieces, moved = data["pieces"], data["moved"]
    shown = list(range(max(0, len(pieces) - SHOWN_POSITIONS), len(pieces)))
    names, columns = box.columns(190, ..., gap=GAP)
    lanes = columns.even_rows(3, gap=GAP)
    for name, lane in zip(("before", "scores", "after"), lanes, strict=True):
        canvas.put(names.at(lane), name, size=LABEL, color=GREY)
    for position, *spots in zip(shown, *(lane.even_columns(len(shown), gap=8, most=192) for lane in lanes), strict=True):
        last = position == len(pieces) - 1
        canvas.put_tile(spots[0], pieces[position], size=LABEL, accent=BLUE if last else None)
        canvas.put_tile(spots[2], data["replaced_by"] if last else pieces[position], size=LABEL, accent=BLUE if last else None)
        amount = "=" if moved[position] == 0 else f"± {moved[position]:.1f}" if last else f"{moved[position]:.0e}"
        canvas.put(spots[1], amount, weight="bold", color=BLUE if last else INK, align="center")


def label_best(canvas: Canvas, plane: Plane, logits: np.ndarray, best: list[Data]) -> None:
    """Tiles over the dots of the highest logits; one that would cover another, or another's dot, is left out."""
    spots = [plane.at(token["id"], float(logits[token["id"]])) for token in best]
    taken = [Box(x, y, 0, 0).inset(-8) for x, y in spots]
    for rank, (token, (x, y)) in enumerate(zip(best, spots, strict=True)):
        size = LABEL
        width = min(canvas.tile_width(token["text"], size), WIDEST)
        left = min(max(x - width / 2, plane.box.x + GAP), plane.box.right - width)
        spot = Box(left, y - GAP - TILE * size, width, TILE * size)
        if not any(overlap(spot, other) for other in taken):
            canvas.dots([(x, y)], color=BLUE if rank == 0 else INK, size=GAP)
            taken.append(canvas.put_tile(spot, token["text"], size=size, accent=BLUE if rank == 0 else None))


def overlap(one: Box, other: Box) -> bool:
    return one.x < other.right and other.x < one.right and one.y < other.bottom and other.y < one.bottom


SLIDES = [
    Slide(
        name="attention",
        section="The forward pass",
        claim="Each token's attention sums to one, and none of it goes to a later token.",
        capture=capture_attention,
        oracle=oracle_attention,
        sabotage=sabotage_attention,
        draw=draw_attention,
    ),
    Slide(
        name="every_logit",
        section="The forward pass",
        claim="Replacing the last token changes no logit of any earlier position.",
        capture=capture_every_logit,
        oracle=oracle_every_logit,
        sabotage=sabotage_every_logit,
        draw=draw_every_logit,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
