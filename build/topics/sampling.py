"""Temperature and top-p.

They prove what the two do to the distribution of the one call: temperature reshapes it and leaves the winner, top-p cuts
off its tail. What transformers and torch did is compared with float64 NumPy. They need the model.
"""

from itertools import pairwise

import numpy as np

from pipeline.distributions import by_rank, entropy_bits, seven_digits, smallest_prefix, softmax
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.columns import Column, compared
from pipeline.drawing.layout import BODY, BODY_BOTTOM, GAP, MARGIN, TILE, WIDTH, Box
from pipeline.drawing.palette import BLUE, GREY, INK, PALE, mix
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted

TEMPERATURES = (0.7, 1.0, 1.6)
TOP_PS = (0.5, 0.9)
SHOWN, HEAD = 8, 80  # tokens with a row of their own; tokens kept as text for the tiles of top-p
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
    hotter = all(a["temperature"] < b["temperature"] for a, b in pairwise(readings))
    one_winner = {reading["argmax"] for reading in readings} == {ids[0]} == {int(logits.argmax())}
    greedy = data["near_zero"]["probabilities"][0] >= 0.999  # by the choice of near_zero all but about 1e-6 of it
    bits = " < ".join(f"{entropy:.2f}" for entropy in entropies[1:])
    return Verdict(
        max(differences) <= READING_BOUND and rising and hotter and one_winner and greedy,
        f"{bits} bits, max |Δ| {max(differences):.0e}",
        f"rising, ≤ {READING_BOUND:.0e} from NumPy, one argmax",
    )


def sabotage_temperature(data: Data, lab: Lab) -> Data:
    """The same run with the temperature multiplied instead of divided."""
    return capture_temperature(lab, divided=False)


def draw_temperature(canvas: Canvas, data: Data) -> None:
    readings, near = data["readings"], data["near_zero"]
    first, last = readings[0], readings[-1]
    body = canvas.titled(
        f"Temperature {first['temperature']} → {last['temperature']}: entropy rises from {first['entropy_bits']:.1f} to "
        f"{last['entropy_bits']:.1f} bits, the winner stays",
        "The same logits divided by three temperatures. A bar is a probability; a column is one whole distribution.",
    )
    columns = []
    for reading in readings:
        title, under = f"temperature {reading['temperature']}", f"entropy {reading['entropy_bits']:.2f} bits"
        shares = [*reading["probabilities"], reading["others"]]
        columns.append(Column(title, under, shares, [percent(share) for share in shares]))
    pieces = [token["text"] for token in data["shown"]]
    foot = compared(canvas, body, pieces, data["vocabulary"], columns, max(max(column.values) for column in columns))
    canvas.put_tile(foot.place(foot.w, BODY * TILE), pieces[0], accent=BLUE)
    winner = f"takes {near['probabilities'][0]:.1%} at temperature {near['temperature']:g}: near zero, temperature is greedy"
    canvas.put(foot.until(body).columns(foot.w, ..., gap=4 * GAP)[1], winner, color=BLUE)


def percent(share: float) -> str:
    return "< 0.1%" if share < 0.0005 else f"{share:.1%}"


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
    probabilities = softmax(np.array(data["logits"]))
    ranked = probabilities[by_rank(probabilities)]
    masks, good = [], []
    for run in data["runs"]:
        smallest = smallest_prefix(ranked, run["p"])
        kept = np.unpackbits(np.frombuffer(bytes.fromhex(run["mask"]), np.uint8), count=len(ranked)).astype(bool)
        prefix = bool((np.sort(probabilities[kept])[::-1] == ranked[:smallest]).all()) if kept.sum() == smallest else False
        # the mass is kept to nine digits
        good.append(prefix and run["kept"] == smallest and abs(run["mass"] - ranked[:smallest].sum()) <= 1e-8)
        masks.append(kept)
    subset = not (masks[0] & ~masks[1]).any() and data["runs"][0]["p"] < data["runs"][1]["p"]
    counts = " ⊆ ".join(f"{run['kept']:,}" for run in data["runs"])
    return Verdict(
        all(good) and subset,
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
    small, large = data["runs"]
    keeps = f"top-p {large['p']:g} keeps {large['kept']:,}"
    canvas.headline(f"Top-p {small['p']:g} keeps {small['kept']:,} of {data['vocabulary']:,} tokens, {keeps}")
    canvas.reading("Each strip is the whole distribution, most probable first. Blue is kept, grey is dropped, the mark is p.")
    ranked, full = np.sort(softmax(np.array(data["logits"])))[::-1], WIDTH - 2 * MARGIN
    top, lowest = 222.0, (600, BODY_BOTTOM)
    for run, bottom in zip(data["runs"], lowest, strict=True):
        tokens = counted(run["kept"], "token")
        canvas.text(MARGIN, top + 32, f"p = {run['p']:g}", size=34, weight="bold", valign="baseline")
        canvas.text(MARGIN + 160, top + 32, f"kept: {tokens} holding {run['mass']:.1%}", size=28, color=BLUE, valign="baseline")
        dropped = f"dropped: {data['vocabulary'] - run['kept']:,} tokens holding {1 - run['mass']:.1%}"
        canvas.text(WIDTH - MARGIN, top + 32, dropped, size=28, color=GREY, align="right", valign="baseline")
        y, x, mark = top + 72, float(MARGIN), MARGIN + full * run["p"]
        canvas.box(Box(MARGIN, y, full, 110), fill=PALE, radius=2)
        canvas.box(Box(MARGIN, y, full * run["mass"], 110), fill=BLUE, radius=2)
        for share in ranked[: run["kept"]]:
            if full * share < 4:  # too thin to tell apart: the rest of the kept tokens stay one block
                break
            middle = x + full * share / 2
            if full * share > 90 and abs(middle - mark) > 50:
                canvas.text(middle, y + 55, f"{share:.1%}", size=24, color="white", align="center")
            x += full * share
            canvas.line([(x, y), (x, y + 110)], color=canvas.paper, width=1.5, z=2)
        canvas.line([(mark, y - 16), (mark, y + 126)], color=INK, width=4, z=3)
        top = draw_head(canvas, data["head"], run["kept"], y + 142, bottom) + 58


def draw_head(canvas: Canvas, head: list[str], kept: int, y: float, bottom: float) -> float:
    """The most probable of the kept tokens as tiles, down to `bottom`, and how many more there are; return their end."""
    x, shown = float(MARGIN), 0
    for shown, piece in enumerate(head[:kept]):  # noqa: B007
        width = min(canvas.tile_width(piece, 26), 400)
        last_row = y + 2 * 58 > bottom
        note = canvas.measure(f"… and {kept:,} more", 26)[0] + 16 if last_row else 0
        if x + width + note > WIDTH - MARGIN:
            if last_row:
                break
            x, y = float(MARGIN), y + 58
        x += canvas.put_tile(Box(x, y, width, TILE * 26), piece, size=26, fill=mix(BLUE, 0.18)).w + 8
    else:
        shown = min(kept, len(head))
    if shown < kept:
        canvas.text(x + 8, y + 24, f"… and {kept - shown:,} more", size=26, color=BLUE)
    return y + 47


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
