"""The parts one call runs through, and the length of the hidden states.

They prove that the parameters shown are all there are, and that the last hidden state alone makes the logits. They need
the model.
"""

import math
from collections import defaultdict
from itertools import pairwise

import numpy as np

from pipeline.distributions import IMPLAUSIBLE, by_rank, normed
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Bar, bars
from pipeline.drawing.layout import BODY, GAP, LABEL, LEADING, NUMBER, PAD, TILE, TITLE, Box
from pipeline.drawing.palette import BLUE, FAINT, GREY, INK, PALE
from pipeline.drawing.sheet import Line
from pipeline.lab import Lab
from pipeline.model.parts import anatomy, enough_tokens, hidden_states
from pipeline.model.stages import last_norm, run_through
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted, percent, signed, significant

NORM_BOUND = 1e-3  # float32 sums of a few hundred terms near 20 against float64 leave a few 1e-6; the layer before is 15 off
SHOWN_POSITIONS = 11  # columns of a heat map: more would be too narrow for a token
SHOWN_PARTS = 10  # rows of the anatomy: more would be too low to read
SMALLEST_SPAN = 4  # the shades span at least this factor: lengths that hardly differ must look alike
HIGHEST = 3  # logits told by hand
ARROW, UPRIGHT = 86, 110  # pixels: between two stages, and under the shades for the tokens of their columns
PLACES = 5_000  # numbers of the output matrix that the capture keeps


# --- shapes and parameters ---


def capture_anatomy(lab: Lab) -> Data:
    parts = anatomy(lab)
    return {
        **run_through(lab, parts),
        "ids": len(lab.ids),
        "vocabulary": int(lab.model.config.vocab_size),
        "layers": int(lab.model.config.num_hidden_layers),
        "total": int(lab.model.num_parameters()),
        "tied": parts.head.weight is parts.table.weight,
    }


def oracle_anatomy(data: Data) -> Verdict:
    stages = data["stages"]
    total = sum(stage["parameters"] for stage in stages)
    blocks = [f"block {number}" for number in range(1, data["layers"] + 1)]
    chain = [stage for stage in stages if not stage["beside"]]
    joints = sum(after["into"] == before["out"] for before, after in pairwise(chain))
    first_block = sum(stage["parameters"] for stage in stages if stage["name"] == "block 1")
    return Verdict(
        total == data["total"]
        and [stage["name"] for stage in chain] == ["token table", *blocks, "final norm", "output matrix"]
        and joints == len(chain) - 1 == data["layers"] + 2
        and [chain[0]["into"], chain[-1]["out"]] == [[data["ids"]], [data["ids"], data["vocabulary"]]]
        and sum(part["parameters"] for part in data["block"]) == first_block,
        f"{total:,} parameters, {joints} joints fit",
        f"= {data['total']:,}, {data['layers'] + 2} of {data['layers'] + 2}",
    )


def sabotage_anatomy(data: Data, lab: Lab) -> Data:
    """A real call with the last layer taken out of the model, and put back after it."""
    parts = anatomy(lab)
    dropped = parts.layers[-1]
    del parts.layers[-1]
    try:
        return {**data, **run_through(lab, parts)}
    finally:
        parts.layers.append(dropped)


def shape(numbers: list[int]) -> str:
    return " × ".join(f"{number:,}" for number in numbers)


