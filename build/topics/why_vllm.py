"""Concept cards: pages instead of slabs, and the block table.

Each card is computed from the lengths and sizes that it states, and its oracle checks that arithmetic. No serving engine
runs here, no clock is read and no speed is claimed. They need neither model nor server.
"""

import copy

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import BODY, GAP, LABEL, LEADING, TILE, TITLE, Box, Share
from pipeline.drawing.palette import BLUE, GREY, INK, ORANGE
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted

SLAB, PAGE = 64, 16  # tokens of room in a slab (the longest request allowed) and in a page
REQUESTS = {"A": 37, "B": 9, "C": 52, "D": 20}  # name -> tokens
SEQUENCES = {"A": "one hive hums and the keeper lifts a frame of honey", "B": "two foxes cross a frozen field by night"}
SMALL_PAGE, FREE_PAGES = 4, (5, 2, 7, 0, 3, 6, 1, 4)  # the block table: tokens per page, pages in the order they are handed out
SLABS, PLACES = (50, 780, 130, ...), 80  # pixels: a request's name, its slab, a gap, its pages; how high they are


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
    colors = dict(zip(tables, (BLUE, INK), strict=True))
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
]

if __name__ == "__main__":
    run_topic(__file__)
