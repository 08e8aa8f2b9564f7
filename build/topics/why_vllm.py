"""Slides 28-30, concept cards: pages instead of slabs, the block table, continuous batching.

Each card is computed from the lengths and sizes that it states, and its oracle checks that arithmetic. No serving engine
runs here, no clock is read and no speed is claimed. They need neither model nor server.
"""

import copy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from pipeline.drawing.canvas import BLUE, CONCEPT_PAPER, GREY, INK, MARGIN, ORANGE, WIDTH, Canvas, mix
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict
from pipeline.text import counted

SLAB, PAGE = 64, 16  # slide 28: tokens of room in a slab (the longest request allowed) and in a page
REQUESTS = {"A": 37, "B": 9, "C": 52, "D": 20}  # name -> tokens
SEQUENCES = {"A": "one hive hums and the keeper lifts a frame of honey", "B": "two foxes cross a frozen field by night"}
SMALL_PAGE, FREE_PAGES = 4, (5, 2, 7, 0, 3, 6, 1, 4)  # slide 29: tokens a page, pages in the order they are handed out
SLOTS = 4  # slide 30: rows of the batch
LENGTHS = {"A": 9, "B": 2, "C": 4, "D": 3, "E": 6, "F": 3, "G": 5, "H": 2}  # name -> tokens to write, in order of arrival


def shade(color: str, share: float) -> tuple[float, float, float]:
    return mix(color, share, CONCEPT_PAPER)


# --- 28 · slabs or pages ---


def capture_slab_or_pages(lab: Lab) -> Data:
    """Pour each request's tokens, one by one, into a slab and into pages; count the room left over."""
    requests: list[Data] = []
    for name, length in REQUESTS.items():
        pages: list[int] = []
        for _ in range(length):
            if not pages or pages[-1] == PAGE:
                pages.append(0)
            pages[-1] += 1
        requests.append({"name": name, "tokens": length, "pages": pages})
    return {
        "slab": SLAB,
        "page": PAGE,
        "requests": requests,
        "slab_waste": sum(SLAB - request["tokens"] for request in requests),
        "page_waste": sum(PAGE - used for request in requests for used in request["pages"]),
    }


def judge_slab_or_pages(data: Data) -> Verdict:
    page, slab = data["page"], data["slab"]
    lengths = [request["tokens"] for request in data["requests"]]
    wastes = [-length % page for length in lengths]  # up to the next multiple
    drawn = [len(request["pages"]) * page - sum(request["pages"]) for request in data["requests"]]
    holds = (
        [sum(request["pages"]) for request in data["requests"]] == lengths
        and drawn == wastes
        and max(drawn) < page
        and data["page_waste"] == sum(wastes)
        and data["slab_waste"] == len(lengths) * slab - sum(lengths)
        and max(lengths) <= slab
    )
    wasted = f"empty places: slabs {data['slab_waste']}, pages {data['page_waste']}"
    return Verdict(holds, wasted, f"as stated, < {page} a request")


def spoil_slab_or_pages(data: Data, lab: Lab) -> Data:
    """One request starts a new page before its last one is full."""
    spoiled = copy.deepcopy(data)
    pages = spoiled["requests"][0]["pages"]
    pages[-1:] = [pages[-1] - 1, 1]
    spoiled["page_waste"] += data["page"]
    return spoiled


def draw_slab_or_pages(canvas: Canvas, data: Data) -> None:
    requests, page, slab = data["requests"], data["page"], data["slab"]
    canvas.headline(f"Slabs leave {data['slab_waste']} places empty, pages leave {data['page_waste']}")
    canvas.reading(f"The same {len(requests)} requests, one place a token: blue is used, orange is reserved and empty.")
    cell, left, right = 12.2, MARGIN + 50, 1020
    canvas.text(left, 252, f"one slab of {slab} each, as long as the longest allowed", size=28, weight="bold")
    canvas.text(right, 252, f"pages of {page}, handed out when needed", size=28, weight="bold")
    for row, request in enumerate(requests):
        y, used = 300 + row * 150, request["tokens"]
        canvas.text(MARGIN, y + 40, request["name"], size=36, weight="bold")
        canvas.box(left, y, slab * cell, 80, fill=shade(ORANGE, 0.25), edge=ORANGE, width=2)
        canvas.box(left, y, used * cell, 80, fill=BLUE, edge=INK, width=2)
        below(canvas, left, left + slab * cell, y, f"{used} used", f"{slab - used} empty")
        for place, filled in enumerate(request["pages"]):
            x = right + place * (page * cell + 12)
            canvas.box(x, y, page * cell, 80, fill=shade(ORANGE, 0.25), edge=ORANGE, width=2)
            canvas.box(x, y, filled * cell, 80, fill=BLUE, edge=INK, width=2)
        pages = len(request["pages"])
        end = right + pages * (page * cell + 12) - 12
        below(canvas, right, end, y, counted(pages, "page"), f"{pages * page - used} empty")
    canvas.text(left, 930, f"{data['slab_waste']} of {len(requests) * slab} places empty", size=32, weight="bold", color=ORANGE)
    reserved = sum(len(request["pages"]) for request in requests) * page
    told = f"{data['page_waste']} of {reserved} empty, less than a page each"
    canvas.text(right, 930, told, size=32, weight="bold", color=ORANGE)


