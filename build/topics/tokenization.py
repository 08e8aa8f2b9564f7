"""The sentence cut into tokens, the ids they have, and what text costs.

They prove that tokens lose nothing: their bytes are the text's bytes, and their ids decode to the text. They need the
tokenizer of the model.
"""

import copy
import re

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Bar, Scale, bars
from pipeline.drawing.fonts import quoted
from pipeline.drawing.layout import BODY, GAP, HERO, LABEL, NUMBER, TILE, TITLE, Box
from pipeline.drawing.palette import BLUE, GREY, INK, ORANGE, PALE
from pipeline.drawing.sheet import Line
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


def oracle_pieces(data: Data) -> Verdict:
    joined, sentence = b"".join(bytes.fromhex(tile["bytes"]) for tile in data["tokens"]), data["sentence"].encode()
    return Verdict(
        joined == sentence and len(sentence) == data["sentence_bytes"],
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
    found = f"{quoted(most['text'])} falls into {most['pieces']} pieces" if most["pieces"] > 1 else "here each word is one piece"
    body = canvas.titled(
        f"{counted(data['words'], 'word')} cut into {counted(len(tiles), 'token')}: {found}",
        "Each tile is one token; ␣ is a space, and it belongs to the piece it stands in. Under each tile: its bytes.",
    )
    head, sentence, added, cut, lower = body.rows(36, 64, 44, ..., 220)
    canvas.put(head, f"the sentence, {counted(data['sentence_bytes'], 'byte')}", size=LABEL, color=GREY)
    canvas.put(sentence, data["sentence"], size=NUMBER, smallest=TITLE)
    added_up = f"its pieces, {data['sentence_bytes']:,} bytes together: none lost, none added"
    canvas.put(added, added_up, size=LABEL, color=GREY)
    inside = range(most["first"], most["last"] + 1) if most["pieces"] > 1 else range(0)
    texts = [tile["text"] for tile in tiles]
    accents = [BLUE if i in inside else None for i in range(len(tiles))]
    boxes = canvas.put_tiles(cut, texts, rows=2, size=HERO, row_gap=54, gap=GAP, accents=accents)
    for box, tile, accent in zip(boxes, tiles, accents, strict=True):
        if box:
            size = str(len(tile["bytes"]) // 2)
            canvas.put(box.below(LABEL, GAP), size, size=LABEL, color=accent or GREY, align="center")
    draw_most(canvas, most["text"], texts[most["first"] : most["last"] + 1], lower)


def draw_most(canvas: Canvas, word: str, pieces: list[str], box: Box) -> None:
    """The word that falls into the most pieces, and its pieces."""
    canvas.line([(box.x, box.y), (box.right, box.y)], color=PALE, width=1)
    head, middle = box.inset(0, GAP).rows(40, ...)
    width = min(canvas.width(word, HERO, weight="bold"), 700)
    whole, arrow, tiles = middle.columns(width, 110, ..., gap=40)
    canvas.put(head, "one word", size=LABEL, color=GREY)
    canvas.put(whole, word, size=HERO, weight="bold")
    canvas.arrow(arrow.west, arrow.east)
    canvas.put(Box(tiles.x, head.y, tiles.w, head.h), counted(len(pieces), "piece"), size=LABEL, color=BLUE)
    row = tiles.place(tiles.w, HERO * TILE)
    canvas.put_tiles(row, pieces, size=HERO, gap=GAP, accents=[BLUE] * len(pieces))


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
    return Verdict(
        same and within == len(ids) > 0,
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
        f"{counted(len(tokens), 'token')}, {counted(len(tokens), 'id')} in a vocabulary of {size:,}: "
        f"{data['in_first_tenth']} of {len(tokens)} from its first tenth",
        "Each line leads from a token to the place of its id among all ids. Common pieces, learned first, sit at the left.",
    )
    upper, ticks, _, words, lower = body.rows(..., 70, GAP, 50, 140)
    scale = Scale(0, size, upper.x, upper.right)
    pieces, last = [token["text"] for token in tokens], [token["id"] for token in tokens].index(highest)
    widest = max(canvas.width(f"{token['id']:,}", LABEL) for token in tokens)
    gap = max(GAP, widest + GAP - min(canvas.tile_width(piece) for piece in pieces))  # room for the ids under narrow tiles
    accents = [BLUE if i == last else None for i in range(len(tokens))]
    boxes = canvas.put_tiles(upper.inset(0, GAP), pieces, size=NUMBER, smallest=BODY, gap=gap, accents=accents)
    canvas.line([(upper.x, upper.bottom), (upper.right, upper.bottom)], width=3)
    for box, token in zip(boxes, tokens, strict=True):
        x, y, chosen = scale.at(token["id"]), upper.bottom, token["id"] == highest
        canvas.line([(x, y - 18), (x, y)], color=BLUE, width=4 if chosen else 3, z=3)
        if box:
            under = box.below(LABEL, GAP)
            canvas.text(*under.center, f"{token['id']:,}", size=LABEL, color=BLUE if chosen else GREY, align="center")
            bottom, way = under.inset(0, -GAP).south, canvas.tint(BLUE, 0.4)
            points = [bottom, (bottom[0], bottom[1] + LABEL), (x, y - 40), (x, y - 18)]
            canvas.line(points, color=BLUE if chosen else way, width=3 if chosen else 2)
    draw_ticks(canvas, scale, ticks)
    remark = f"next door to {quoted(pieces[last])}: unrelated pieces, since an id is a name, not an amount"
    canvas.put(words, remark, color=GREY)
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
        rows.append({"name": name, "text": text, "pieces": lab.pieces(ids), "tokens": len(ids), "characters": len(text),
                     "tokens_per_character": len(ids) / len(text), "decoded": lab.decode(ids)})  # fmt: skip
    costs = {row["name"]: row["tokens_per_character"] for row in rows}
    dearest = max(costs, key=lambda name: costs[name])
    return {"samples": rows, "dearest": dearest, "english": costs[BASELINE], "factor": costs[dearest] / costs[BASELINE]}


def oracle_cost(data: Data) -> Verdict:
    rows = data["samples"]
    kept = sum(row["decoded"] == row["text"] for row in rows)
    costs = {row["name"]: len(row["pieces"]) / len(row["text"]) for row in rows}
    factor = costs[data["dearest"]] / costs[BASELINE]
    true = abs(factor - data["factor"]) < 1e-6 and all(
        abs(costs[row["name"]] - row["tokens_per_character"]) < 1e-6 for row in rows
    )
    return Verdict(
        kept == len(rows) == len(SAMPLES) and true and factor >= DEAREST_FACTOR and abs(costs[BASELINE] - data["english"]) < 1e-6,
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
    rows, dearest = data["samples"], data["dearest"]
    body = canvas.titled(
        f"The same length of text can cost {data['factor']:.1f} times as much: {dearest} against {BASELINE}",
        f"Bar and first number: tokens for each character. Second number: as a multiple of the {BASELINE} sample (the ticks).",
    )
    lanes = [lane.columns(330, 750, ..., gap=40) for lane in body.even_rows(len(rows), gap=GAP)]
    shown = []
    for row, (name, tiles, _) in zip(rows, lanes, strict=True):
        chosen, detail = row["name"] == dearest, f"{row['characters']} characters, {row['tokens']} tokens"
        title = Line(row["name"], color=ORANGE if chosen else INK, weight="bold" if chosen else "regular")
        canvas.stack(name, title, Line(detail, LABEL, GREY))
        canvas.put_tiles(tiles.place(tiles.w, LABEL * TILE), row["pieces"], size=LABEL, gap=6)
        each = row["tokens_per_character"]
        ratio = "" if row["name"] == BASELINE else f"    {each / data['english']:.1f} ×"
        color = ORANGE if chosen else BLUE if row["name"] == BASELINE else PALE
        shown.append(Bar(each, f"{each:.2f}{ratio}", color, ORANGE if chosen else INK, data["english"], chosen))
    bars(canvas, [lane for *_, lane in lanes], shown, size=BODY)


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
