"""What a key/value cache holds, and what it weighs as the text grows.

They prove that its bytes follow from the model's shape, key/value heads and not query heads, and that each token adds the
same bytes. They need the model.
"""

import copy
from itertools import pairwise

import numpy as np

from pipeline.distributions import IMPLAUSIBLE
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import GAP, HERO, LABEL, LEADING, NUMBER, PAD, TILE, TITLE, Box, Share
from pipeline.drawing.palette import BLUE, GREY, INK, mix
from pipeline.drawing.sheet import Line
from pipeline.lab import Lab
from pipeline.model.kv import bytes_of_a_token, counted_bytes, read, shape
from pipeline.settings import COMPLETION_LENGTH
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted, significant

SECTION = "The KV cache"
FED_ONE_BY_ONE = 18  # the last tokens of sentence and completion fed one at a time while the cache grows
LONG_TEXT = 32_768  # tokens of a long context, for what the cache of one would hold
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
        np.shape(data[part]) == (of["layers"] * of["kv_heads"], positions)
        and 0 <= np.min(data[part]) <= np.max(data[part]) < IMPLAUSIBLE
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
    ghosts = " Dashed: heads that store nothing." if of["query_heads"] > of["kv_heads"] else ""
    body = canvas.titled(
        "For every token, each layer keeps its keys and values",
        f"One sheet a head; a cell is one stored vector, the longer the stronger its blue.{ghosts}",
    )
    blocks, product = body.columns(..., 600, gap=3 * PAD)
    for name, block in zip(("keys", "values"), blocks.even_columns(2, gap=2 * PAD), strict=True):
        head, room, foot = block.rows(TITLE * LEADING, ..., LABEL * LEADING, gap=GAP)
        canvas.put(head, name, size=TITLE, weight="bold")
        lengths = np.array(data[f"{name[:-1]}_lengths"]).reshape(of["layers"], of["kv_heads"], positions)
        front = draw_sheets(canvas, lengths, of["query_heads"], room)
        canvas.put(front.at(foot), f"{counted(positions, 'token')} →", size=LABEL, color=GREY)
        if name == "keys":
            side = f"{of['layers']} layers →"
            canvas.text(front.x - LABEL / 2, front.center[1], side, size=LABEL, color=GREY, align="center", upright=True)
    draw_product(canvas, of, positions, data["bytes"], product)


def draw_sheets(canvas: Canvas, lengths: np.ndarray, heads: int, room: Box) -> Box:
    """A sheet of layers x tokens for each stored head, one behind the other, and an outline for each that is not; the front."""
    stored = lengths.shape[1]
    depth = 0.3 * room.w / max(heads, stored)  # from one sheet to the next
    behind = max(heads, stored) - 1
    room = room.columns(1.5 * LABEL, ...)[1]
    front = room.place(room.w - behind * depth, room.h - behind * depth, "left", "bottom")
    for head in reversed(range(behind + 1)):
        sheet = Box(front.x + head * depth, front.y - head * depth, front.w, front.h)
        if head >= stored:
            canvas.box(sheet, edge=GREY, dashed=True, radius=0)
            continue
        canvas.box(sheet.inset(-2), fill=canvas.paper, radius=0)
        shades = 0.08 + 0.92 * lengths[:, head] / lengths.max()  # [layers, tokens]
        canvas.mesh(sheet, [[mix(BLUE, share) for share in row] for row in shades.tolist()], seam=0.5)
    return front


def draw_product(canvas: Canvas, of: Data, positions: int, total: int, box: Box) -> None:
    """The multiplication, one factor per line, and what query heads would have cost."""
    factors = {
        "layers": of["layers"],
        "keys and values": 2,
        "heads that store": of["kv_heads"],
        "tokens" if positions > 1 else "token": positions,
        "numbers per vector": of["head_size"],
        "bytes per number": of["bytes_each"],
    }
    table, result, remark = box.rows(..., NUMBER * TILE, 3 * LABEL * LEADING, gap=GAP)
    for line, (lane, (name, factor)) in enumerate(zip(table.even_rows(len(factors)), factors.items(), strict=True)):
        color, (left, right) = BLUE if name == "heads that store" else INK, lane.columns(Share(1), Share(2), gap=PAD)
        canvas.put(left, f"{'× ' if line else ''}{factor:,}", size=NUMBER, weight="bold", align="right", color=color)
        canvas.put(right, name, size=TITLE, color=color)
    canvas.line([(result.x, result.y), (result.right, result.y)])
    canvas.put(result, f"= {total:,} bytes", size=NUMBER, weight="bold")
    each = total // of["kv_heads"] * of["query_heads"]
    many = f"Kept for all {of['query_heads']} query heads, it would be {each / total:.3g} times as much."
    own = f"Each of the {of['query_heads']} query heads has keys and values of its own."
    canvas.put(remark, many if each > total else own, color=GREY, lines=2, down="top")


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
    shown = points[0]["tokens"] <= data["sentence_tokens"] == points[-1]["tokens"] - COMPLETION_LENGTH
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
    body = canvas.titled(
        "Every token adds the same, and nothing leaves",
        f"One column per token: what the cache holds once it is in. {f'The first {start:,} went in together.' if start else ''}",
    )
    left, beside = body.columns(..., 480, gap=2 * PAD)
    stairs, feet = left.rows(..., UPRIGHT, gap=GAP)
    columns = stairs.even_columns(len(steps), gap=8)
    for step, column in zip(steps, columns, strict=True):
        height, added = (stairs.h * size / steps[-1]["bytes"] for size in (step["bytes"], each))
        tower = canvas.box(column.place(column.w, height, down="bottom"), fill=mix(GREY, 0.22), radius=0)
        canvas.box(tower.place(tower.w, max(added, 4), down="top"), fill=BLUE, radius=0, z=2)
        given = step["tokens"] <= data["sentence_tokens"]
        canvas.put_upright(column.at(feet), step["piece"], color=GREY if given else BLUE)
    total, after = steps[-1]["bytes"], f"after {steps[-1]['tokens']:,} tokens"
    measured, computed = beside.rows(Share(3), Share(2), gap=PAD)
    now = Line(f"{significant(each / 1000)} kB", HERO, BLUE, "bold"), Line("for each token", TITLE)
    canvas.stack(
        measured, *now, Line(""), Line(f"{significant(total / 1000)} kB", NUMBER, INK, "bold"), Line(after, TITLE), down="top"
    )
    canvas.box(computed, edge=GREY, dashed=True)
    later = f"{significant(each * LONG_TEXT / 1e9)} GB"
    lines = Line(later, NUMBER, INK, "bold"), Line(f"for {LONG_TEXT:,} tokens"), Line("computed, not measured", color=GREY)
    canvas.stack(computed.inset(PAD), *lines)


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
