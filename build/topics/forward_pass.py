"""The parts one call runs through, and the length of the hidden states.

They prove that the parameters shown are all there are, and that the last hidden state alone makes the logits. They need
the model.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.distributions import by_rank
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import BODY_BOTTOM, MARGIN, TILE, WIDTH, Box
from pipeline.drawing.palette import BLUE, FAINT, GREY, INK, mix
from pipeline.lab import Lab
from pipeline.model.parts import Anatomy, anatomy, enough_tokens, first_tensor, hidden_states, hooked
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted, significant

NORM_BOUND = 1e-3  # float32 sums of a few hundred terms near 20 against float64 leave a few 1e-6; the layer before is 15 off
SHOWN_POSITIONS = 14  # columns of a heat map: more would be too narrow for a token
SHOWN_PARTS = 10  # rows of the anatomy: more would be too low to read
SMALLEST_SPAN = 4  # the shades span at least this factor: lengths that hardly differ must look alike
PLACES = 5_000  # numbers of the output matrix that the capture keeps


# --- shapes and parameters ---


def capture_anatomy(lab: Lab) -> Data:
    parts = anatomy(lab)
    return {
        **run_through(lab, parts),
        "ids": len(lab.ids),
        "vocabulary": int(lab.model.config.vocab_size),
        "layers": int(lab.model.config.num_hidden_layers),
        "total": int(lab.model.num_parameters()),
        "tied": parts.head.weight is parts.table.weight,
    }


def run_through(lab: Lab, parts: Anatomy) -> Data:
    """What one call runs through, in order, with the shapes that hooks saw and the parameters that no stage before had."""
    ran: dict[Any, tuple[list[int], list[int]]] = {}  # module -> shapes in and out, without the batch of one

    def note(module: Any, args: tuple, kwargs: dict, output: Any) -> None:
        into, out = (list(first_tensor(*value).shape[1:]) for value in ((args, kwargs), (output,)))
        ran[module] = into, out

    chain = {parts.table: "token table"}
    chain |= {block: f"block {number}" for number, block in enumerate(parts.layers, 1)}
    chain |= {parts.norm: "final norm", parts.head: "output matrix"}
    others = (module for module in parts.backbone.children() if module not in chain and module is not parts.layers)
    beside = [module for module in others if list(module.parameters())]
    first = (named for block in parts.layers[:1] for named in block.named_modules())
    inside = {module: name for name, module in first if list(module.parameters(recurse=False))}
    with hooked([(module, note) for module in [*chain, *beside, *inside]]):
        lab.logits(lab.ids)
    seen: set[int] = set()

    def stage(module: Any, name: str) -> Data:
        new = {id(weight): weight.numel() for weight in module.parameters() if id(weight) not in seen}
        seen.update(new)
        into, out = ran[module]
        return {"name": name, "into": into, "out": out, "parameters": sum(new.values()), "beside": module in beside}

    table, *rest = chain.items()
    tables = [(module, "position table" if hasattr(module, "num_embeddings") else type(module).__name__) for module in beside]
    stages = [stage(module, name) for module, name in [table, *tables, *rest]]
    block = [
        {"name": inside[module], "into": into[-1], "out": out[-1], "parameters": own_parameters(module)}
        for module, (into, out) in ran.items()
        if module in inside
    ]
    return {"stages": stages, "block": block}


def own_parameters(module: Any) -> int:
    return sum(weight.numel() for weight in module.parameters(recurse=False))


def oracle_anatomy(data: Data) -> Verdict:
    stages = data["stages"]
    total = sum(stage["parameters"] for stage in stages)
    chain = [stage for stage in stages if not stage["beside"]]
    joints = sum(after["into"] == before["out"] for before, after in pairwise(chain))
    first_block = sum(stage["parameters"] for stage in stages if stage["name"] == "block 1")
    return Verdict(
        total == data["total"]
        and joints == len(chain) - 1 == data["layers"] + 2
        and [chain[0]["into"], chain[-1]["out"]] == [[data["ids"]], [data["ids"], data["vocabulary"]]]
        and sum(part["parameters"] for part in data["block"]) == first_block,
        f"{total:,} parameters, {joints} joints fit",
        f"= {data['total']:,}, {data['layers'] + 2} of {data['layers'] + 2}",
    )


def sabotage_anatomy(data: Data, lab: Lab) -> Data:
    """A real call with the last layer taken out of the model, and put back after it."""
    parts = anatomy(lab)
    dropped = parts.layers[-1]
    del parts.layers[-1]
    try:
        return {**data, **run_through(lab, parts)}
    finally:
        parts.layers.append(dropped)


def shape(numbers: list[int]) -> str:
    return " × ".join(f"{number:,}" for number in numbers)


def draw_anatomy(canvas: Canvas, data: Data) -> None:
    blocks = [stage for stage in data["stages"] if stage["name"].startswith("block ")]
    first, *beside = data["stages"][: data["stages"].index(blocks[0])]
    norm, head = data["stages"][-2:]
    held = sum(block["parameters"] for block in blocks)
    alike = " of one build" if len({block["parameters"] for block in blocks}) == 1 < len(blocks) else ""
    some = counted(len(blocks), "block")
    canvas.headline(f"{data['total']:,} parameters, {held / data['total']:.0%} of them in {some}{alike}")
    canvas.reading("Above: what one call runs through, the shapes it hands on, the parameters it holds. Below: one block opened.")
    tables = " + ".join([first["name"], *(stage["name"] for stage in beside)])
    columns = [
        (tables, first["out"], first["parameters"] + sum(stage["parameters"] for stage in beside)),
        (some, blocks[-1]["out"], held),
        ("final norm", norm["out"], norm["parameters"]),
        ("output matrix", head["out"], head["parameters"]),
    ]
    width, gap, top, high = 340, 86, 240, 130
    left = MARGIN + 156
    canvas.text(MARGIN, top + high / 2 - 18, f"token id{'s' * (data['ids'] > 1)}", size=24, color=GREY)
    canvas.text(MARGIN, top + high / 2 + 18, f"{data['ids']}", size=28, weight="bold")
    for number, (name, gives, size) in enumerate(columns):
        x, blue = left + number * (width + gap), number == 1
        for behind in (2, 1) if blue and len(blocks) > 1 else ():
            canvas.box(Box(x + 9 * behind, top - 9 * behind, width, high), fill=mix(BLUE, 0.12), edge=canvas.paper)
        canvas.box(Box(x, top, width, high), fill=mix(BLUE, 0.18) if blue else FAINT, z=2)
        canvas.text(x + width / 2, top + 44, name, size=30, weight="bold", align="center", wrap=width - 20, lines=1, smallest=24)
        canvas.text(x + width / 2, top + 92, f"gives {shape(gives)}", size=26, color=GREY, align="center")
        canvas.arrow((x - (gap if number else 70) + 22, top + high / 2), (x - 10, top + high / 2), color=INK, width=3)
        note = "shares the token table" if number == 3 and data["tied"] else f"{size:,}"
        canvas.text(x + width / 2, top + high + 32, note, size=28, color=BLUE if blue else GREY, align="center")
    draw_block(canvas, data["block"], left + width + gap, top + high + 58, width)


def draw_block(canvas: Canvas, block: list[Data], x: float, y: float, width: float) -> None:
    """The parts of one block in the order they run, opened out from its box (x, y, width) above."""
    floor, bar = 500, 980
    for near, far in ((x, MARGIN), (x + width, WIDTH - MARGIN)):
        canvas.line([(near, y), (near, y + 12), (far, floor - 12), (far, floor)], color=mix(BLUE, 0.4), z=0)
    total = sum(part["parameters"] for part in block)
    canvas.text(MARGIN + 24, floor + 24, f"inside one block: {total:,} parameters", size=28, weight="bold", color=BLUE)
    largest = max(part["parameters"] for part in block)
    kept = sorted(block, key=lambda part: -part["parameters"])[:SHOWN_PARTS]
    shown = [part for part in block if part in kept]
    top, pitch = floor + 56, min(56.0, (BODY_BOTTOM - floor - 56) / len(shown))
    for row, part in enumerate(shown):
        middle = top + (row + 0.5) * pitch
        canvas.text(MARGIN + 24, middle, part["name"], size=22, mono=True, wrap=420, lines=1, smallest=22)
        canvas.text(MARGIN + 640, middle, f"{part['into']:,} → {part['out']:,}", size=24, color=GREY, align="right")
        length = max(bar * part["parameters"] / largest, 2)
        canvas.box(Box(MARGIN + 670, middle - 0.36 * pitch, length, 0.72 * pitch), fill=BLUE, radius=1)
        canvas.text(MARGIN + 686 + length, middle, f"{part['parameters']:,}", size=24, color=BLUE)
    if len(shown) < len(block):
        note = f"the {len(shown)} largest of {len(block)} parts"
        canvas.text(WIDTH - MARGIN - 24, floor + 24, note, size=22, color=GREY, align="right")


# --- hidden states ---


def capture_hidden(lab: Lab) -> Data:
    parts = anatomy(lab)
    seen = enough_tokens(lab)
    states = hidden_states(lab, seen)  # [layers + 1, n, width]
    model = lab.next_logits(seen)
    ids = by_rank(model)[: max(4, min(24, PLACES // states.shape[-1]))].tolist()
    torch = lab.torch
    rms = "rms" in type(parts.norm).__name__.lower()
    eps = float(getattr(parts.norm, "variance_epsilon", getattr(parts.norm, "eps", 1e-5)))
    with torch.inference_mode():
        # an RMS norm hands back its own scale for a vector of ones, however it stores it
        ones = torch.ones(1, states.shape[-1])
        weight = parts.norm(ones)[0] * (1 + eps) ** 0.5 if rms else getattr(parts.norm, "weight", ones[0])
    bias = getattr(parts.norm, "bias", None)
    return {
        "norms": np.linalg.norm(states, axis=-1),  # [layers + 1, n]
        "pieces": lab.pieces(seen),
        "last_state": states[-1, -1],
        "last_but_one_state": states[-2, -1],
        "norm": {
            "kind": "rms" if rms else "layer",
            "weight": weight.detach(),
            "bias": None if bias is None else bias.detach(),
            "eps": eps,
        },
        "scale": parts.scale,
        "ids": ids,
        "candidates": lab.pieces(ids),
        "matrix_rows": parts.head.weight.detach()[ids],
        "matrix_bias": None if getattr(parts.head, "bias", None) is None else parts.head.bias.detach()[ids],
        "model_logits": model[ids],
    }


def normed(state: np.ndarray, norm: Data) -> np.ndarray:
    """RMSNorm (Zhang and Sennrich 2019) or LayerNorm (Ba, Kiros and Hinton 2016), in float64."""
    if norm["kind"] == "layer":
        state = state - state.mean()
    scaled = state / np.sqrt((state**2).mean() + norm["eps"]) * np.array(norm["weight"])
    return scaled if norm["bias"] is None else scaled + np.array(norm["bias"])


def logits_by_hand(data: Data) -> np.ndarray:
    """The logits of the kept rows, from the last hidden state alone; a bias of the output matrix added where there is one."""
    scores = np.array(data["matrix_rows"]) @ normed(np.array(data["last_state"]), data["norm"])
    return (scores if data["matrix_bias"] is None else scores + np.array(data["matrix_bias"])) * data["scale"]


def oracle_hidden(data: Data) -> Verdict:
    by_hand = logits_by_hand(data)
    apart = float(np.abs(by_hand - np.array(data["model_logits"])).max())
    return Verdict(apart < NORM_BOUND, f"{len(by_hand)} logits by hand: max |Δ| {apart:.1e}", f"< {NORM_BOUND:.0e}")


def sabotage_hidden(data: Data, lab: Lab) -> Data:
    """The state after the second-last layer in place of the last."""
    return {**data, "last_state": data["last_but_one_state"]}


def draw_hidden(canvas: Canvas, data: Data) -> None:
    norms, pieces = np.array(data["norms"]), data["pieces"]
    growth = norms[-1, -1] / norms[0, -1]
    times = f"{growth:,.0f}" if growth >= 10 else f"{growth:.1f}"
    canvas.headline(f"Layer by layer each token's vector is added to: the last one ends {times} times as long")
    canvas.reading(
        "One column per token, one row per layer, the token table at the bottom. The stronger the blue, the longer the vector."
    )
    shown = list(range(len(pieces)))
    if len(shown) > SHOWN_POSITIONS:
        shown = [0, *range(len(pieces) - SHOWN_POSITIONS + 1, len(pieces))]
    left, top, bottom, right = 230, 230, 880, 1430
    cut = 30 if len(shown) < len(pieces) else 0  # the gap where tokens are left out
    column, row = min(220, (right - left - cut) / len(shown)), (bottom - top) / len(norms)
    low = np.log(norms.min())
    high = max(np.log(norms.max()), low + np.log(SMALLEST_SPAN))
    for place, position in enumerate(shown):
        x = left + place * column + (cut if place else 0)
        for layer, length in enumerate(norms[:, position]):
            shade = mix(BLUE, 0.05 + 0.95 * (np.log(length) - low) / (high - low))
            canvas.box(Box(x, bottom - (layer + 1) * row, column - 3, row - 2), fill=shade, radius=0)
        canvas.put_tile(Box(x, bottom + 14, column - 3, TILE * 24), pieces[position], size=24)
    if len(shown) < len(pieces):
        canvas.text(left, bottom + 76, f"the first token, then the last {len(shown) - 1} of {len(pieces)}", size=22, color=GREY)
    canvas.text(left - 20, bottom - row / 2, "token table", size=22, color=GREY, align="right")
    canvas.text(left - 20, top + row / 2, f"layer {len(norms) - 1}", size=22, color=GREY, align="right")
    x = left + cut + len(shown) * column + 60
    canvas.text(x, top + 20, "length of the vector", size=24, color=GREY, wrap=WIDTH - MARGIN - x)
    for number in range(5):
        share = 1 - number / 4
        y = top + 62 + number * 62
        canvas.box(Box(x, y, 56, 56), fill=mix(BLUE, 0.05 + 0.95 * share), radius=2)
        length = np.exp(low + share * (high - low))
        canvas.text(x + 72, y + 28, f"{length:,.0f}" if length >= 99.95 else f"{length:#.3g}", size=24)
    most, place = (int(index) for index in np.unravel_index(norms.argmax(), norms.shape))
    where = "in the token table" if most == 0 else f"after layer {most}"
    room = WIDTH - MARGIN - x
    canvas.text(x, top + 396, f"longest: token {place + 1}, {where}", size=24, color=GREY, wrap=room, lines=1, smallest=22)
    grown = f"last token: {significant(norms[0, -1])} grows to {significant(norms[-1, -1])}"
    canvas.text(x, top + 436, grown, size=24, color=GREY, wrap=room, lines=1, smallest=22)
    draw_by_hand(canvas, data, x, top + 500, room)


def draw_by_hand(canvas: Canvas, data: Data, x: float, y: float, room: float) -> None:
    """The highest logits computed from the vector at the top right, beside the model's own."""
    canvas.text(x, y, "logits from the last vector", size=24, weight="bold", wrap=room)
    canvas.text(x + room - 105, y + 36, "by hand", size=22, color=GREY, align="right")
    canvas.text(x + room, y + 36, "model", size=22, color=GREY, align="right")
    by_hand = logits_by_hand(data)
    for row in range(3):
        top = y + 58 + row * 48
        canvas.put_tile(Box(x, top, room - 215, TILE * 22), data["candidates"][row], size=22)
        for shift, value in ((105, by_hand[row]), (0, data["model_logits"][row])):
            canvas.text(x + room - shift, top + 20, f"{value:.2f}".replace("-", "−"), size=24, align="right")


SLIDES = [
    Slide(
        name="anatomy",
        section="The forward pass",
        claim="The parameters shown add up to the model's own count, tied weights once, and each part's shape feeds the next.",
        capture=capture_anatomy,
        oracle=oracle_anatomy,
        sabotage=sabotage_anatomy,
        draw=draw_anatomy,
    ),
    Slide(
        name="hidden_states",
        section="The forward pass",
        claim="The last hidden state through the final norm and the output matrix gives the model's logits.",
        capture=capture_hidden,
        oracle=oracle_hidden,
        sabotage=sabotage_hidden,
        draw=draw_hidden,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
