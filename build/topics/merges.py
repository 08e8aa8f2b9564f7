"""The merges that build one word out of its bytes.

It proves that ids follow from bytes by the tokenizer's own list of merges, applied lowest rank first. It needs the
tokenizer of the model.
"""

import json
from itertools import pairwise

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.fonts import quoted
from pipeline.drawing.layout import GAP, LABEL, Box
from pipeline.drawing.palette import BLUE, FAINT, GREY
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted

MOST_BYTES, MOST_MERGES = 14, 9  # of a word whose merges are drawn whole


def replay(word: list[str], ranks: dict[str, int]) -> list[Data]:
    """Byte-pair encoding: merge the neighbours listed earliest until none are listed. Pieces are hexadecimal bytes."""
    stages: list[Data] = [{"pieces": list(word), "at": None, "rank": None}]
    while True:
        pieces = stages[-1]["pieces"]
        listed = [(ranks[f"{a} {b}"], at) for at, (a, b) in enumerate(pairwise(pieces)) if f"{a} {b}" in ranks]
        if not listed:
            return stages
        rank, at = min(listed)
        stages.append({"pieces": [*pieces[:at], pieces[at] + pieces[at + 1], *pieces[at + 2 :]], "at": at, "rank": rank})


def pair_of(stages: list[Data], step: int) -> str:
    """The two pieces that the merge of this step joined, as the list of merges names them."""
    before, at = stages[step - 1]["pieces"], stages[step]["at"]
    return f"{before[at]} {before[at + 1]}"


def longest_that_draws(words: dict[str, int]) -> str:
    """Of words with their numbers of pieces (a character is a byte): the longest drawn whole, or else the shortest."""

    def worth(word: str) -> tuple[bool, int]:
        whole = len(word) <= MOST_BYTES and len(word) - words[word] <= MOST_MERGES
        return whole, len(word) if whole else -len(word)

    return max(words, key=worth)


def capture_merges(lab: Lab) -> Data:
    backend, vocabulary = lab.tokenizer.backend_tokenizer, lab.tokenizer.get_vocab()
    settings = json.loads(backend.to_str())["model"]
    listed = [pair.split(" ") if isinstance(pair, str) else pair for pair in settings["merges"]]
    cut = dict.fromkeys(word for word, _ in backend.pre_tokenizer.pre_tokenize_str(lab.sentence))
    merged = [word for word in cut if not (settings.get("ignore_merges") and word in vocabulary)]  # some skip what they know
    word = longest_that_draws({word: len(backend.model.tokenize(word)) for word in merged or cut})
    parts = {word[i:j] for i in range(len(word)) for j in range(i + 1, len(word) + 1)}
    known = {part: lab.piece_bytes(vocabulary[part]).hex() for part in parts if part in vocabulary}
    ranks = {
        f"{known[a]} {known[b]}": rank
        for rank, (a, b) in enumerate(listed, start=1)
        if a in known and b in known and a + b in parts
    }
    return {
        "word": b"".join(bytes.fromhex(known[character]) for character in word).decode(errors="backslashreplace"),
        "bytes": len(word),
        "listed": len(listed),
        "ranks": ranks,  # of every merge that could ever happen inside this word
        "ids_of": {piece: vocabulary[part] for part, piece in known.items()},
        "stages": replay([known[character] for character in word], ranks),
        "ids": [token.id for token in backend.model.tokenize(word)],  # the tokenizer's own merging
    }


def oracle_merges(data: Data) -> Verdict:
    stages, ranks = data["stages"], data["ranks"]
    lowest = 0
    for before, after in pairwise(stages):
        pieces, at = before["pieces"], after["at"]
        on_offer = [ranks[f"{a} {b}"] for a, b in pairwise(pieces) if f"{a} {b}" in ranks]
        joined = [*pieces[:at], "".join(pieces[at : at + 2]), *pieces[at + 2 :]]
        lowest += after["rank"] == ranks[f"{pieces[at]} {pieces[at + 1]}"] == min(on_offer) and after["pieces"] == joined
    first, last, merges = stages[0]["pieces"], stages[-1]["pieces"], len(stages) - 1
    done = all(f"{a} {b}" not in ranks for a, b in pairwise(last))
    word = bytes.fromhex("".join(first)).decode(errors="backslashreplace")
    from_bytes = len(first) == data["bytes"] and all(len(piece) == 2 for piece in first) and word == data["word"]
    same = [data["ids_of"][piece] for piece in last] == data["ids"]
    return Verdict(
        from_bytes and done and same and lowest == merges,
        f"lowest rank at {lowest} of {counted(merges, 'merge')}; ids {'=' if same else '≠'} tokenizer's",
        f"{merges} of {merges}, equal",
    )


