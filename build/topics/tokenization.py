"""The sentence cut into tokens, the ids they have, and what text costs.

They prove that tokens lose nothing: their bytes are the text's bytes, and their ids decode to the text. They need the
tokenizer of the model.
"""

import copy
import re

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Bar, Scale, bars
from pipeline.drawing.cut import cut_into_tiles
from pipeline.drawing.fonts import quoted
from pipeline.drawing.layout import BODY, GAP, HERO, LABEL, LEADING, NUMBER, PAD, TILE, TITLE, Box, Share
from pipeline.drawing.palette import BLUE, GREY, INK, ORANGE, PALE
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic
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


# --- the sentence in pieces ---


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


def most_pieces(word: Data) -> tuple[int, int]:
    return word["pieces"], len(word["text"])


def capture_pieces(lab: Lab) -> Data:
    pieces = [lab.piece_bytes(token_id) for token_id in lab.ids]
    tiles = [{"text": text, "bytes": piece.hex()} for text, piece in zip(lab.pieces(lab.ids), pieces, strict=True)]
    found = words(lab.sentence, pieces)
    most = max(found, key=most_pieces)
    return {
        "sentence": lab.sentence,
        "sentence_bytes": len(lab.sentence.encode()),
        "tokens": tiles,
        "words": len(found),
        "most": most,
    }


def oracle_pieces(data: Data) -> Verdict:
    pieces, sentence = [bytes.fromhex(tile["bytes"]) for tile in data["tokens"]], data["sentence"].encode()
    joined = b"".join(pieces)
    whole = joined == sentence and len(sentence) == data["sentence_bytes"]
    found = words(data["sentence"], pieces) if whole else []
    return Verdict(
        whole and data["words"] == len(found) and data["most"] == max(found, key=most_pieces),
        f"{len(data['tokens'])} pieces join to {len(joined)} bytes",
        f"the sentence's {len(sentence)}, byte for byte",
    )


def sabotage_pieces(data: Data, lab: Lab) -> Data:
    """A piece without its leading space (where no piece has one: without its first byte)."""
    sabotaged = copy.deepcopy(data)
    tile = next((tile for tile in sabotaged["tokens"] if tile["bytes"].startswith("20")), sabotaged["tokens"][0])
    tile["bytes"], tile["text"] = tile["bytes"][2:], tile["text"][1:]
    return sabotaged


def draw_pieces(canvas: Canvas, data: Data) -> None:
    tiles, most = data["tokens"], data["most"]
    body = canvas.titled(
        "The model reads pieces, not words",
        "Over the tiles: the sentence as it was written. Each tile is one token; ␣ is a space, part of the token it stands in.",
    )
    upper, foot = body.rows(..., NUMBER * LEADING)
    inside = range(most["first"], most["last"] + 1) if most["pieces"] > 1 else range(0)
    cut_into_tiles(canvas, upper, [tile["text"] for tile in tiles], [BLUE if i in inside else None for i in range(len(tiles))])
    size = f"{counted(data['sentence_bytes'], 'byte')} of text, {counted(len(tiles), 'token')}, nothing lost"
    canvas.put(foot, size, size=TITLE, weight="bold")


# --- the ids ---


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


def oracle_ids(data: Data) -> Verdict:
    ids, size = [token["id"] for token in data["tokens"]], data["vocabulary"]
    within = sum(0 <= token_id < size for token_id in ids)
    same = data["decoded"] == data["sentence"]
    told = data["highest"] == max(ids) and data["in_first_tenth"] == sum(token_id < size / 10 for token_id in ids)
    nearby = [one["id"] for one in data["neighbours"]]
    beside = nearby == list(range(nearby[0], nearby[0] + len(nearby))) and nearby[0] <= data["highest"] <= nearby[-1] < size
    beside = beside and len(nearby) == min(NEIGHBOURS, size)
    texts = {one["text"] for one in data["neighbours"] if one["id"] == data["highest"]}
    named = texts == {token["text"] for token in data["tokens"] if token["id"] == data["highest"]}
    return Verdict(
        same and within == len(ids) > 0 and told and beside and named,
        f"decode(encode(s)) {'=' if same else '≠'} s; {within} of {len(ids)} ids inside",
        f"equal, all in 0 … {size - 1:,}",
    )


