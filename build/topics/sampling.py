"""Temperature and top-p.

They prove what the two do to the distribution of the one call: temperature reshapes it and leaves the winner, top-p cuts
off its tail. What transformers and torch did is compared with float64 NumPy. They need the model.
"""

from itertools import pairwise

import numpy as np

from pipeline.distributions import by_rank, entropy_bits, plausible, seven_digits, smallest_prefix, softmax
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.fonts import visible
from pipeline.drawing.layout import GAP, LABEL, LEADING, PAD, TILE, TITLE, Box, Share
from pipeline.drawing.palette import BLUE, GREY, INK, PALE
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted, percent

TEMPERATURES = (0.7, 1.0, 1.6)
TOP_PS = (0.5, 0.9)
SHOWN, HEAD = 8, 80  # tokens with a row of their own; tokens kept as text for the tiles of top-p
STRIP_HEIGHT, THINNEST, LONGEST = 110, 4, 400  # pixels: of top-p's strips, of a segment that is seen, of a tile
# float32 softmax, and logits kept to seven digits, move entropies and probabilities by less than 1e-4; a temperature
# on the wrong side of the fraction moves an entropy by tenths of a bit and more
READING_BOUND = 1e-3


# --- temperature ---


def read_at(lab: Lab, logits: np.ndarray, temperature: float, shown: list[int], divided: bool = True) -> Data:
    """What transformers and torch, in float32, make of the logits at one temperature."""
    from transformers import TemperatureLogitsWarper

    scores = lab.torch.tensor(logits, dtype=lab.torch.float32)[None]  # [1, vocabulary]
    warped = TemperatureLogitsWarper(temperature)(None, scores) if divided else scores * temperature
    probabilities = warped.softmax(-1)[0]  # [vocabulary]
    inside = probabilities[shown]
    return {
        "temperature": temperature,
        "entropy_bits": float(lab.torch.special.entr(probabilities).sum() / np.log(2)),
        "argmax": int(probabilities.argmax()),
        "probabilities": inside.tolist(),
        "others": float(1 - inside.sum()),
    }


def capture_temperature(lab: Lab, divided: bool = True) -> Data:
    logits = seven_digits(lab.next_logits(lab.ids))
    ids = by_rank(logits)[:SHOWN].tolist()
    lead = logits[ids[0]] - logits[ids[1]]
    near_zero = min(1e-3, float(f"{lead / 40:.1g}"))  # so far below the winner's lead that e^-25 is left for any other
    readings = [read_at(lab, logits, temperature, ids, divided) for temperature in (near_zero, *TEMPERATURES)]
    return {
        "logits": logits,
        "vocabulary": len(logits),
        "shown": [{"id": i, "text": text} for i, text in zip(ids, lab.pieces(ids), strict=True)],
        "near_zero": readings[0],
        "readings": readings[1:],
    }


def oracle_temperature(data: Data) -> Verdict:
    logits, ids = np.array(data["logits"]), [token["id"] for token in data["shown"]]
    readings = [data["near_zero"], *data["readings"]]
    entropies = [reading["entropy_bits"] for reading in readings]
    differences = []
    for reading, entropy in zip(readings, entropies, strict=True):
        probabilities = softmax(logits / reading["temperature"])
        differences.append(abs(entropy - entropy_bits(probabilities)))
        differences.extend(np.abs(probabilities[ids] - reading["probabilities"]).tolist())
        differences.append(abs(1 - float(probabilities[ids].sum()) - reading["others"]))
    rising = all(a < b for a, b in pairwise(entropies))
    hotter = 0 < readings[0]["temperature"] < min(TEMPERATURES) and [one["temperature"] for one in data["readings"]] == [
        *TEMPERATURES
    ]
    whole = logits.shape == (data["vocabulary"],) and plausible(logits) and by_rank(logits)[:SHOWN].tolist() == ids
    one_winner = {reading["argmax"] for reading in readings} == {ids[0]} == {int(logits.argmax())}
    greedy = data["near_zero"]["probabilities"][0] >= 0.999  # by the choice of near_zero all but about 1e-6 of it
    bits = " < ".join(f"{entropy:.2f}" for entropy in entropies[1:])
    return Verdict(
        max(differences) <= READING_BOUND and rising and hotter and one_winner and greedy and whole,
        f"{bits} bits, max |Δ| {max(differences):.0e}",
        f"rising, ≤ {READING_BOUND:.0e} from NumPy, one argmax",
    )