def draw_anatomy(canvas: Canvas, data: Data) -> None:
    blocks = [stage for stage in data["stages"] if stage["name"].startswith("block ")]
    held = sum(block["parameters"] for block in blocks)
    body = canvas.titled(
        f"{percent(held / data['total'], 0)} of all parameters sit in the blocks",
        f"What one call runs through. The bar: {data['total']:,} parameters, to scale. Below it: one of the blocks, opened.",
    )
    chain = stations(data, blocks)
    upper, counts, bar, fan, lower = body.rows(100, BODY * LEADING, 64, 40, ..., gap=GAP / 2)
    ids, *boxes = upper.columns(130, *[...] * len(chain), gap=ARROW)
    canvas.stack(ids, Line(f"token id{'s' * (data['ids'] > 1)}", LABEL, GREY), Line(f"{data['ids']}", weight="bold"))
    for number, ((name, gives, size), box, left) in enumerate(zip(chain, boxes, [ids, *boxes], strict=False)):
        blue = number == 1
        canvas.box(box, fill=canvas.tint(BLUE) if blue else FAINT)
        lines = Line(name, TITLE, weight="bold"), Line(f"gives {shape(gives)}", color=GREY)
        canvas.stack(box.inset(GAP, 0), *lines, align="center")
        canvas.arrow(left.inset(-GAP).east, box.inset(-GAP).west)
        note = "shares the token table" if number == 3 and data["tied"] else f"{size:,}"
        canvas.put(box.at(counts), note, color=BLUE if blue else GREY, align="center")
    cell = draw_shares(canvas, bar, [size for _, _, size in chain], len(blocks))
    for near, far in (((cell.x, fan.y), (lower.x, fan.bottom)), ((cell.right, fan.y), (lower.right, fan.bottom))):
        canvas.line([near, far], color=canvas.tint(BLUE, 0.4), z=0)
    draw_block(canvas, data["block"], lower)


def stations(data: Data, blocks: list[Data]) -> list[tuple[str, list[int], int]]:
    """Where the call passes, the blocks as one: a name, the shape handed on, the parameters held."""
    first, *beside = data["stages"][: data["stages"].index(blocks[0])]
    norm, head = data["stages"][-2:]
    tables = " + ".join([first["name"], *(stage["name"] for stage in beside)])
    return [
        (tables, first["out"], first["parameters"] + sum(stage["parameters"] for stage in beside)),
        (counted(len(blocks), "block"), blocks[-1]["out"], sum(block["parameters"] for block in blocks)),
        ("final norm", norm["out"], norm["parameters"]),
        ("output matrix", head["out"], head["parameters"]),
    ]


def draw_shares(canvas: Canvas, bar: Box, sizes: list[int], blocks: int) -> Box:
    """All parameters as one bar, the blocks in blue, cell by cell; returns the first block's cell."""
    parts = bar.columns(*(bar.w * size / sum(sizes) for size in sizes))
    cells = parts[1].even_columns(blocks, gap=3 if parts[1].w / blocks > 12 else 1)
    for number, part in enumerate(parts):
        for cell in cells if number == 1 else [part] if part.w else []:
            canvas.box(cell, fill=canvas.tint(BLUE, 0.6) if number == 1 else PALE, radius=0)
        told = percent(part.w / bar.w, 0)
        width = canvas.width(told, BODY, weight="bold") + GAP
        if part.w > width:
            canvas.box(part.place(width, part.h), fill=canvas.tint(BLUE, 0.6) if number == 1 else PALE, radius=0)
            canvas.put(part, told, weight="bold", align="center", color="white" if number == 1 else INK)
    return cells[0]


def draw_block(canvas: Canvas, block: list[Data], box: Box) -> None:
    """The parts of one block in the order they run; those of its larger half, attention or MLP, in blue."""
    total = sum(part["parameters"] for part in block)
    halves: dict[str, int] = defaultdict(int)  # by the first name of their parts: self_attn.q_proj
    for part in block:
        if "." in part["name"]:
            halves[part["name"].partition(".")[0]] += part["parameters"]
    ranked = sorted(halves, key=lambda half: -halves[half])
    kept = sorted(block, key=lambda part: -part["parameters"])[:SHOWN_PARTS]
    shown = [part for part in block if part in kept]
    head, table = box.rows(BODY * LEADING, ...)
    shares = " and ".join(f"{percent(halves[half] / total, 0)} in {half}" for half in ranked)
    canvas.put(head, f"one block: {total:,} parameters{', ' if shares else ''}{shares}", weight="bold", color=BLUE)
    if len(shown) < len(block):
        canvas.put(head, f"the {len(shown)} largest of {len(block)} parts", size=LABEL, color=GREY, align="right")
    lanes = [lane.columns(420, 190, ..., gap=PAD) for lane in table.even_rows(len(shown), most=56)]
    rows = []
    for part, (name, shapes, _) in zip(shown, lanes, strict=True):
        canvas.put(name, part["name"], size=LABEL, mono=True)
        canvas.put(shapes, f"{part['into']:,} → {part['out']:,}", size=LABEL, color=GREY, align="right")
        blue = not ranked or part["name"].partition(".")[0] == ranked[0]
        rows.append(Bar(part["parameters"], f"{part['parameters']:,}", *(BLUE,) if blue else (canvas.tint(BLUE, 0.4), INK)))
    bars(canvas, [lane for *_, lane in lanes], rows, rim=0.14)


