"""Slides 4, 5 and 7: the sentence cut into tokens, the ids they have, and what text costs.

They prove that tokens lose nothing: their bytes are the text's bytes, and their ids decode to the text. They need the
tokenizer of the model.
"""

import copy
import re
import sys
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from pipeline.drawing.canvas import BLUE, BODY_BOTTOM, FAINT, GREY, INK, MARGIN, ORANGE, PALE, PIXEL, WIDTH, Canvas, literal, mix
from pipeline.drawing.fonts import quoted
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict
from pipeline.text import counted

NEIGHBOURS = 7  # ids shown side by side in the vocabulary
DEAREST_FACTOR = 2  # English words run to four or five letters a token; a script with few merges pays one a letter or more
SAMPLES = {
    "English": "The keeper lifts the lid and listens to the hum of the hive.",
    "code": "for row in range(8):\n    total[row] += price * count[row]\n",
    "digits": "407318952660471835926074",
    "German": "Die Imkerin öffnet behutsam den Bienenstock und zählt die Waben.",
    "Chinese": "养蜂人在清晨打开蜂箱，听见蜜蜂嗡嗡地唱歌。",
    "emoji": "🐝🍯🌻🌞🧤🌧🐝🍯",
    "runs of spaces": "The hive            the wall            the gate",
}
BASELINE = "English"


# --- 4 · the sentence in pieces ---


def words(text: str, tokens: list[bytes]) -> list[Data]:
    """Each run of text between white space, with the first and the last of the tokens that hold a byte of it."""
    ends = [sum(map(len, tokens[: i + 1])) for i in range(len(tokens))]
    found = []
    for match in re.finditer(r"\S+", text):
        start, end = (len(text[:edge].encode()) for edge in match.span())
        first = next(i for i, token_end in enumerate(ends) if token_end > start)
        last = next(i for i, token_end in enumerate(ends) if token_end >= end)
        found.append({"text": match[0], "first": first, "last": last, "pieces": last - first + 1})
    return found


def capture_pieces(lab: Lab) -> Data:
    pieces = [lab.piece_bytes(token_id) for token_id in lab.ids]
    tiles = [{"text": text, "bytes": piece.hex()} for text, piece in zip(lab.pieces(lab.ids), pieces, strict=True)]
    found = words(lab.sentence, pieces)
    most = max(found, key=lambda word: (word["pieces"], len(word["text"])))
    return {
        "sentence": lab.sentence,
        "sentence_bytes": len(lab.sentence.encode()),
        "tokens": tiles,
        "words": len(found),
        "most": most,
    }


def judge_pieces(data: Data) -> Verdict:
    joined, sentence = b"".join(bytes.fromhex(tile["bytes"]) for tile in data["tokens"]), data["sentence"].encode()
    return Verdict(
        joined == sentence and len(sentence) == data["sentence_bytes"],
        f"{len(data['tokens'])} pieces join to {len(joined)} bytes",
        f"the sentence's {len(sentence)}, byte for byte",
    )


def spoil_pieces(data: Data, lab: Lab) -> Data:
    """A piece without its leading space (where no piece has one: without its first byte)."""
    spoiled = copy.deepcopy(data)
    tile = next((tile for tile in spoiled["tokens"] if tile["bytes"].startswith("20")), spoiled["tokens"][0])
    tile["bytes"], tile["text"] = tile["bytes"][2:], tile["text"][1:]
    return spoiled


