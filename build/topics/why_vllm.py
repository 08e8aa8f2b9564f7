"""Concept cards: pages instead of slabs, the block table, continuous batching.

Each card is computed from the lengths and sizes that it states, and its oracle checks that arithmetic. No serving engine
runs here, no clock is read and no speed is claimed. They need neither model nor server.
"""

import copy

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import BODY, GAP, LABEL, LEADING, TILE, TITLE, Box, Share
from pipeline.drawing.palette import BLUE, GREY, INK, ORANGE
from pipeline.drawing.sheet import Line
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted

SLAB, PAGE = 64, 16  # tokens of room in a slab (the longest request allowed) and in a page
REQUESTS = {"A": 37, "B": 9, "C": 52, "D": 20}  # name -> tokens
SEQUENCES = {"A": "one hive hums and the keeper lifts a frame of honey", "B": "two foxes cross a frozen field by night"}
SMALL_PAGE, FREE_PAGES = 4, (5, 2, 7, 0, 3, 6, 1, 4)  # the block table: tokens per page, pages in the order they are handed out
SLABS, PLACES = (50, 780, 130, ...), 80  # pixels: a request's name, its slab, a gap, its pages; how high they are
SLOTS = 4  # rows of the batch
LENGTHS = {"A": 9, "B": 2, "C": 4, "D": 3, "E": 6, "F": 3, "G": 5, "H": 2}  # name -> tokens to write, in order of arrival


# --- slabs or pages ---


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


def oracle_slab_or_pages(data: Data) -> Verdict:
    page, slab = data["page"], data["slab"]
    lengths = [request["tokens"] for request in data["requests"]]
    wastes = [-length % page for length in lengths]  # up to the next multiple
    drawn = [len(request["pages"]) * page - sum(request["pages"]) for request in data["requests"]]
    holds = (
        [(request["name"], request["tokens"]) for request in data["requests"]] == list(REQUESTS.items())
        and (page, slab) == (PAGE, SLAB)
        and all(used == page for request in data["requests"] for used in request["pages"][:-1])
        and [sum(request["pages"]) for request in data["requests"]] == lengths
        and drawn == wastes
        and max(drawn) < page
        and data["page_waste"] == sum(wastes)
        and data["slab_waste"] == len(lengths) * slab - sum(lengths)
        and max(lengths) <= slab
    )
    wasted = f"empty places: slabs {data['slab_waste']}, pages {data['page_waste']}"
    return Verdict(holds, wasted, f"as stated, < {page} a request")


def sabotage_slab_or_pages(data: Data, lab: Lab) -> Data:
    """One request starts a new page before its last one is full."""
    sabotaged = copy.deepcopy(data)
    pages = sabotaged["requests"][0]["pages"]
    pages[-1:] = [pages[-1] - 1, 1]
    sabotaged["page_waste"] += data["page"]
    return sabotaged


def draw_slab_or_pages(canvas: Canvas, data: Data) -> None:
    requests, page, slab = data["requests"], data["page"], data["slab"]
    body = canvas.titled(
        f"Slabs leave {data['slab_waste']} places empty, pages leave {data['page_waste']}",
        f"The same {len(requests)} requests, one place per token: blue is used, orange is reserved and empty.",
    )
    heads, table, foot = body.rows(60, ..., 50, gap=GAP)
    reserved = sum(len(request["pages"]) for request in requests) * page
    titles = (f"one slab of {slab} each, as long as the longest allowed", f"pages of {page}, handed out when needed")
    sums = (
        f"{data['slab_waste']} of {len(requests) * slab} places empty",
        f"{data['page_waste']} of {reserved} empty, less than a page each",
    )
    for box, texts, color, size in ((heads, titles, INK, BODY), (foot, sums, ORANGE, TITLE)):
        for part, text in zip(box.columns(*SLABS)[1::2], texts, strict=True):
            canvas.put(part, text, size=size, weight="bold", color=color)
    for request, lane in zip(requests, table.even_rows(len(requests), gap=GAP), strict=True):
        name, left, _, right = lane.columns(*SLABS)
        used, cell = request["tokens"], left.w / slab
        canvas.put(Box(name.x, name.y, name.w, PLACES), request["name"], size=TITLE, weight="bold")
        whole = draw_places(canvas, Box(left.x, left.y, left.w, PLACES), used * cell)
        draw_counts(canvas, whole, f"{used} used", f"{slab - used} empty")
        pages = [
            Box(right.x + place * (page * cell + GAP), right.y, page * cell, PLACES) for place in range(len(request["pages"]))
        ]
        for spot, filled in zip(pages, request["pages"], strict=True):
            draw_places(canvas, spot, filled * cell)
        draw_counts(canvas, pages[0].until(pages[-1]), counted(len(pages), "page"), f"{len(pages) * page - used} empty")


def draw_places(canvas: Canvas, box: Box, used: float) -> Box:
    """Reserved room, of which the first `used` pixels are taken."""
    canvas.box(box, fill=canvas.tint(ORANGE, 0.25), edge=ORANGE, width=2)
    canvas.box(box.columns(used, ...)[0], fill=BLUE, edge=INK, width=2)
    return box


def draw_counts(canvas: Canvas, box: Box, used: str, empty: str) -> None:
    under = box.below(LABEL * LEADING, 4)
    canvas.text(*under.west, used, size=LABEL, color=BLUE)
    canvas.text(*under.east, empty, size=LABEL, color=ORANGE, align="right")


# --- the block table ---


