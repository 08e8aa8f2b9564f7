"""Slides 25-26: ragged rows made one batch, and the same logits batched and alone.

They prove that padding, told apart by mask and position ids, changes no answer, and show the real wrong answers of a
batch run without them. They need the model.
"""

import copy
import math
import sys
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from pipeline.drawing.canvas import BLUE, FAINT, GREEN, GREY, INK, MARGIN, ORANGE, PALE, WIDTH, Canvas, mix
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict
from pipeline.text import amount, counted, power_of_ten

OTHERS = (  # of three lengths, so that the rows stay ragged whatever the sentence
    "The capital of France is",
    "Once upon a",
    "Bees make honey from the flowers of the garden, and",
)
BOUND = 1e-3  # a batch adds in another order: float32 leaves some 1e-4 of a logit; padding read as text moves it by tens
WATCHED = 5  # logits of each row kept as evidence
COLUMNS = 13  # of a batch drawn tile by tile


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


# --- 25 · ragged rows ---


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


def judge_padding(data: Data) -> Verdict:
    rows, longest = data["rows"], data["longest"]
    good = 0
    for row in rows:
        length = len(row["ids"])
        right = all(len(row[name]) == longest for name in ("padded", "mask", "positions"))
        told = row["mask"] == [0] * (longest - length) + [1] * length and row["positions"][-length:] == list(range(length))
        good += sum(row["mask"]) == length == len(row["pieces"]) and right and told and row["padded"][-length:] == row["ids"]
    lengths = [len(row["ids"]) for row in rows]
    ragged = len(set(lengths)) > 1 and data["pads"] == longest * len(rows) - sum(lengths)
    sums = " + ".join(str(sum(row["mask"])) for row in rows)
    return Verdict(good == len(rows) > 1 and ragged, f"mask sums {sums}", f"true lengths {' + '.join(map(str, lengths))}")


def spoil_padding(data: Data, lab: Lab) -> Data:
    """Padding counted as text: a mask of ones, and positions that count the padding."""
    spoiled = copy.deepcopy(data)
    for row in spoiled["rows"]:
        row["mask"], row["positions"] = [1] * data["longest"], list(range(data["longest"]))
    return spoiled


def draw_padding(canvas: Canvas, data: Data) -> None:
    write = partial(canvas.text, valign="center_baseline")
    rows, longest = data["rows"], data["longest"]
    canvas.headline(
        f"{len(rows)} rows of {data['shortest']} to {longest} tokens become one {len(rows)} × {longest} batch: "
        f"{data['pads']} of its {data['cells']} cells are padding"
    )
    canvas.reading(
        "Padding goes in front, so that every row ends in the last column. The mask hides it; positions count from the text."
    )
    columns = list(range(longest)) if longest <= COLUMNS else [0, None, *range(longest - COLUMNS + 2, longest)]
    left = 156
    room = (WIDTH - MARGIN - left + 8) / len(columns)
    if longest > COLUMNS:
        note = f"⋯ {longest - COLUMNS + 1} columns ⋯"
        write(left + 1.5 * room, 236, note, size=22, color=GREY, align="center")
    grids = (("padded", "tokens", "", 260, 60, 52), ("mask", "mask", "1: text, 0: padding", 560, 44, 37),
             ("positions", "position ids", "counted from the first token of the text", 797, 44, 37))  # fmt: skip
    for name, title, told, top, pitch, height in grids:
        write(MARGIN, top - 27, title, size=26, weight="bold")
        write(MARGIN + 180, top - 27, told, size=24, color=GREY)
        for index, row in enumerate(rows):
            y, pads = top + index * pitch, longest - len(row["ids"])
            middle = y + height / 2 - 3  # the letters' own middle lies a little lower
            write(MARGIN, middle, f"row {index + 1}", size=24, color=GREY)
            for place, column in enumerate(columns):
                x = left + place * room
                center = x + room / 2 - 4
                if column is None:
                    write(center, middle, "⋯", size=26, color=PALE, align="center")
                    continue
                value = str(row[name][column])
                if column < pads:
                    canvas.box(x, y, room - 8, height, edge=PALE, dashed=True)
                    shown = "pad" if name == "padded" else value
                    write(center, middle, shown, size=22, color=GREY, align="center")
                elif name == "padded":
                    canvas.tile(row["pieces"][column - pads], x, y, size=29, width=room - 8, fill=mix(BLUE, 0.2))
                else:
                    canvas.box(x, y, room - 8, height, fill=mix(BLUE, 0.2))
                    write(center, middle, value, size=24, align="center")


# --- 26 · batched and alone ---


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


def judge_same_logits(data: Data) -> Verdict:
    rows = data["rows"]
    held, moved = 0, 0
    for row in rows:
        logits = {run: np.array([kept[run] for kept in row["logits"]]) for run in row["next"]}
        best = {run: row["logits"][int(scores.argmax())]["id"] for run, scores in logits.items()}
        same = best["careful"] == best["alone"] and all(best[run] == row["next"][run]["id"] for run in best)
        seen = {run: float(np.abs(scores - logits["alone"]).max()) for run, scores in logits.items()}
        held += same and seen["careful"] <= row["careful"] + 1e-6 <= BOUND and seen["careless"] <= row["careless"] + 1e-6
        moved += row["careless"] > BOUND
    worst, padded_rows = max(row["careful"] for row in rows), sum(row["pads"] > 0 for row in rows)
    return Verdict(
        held == len(rows) == len(OTHERS) + 1 and moved >= padded_rows == data["padded"] > 0 and worst == data["careful"],
        f"max |Δ| {worst:.1e}, same argmax in {held} of {len(rows)} rows",
        f"< {BOUND:.0e}, {len(rows)} of {len(rows)}",
    )