def sabotage_merges(data: Data, lab: Lab) -> Data:
    """The replay with one merge left out of the list (a word of one byte has none: another byte's id)."""
    stages = data["stages"]
    for step in range(len(stages) - 1, 0, -1):
        left_out = pair_of(stages, step)
        again = replay(stages[0]["pieces"], {pair: rank for pair, rank in data["ranks"].items() if pair != left_out})
        if again[-1]["pieces"] != stages[-1]["pieces"]:
            return {**data, "stages": again}
    return {**data, "ids": [token_id + 1 for token_id in data["ids"]]}


def spans(pieces: list[str]) -> list[tuple[int, int]]:
    """The first byte of each piece, and the first after it."""
    ends = [sum(map(len, pieces[: i + 1])) // 2 for i in range(len(pieces))]
    return list(zip([0, *ends], ends, strict=False))


def window(data: Data) -> tuple[int, int]:
    """The bytes whose merges are drawn: the whole word, or of a long one the longest token that fits."""
    if data["bytes"] <= MOST_BYTES and len(data["stages"]) - 1 <= MOST_MERGES:
        return 0, data["bytes"]
    final = spans(data["stages"][-1]["pieces"])
    return max(final, key=lambda span: span[1] - span[0] if span[1] - span[0] <= MOST_BYTES else span[0] - span[1])


def draw_merges(canvas: Canvas, data: Data) -> None:
    stages, ids = data["stages"], data["ids"]
    start, end = window(data)
    part = "" if end - start == data["bytes"] else f" Drawn: bytes {start + 1} to {end}."
    body = canvas.titled(
        f"{quoted(data['word'])} is put together from its bytes",
        f"Each row joins the two neighbours that stand earliest in a list of {data['listed']:,} merges.{part}",
    )
    inside = [(i, stage) for i, stage in enumerate(stages) if i == 0 or start <= spans(stage["pieces"])[stage["at"]][0] < end]
    rows = inside if len(inside) <= MOST_MERGES + 1 else [*inside[:5], None, *inside[-4:]]
    lanes = [lane.columns(160, ..., 270, gap=2 * GAP) for lane in body.even_rows(len(rows) + 1, gap=16, most=110)]
    for shown, (name, middle, rank) in zip(rows, lanes, strict=False):
        if shown is None:
            canvas.put(middle, f"⋯ {len(inside) - len(rows) + 1} more merges ⋯", size=LABEL, color=GREY)
            continue
        step, stage = shown
        canvas.put(name, f"merge {step}" if step else "bytes", color=GREY)
        for at, piece, spot in spread(stage["pieces"], start, end, middle):
            draw_piece(canvas, piece, spot, new=step > 0 and at == stage["at"])
        if step:
            canvas.put(rank, f"rank {stage['rank']:,}", color=BLUE)
        canvas.step()
    name, middle, rank = lanes[-1]
    canvas.put(name, "ids", color=GREY)
    for at, _, spot in spread(stages[-1]["pieces"], start, end, middle):
        canvas.put(spot, f"{ids[at]:,}", weight="bold", align="center")
    canvas.put(rank, "as the tokenizer says", color=GREY)


def spread(pieces: list[str], start: int, end: int, box: Box) -> list[tuple[int, str, Box]]:
    """The pieces between two bytes, each with its number and its box: as wide as it has bytes."""
    columns = box.even_columns(end - start, gap=min(8, box.w / (end - start) / 4), most=210)
    inside = [(at, piece, span) for at, (piece, span) in enumerate(zip(pieces, spans(pieces), strict=True))]
    return [(at, piece, columns[a - start].until(columns[b - start - 1])) for at, piece, (a, b) in inside if start <= a < end]


def draw_piece(canvas: Canvas, piece: str, spot: Box, new: bool) -> None:
    """One piece of the word; one too narrow for letters is a bare box."""
    accent = BLUE if new else None
    if spot.w < 2 * LABEL:
        canvas.box(spot, fill=canvas.tint(BLUE) if new else FAINT, edge=accent, radius=min(6, spot.w / 4))
    else:
        canvas.put_tile(spot, bytes.fromhex(piece).decode(errors="backslashreplace"), accent=accent, edge=accent)


SLIDES = [
    Slide(
        name="one_word",
        section="Tokenization",
        claim="Replaying the tokenizer's merges from bytes, lowest rank first, gives the tokenizer's ids.",
        capture=capture_merges,
        oracle=oracle_merges,
        sabotage=sabotage_merges,
        draw=draw_merges,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