def below(canvas: Canvas, left: float, right: float, y: float, used: str, empty: str) -> None:
    canvas.text(left, y + 112, used, size=24, color=BLUE, valign="baseline")
    canvas.text(right, y + 112, empty, size=24, color=ORANGE, align="right", valign="baseline")


# --- 29 · the block table ---


def capture_block_table(lab: Lab) -> Data:
    """Two sequences grow in turn, a token each; whoever fills a page is handed the next free one."""
    words = {name: text.split() for name, text in SEQUENCES.items()}
    free = list(FREE_PAGES)
    tables: dict[str, list[int]] = {name: [] for name in words}
    pages: list[list[str]] = [["" for _ in range(SMALL_PAGE)] for _ in FREE_PAGES]
    for position in range(max(map(len, words.values()))):
        for name, sequence in words.items():
            if position < len(sequence):
                if position % SMALL_PAGE == 0:
                    tables[name].append(free.pop(0))
                pages[tables[name][-1]][position % SMALL_PAGE] = sequence[position]
    return {"page": SMALL_PAGE, "sequences": words, "tables": tables, "pages": pages}


def judge_block_table(data: Data) -> Verdict:
    pages = data["pages"]
    read = {name: [token for page in table for token in pages[page] if token] for name, table in data["tables"].items()}
    in_order = sum(read[name] == sequence for name, sequence in data["sequences"].items())
    owned = [page for table in data["tables"].values() for page in table]
    shared, requests = len(owned) - len(set(owned)), len(data["sequences"])
    stray = any(any(page) for index, page in enumerate(pages) if index not in owned)
    return Verdict(
        in_order == requests == len(SEQUENCES) and shared == 0 and not stray,
        f"read back in order: {in_order} of {requests}; pages with two owners: {shared}",
        f"{requests} of {requests}; 0",
    )


def spoil_block_table(data: Data, lab: Lab) -> Data:
    """The last entry of one table points at a page of the other."""
    spoiled = copy.deepcopy(data)
    first, second = spoiled["tables"].values()
    second[-1] = first[-1]
    return spoiled


def draw_block_table(canvas: Canvas, data: Data) -> None:
    tables, size = data["tables"], data["page"]
    colors = dict(zip(tables, (BLUE, ORANGE), strict=True))
    owner = {page: name for name, table in tables.items() for page in table}
    canvas.headline(f"A block table lets {len(owner)} scattered pages read as {len(tables)} whole sequences")
    canvas.reading(f"Left: each request's table, block by block. Right: the memory, {len(data['pages'])} pages of {size} tokens.")
    left, slot, top, pitch, high = 1010, 212, 250, 66, 52
    for page, tokens in enumerate(data["pages"]):
        y, taken = float(top + page * pitch), page in owner
        color = colors[owner[page]] if taken else GREY
        canvas.text(left - 16, y + high / 2, f"page {page}", size=24, color=color, align="right")
        fill = shade(color, 0.22) if taken else None
        canvas.box(left, y, slot * size, high, fill=fill, edge=color, width=2.5, dashed=not taken)
        for place, token in enumerate(tokens):
            middle = left + (place + 0.5) * slot
            canvas.text(middle, y + high / 2 + 8, token, size=26, mono=True, align="center", valign="baseline")
        if not taken:
            canvas.text(left + slot * size / 2, y + high / 2, "free", size=24, color=GREY, align="center")
    y = top + 14.0
    for name, table in tables.items():
        color = colors[name]
        canvas.text(MARGIN, y, f"request {name}", size=30, weight="bold", color=color)
        y += 34
        for block, page in enumerate(table):
            canvas.box(MARGIN, y, 180, high, edge=color, width=2.5)
            canvas.text(MARGIN + 90, y + high / 2, f"block {block}", size=26, align="center")
            canvas.box(MARGIN + 180, y, 180, high, edge=color, width=2.5, fill=shade(color, 0.22))
            canvas.text(MARGIN + 270, y + high / 2, f"page {page}", size=26, align="center", weight="bold", color=color)
            canvas.arrow(MARGIN + 372, y + high / 2, left - 112, top + page * pitch + high / 2, color=color, width=3)
            y += pitch
        y += 46
    for row, (name, sequence) in enumerate(data["sequences"].items()):
        y, color = 816 + row * 76, colors[name]
        canvas.text(MARGIN, y + 24, f"{name}, read through its table", size=26, weight="bold", color=color)
        fills = [shade(color, 0.22)] * len(sequence)
        canvas.tiles(sequence, MARGIN + 372, y, width=WIDTH - 2 * MARGIN - 372, rows=1, size=26, fills=fills)