def sabotage_ids(data: Data, lab: Lab) -> Data:
    """One id off by one, decoded again."""
    for index, token in enumerate(data["tokens"]):
        sabotaged = copy.deepcopy(data)
        sabotaged["tokens"][index]["id"] += 1 if token["id"] + 1 < data["vocabulary"] else -1
        sabotaged["decoded"] = lab.decode([token["id"] for token in sabotaged["tokens"]])
        if sabotaged["decoded"] != data["decoded"]:  # two ids may decode alike: halves of a character do
            break
    return sabotaged


def draw_ids(canvas: Canvas, data: Data) -> None:
    tokens, size, highest = data["tokens"], data["vocabulary"], data["highest"]
    body = canvas.titled(
        "An id is a name, not an amount",
        "Each line leads from a token to the place of its id among all ids. Common pieces, learned first, sit at the left.",
    )
    upper, ticks, words, lower = body.rows(..., 70, 2 * BODY, 140)
    scale = Scale(0, size, upper.x, upper.right)
    canvas.box(upper.place(upper.w / 10, 2 * NUMBER, "left", "bottom"), fill=canvas.tint(BLUE), radius=0, z=0)
    told = f"{data['in_first_tenth']} of {len(tokens)} in the first tenth"
    pieces, last = [token["text"] for token in tokens], [token["id"] for token in tokens].index(highest)
    widest = max(canvas.width(f"{token['id']:,}") for token in tokens)
    gap = max(GAP, widest + GAP - min(canvas.tile_width(piece) for piece in pieces))  # room for the ids under narrow tiles
    accents = [BLUE if i == last else None for i in range(len(tokens))]
    boxes = canvas.put_tiles(upper.inset(0, GAP), pieces, size=NUMBER, smallest=BODY, gap=gap, accents=accents)
    canvas.line([(upper.x, upper.bottom), (upper.right, upper.bottom)], width=3)
    for box, token in zip(boxes, tokens, strict=True):
        x, y, chosen = scale.at(token["id"]), upper.bottom, token["id"] == highest
        canvas.line([(x, y - 18), (x, y)], color=BLUE, width=4 if chosen else 3, z=3)
        if box:
            under = box.below(BODY, GAP)
            canvas.text(*under.center, f"{token['id']:,}", color=BLUE if chosen else GREY, align="center")
            start = under.south[0], under.bottom + GAP
            points = [start, (start[0], start[1] + LABEL), (x, y - BODY), (x, y - 18)]
            canvas.line(points, color=BLUE if chosen else canvas.tint(BLUE, 0.4), width=3)
    draw_ticks(canvas, scale, ticks)
    canvas.put(words, f"next door to {quoted(pieces[last])}: strangers", size=TITLE, weight="bold")
    canvas.put(words, told, size=TITLE, weight="bold", color=BLUE, align="right")
    for token, column in zip(data["neighbours"], lower.even_columns(len(data["neighbours"]), gap=14), strict=True):
        accent = BLUE if token["id"] == highest else None
        tile, number = column.rows(70, ...)
        canvas.put_tile(tile, token["text"], size=TITLE, accent=accent)
        canvas.put(number, f"{token['id']:,}", color=accent or GREY, weight="bold" if accent else "regular", align="center")


def draw_ticks(canvas: Canvas, scale: Scale, box: Box) -> None:
    """Round ids under the line, and the last one."""
    ticks = [tick for tick in scale.ticks(5) if tick < 0.9 * scale.high]
    for tick in (*ticks, scale.high - 1):
        x = scale.at(tick)
        canvas.line([(x, box.y), (x, box.y + GAP)])
        align = "left" if tick == 0 else "right" if tick == scale.high - 1 else "center"
        canvas.text(x, box.center[1], f"{tick:,.0f}", size=LABEL, color=GREY, align=align)


# --- what text costs ---


def capture_cost(lab: Lab) -> Data:
    rows: list[Data] = []
    for name, text in SAMPLES.items():
        ids = lab.encode(text)
        row = {"name": name, "text": text, "pieces": lab.pieces(ids), "tokens": len(ids), "characters": len(text)}
        rows.append({**row, "tokens_per_character": len(ids) / len(text), "decoded": lab.decode(ids)})
    costs = {row["name"]: row["tokens_per_character"] for row in rows}
    dearest = max(costs, key=lambda name: costs[name])
    return {"samples": rows, "dearest": dearest, "english": costs[BASELINE], "factor": costs[dearest] / costs[BASELINE]}


