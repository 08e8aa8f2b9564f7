"""What a key/value cache holds, and what it weighs as the text grows.

They prove that its bytes follow from the model's shape, key/value heads and not query heads, and that each token adds the
same bytes. They need the model.
"""

import copy
from itertools import pairwise

import numpy as np

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import GAP, LABEL, NUMBER, TITLE, Box
from pipeline.drawing.palette import BLUE, GREY, INK, ORANGE, PAPER, mix
from pipeline.lab import Lab
from pipeline.model.kv import bytes_of_a_token, counted_bytes, read, shape
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted

SECTION = "The KV cache"
FED_ONE_BY_ONE = 18  # the last tokens of sentence and completion fed one at a time while the cache grows
UPRIGHT = 150  # pixels for a token written upwards


# --- what is stored ---


def capture_stored(lab: Lab) -> Data:
    _, cache = lab.extend(None, lab.ids)
    held = read(cache)  # [layers, 2, heads, positions, size]
    lengths = np.linalg.norm(held, axis=-1)  # [layers, 2, heads, positions]
    return {
        "prompt": lab.pieces(lab.ids),
        "shape": shape(lab.model.config),
        "bytes_by_layer": [layer.keys.nbytes + layer.values.nbytes for layer in cache.layers],
        "bytes": counted_bytes(cache),
        "key_lengths": rounded(lengths[:, 0].reshape(-1, len(lab.ids))),
        "value_lengths": rounded(lengths[:, 1].reshape(-1, len(lab.ids))),
    }


def rounded(grid: np.ndarray) -> list[list[float]]:
    return [[float(f"{value:.5g}") for value in row] for row in grid.tolist()]


def oracle_stored(data: Data) -> Verdict:
    of, positions = data["shape"], len(data["prompt"])
    expected = bytes_of_a_token(of) * positions
    drawn = all(
        np.shape(data[part]) == (of["layers"] * of["kv_heads"], positions) and bool((np.array(data[part]) >= 0).all())
        for part in ("key_lengths", "value_lengths")
    )
    whole = len(data["bytes_by_layer"]) == of["layers"] and sum(data["bytes_by_layer"]) == data["bytes"]
    factors = f"{of['layers']} × 2 × {of['kv_heads']} × {positions} × {of['head_size']} × {of['bytes_each']}"
    return Verdict(whole and drawn and data["bytes"] == expected, f"{data['bytes']:,} bytes in the cache object", f"= {factors}")


def sabotage_stored(data: Data, lab: Lab) -> Data:
    """Query heads counted instead of key/value heads (one too many, where the model has as many of each)."""
    sabotaged = copy.deepcopy(data)
    of = sabotaged["shape"]
    of["kv_heads"] = of["query_heads"] if of["query_heads"] != of["kv_heads"] else of["query_heads"] + 1
    return sabotaged


def draw_stored(canvas: Canvas, data: Data) -> None:
    of, positions = data["shape"], len(data["prompt"])
    vectors = of["layers"] * 2 * of["kv_heads"] * positions
    body = canvas.titled(
        f"The cache of {counted(positions, 'token')}: {vectors:,} vectors, {data['bytes']:,} bytes",
        f"One cell is one stored vector of {of['head_size']} numbers: the stronger the blue, the longer. A column is a token.",
    )
    heads, pieces, grids = body.rows(60, UPRIGHT, ..., gap=GAP)
    names, *blocks, product = grids.columns(110, ..., ..., 600, gap=GAP)
    layers = names.even_rows(of["layers"])
    for layer in {0, of["layers"] - 1}:
        canvas.text(names.right, layers[layer].center[1], f"layer {layer + 1}", size=LABEL, color=GREY, align="right")
    for name, block in zip(("keys", "values"), blocks, strict=True):
        grid, over = np.array(data[f"{name[:-1]}_lengths"]), Box(block.x, pieces.y, block.w, pieces.h)
        canvas.put(Box(block.x, heads.y, block.w, heads.h), name, size=TITLE, weight="bold")
        canvas.mesh(block, [[mix(BLUE, 0.04 + 0.96 * share) for share in row] for row in grid / grid.max()], seam=0)
        for edge in layers[1:]:
            canvas.line([(block.x, edge.y), (block.right, edge.y)], color=PAPER, width=1.5, z=2)
        if block.w / positions >= 1.6 * LABEL:  # room for a line of text set upright
            for piece, column in zip(data["prompt"], over.even_columns(positions), strict=True):
                canvas.put_upright(column, piece, down="bottom", color=GREY)
        else:
            canvas.put(over, f"{positions} tokens, first to last", size=LABEL, color=GREY, align="center", down="bottom")
    draw_product(canvas, of, positions, data["bytes"], Box(product.x, body.y, product.w, body.h).inset(3 * GAP, 0))