def spoil_same_logits(data: Data, lab: Lab) -> Data:
    """The real batch run without position ids and mask, passed off as the careful one."""
    rows = compared(lab, careful={"input_ids": padded(lab, rows_of(lab))["input_ids"]})
    return {**data, "rows": rows, "careful": max(row["careful"] for row in rows)}


def draw_same_logits(canvas: Canvas, data: Data) -> None:
    write = partial(canvas.text, valign="center_baseline")
    rows = data["rows"]
    canvas.headline(
        f"Batched with mask and position ids, logits move by {amount(data['careful'])} at most; "
        f"without them, by {amount(data['careless'])}"
    )
    canvas.reading(
        "Blue: a batch with mask and position ids. Orange: the same batch without them. Both against each row run alone."
    )
    start, end, low, high = 640, 1270, -7, 2

    def place(value: float) -> float:
        exponent = math.log10(max(value, 10.0**low))
        return start + (end - start) * (min(exponent, high) - low) / (high - low)

    top, pitch, foot = 320, 142, 905
    for x, title, color in ((1330, "alone", INK), (1510, "with", BLUE), (1690, "without", ORANGE)):
        write(x, 290, title, size=26, weight="bold", color=color)
    write(1330, 246, "the next token each run would choose", size=24, color=GREY)
    write(MARGIN, 246, "the row", size=24, color=GREY)
    write(start, 246, "largest difference of a next-token logit, log scale", size=24, color=GREY)
    bound = place(data["bound"])
    canvas.line([(bound, 300), (bound, foot)], color=GREEN, dashed=True)
    write(bound, 284, f"bound {power_of_ten(round(math.log10(data['bound'])))}", size=22, color=GREEN, align="center")
    for index, row in enumerate(rows):
        y = top + index * pitch
        middle = y + 62
        if index:
            canvas.line([(MARGIN, y - 6), (WIDTH - MARGIN, y - 6)], color=PALE, width=1)
        canvas.tiles(row["pieces"], MARGIN, y + 16, width=540, rows=1, size=28, gap=5)
        length = len(row["pieces"])
        told = f"{counted(length, 'token')}, " + (f"{row['pads']} in front are padding" if row["pads"] else "no padding in front")
        write(MARGIN, y + 96, told, size=24, color=GREY)
        canvas.line([(start, middle), (end, middle)], color=PALE, width=2)
        spots = {"careful": (BLUE, place(row["careful"]), -30), "careless": (ORANGE, place(row["careless"]), 32)}
        for run, (color, spot, shift) in spots.items():
            canvas.box(
                spot - 13, middle - 13, 26, 26, fill=color, radius=13 if run == "careful" else 3, z=3 if run == "careful" else 2
            )
            write(min(max(spot, start + 40), end - 30), middle + shift, amount(row[run]), size=24, color=color, align="center")
        for x, run, color in ((1330, "alone", INK), (1510, "careful", BLUE), (1690, "careless", ORANGE)):
            token = row["next"][run]
            other = token["id"] != row["next"]["alone"]["id"]
            fill = mix(ORANGE, 0.25) if other else FAINT if run != "careful" else mix(BLUE, 0.2)
            canvas.tile(token["text"], x, middle - 27, size=30, width=168, fill=fill, edge=color if other else None)
    for exponent in range(low, high + 1):
        tick = start + (end - start) * (exponent - low) / (high - low)
        canvas.line([(tick, foot), (tick, foot + 10)], color=GREY)
        if exponent % 2 == 0 or exponent == low:
            name = "0" if exponent == low else power_of_ten(exponent)
            write(tick, foot + 32, name, size=24, color=GREY, align="center")
    canvas.line([(start, foot), (end, foot)], color=GREY)
    changed = f"{data['changed']} of {len(rows)} next tokens are wrong without them"
    write(WIDTH - MARGIN, foot + 32, changed, size=26, weight="bold", color=ORANGE, align="right")


SLIDES = [
    Slide(
        number=25,
        name="padding",
        section="Batching",
        claim="The mask of each row sums to the row's true length, and its position ids count the text alone.",
        capture=capture_padding,
        oracle=judge_padding,
        sabotage=spoil_padding,
        draw=draw_padding,
    ),
    Slide(
        number=26,
        name="same_logits",
        section="Batching",
        claim="Each row's logits are the same batched and alone; without mask and position ids they are not.",
        capture=capture_same_logits,
        oracle=judge_same_logits,
        sabotage=spoil_same_logits,
        draw=draw_same_logits,
    ),
]

if __name__ == "__main__":
    from regen_all import main

    sys.exit(main(["--only", Path(__file__).stem, *sys.argv[1:]]))