# --- 30 · static and continuous batching ---


def capture_continuous_batching(lab: Lab) -> Data:
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


def judge_continuous_batching(data: Data) -> Verdict:
    static, continuous = data["static"], data["continuous"]
    same = tokens_of(static) == tokens_of(continuous) == data["lengths"]
    timeless = set(data) == {"lengths", "static", "continuous"}  # slots and steps; no reading of a clock could hide
    fewer = 0 <= idle(continuous) < idle(static) and len(static) == len(continuous)
    total = sum(tokens_of(continuous).values())
    return Verdict(
        same and timeless and fewer,
        f"{total} tokens both ways; idle slots {idle(static)} → {idle(continuous)}",
        f"the same {sum(data['lengths'].values())} tokens, fewer idle",
    )


def spoil_continuous_batching(data: Data, lab: Lab) -> Data:
    """The longest request is cut short under continuous batching: fewer tokens pass for fewer steps."""
    spoiled = copy.deepcopy(data)
    longest = max(data["lengths"], key=lambda name: data["lengths"][name])
    slot = next(slot for slot in spoiled["continuous"] if longest in slot)
    slot[len(slot) - 1 - slot[::-1].index(longest)] = None
    return spoiled


def draw_continuous_batching(canvas: Canvas, data: Data) -> None:
    static, continuous = data["static"], data["continuous"]
    before, after = idle(static), idle(continuous)
    canvas.headline(f"Refill a slot the moment it falls free: idle places drop from {before} to {after}")
    canvas.reading("One row a slot, one column a step; the letter says which request writes a token there. Dashed is idle.")
    cell, left, high = 98, 330, 62
    steps = max(len(static[0]), len(continuous[0]))
    for top, title, schedule, told in ((254, "static", static, before), (606, "continuous", continuous, after)):
        color = ORANGE if schedule is static else BLUE
        canvas.text(MARGIN, top + 40, title, size=36, weight="bold", color=color)
        canvas.text(MARGIN, top + 92, f"{len(schedule[0])} steps", size=28)
        canvas.text(MARGIN, top + 132, f"{told} places idle", size=28, color=GREY)
        for row, slot in enumerate(schedule):
            y = top + row * (high + 8)
            for step, name in enumerate(slot):
                x = left + step * cell
                if name is None:
                    canvas.box(x, y, cell - 8, high, edge=GREY, width=1.5, dashed=True)
                    continue
                starts = step == 0 or slot[step - 1] != name
                canvas.box(x, y, cell - 8, high, fill=color if starts else shade(color, 0.35), edge=INK, width=1.5)
                canvas.text(x + (cell - 8) / 2, y + high / 2, name, size=28, weight="bold" if starts else "regular",
                            color="white" if starts else INK, align="center")  # fmt: skip
    for step in range(steps):
        canvas.text(left + (step + 0.5) * cell - 4, 560, str(step + 1), size=24, color=GREY, align="center")
    canvas.text(MARGIN, 560, "step", size=24, color=GREY)
    x = left + len(continuous[0]) * cell + 20
    tokens = sum(data["lengths"].values())
    same = f"the same {len(data['lengths'])} requests,\nthe same {tokens} tokens"
    canvas.text(x, 700, same, size=28, color=BLUE, weight="bold")
    canvas.text(MARGIN, 920, "A dark tile is where a request enters.", size=26, color=GREY)


SLIDES = [
    Slide(
        number=28,
        name="slab_or_pages",
        section="Why vLLM is fast",
        claim="The waste drawn is the waste of the stated lengths, and pages waste less than one page a request.",
        capture=capture_slab_or_pages,
        oracle=judge_slab_or_pages,
        sabotage=spoil_slab_or_pages,
        draw=draw_slab_or_pages,
        kind="concept",
        needs=(),
    ),
    Slide(
        number=29,
        name="block_table",
        section="Why vLLM is fast",
        claim="Reading through the block table gives each sequence in order, and no page has two owners.",
        capture=capture_block_table,
        oracle=judge_block_table,
        sabotage=spoil_block_table,
        draw=draw_block_table,
        kind="concept",
        needs=(),
    ),
    Slide(
        number=30,
        name="continuous_batching",
        section="Why vLLM is fast",
        claim="Static and continuous batching produce the same tokens; continuous leaves fewer slots idle.",
        capture=capture_continuous_batching,
        oracle=judge_continuous_batching,
        sabotage=spoil_continuous_batching,
        draw=draw_continuous_batching,
        kind="concept",
        needs=(),
    ),
]

if __name__ == "__main__":
    from regen_all import main

    sys.exit(main(["--only", Path(__file__).stem, *sys.argv[1:]]))
