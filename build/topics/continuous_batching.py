"""Concept card: a batch that waits for its longest request, and one that refills each slot as it falls free.

The schedule is computed from the lengths that it states, and its oracle checks that arithmetic. No serving engine runs
here, no clock is read and no speed is claimed. It needs neither model nor server.
"""

import copy

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import GAP, LABEL, TITLE, Box
from pipeline.drawing.palette import BLUE, GREY, INK, ORANGE
from pipeline.drawing.sheet import Line
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic

SLOTS = 4  # rows of the batch
LENGTHS = {"A": 9, "B": 2, "C": 4, "D": 3, "E": 6, "F": 3, "G": 5, "H": 2}  # name -> tokens to write, in order of arrival


def capture_slots(lab: Lab) -> Data:
    """Which request writes a token in which slot at which step; null is an idle slot. Steps are counted, never timed."""
    names = list(LENGTHS)
    static: list[list[str | None]] = [[] for _ in range(SLOTS)]
    for start in range(0, len(names), SLOTS):  # a batch ends when its longest request ends
        batch = names[start : start + SLOTS]
        longest = max(LENGTHS[name] for name in batch)
        for slot, name in zip(static, batch, strict=True):
            slot += [name] * LENGTHS[name]
            slot += [None] * (longest - LENGTHS[name])
    waiting, left = list(names), dict(LENGTHS)
    continuous: list[list[str | None]] = [[] for _ in range(SLOTS)]
    running: list[str | None] = [None] * SLOTS
    while waiting or any(running):  # a slot that falls free is filled at the next step
        running = [writer or (waiting.pop(0) if waiting else None) for writer in running]
        for place, writer in enumerate(running):
            continuous[place].append(writer)
            if writer:
                left[writer] -= 1
                running[place] = writer if left[writer] else None
    return {"lengths": LENGTHS, "static": static, "continuous": continuous}


def tokens_of(schedule: list[list[str | None]]) -> dict[str, int]:
    """How many tokens each request wrote; a request that pauses or sits in two slots at once counts for nothing."""
    written = {}
    for name in {name for slot in schedule for name in slot if name}:
        steps = sorted(step for slot in schedule for step, writer in enumerate(slot) if writer == name)
        written[name] = len(steps) if steps == list(range(steps[0], steps[0] + len(steps))) else 0
    return written


def idle(schedule: list[list[str | None]]) -> int:
    return sum(name is None for slot in schedule for name in slot)


def oracle_slots(data: Data) -> Verdict:
    static, continuous = data["static"], data["continuous"]
    same = tokens_of(static) == tokens_of(continuous) == data["lengths"]
    timeless = set(data) == {"lengths", "static", "continuous"}  # slots and steps; no reading of a clock could hide
    fewer = 0 <= idle(continuous) < idle(static) and len(static) == len(continuous) == SLOTS
    # a static batch starts as one; a continuous slot, once idle, has nobody left to wait for
    starts = {min(slot.index(name) for slot in static if name in slot) for name in data["lengths"]}
    batches = len(starts) * SLOTS == len(LENGTHS) and data["lengths"] == LENGTHS and len({*map(len, static)}) == 1
    filled = all(None not in slot[: len(slot) - slot[::-1].index(name)] for slot in continuous for name in {*slot} - {None})
    filled = filled and len({*map(len, continuous)}) == 1
    total = sum(tokens_of(continuous).values())
    return Verdict(
        same and timeless and fewer and batches and filled,
        f"{total} tokens both ways; idle slots {idle(static)} → {idle(continuous)}",
        f"the same {sum(data['lengths'].values())} tokens, fewer idle",
    )


def sabotage_slots(data: Data, lab: Lab) -> Data:
    """The longest request is cut short under continuous batching: fewer tokens pass for fewer steps."""
    sabotaged = copy.deepcopy(data)
    longest = max(data["lengths"], key=lambda name: data["lengths"][name])
    slot = next(slot for slot in sabotaged["continuous"] if longest in slot)
    slot[len(slot) - 1 - slot[::-1].index(longest)] = None
    return sabotaged


def draw_slots(canvas: Canvas, data: Data) -> None:
    static, continuous = data["static"], data["continuous"]
    before, after = idle(static), idle(continuous)
    body = canvas.titled(
        f"Refill a slot the moment it falls free: idle places drop from {before} to {after}",
        "One row per slot, one column per step; the letter says which request writes a token there. Dashed is idle.",
    )
    steps = max(len(static[0]), len(continuous[0]))
    names, plan = body.columns(260, ..., gap=GAP)
    first, axis, second, _ = plan.rows(..., 64, ..., 56)
    canvas.put(Box(names.x, axis.y, names.w, axis.h), "step", size=LABEL, color=GREY)
    for step, spot in enumerate(axis.even_columns(steps, gap=8), 1):
        canvas.put(spot, str(step), size=LABEL, color=GREY, align="center")
    canvas.put(body.rows(..., 40)[1], "A tile of full colour is where a request enters.", color=GREY)
    for title, schedule, idles, color, box in (
        ("static", static, before, ORANGE, first),
        ("continuous", continuous, after, BLUE, second),
    ):
        counts = Line(f"{len(schedule[0])} steps"), Line(f"{idles} places idle", color=GREY)
        canvas.stack(Box(names.x, box.y, names.w, box.h), Line(title, TITLE, color, "bold"), *counts, down="top")
        for slot, cells in zip(schedule, box.grid(len(schedule), steps, gap=8), strict=True):
            draw_slot(canvas, slot, cells, color)
        canvas.step()
    same = f"the same {len(data['lengths'])} requests,\nthe same {sum(data['lengths'].values())} tokens"
    beside = second.even_columns(steps, gap=8)[len(continuous[0]) :]
    canvas.put(beside[0].until(beside[-1]).inset(GAP, 0), same, lines=2, color=BLUE, weight="bold")


def draw_slot(canvas: Canvas, slot: list[str | None], cells: list[Box], color: str) -> None:
    """One row of the batch: who writes at each step, dark where a request enters, dashed where nobody writes."""
    for step, (name, cell) in enumerate(zip(slot, cells, strict=False)):
        if name is None:
            canvas.box(cell, edge=GREY, dashed=True)
            continue
        starts = step == 0 or slot[step - 1] != name
        canvas.box(cell, fill=color if starts else canvas.tint(color, 0.35), edge=INK)
        ink, weight = ("white", "bold") if starts else (INK, "regular")
        canvas.put(cell, name, weight=weight, color=ink, align="center")


SLIDES = [
    Slide(
        name="slots",
        section="Why vLLM is fast",
        claim="Static and continuous batching produce the same tokens; continuous leaves fewer slots idle.",
        capture=capture_slots,
        oracle=oracle_slots,
        sabotage=sabotage_slots,
        draw=draw_slots,
        kind="concept",
        needs=(),
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