def draw_pieces(canvas: Canvas, data: Data) -> None:
    write = partial(canvas.text, valign="center_baseline")
    tiles, most = data["tokens"], data["most"]
    told = f"{quoted(most['text'])} falls into {most['pieces']} pieces" if most["pieces"] > 1 else "here each word is one piece"
    canvas.headline(f"{counted(data['words'], 'word')} cut into {counted(len(tiles), 'token')}: {told}")
    canvas.reading("Each tile is one token; ␣ is a space, and it belongs to the piece it stands in. Under each tile: its bytes.")
    write(MARGIN, 222, f"the sentence, {counted(data['sentence_bytes'], 'byte')}", size=26, color=GREY)
    write(MARGIN, 270, literal(data["sentence"]), size=44, wrap=WIDTH - 2 * MARGIN, lines=1, smallest=32)
    added_up = f"its pieces, {data['sentence_bytes']:,} bytes together: none lost, none added"
    write(MARGIN, 338, added_up, size=26, color=GREY)
    inside = range(most["first"], most["last"] + 1) if most["pieces"] > 1 else range(0)
    fills = [mix(BLUE, 0.2) if i in inside else FAINT for i in range(len(tiles))]
    texts = [tile["text"] for tile in tiles]
    boxes = canvas.tiles(texts, MARGIN, 366, rows=2, size=68, smallest=30, gap=12, row_gap=54, fills=fills)
    for index, (box, tile) in enumerate(zip(boxes, tiles, strict=True)):
        if box:
            color = BLUE if index in inside else GREY
            write(box.center[0], box.bottom + 24, str(len(tile["bytes"]) // 2), size=24, color=color, align="center")
    y = 780
    canvas.line([(MARGIN, y - 44), (WIDTH - MARGIN, y - 44)], color=PALE, width=1)
    write(MARGIN, y, "one word", size=26, color=GREY)
    shown = write(MARGIN, y + 94, literal(most["text"]), size=84, weight="bold", wrap=700, lines=1, smallest=34)
    left = MARGIN + canvas.measure(shown.get_text(), float(shown.get_fontsize()) / PIXEL, weight="bold")[0] + 40
    canvas.arrow(left, y + 107, left + 110, y + 107, color=INK, width=3)
    left += 150
    write(left, y, counted(most["pieces"], "piece"), size=26, color=BLUE)
    parts = texts[most["first"] : most["last"] + 1]
    blues = [mix(BLUE, 0.2)] * len(parts)
    size = 74
    while size > 30 and sum(canvas.tile_width(part, size) + 14 for part in parts) > WIDTH - MARGIN - left:
        size -= 1
    canvas.tiles(
        parts, left, y + 107 - size * 0.9, width=WIDTH - MARGIN - left, rows=1, size=size, smallest=30, gap=14, fills=blues
    )


# --- 5 · the ids ---


def capture_ids(lab: Lab) -> Data:
    vocabulary, highest = int(lab.model.config.vocab_size), max(lab.ids)
    first = max(0, min(highest - NEIGHBOURS // 2, vocabulary - NEIGHBOURS))
    window = list(range(first, min(first + NEIGHBOURS, vocabulary)))
    tokens = [{"id": token_id, "text": text} for token_id, text in zip(lab.ids, lab.pieces(lab.ids), strict=True)]
    return {
        "sentence": lab.sentence,
        "tokens": tokens,
        "vocabulary": vocabulary,
        "decoded": lab.decode(lab.ids),
        "in_first_tenth": sum(token_id < vocabulary / 10 for token_id in lab.ids),
        "highest": highest,
        "neighbours": [{"id": i, "text": text} for i, text in zip(window, lab.pieces(window), strict=True)],
    }


def judge_ids(data: Data) -> Verdict:
    ids, size = [token["id"] for token in data["tokens"]], data["vocabulary"]
    within = sum(0 <= token_id < size for token_id in ids)
    same = data["decoded"] == data["sentence"]
    return Verdict(
        same and within == len(ids) > 0,
        f"decode(encode(s)) {'=' if same else '≠'} s; {within} of {len(ids)} ids inside",
        f"equal, all in 0 … {size - 1:,}",
    )


def spoil_ids(data: Data, lab: Lab) -> Data:
    """One id off by one, decoded again."""
    for index, token in enumerate(data["tokens"]):
        spoiled = copy.deepcopy(data)
        spoiled["tokens"][index]["id"] += 1 if token["id"] + 1 < data["vocabulary"] else -1
        spoiled["decoded"] = lab.decode([token["id"] for token in spoiled["tokens"]])
        if spoiled["decoded"] != data["decoded"]:  # two ids may decode alike: halves of a character do
            break
    return spoiled


def draw_ids(canvas: Canvas, data: Data) -> None:
    write = partial(canvas.text, valign="center_baseline")
    tokens, size, highest = data["tokens"], data["vocabulary"], data["highest"]
    share = f"{data['in_first_tenth']} of {len(tokens)} from its first tenth"
    canvas.headline(f"{counted(len(tokens), 'token')}, {counted(len(tokens), 'id')} in a vocabulary of {size:,}: {share}")
    canvas.reading(
        "Each line leads from a token to the place of its id among all ids. Common pieces were learned first and sit at the left."
    )
    left, right, axis = MARGIN, WIDTH - MARGIN, 640
    last = next(i for i, token in enumerate(tokens) if token["id"] == highest)
    fills = [mix(BLUE, 0.2) if i == last else FAINT for i in range(len(tokens))]
    pieces = [token["text"] for token in tokens]
    widest = max(canvas.measure(f"{token['id']:,}", 24)[0] for token in tokens)
    gap = max(14, widest + 12 - min(canvas.tile_width(piece, 28) for piece in pieces))  # room for the ids under narrow tiles
    boxes = canvas.tiles(pieces, left, 240, rows=1, size=44, smallest=28, gap=gap, fills=fills)
    canvas.line([(left, axis), (right, axis)], color=INK, width=3)
    for box, token in zip(boxes, tokens, strict=True):
        x, chosen = left + (right - left) * token["id"] / size, token["id"] == highest
        canvas.line([(x, axis - 18), (x, axis + 2)], color=BLUE, width=4 if chosen else 3, z=3)
        if box:
            color = BLUE if chosen else GREY
            write(box.center[0], box.bottom + 26, f"{token['id']:,}", size=24, color=color, align="center")
            points = [(box.center[0], box.bottom + 48), (box.center[0], box.bottom + 70), (x, axis - 40), (x, axis - 18)]
            canvas.line(points, color=BLUE if chosen else mix(BLUE, 0.4), width=3 if chosen else 2)
    step = round(size / 5, -len(str(size)) + 2)
    for tick in [*range(0, int(size - step * 0.5), int(step)), size - 1]:
        x = left + (right - left) * tick / size
        canvas.line([(x, axis), (x, axis + 14)], color=INK, width=2)
        align = "left" if tick == 0 else "right" if tick == size - 1 else "center"
        write(x, axis + 38, f"{tick:,}", size=24, color=GREY, align=align)
    y = 800
    told = f"next door to {quoted(pieces[last])}: unrelated pieces, for an id is a name and not an amount"
    write(left, y - 24, told, size=26, color=GREY)
    room = (right - left + 14) / len(data["neighbours"])
    for column, token in enumerate(data["neighbours"]):
        chosen, x = token["id"] == highest, left + column * room
        box = canvas.tile(token["text"], x, y + 12, size=38, width=room - 14, fill=mix(BLUE, 0.2) if chosen else FAINT)
        color, weight = (BLUE, "bold") if chosen else (GREY, "regular")
        write(box.center[0], box.bottom + 30, f"{token['id']:,}", size=26, color=color, weight=weight, align="center")


# --- 7 · what text costs ---


def capture_cost(lab: Lab) -> Data:
    rows: list[Data] = []
    for name, text in SAMPLES.items():
        ids = lab.encode(text)
        rows.append({"name": name, "text": text, "pieces": lab.pieces(ids), "tokens": len(ids), "characters": len(text),
                     "tokens_per_character": len(ids) / len(text), "decoded": lab.decode(ids)})  # fmt: skip
    costs = {row["name"]: row["tokens_per_character"] for row in rows}
    dearest = max(costs, key=lambda name: costs[name])
    return {"samples": rows, "dearest": dearest, "english": costs[BASELINE], "factor": costs[dearest] / costs[BASELINE]}


def judge_cost(data: Data) -> Verdict:
    rows = data["samples"]
    kept = sum(row["decoded"] == row["text"] for row in rows)
    costs = {row["name"]: len(row["pieces"]) / len(row["text"]) for row in rows}
    factor = costs[data["dearest"]] / costs[BASELINE]
    told = abs(factor - data["factor"]) < 1e-6 and all(
        abs(costs[row["name"]] - row["tokens_per_character"]) < 1e-6 for row in rows
    )
    return Verdict(
        kept == len(rows) == len(SAMPLES) and told and factor >= DEAREST_FACTOR and abs(costs[BASELINE] - data["english"]) < 1e-6,
        f"{kept} of {len(rows)} round-trip; dearest {factor:.1f} × {BASELINE}",
        f"all, ≥ {DEAREST_FACTOR} ×",
    )


def spoil_cost(data: Data, lab: Lab) -> Data:
    """The dearest sample decoded one token at a time: pieces of a character turn into replacement characters."""
    spoiled = copy.deepcopy(data)
    row = next(row for row in spoiled["samples"] if row["name"] == data["dearest"])
    row["decoded"] = "".join(lab.decode([token_id]) for token_id in lab.encode(row["text"]))
    return spoiled


def draw_cost(canvas: Canvas, data: Data) -> None:
    write = partial(canvas.text, valign="center_baseline")
    rows, dearest = data["samples"], data["dearest"]
    canvas.headline(f"The same length of text can cost {data['factor']:.1f} times as much: {dearest} against {BASELINE}")
    canvas.reading(
        f"Bar and first number: tokens for each character. Second number: as a multiple of the {BASELINE} sample (dashed)."
    )
    top, pitch, start, room = 232, (BODY_BOTTOM - 232) / len(rows), 1190, 420
    longest = max(row["tokens_per_character"] for row in rows)
    baseline = start + room * data["english"] / longest
    for index, row in enumerate(rows):
        y = top + index * pitch
        chosen = row["name"] == dearest
        color, weight = (ORANGE, "bold") if chosen else (INK, "regular")
        write(MARGIN, y + 28, row["name"], size=30, weight=weight, color=color)
        write(MARGIN, y + 72, f"{row['characters']} characters, {row['tokens']} tokens", size=22, color=GREY)
        canvas.tiles(row["pieces"], 390, y + 25, width=760, rows=1, size=24, gap=6)
        length = room * row["tokens_per_character"] / longest
        canvas.box(start, y + 20, length, 54, fill=ORANGE if chosen else BLUE if row["name"] == BASELINE else PALE, radius=4)
        ratio = "" if row["name"] == BASELINE else f"    {row['tokens_per_character'] / data['english']:.1f} ×"
        x = max(start + length, baseline) + 18
        write(x, y + 47, f"{row['tokens_per_character']:.2f}{ratio}", size=28, weight=weight, color=color)
    canvas.line([(baseline, top), (baseline, BODY_BOTTOM - 20)], color=BLUE, width=2, dashed=True, z=4)


SLIDES = [
    Slide(
        number=4,
        name="pieces",
        section="Tokenization",
        claim="The bytes of the pieces, joined, are the bytes of the sentence.",
        capture=capture_pieces,
        oracle=judge_pieces,
        sabotage=spoil_pieces,
        draw=draw_pieces,
    ),
    Slide(
        number=5,
        name="ids",
        section="Tokenization",
        claim="Decoding the ids gives the sentence back, and every id is inside the vocabulary.",
        capture=capture_ids,
        oracle=judge_ids,
        sabotage=spoil_ids,
        draw=draw_ids,
    ),
    Slide(
        number=7,
        name="cost",
        section="Tokenization",
        claim=f"Every sample decodes to itself, and the dearest costs at least {DEAREST_FACTOR} times as many tokens a character "
        f"as {BASELINE}.",
        capture=capture_cost,
        oracle=judge_cost,
        sabotage=spoil_cost,
        draw=draw_cost,
    ),
]

if __name__ == "__main__":
    from regen_all import main

    sys.exit(main(["--only", Path(__file__).stem, *sys.argv[1:]]))