def capture_block_table(lab: Lab) -> Data:
    """Two sequences grow in turn, one token each; whoever fills a page is handed the next free one."""
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


def oracle_block_table(data: Data) -> Verdict:
    pages = data["pages"]
    read = {name: [token for page in table for token in pages[page] if token] for name, table in data["tables"].items()}
    in_order = sum(read[name] == sequence for name, sequence in data["sequences"].items())
    owned = [page for table in data["tables"].values() for page in table]
    shared, requests = len(owned) - len(set(owned)), len(data["sequences"])
    stray = any(any(page) for index, page in enumerate(pages) if index not in owned)
    stray = stray or {len(page) for page in pages} != {data["page"]} or len(pages) != len(FREE_PAGES)
    return Verdict(
        in_order == requests == len(SEQUENCES) and shared == 0 and not stray,
        f"read back in order: {in_order} of {requests}; pages with two owners: {shared}",
        f"{requests} of {requests}; 0",
    )


def sabotage_block_table(data: Data, lab: Lab) -> Data:
    """The last entry of one table points at a page of the other."""
    sabotaged = copy.deepcopy(data)
    first, second = sabotaged["tables"].values()
    second[-1] = first[-1]
    return sabotaged


def draw_block_table(canvas: Canvas, data: Data) -> None:
    tables, size = data["tables"], data["page"]
    colors = dict(zip(tables, (BLUE, ORANGE), strict=True))
    owner = {page: name for name, table in tables.items() for page in table}
    body = canvas.titled(
        f"A block table lets {len(owner)} scattered pages read as {len(tables)} whole sequences",
        f"Left: each request's table, block by block. Right: the memory, {len(data['pages'])} pages of {size} tokens.",
    )
    upper, lower = body.rows(..., 140, gap=3 * GAP)
    left, _, labels, right = upper.columns(360, ..., 110, 850, gap=GAP)
    memory = right.even_rows(len(data["pages"]), gap=14)
    for page, (tokens, box) in enumerate(zip(data["pages"], memory, strict=True)):
        color = colors[owner[page]] if page in owner else GREY
        canvas.put(Box(labels.x, box.y, labels.w, box.h), f"page {page}", size=LABEL, color=color, align="right")
        canvas.box(box, fill=canvas.tint(color) if page in owner else None, edge=color, width=2.5, dashed=page not in owner)
        for token, slot in zip(tokens, box.even_columns(size), strict=True):
            canvas.put(slot, token, mono=True, align="center")
        if page not in owner:
            canvas.put(box, "free", size=LABEL, color=GREY, align="center")
    heights = [Share(len(table) + 1) for table in tables.values()]
    for (name, table), box in zip(tables.items(), left.rows(*heights, gap=2 * GAP), strict=True):
        color, (head, *rows) = colors[name], box.even_rows(len(table) + 1, gap=14)
        canvas.put(head, f"request {name}", size=TITLE, weight="bold", color=color)
        for block, (page, row) in enumerate(zip(table, rows, strict=True)):
            canvas.step()
            number, place = row.even_columns(2)
            canvas.put(canvas.box(number, edge=color, width=2.5), f"block {block}", align="center")
            canvas.box(place, fill=canvas.tint(color), edge=color, width=2.5)
            canvas.put(place, f"page {page}", weight="bold", color=color, align="center")
            canvas.arrow(row.inset(-GAP, 0).east, (labels.x, memory[page].center[1]), color=color)
    canvas.step()
    for (name, sequence), lane in zip(data["sequences"].items(), lower.even_rows(len(tables)), strict=True):
        head, rest = lane.columns(left.w, ..., gap=GAP)
        canvas.put(head, f"{name}, read through its table", weight="bold", color=colors[name])
        canvas.put_tiles(rest.place(rest.w, BODY * TILE), sequence, accents=[colors[name]] * len(sequence))


# --- static and continuous batching ---


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


def oracle_continuous_batching(data: Data) -> Verdict:
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


def sabotage_continuous_batching(data: Data, lab: Lab) -> Data:
    """The longest request is cut short under continuous batching: fewer tokens pass for fewer steps."""
    sabotaged = copy.deepcopy(data)
    longest = max(data["lengths"], key=lambda name: data["lengths"][name])
    slot = next(slot for slot in sabotaged["continuous"] if longest in slot)
    slot[len(slot) - 1 - slot[::-1].index(longest)] = None
    return sabotaged


def draw_continuous_batching(canvas: Canvas, data: Data) -> None:
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
        name="slab_or_pages",
        section="Why vLLM is fast",
        claim="The waste drawn is the waste of the stated lengths, and pages waste less than one page per request.",
        capture=capture_slab_or_pages,
        oracle=oracle_slab_or_pages,
        sabotage=sabotage_slab_or_pages,
        draw=draw_slab_or_pages,
        kind="concept",
        needs=(),
    ),
    Slide(
        name="block_table",
        section="Why vLLM is fast",
        claim="Reading through the block table gives each sequence in order, and no page has two owners.",
        capture=capture_block_table,
        oracle=oracle_block_table,
        sabotage=sabotage_block_table,
        draw=draw_block_table,
        kind="concept",
        needs=(),
    ),
    Slide(
        name="continuous_batching",
        section="Why vLLM is fast",
        claim="Static and continuous batching produce the same tokens; continuous leaves fewer slots idle.",
        capture=capture_continuous_batching,
        oracle=oracle_continuous_batching,
        sabotage=sabotage_continuous_batching,
        draw=draw_continuous_batching,
        kind="concept",
        needs=(),
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