def draw_product(canvas: Canvas, of: Data, positions: int, total: int, box: Box) -> None:
    """The multiplication, one factor per line, and what query heads would have cost."""
    factors = {
        "layers": of["layers"],
        "keys and values": 2,
        "key/value heads": of["kv_heads"],
        "tokens" if positions > 1 else "token": positions,
        "numbers per vector": of["head_size"],
        "bytes per number": of["bytes_each"],
    }
    table, result, remark = box.rows(400, 84, ..., gap=GAP)
    for line, (lane, (name, factor)) in enumerate(zip(table.even_rows(len(factors)), factors.items(), strict=True)):
        accent, (left, right) = name == "key/value heads", lane.columns(200, ..., gap=2 * GAP)
        canvas.put(
            left, f"{'× ' if line else ''}{factor:,}", size=NUMBER, weight="bold", align="right", color=BLUE if accent else INK
        )
        canvas.put(right, name, color=BLUE if accent else GREY)
    canvas.line([(result.x, result.y), (result.right, result.y)])
    canvas.put(result, f"= {total:,} bytes", size=NUMBER, weight="bold")
    if of["query_heads"] == of["kv_heads"]:
        canvas.put(
            remark,
            f"Each of the {of['query_heads']} query heads has keys and values of its own.",
            color=GREY,
            lines=5,
            down="top",
        )
        return
    each = total // of["kv_heads"] * of["query_heads"]
    reason = (
        f"The model asks with {of['query_heads']} query heads. Were keys and values kept for each of them, "
        f"it would be {each:,} bytes: {each / total:.3g} times as many."
    )
    canvas.put(remark, reason, color=ORANGE, lines=5, down="top")


# --- bytes against tokens ---


def feed(lab: Lab, doubled: int | None = None) -> Data:
    """Feed sentence and completion, the last tokens one at a time; the step `doubled` feeds its token twice."""
    ids = lab.ids + lab.completion
    start = max(0, len(ids) - FED_ONE_BY_ONE)
    cache = lab.extend(None, ids[:start])[1] if start else None
    begun = counted_bytes(cache)
    steps = []
    for step, (token_id, piece) in enumerate(zip(ids[start:], lab.pieces(ids[start:]), strict=True)):
        _, cache = lab.extend(cache, [token_id] * (2 if step == doubled else 1))
        steps.append({"piece": piece, "tokens": cache.get_seq_length(), "bytes": counted_bytes(cache)})
    return {"start": {"tokens": start, "bytes": begun}, "steps": steps}


def capture_growth(lab: Lab) -> Data:
    return {"shape": shape(lab.model.config), "sentence_tokens": len(lab.ids), **feed(lab)}


def oracle_growth(data: Data) -> Verdict:
    points = [data["start"], *data["steps"]]
    each = bytes_of_a_token(data["shape"])
    good = sum(b["tokens"] - a["tokens"] == 1 and b["bytes"] - a["bytes"] == each for a, b in pairwise(points))
    steps = len(data["steps"])
    line = all(point["bytes"] == point["tokens"] * each for point in points)
    shown = points[0]["tokens"] <= data["sentence_tokens"] < points[-1]["tokens"]
    return Verdict(
        line and shown and good == steps > 1,
        f"one token more, {each:,} bytes more at {good} of {steps} steps",
        f"{steps} of {steps}, as the model's shape says",
    )


def sabotage_growth(data: Data, lab: Lab) -> Data:
    """A real run in which one step adds two positions."""
    return {**data, **feed(lab, doubled=len(data["steps"]) // 2)}


def draw_growth(canvas: Canvas, data: Data) -> None:
    each, steps, start = bytes_of_a_token(data["shape"]), data["steps"], data["start"]["tokens"]
    together = f" No columns: the first {counted(start, 'token')}, which went in together." if start else ""
    body = canvas.titled(
        f"Every token adds the same {each:,} bytes, and nothing leaves",
        f"One column per step: what the cache holds once its token is in. Blue is what this step added.{together}",
    )
    head, stairs, counts, feet = body.rows(60, ..., 40, UPRIGHT)
    columns = stairs.even_columns(len(steps), gap=8, most=162)
    for step, column in zip(steps, columns, strict=True):
        color = GREY if step["tokens"] <= data["sentence_tokens"] else BLUE
        height = stairs.h * step["bytes"] / steps[-1]["bytes"]
        tower = canvas.box(column.place(column.w, height, down="bottom"), fill=mix(GREY, 0.22), radius=0)
        added = max(stairs.h * each / steps[-1]["bytes"], 4)
        canvas.box(tower.place(tower.w, added, down="top"), fill=BLUE, radius=0, z=2)
        canvas.put(Box(column.x, counts.y, column.w, counts.h), f"{step['tokens']:,}", size=LABEL, color=GREY, align="center")
        canvas.put_upright(Box(column.x, feet.y, column.w, feet.h), step["piece"], color=color)
    split = columns[0].x - 4 + (data["sentence_tokens"] - start) * (columns[0].w + 8)
    canvas.line([(split, head.y), (split, feet.bottom)], dashed=True)
    size = f"the sentence: {counted(data['sentence_tokens'], 'token')}, {data['sentence_tokens'] * each:,} bytes"
    before = split > head.center[0]
    left, right = head.columns(split - head.x, ...)
    canvas.put((left if before else right).inset(GAP, 0), size, weight="bold", align="right" if before else "left")
    total = f"{steps[-1]['tokens']:,} tokens: {steps[-1]['bytes']:,} bytes"
    canvas.put(Box(head.x, head.y, columns[-1].right - head.x, head.h), total, weight="bold", color=BLUE, align="right")


SLIDES = [
    Slide(
        name="stored",
        section=SECTION,
        claim="The cache object's bytes are layers × keys and values × key/value heads × positions × head size × 4.",
        capture=capture_stored,
        oracle=oracle_stored,
        sabotage=sabotage_stored,
        draw=draw_stored,
    ),
    Slide(
        name="growth",
        section=SECTION,
        claim="Every step adds one position and the same bytes.",
        capture=capture_growth,
        oracle=oracle_growth,
        sabotage=sabotage_growth,
        draw=draw_growth,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
