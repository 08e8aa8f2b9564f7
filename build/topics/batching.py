"""Ragged rows made one batch, and the same logits batched and alone.

They prove that padding, told apart by mask and position ids, changes no answer, and show the real wrong answers of a
batch run without them. They need the model.
"""

import copy

import numpy as np

from pipeline.distributions import IMPLAUSIBLE
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Ruler
from pipeline.drawing.layout import BODY, GAP, LABEL, LEADING, TILE, Box, Share
from pipeline.drawing.palette import BLUE, GREY, INK, ORANGE, PALE
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted

OTHERS = (  # of three lengths, so that the rows stay ragged whatever the sentence
    "The capital of France is",
    "Once upon a",
    "Bees make honey from the flowers of the garden, and",
)
BOUND = 1e-3  # a batch adds in another order: float32 leaves some 1e-4 of a logit; padding read as text moves it by tens
WATCHED = 5  # logits of each row kept as evidence
COLUMNS = 13  # of a batch drawn tile by tile
PARTS = (560, ..., 560)  # pixels of the second figure: the row, the differences, the next tokens
RUNS = ("alone", "careful", "careless")


def rows_of(lab: Lab) -> list[list[int]]:
    return [lab.ids, *map(lab.encode, OTHERS)]


def padded(lab: Lab, rows: list[list[int]]) -> dict[str, np.ndarray]:
    """Rows of ids padded on the left to one length: ids, mask and position ids, each [rows, longest].

    On the left, so that each row's last token, after which the next one is read off, stands in the last column.
    """
    spare = (lab.tokenizer.pad_token_id, lab.tokenizer.eos_token_id, 0)  # masked: which id it is makes no difference
    filler = next(token_id for token_id in spare if token_id is not None)
    longest = max(map(len, rows))
    mask = np.array([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    ids = np.array([[filler] * (longest - len(row)) + row for row in rows])
    return {"input_ids": ids, "attention_mask": mask, "position_ids": np.maximum(mask.cumsum(axis=1) - 1, 0)}


def next_logits(lab: Lab, **batch: np.ndarray) -> np.ndarray:
    """The logits after each row's last token: [rows, vocabulary]."""
    with lab.torch.inference_mode():
        inputs = {name: lab.torch.from_numpy(array) for name, array in batch.items()}
        return lab.model(**inputs, use_cache=False).logits[:, -1].numpy().copy()


# --- ragged rows ---


def capture_padding(lab: Lab) -> Data:
    rows = rows_of(lab)
    batch = padded(lab, rows)
    return {
        "rows": [
            {"pieces": lab.pieces(row), "ids": row, "padded": ids, "mask": mask, "positions": positions}
            for row, ids, mask, positions in zip(
                rows, *(batch[name].tolist() for name in ("input_ids", "attention_mask", "position_ids")), strict=True
            )
        ],
        "longest": max(map(len, rows)),
        "shortest": min(map(len, rows)),
        "pads": int((1 - batch["attention_mask"]).sum()),
        "cells": int(batch["attention_mask"].size),
    }


def in_order(rows: list[Data]) -> bool:
    """Whether the rows after the sentence are the stated ones, by their pieces."""
    return tuple("".join(row["pieces"]).strip() for row in rows[1:]) == OTHERS


def oracle_padding(data: Data) -> Verdict:
    rows, longest = data["rows"], data["longest"]
    good = 0
    for row in rows:
        length = len(row["ids"])
        right = all(len(row[name]) == longest for name in ("padded", "mask", "positions"))
        before = [0] * (longest - length)
        marked = row["mask"] == before + [1] * length and row["positions"] == before + list(range(length))
        good += sum(row["mask"]) == length == len(row["pieces"]) and right and marked and row["padded"][-length:] == row["ids"]
    lengths = [len(row["ids"]) for row in rows]
    ragged = len(set(lengths)) > 1 and data["pads"] == longest * len(rows) - sum(lengths) and data["cells"] == longest * len(rows)
    ragged = ragged and (min(lengths), max(lengths)) == (data["shortest"], longest)
    ragged = ragged and len({row["padded"][at] for row in rows for at in range(longest - len(row["ids"]))}) == 1
    sums = " + ".join(str(sum(row["mask"])) for row in rows)
    return Verdict(
        good == len(rows) and in_order(rows) and ragged, f"mask sums {sums}", f"true lengths {' + '.join(map(str, lengths))}"
    )


def sabotage_padding(data: Data, lab: Lab) -> Data:
    """Padding counted as text: a mask of ones, and positions that count the padding."""
    sabotaged = copy.deepcopy(data)
    for row in sabotaged["rows"]:
        row["mask"], row["positions"] = [1] * data["longest"], list(range(data["longest"]))
    return sabotaged


def draw_padding(canvas: Canvas, data: Data) -> None:
    rows, longest = data["rows"], data["longest"]
    body = canvas.titled(
        "Short rows are filled up in front, and the filling is masked",
        "Padding goes in front, so that every row ends in the last column. The mask hides it; positions count from the text.",
    )
    columns = list(range(longest)) if longest <= COLUMNS else [0, None, *range(longest - COLUMNS + 2, longest)]
    note = f"⋯ {longest - COLUMNS + 1} columns left out" if longest > COLUMNS else ""
    grids = {"padded": ("tokens", note), "mask": ("mask", "1: text, 0: padding")}
    grids["positions"] = ("position ids", "counted from the first token of the text")
    for (name, (title, note)), box in zip(grids.items(), body.rows(Share(1.35), ..., ..., gap=2 * GAP), strict=True):
        head, table = box.rows(LABEL * LEADING, ..., gap=6)
        canvas.put(head.columns(180, ...)[0], title, weight="bold")
        canvas.put(head.columns(180, ...)[1], note, size=LABEL, color=GREY)
        for number, (row, lane) in enumerate(zip(rows, table.even_rows(len(rows), gap=8), strict=True), 1):
            label, cells = lane.columns(96, ...)
            canvas.put(label, f"row {number}", size=LABEL, color=GREY)
            for column, spot in zip(columns, cells.even_columns(len(columns), gap=8), strict=True):
                draw_cell(canvas, name, row, column, longest - len(row["ids"]), spot)


def draw_cell(canvas: Canvas, name: str, row: Data, column: int | None, pads: int, spot: Box) -> None:
    """One cell of one of the three matrices; None stands for the columns left out."""
    if column is None:
        canvas.put(spot, "⋯", color=PALE, align="center")
    elif column < pads:
        canvas.box(spot, edge=PALE, dashed=True)
        canvas.put(spot, "pad" if name == "padded" else str(row[name][column]), size=LABEL, color=GREY, align="center")
    elif name == "padded":
        canvas.put_tile(spot, row["pieces"][column - pads], accent=BLUE)
    else:
        canvas.put(canvas.box(spot, fill=canvas.tint(BLUE)), str(row[name][column]), size=LABEL, align="center")


# --- batched and alone ---


def compared(lab: Lab, careful: dict[str, np.ndarray] | None = None) -> list[Data]:
    """Each row alone, in a batch with mask and position ids (or what else is called careful), and in one without."""
    rows = rows_of(lab)
    batch = padded(lab, rows)
    with_mask = next_logits(lab, **(careful or batch))
    without = next_logits(lab, input_ids=batch["input_ids"])
    found = []
    for index, row in enumerate(rows):
        alone = next_logits(lab, input_ids=np.array([row]))[0]
        runs = {"alone": alone, "careful": with_mask[index], "careless": without[index]}
        best = {name: int(logits.argmax()) for name, logits in runs.items()}
        kept = list(dict.fromkeys([*best.values(), *np.argsort(-alone, kind="stable")[:WATCHED].tolist()]))
        found.append(
            {
                "pieces": lab.pieces(row),
                "pads": int(batch["input_ids"].shape[1]) - len(row),
                "careful": float(np.abs(runs["careful"] - alone).max()),
                "careless": float(np.abs(runs["careless"] - alone).max()),
                "next": {name: {"id": token_id, "text": lab.pieces([token_id])[0]} for name, token_id in best.items()},
                "logits": [{"id": i} | {name: float(logits[i]) for name, logits in runs.items()} for i in kept],
            }
        )
    return found


def capture_same_logits(lab: Lab) -> Data:
    rows = compared(lab)
    return {
        "rows": rows,
        "bound": BOUND,
        "careful": max(row["careful"] for row in rows),
        "careless": max(row["careless"] for row in rows),
        "changed": sum(row["next"]["careless"]["id"] != row["next"]["alone"]["id"] for row in rows),
        "padded": sum(row["pads"] > 0 for row in rows),
    }


def oracle_same_logits(data: Data) -> Verdict:
    rows = data["rows"]
    held, moved, longest = 0, 0, max(len(row["pieces"]) for row in rows)
    for row in rows:
        logits = {run: np.array([kept[run] for kept in row["logits"]]) for run in row["next"]}
        best = {run: row["logits"][int(scores.argmax())]["id"] for run, scores in logits.items()}
        same = best["careful"] == best["alone"] and all(best[run] == row["next"][run]["id"] for run in best)
        seen = {run: float(np.abs(scores - logits["alone"]).max()) for run, scores in logits.items()}
        held += same and seen["careful"] <= row["careful"] + 1e-6 <= BOUND and seen["careless"] <= row["careless"] + 1e-6
        moved += BOUND < row["careless"] < IMPLAUSIBLE
        told = len(row["logits"]) >= WATCHED and row["logits"][0]["id"] == best["alone"]
        held -= not (told and row["pads"] == longest - len(row["pieces"]))
    worst, padded_rows = max(row["careful"] for row in rows), sum(row["pads"] > 0 for row in rows)
    return Verdict(
        held == len(rows) == len(OTHERS) + 1
        and moved >= padded_rows == data["padded"] > 0
        and worst == data["careful"]
        and data["careless"] == max(row["careless"] for row in rows)
        and data["changed"] == sum(row["next"]["careless"]["id"] != row["next"]["alone"]["id"] for row in rows)
        and data["bound"] == BOUND,
        f"max |Δ| {worst:.1e}, same argmax in {held} of {len(rows)} rows",
        f"< {BOUND:.0e}, {len(rows)} of {len(rows)}",
    )


def sabotage_same_logits(data: Data, lab: Lab) -> Data:
    """The real batch run without position ids and mask, passed off as the careful one."""
    rows = compared(lab, careful={"input_ids": padded(lab, rows_of(lab))["input_ids"]})
    return {**data, "rows": rows, "careful": max(row["careful"] for row in rows)}


def draw_same_logits(canvas: Canvas, data: Data) -> None:
    rows = data["rows"]
    body = canvas.titled(
        "With its mask, a batch answers as each row would alone",
        "Blue: a batch with mask and position ids. Orange: the same batch without them. Both against each row run alone.",
    )
    heads, _, table, foot = body.rows(LABEL * LEADING, 2 * LABEL * LEADING, ..., 2 * LABEL * LEADING)
    texts = ("the row", "largest difference, a logit", "the next token each run would choose")
    parts = heads.columns(*PARTS, gap=4 * GAP)
    for part, text in zip(parts, texts, strict=True):
        canvas.put(part, text, size=LABEL, color=GREY)
    names = parts[2].below(heads.h, GAP).even_columns(3, gap=GAP)
    for name, text, color in zip(names, ("alone", "with", "without"), (INK, BLUE, ORANGE), strict=True):
        canvas.put(name, text, weight="bold", color=color)
    scale = Ruler(Box(parts[1].x, table.y, parts[1].w, table.h).inset(30, 0), -8, 2, data["bound"])
    for index, (row, lane) in enumerate(zip(rows, table.even_rows(len(rows)), strict=True)):
        if index:
            canvas.line([(lane.x, lane.y), (lane.right, lane.y)], color=PALE, width=1)
        left, middle, right = lane.inset(0, GAP).columns(*PARTS, gap=4 * GAP)
        pieces, note = left.rows(BODY * TILE, ..., gap=GAP)
        canvas.put_tiles(pieces, row["pieces"], gap=5)
        pads = f"{row['pads']} in front are padding" if row["pads"] else "no padding in front"
        canvas.put(note, f"{counted(len(row['pieces']), 'token')}, {pads}", size=LABEL, color=GREY)
        upper, lower = middle.even_rows(2)
        scale.dot(canvas, row["careful"], upper.center[1])
        scale.dot(canvas, row["careless"], lower.center[1], color=ORANGE, marker="s")
        for run, accent, spot in zip(RUNS, (None, BLUE, None), right.even_columns(3, gap=GAP), strict=True):
            other = row["next"][run]["id"] != row["next"]["alone"]["id"]
            tile = spot.place(spot.w, BODY * TILE)
            canvas.put_tile(tile, row["next"][run]["text"], accent=ORANGE if other else accent, edge=ORANGE if other else None)
    scale.draw(canvas)
    changed = f"{data['changed']} of {len(rows)} next tokens are wrong without them"
    canvas.put(foot, changed, weight="bold", color=ORANGE, align="right")


SLIDES = [
    Slide(
        name="padding",
        section="Batching",
        claim="The mask of each row sums to the row's true length, and its position ids count the text alone.",
        capture=capture_padding,
        oracle=oracle_padding,
        sabotage=sabotage_padding,
        draw=draw_padding,
    ),
    Slide(
        name="same_logits",
        section="Batching",
        claim="Each row's logits are the same batched and alone; without mask and position ids they are not.",
        capture=capture_same_logits,
        oracle=oracle_same_logits,
        sabotage=sabotage_same_logits,
        draw=draw_same_logits,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