def sabotage_temperature(data: Data, lab: Lab) -> Data:
    """The same run with the temperature multiplied instead of divided."""
    return capture_temperature(lab, divided=False)


def draw_temperature(canvas: Canvas, data: Data) -> None:
    readings = [data["near_zero"], *data["readings"]]
    body = canvas.titled(
        f"Hotter: the same winner, but the tail takes {percent(readings[-1]['others'], 0)}",
        f"Each strip is one whole distribution: the {SHOWN} most probable tokens, then in grey all the others together.",
    )
    winner, others = data["shown"][0]["text"], data["vocabulary"] - SHOWN
    for reading, row in zip(readings, body.even_rows(len(readings), gap=PAD), strict=True):
        head, strip = row.rows(TITLE * LEADING, ...)
        first = reading["probabilities"][0]
        canvas.put(head, f"temperature {reading['temperature']:g}", size=TITLE, weight="bold")
        canvas.put(head, f"{reading['entropy_bits']:.1f} bits", size=TITLE, color=GREY, align="right")
        rest = max(0.0, reading["others"])
        told = [f"{visible(winner)}  {percent(first)}", *map(percent, reading["probabilities"][1:])]
        segments(canvas, strip, [*reading["probabilities"], rest], [*told, f"{others:,} others  {percent(rest)}"])


def segments(canvas: Canvas, strip: Box, shares: list[float], told: list[str]) -> None:
    """Shares of one whole from left to right, the first in blue, the last in grey, each with its words where they fit."""
    colors = [BLUE, *[canvas.tint(BLUE, 0.6)] * (len(shares) - 2), PALE]
    parts = strip.columns(*(strip.w * share / sum(shares) for share in shares))
    for part, color, words in zip(parts, colors, told, strict=True):
        canvas.box(part, fill=color, edge=canvas.paper if part.w > THINNEST else None, radius=0)
        if part.w > canvas.width(words, LABEL) + GAP:
            canvas.put(part, words, size=LABEL, color=INK if color == PALE else "white", align="center")


# --- top-p ---


def capture_top_p(lab: Lab) -> Data:
    from transformers import TopPLogitsWarper

    logits = seven_digits(lab.next_logits(lab.ids))
    scores = lab.torch.tensor(logits)[None]  # float64, so that the edge does not hang on the order of a sum
    probabilities = lab.softmax(logits)
    head, runs = lab.pieces(by_rank(logits)[:HEAD].tolist()), []
    for p in TOP_PS:
        kept = lab.torch.isfinite(TopPLogitsWarper(p)(None, scores))[0].numpy()  # bool [vocabulary]
        mask = np.packbits(kept).tobytes().hex()
        runs.append({"p": p, "kept": int(kept.sum()), "mass": float(probabilities[kept].sum()), "mask": mask})
    return {"logits": logits, "vocabulary": len(logits), "head": head, "runs": runs}


def oracle_top_p(data: Data) -> Verdict:
    logits = np.array(data["logits"])
    probabilities = softmax(logits)
    ranked = probabilities[by_rank(probabilities)]
    masks, good = [], []
    for run in data["runs"]:
        smallest = smallest_prefix(ranked, run["p"])
        kept = np.unpackbits(np.frombuffer(bytes.fromhex(run["mask"]), np.uint8), count=len(ranked)).astype(bool)
        prefix = bool((np.sort(probabilities[kept])[::-1] == ranked[:smallest]).all()) if kept.sum() == smallest else False
        # the mass is kept to nine digits
        good.append(
            prefix and run["kept"] == smallest and 0 < run["mass"] <= ranked[:smallest].sum() + 1e-8 <= run["mass"] + 2e-8
        )
        masks.append(kept)
    subset = not (masks[0] & ~masks[1]).any() and [run["p"] for run in data["runs"]] == [*TOP_PS]
    whole = logits.shape == (data["vocabulary"],) and plausible(logits) and len(data["head"]) == min(HEAD, len(logits))
    counts = " ⊆ ".join(f"{run['kept']:,}" for run in data["runs"])
    return Verdict(
        all(good) and subset and whole,
        f"kept {counts} tokens, the smallest prefix at {sum(good)} of {len(good)}",
        f"{len(TOP_PS)} of {len(TOP_PS)}, a subset",
    )


def sabotage_top_p(data: Data, lab: Lab) -> Data:
    """One token too many: the most probable of those that the larger p dropped is let in."""
    *others, run = data["runs"]
    order = by_rank(np.array(data["logits"]))
    kept = np.zeros(data["vocabulary"], bool)
    kept[order[: run["kept"] + 1]] = True
    return {**data, "runs": [*others, {**run, "kept": run["kept"] + 1, "mask": np.packbits(kept).tobytes().hex()}]}