def oracle_cost(data: Data) -> Verdict:
    rows = data["samples"]
    kept = sum(row["decoded"] == row["text"] == SAMPLES.get(row["name"]) for row in rows)
    costs = {row["name"]: len(row["pieces"]) / len(row["text"]) for row in rows}
    joined = all("".join(row["pieces"]).strip() == row["text"].strip() for row in rows if row["text"].isascii())
    factor = costs[data["dearest"]] / costs[BASELINE]
    true = abs(factor - data["factor"]) < 1e-6 and all(
        abs(costs[row["name"]] - row["tokens_per_character"]) < 1e-6
        and (row["tokens"], row["characters"]) == (len(row["pieces"]), len(row["text"]))
        for row in rows
    )
    true = true and abs(costs[BASELINE] - data["english"]) < 1e-6
    whole = kept == len(rows) == len(SAMPLES) and [*costs] == [*SAMPLES]
    return Verdict(
        whole and true and joined and factor >= DEAREST_FACTOR,
        f"{kept} of {len(rows)} round-trip; dearest {factor:.1f} × {BASELINE}",
        f"all, ≥ {DEAREST_FACTOR} ×",
    )


def sabotage_cost(data: Data, lab: Lab) -> Data:
    """The dearest sample decoded one token at a time: pieces of a character turn into replacement characters."""
    sabotaged = copy.deepcopy(data)
    row = next(row for row in sabotaged["samples"] if row["name"] == data["dearest"])
    row["decoded"] = "".join(lab.decode([token_id]) for token_id in lab.encode(row["text"]))
    return sabotaged


def draw_cost(canvas: Canvas, data: Data) -> None:
    rows, dearest = sorted(data["samples"], key=lambda row: -row["tokens_per_character"]), data["dearest"]
    body = canvas.titled(
        f"Per character, {dearest} can cost {data['factor']:.0f} times as much as {BASELINE}",
        f"Each bar: tokens for one character. The black ticks: what the {BASELINE} sample costs.",
    )
    table, foot = body.rows(..., NUMBER * TILE, gap=PAD)
    lanes = [lane.columns(240, Share(2), Share(3), gap=PAD) for lane in table.even_rows(len(rows), gap=GAP)]
    shown = []
    for row, (name, text, _) in zip(rows, lanes, strict=True):
        chosen, each = row["name"] == dearest, row["tokens_per_character"]
        canvas.put(name, row["name"], weight="bold", color=ORANGE if chosen else INK)
        canvas.put(text, row["text"].replace("\n", " "), size=TITLE, mono=True)
        color = ORANGE if chosen else BLUE if row["name"] == BASELINE else PALE
        shown.append(Bar(each, f"{each:.2f}", color, ORANGE if chosen else INK, data["english"], chosen))
    bars(canvas, [lane for *_, lane in lanes], shown, size=TITLE)
    first, pieces = one_character(rows[0])
    name, glyph, arrow, tiles = foot.columns(240, NUMBER * 2, 2 * NUMBER, ..., gap=PAD)
    canvas.put(name, "one character", color=GREY)
    canvas.put(glyph, first, size=HERO, align="center")
    canvas.arrow(arrow.west, arrow.east)
    canvas.put_tiles(tiles, pieces, size=NUMBER, accents=[ORANGE] * len(pieces))


def one_character(row: Data) -> tuple[str, list[str]]:
    """The first character of a sample, and the tokens that hold its bytes."""
    first, held = row["text"][0], 0
    for count, piece in enumerate(row["pieces"], 1):
        held += len(re.sub(r"\\x[0-9a-f]{2}", "?", piece).encode())  # a token that is not whole UTF-8 shows its bytes so
        if held >= len(first.encode()):
            return first, row["pieces"][:count]
    return first, row["pieces"]


SLIDES = [
    Slide(
        name="pieces",
        section="Tokenization",
        claim="The bytes of the pieces, joined, are the bytes of the sentence.",
        capture=capture_pieces,
        oracle=oracle_pieces,
        sabotage=sabotage_pieces,
        draw=draw_pieces,
    ),
    Slide(
        name="ids",
        section="Tokenization",
        claim="Decoding the ids gives the sentence back, and every id is inside the vocabulary.",
        capture=capture_ids,
        oracle=oracle_ids,
        sabotage=sabotage_ids,
        draw=draw_ids,
    ),
    Slide(
        name="cost",
        section="Tokenization",
        claim=f"Every sample decodes to itself, and the dearest costs at least {DEAREST_FACTOR} times as many tokens "
        f"per character as {BASELINE}.",
        capture=capture_cost,
        oracle=oracle_cost,
        sabotage=sabotage_cost,
        draw=draw_cost,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
