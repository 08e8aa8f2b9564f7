"""Slide 6: the merges that build one word out of its bytes.

It proves that ids follow from bytes by the tokenizer's own list of merges, applied lowest rank first. It needs the
tokenizer of the model.
"""

import json
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from pipeline.drawing.canvas import BLUE, BODY_BOTTOM, FAINT, GREY, LABEL, MARGIN, Canvas, mix
from pipeline.drawing.fonts import quoted
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict
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


def judge_merges(data: Data) -> Verdict:
    stages, ranks = data["stages"], data["ranks"]
    lowest = 0
    for before, after in pairwise(stages):
        pieces, at = before["pieces"], after["at"]
        on_offer = [ranks[f"{a} {b}"] for a, b in pairwise(pieces) if f"{a} {b}" in ranks]
        joined = [*pieces[:at], "".join(pieces[at : at + 2]), *pieces[at + 2 :]]
        lowest += after["rank"] == ranks[f"{pieces[at]} {pieces[at + 1]}"] == min(on_offer) and after["pieces"] == joined
    first, last, merges = stages[0]["pieces"], stages[-1]["pieces"], len(stages) - 1
    done = all(f"{a} {b}" not in ranks for a, b in pairwise(last))
    from_bytes = len(first) == data["bytes"] and all(len(piece) == 2 for piece in first)
    same = [data["ids_of"][piece] for piece in last] == data["ids"]
    return Verdict(
        from_bytes and done and same and lowest == merges,
        f"lowest rank at {lowest} of {counted(merges, 'merge')}; ids {'=' if same else '≠'} tokenizer's",
        f"{merges} of {merges}, equal",
    )


def spoil_merges(data: Data, lab: Lab) -> Data:
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
    write = partial(canvas.text, valign="center_baseline")
    stages, ids = data["stages"], data["ids"]
    merges = len(stages) - 1
    start, end = window(data)
    part = "" if end - start == data["bytes"] else f" Drawn: bytes {start + 1} to {end}."
    how = (
        f"{counted(merges, 'merge')}, the lowest rank always first, {'makes' if merges == 1 else 'make'}"
        if merges
        else "no merge applies, which leaves"
    )
    canvas.headline(f"{quoted(data['word'])} has {counted(data['bytes'], 'byte')}: {how} {counted(len(ids), 'token')}")
    canvas.reading(
        f"Top to bottom, one merge a row: the two neighbours that rank lowest among {data['listed']:,} merges become one.{part}"
    )
    inside = [(i, stage) for i, stage in enumerate(stages) if i == 0 or start <= spans(stage["pieces"])[stage["at"]][0] < end]
    rows = inside if len(inside) <= MOST_MERGES + 1 else [*inside[:5], None, *inside[-4:]]
    pitch = min(150, (BODY_BOTTOM - 232) / (len(rows) + 1))
    size = int(min(48, pitch * 0.74 / 1.8))
    left, right = 240, 1590
    column = min(220, (right - left) / (end - start))
    for row, shown in enumerate(rows):
        y = 232 + row * pitch
        if shown is None:
            write(left, y + size * 0.9 - 4, f"⋯ {len(inside) - len(rows) + 1} more merges ⋯", size=24, color=GREY)
            continue
        step, stage = shown
        write(MARGIN, y + size * 0.9 - 4, f"merge {step}" if step else "bytes", size=26, color=GREY)
        for at, (piece, (a, b)) in enumerate(zip(stage["pieces"], spans(stage["pieces"]), strict=True)):
            if start <= a < end:
                new = step > 0 and at == stage["at"]
                x, width = left + (a - start) * column, (b - a) * column - min(8, column / 4)
                fill, edge = (mix(BLUE, 0.2), BLUE) if new else (FAINT, None)
                if width < 2 * LABEL:  # no room for letters
                    canvas.box(x, y, width, size * 1.8, fill=fill, edge=edge, radius=min(6, width / 4))
                else:
                    text = bytes.fromhex(piece).decode(errors="backslashreplace")
                    canvas.tile(text, x, y, size=size, width=width, fill=fill, edge=edge)
        if step:
            write(left + (end - start) * column + 30, y + size * 0.9 - 4, f"rank {stage['rank']:,}", size=28, color=BLUE)
    y = 232 + len(rows) * pitch
    write(MARGIN, y + pitch * 0.3, "ids", size=26, color=GREY)
    for (a, b), token_id in zip(spans(stages[-1]["pieces"]), ids, strict=True):
        if start <= a < end:
            center = left + ((a + b) / 2 - start) * column - 4
            size = 28 if (b - a) * column > 110 else 22
            write(center, y + pitch * 0.3, f"{token_id:,}", size=size, weight="bold", align="center")
    write(left + (end - start) * column + 30, y + pitch * 0.3, "as the tokenizer says", size=24, color=GREY)


SLIDES = [
    Slide(
        number=6,
        name="one_word",
        section="Tokenization",
        claim="Replaying the tokenizer's merges from bytes, lowest rank first, gives the tokenizer's ids.",
        capture=capture_merges,
        oracle=judge_merges,
        sabotage=spoil_merges,
        draw=draw_merges,
    ),
]

if __name__ == "__main__":
    from regen_all import main

    sys.exit(main(["--only", Path(__file__).stem, *sys.argv[1:]]))