def draw_top_p(canvas: Canvas, data: Data) -> None:
    body = canvas.titled(
        "Top-p keeps the likely few and drops the long tail",
        "Each strip is the whole distribution, most probable first. Blue is kept, grey is dropped, the mark is p.",
    )
    ranked = np.sort(softmax(np.array(data["logits"])))[::-1]
    for run, part in zip(data["runs"], body.rows(Share(2), Share(3), gap=2 * PAD), strict=True):
        head, strip, tiles = part.rows(TITLE * LEADING, STRIP_HEIGHT, ..., gap=PAD)
        name, kept, dropped = head.columns(150, ..., ...)
        canvas.put(name, f"p = {run['p']:g}", size=TITLE, weight="bold")
        canvas.put(kept, f"kept: {counted(run['kept'], 'token')} holding {percent(run['mass'])}", color=BLUE)
        left = f"dropped: {counted(data['vocabulary'] - run['kept'], 'token')} holding {percent(1 - run['mass'])}"
        canvas.put(dropped, left, color=GREY, align="right")
        draw_strip(canvas, strip, run, ranked[: run["kept"]])
        draw_head(canvas, tiles, data["head"][: run["kept"]], run["kept"])


def draw_strip(canvas: Canvas, strip: Box, run: Data, kept: np.ndarray) -> None:
    """The distribution from left to right: a segment a kept token, the many thin ones as one pale block, counted."""
    mark = strip.x + strip.w * run["p"]
    canvas.box(strip, fill=PALE, radius=2)
    wide = int((strip.w * kept >= THINNEST).sum())
    *segments, _ = strip.columns(*(strip.w * kept[:wide]), ...)
    for segment, share in zip(segments, kept, strict=False):
        canvas.box(segment, fill=BLUE, edge=canvas.paper, radius=0)
        told = percent(share)
        if segment.w > canvas.width(told, LABEL) + GAP and abs(segment.center[0] - mark) > 50:
            canvas.put(segment, told, size=LABEL, color="white", align="center")
    start = segments[-1].right if segments else strip.x
    crowd = Box(start, strip.y, strip.x + strip.w * run["mass"] - start, strip.h)
    if wide < len(kept):
        canvas.box(crowd, fill=canvas.tint(BLUE, 0.6), radius=0)
        told = f"{len(kept) - wide:,} tokens"
        if crowd.w > canvas.width(told, LABEL) + 2 * GAP and abs(crowd.center[0] - mark) > 80:
            canvas.put(crowd, told, size=LABEL, color="white", align="center")
    canvas.line([(mark, strip.y - 0.6 * PAD), (mark, strip.bottom + 0.6 * PAD)], color=INK, width=4, z=3)


def draw_head(canvas: Canvas, box: Box, head: list[str], kept: int) -> None:
    """The most probable of the kept tokens as tiles, row by row, and behind the last of them how many more there are."""
    lanes = box.even_rows(max(1, int((box.h + GAP) / (TILE * LABEL + GAP))), gap=GAP, most=TILE * LABEL)
    shown, note = 0, canvas.width(f"… and {kept:,} more", LABEL)
    for lane in lanes:
        rest, room = lane, note + GAP if lane is lanes[-1] else 0
        for piece in head[shown:]:
            width = min(canvas.tile_width(piece, LABEL), LONGEST)
            if width + GAP + room > rest.w:
                break
            spot, rest = rest.columns(width, ..., gap=GAP)
            canvas.put_tile(spot, piece, size=LABEL, accent=BLUE)
            shown += 1
    if shown < kept:
        canvas.put(rest, f"… and {kept - shown:,} more", size=LABEL, color=BLUE)


SLIDES = [
    Slide(
        name="temperature",
        section="Sampling",
        claim="Entropy rises with temperature, the most probable token stays, and a temperature near zero is greedy.",
        capture=capture_temperature,
        oracle=oracle_temperature,
        sabotage=sabotage_temperature,
        draw=draw_temperature,
    ),
    Slide(
        name="top_p",
        section="Sampling",
        claim="Top-p keeps the smallest prefix of the ranked tokens that reaches p; a smaller p keeps a subset.",
        capture=capture_top_p,
        oracle=oracle_top_p,
        sabotage=sabotage_top_p,
        draw=draw_top_p,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