# --- hidden states ---


def capture_hidden(lab: Lab) -> Data:
    parts = anatomy(lab)
    seen = enough_tokens(lab)
    states = hidden_states(lab, seen)  # [layers + 1, n, width]
    model = lab.next_logits(seen)
    ids = by_rank(model)[: max(4, min(24, PLACES // states.shape[-1]))].tolist()
    return {
        "norms": np.linalg.norm(states, axis=-1),  # [layers + 1, n]
        "pieces": lab.pieces(seen),
        "last_state": states[-1, -1],
        "last_but_one_state": states[-2, -1],
        "norm": last_norm(lab, parts),
        "scale": parts.scale,
        "ids": ids,
        "candidates": lab.pieces(ids),
        "matrix_rows": parts.head.weight.detach()[ids],
        "matrix_bias": None if getattr(parts.head, "bias", None) is None else parts.head.bias.detach()[ids],
        "model_logits": model[ids],
    }


def logits_by_hand(data: Data) -> np.ndarray:
    """The logits of the kept rows, from the last hidden state alone; a bias of the output matrix added where there is one."""
    scores = np.array(data["matrix_rows"]) @ normed(np.array(data["last_state"]), data["norm"])
    return (scores if data["matrix_bias"] is None else scores + np.array(data["matrix_bias"])) * data["scale"]


def oracle_hidden(data: Data) -> Verdict:
    by_hand = logits_by_hand(data)
    apart = float(np.abs(by_hand - np.array(data["model_logits"])).max())
    norms, norm = np.array(data["norms"]), data["norm"]
    as_drawn = np.allclose(norms[-1, -1], np.linalg.norm(data["last_state"]), rtol=1e-4) and 0 <= norms.min() <= norms.max()
    as_drawn = as_drawn and norms.max() < IMPLAUSIBLE and norms.shape[1] == len(data["pieces"])
    ranked = bool((np.diff(data["model_logits"]) <= 0).all()) and len(data["candidates"]) == len(by_hand)
    known = norm["kind"] in ("rms", "layer") and isinstance(norm["eps"], float) and isinstance(data["scale"], float | int)
    return Verdict(
        apart < NORM_BOUND and as_drawn and ranked and known,
        f"{len(by_hand)} logits by hand: max |Δ| {apart:.1e}",
        f"< {NORM_BOUND:.0e}",
    )


def sabotage_hidden(data: Data, lab: Lab) -> Data:
    """The state after the second-last layer in place of the last."""
    return {**data, "last_state": data["last_but_one_state"]}


def draw_hidden(canvas: Canvas, data: Data) -> None:
    norms = np.array(data["norms"])  # [layers + 1, n]
    body = canvas.titled(
        "One vector, reworked layer by layer, gives all the scores",
        "Left: how long the last token’s vector is after each layer. Right: scores from its last one, and the lengths of all.",
    )
    tower, arrow, beside = body.columns(..., 3 * PAD, 700, gap=PAD)
    draw_tower(canvas, norms[:, -1], data["pieces"][-1], tower)
    table, grid = beside.rows(300, ..., gap=2 * PAD)
    canvas.arrow((arrow.x, body.y + PAD), (arrow.right, body.y + PAD), color=BLUE, width=5)
    draw_by_hand(canvas, data, table)
    draw_lengths(canvas, norms, data["pieces"], grid)


def draw_tower(canvas: Canvas, lengths: np.ndarray, piece: str, box: Box) -> None:
    """One bar per layer, as long as the vector: the token at the foot, the last layer on top."""
    floors, foot = box.rows(..., LABEL * TILE, gap=GAP)
    names, tower = floors.columns(150, ..., gap=GAP)
    lanes = tower.even_rows(len(lengths))[::-1]
    every = math.ceil(len(lengths) * LABEL * LEADING / floors.h)  # floors between two that are named
    last, rows = len(lengths) - 1, []
    for layer, (length, lane) in enumerate(zip(lengths, lanes, strict=True)):
        told = layer in (0, last) or (layer % every == 0 and layer <= last - every)
        color = BLUE if layer == last else canvas.tint(BLUE, 0.5)
        rows.append(Bar(length, significant(length) if told else "", color, BLUE if layer == last else INK))
        if told:
            name = names.at(lane)
            canvas.put(name, f"layer {layer}" if layer else "token table", size=LABEL, color=GREY, align="right")
    bars(canvas, lanes, rows, size=LABEL, rim=0.12, axis=True)
    tile = Box(tower.x, foot.y, min(tower.w, canvas.tile_width(piece, LABEL)), foot.h)
    canvas.put_tile(tile, piece, size=LABEL, accent=BLUE)


def draw_lengths(canvas: Canvas, norms: np.ndarray, pieces: list[str], box: Box) -> None:
    """The lengths of all tokens after all layers as shades, and where the longest vector stands."""
    low = np.log(norms.min())
    high = max(np.log(norms.max()), low + np.log(SMALLEST_SPAN))
    shown = list(range(len(pieces)))
    if len(shown) > SHOWN_POSITIONS:
        shown = [0, *range(len(pieces) - SHOWN_POSITIONS + 1, len(pieces))]
    head, cells, feet = box.rows(LABEL * LEADING, ..., UPRIGHT, gap=GAP / 2)
    shades = 0.05 + 0.95 * (np.log(norms[::-1, shown]) - low) / (high - low)
    canvas.mesh(cells, [[canvas.tint(BLUE, shade) for shade in row] for row in shades.tolist()], seam=1)
    for position, spot in zip(shown, feet.even_columns(len(shown)), strict=True):
        canvas.put_upright(spot, pieces[position], color=BLUE if position == len(pieces) - 1 else GREY)
    most, place = (int(index) for index in np.unravel_index(norms.argmax(), norms.shape))
    where = f"after layer {most}" if most else "in the token table"
    said = f"longest: {significant(norms.max())}, token {place + 1}, {where}"
    if len(shown) < len(pieces):
        said = f"the first, then the last {len(shown) - 1} of {len(pieces)} tokens"
    canvas.put(head, said, size=LABEL, color=GREY)


def draw_by_hand(canvas: Canvas, data: Data, box: Box) -> None:
    """The highest logits computed from the last token's last vector, beside the model's own."""
    head, *lanes = box.rows(BODY * LEADING, *[...] * HIGHEST, gap=GAP)
    columns = ..., 170, NUMBER, 170
    for spot, name in zip(head.columns(*columns), ("its scores", "by hand", "", "model"), strict=True):
        canvas.put(spot, name, weight="bold" if spot.x == head.x else "regular", align="left" if spot.x == head.x else "right")
    for lane, piece, *values in zip(lanes, data["candidates"], logits_by_hand(data), data["model_logits"], strict=False):
        tile, by_hand, equal, model = lane.columns(*columns)
        canvas.put_tile(tile.place(min(tile.w, canvas.tile_width(piece, TITLE)), tile.h, "left"), piece, size=TITLE)
        canvas.put(equal, "≈" if len(set(map(signed, values))) > 1 else "=", size=NUMBER, color=GREY, align="right")
        for spot, value in zip((by_hand, model), values, strict=True):
            canvas.put(spot, signed(value), size=NUMBER, weight="bold", align="right")


SLIDES = [
    Slide(
        name="anatomy",
        section="The forward pass",
        claim="The parameters shown add up to the model's own count, tied weights once, and each part's shape feeds the next.",
        capture=capture_anatomy,
        oracle=oracle_anatomy,
        sabotage=sabotage_anatomy,
        draw=draw_anatomy,
    ),
    Slide(
        name="hidden_states",
        section="The forward pass",
        claim="The last hidden state through the final norm and the output matrix gives the model's logits.",
        capture=capture_hidden,
        oracle=oracle_hidden,
        sabotage=sabotage_hidden,
        draw=draw_hidden,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
