"""Slides 8-9: the parts one call runs through, and the length of the hidden states.

They prove that the parameters shown are all there are, and that the last hidden state alone makes the logits. They need
the model.
"""

import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from pipeline.anatomy import anatomy, first_tensor, hidden_states, hooked
from pipeline.canvas import BLUE, FAINT, GREY, INK, MARGIN, PALE, WIDTH, Canvas, mix
from pipeline.chances import by_rank
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict

NORM_BOUND = 1e-3  # float32 sums of a few hundred terms near 20 against float64: 2e-5 here
SHOWN_POSITIONS = 14  # columns of a heat map: more would be too narrow for a token
PART_NAMES = {"self_attn": "attention", "attn": "attention", "mlp": "MLP"}  # a module's name, as people say it
PLACES = 16_000  # numbers of the output matrix that slide 9 keeps


# --- 8 · shapes and parameters ---


def capture_anatomy(lab: Lab) -> Data:
    parts = anatomy(lab)
    beside = [child for child in parts.backbone.children() if child not in (parts.table, parts.layers, parts.norm)]
    seen: set[int] = set()

    def count(*modules: Any) -> int:
        """Parameters of these modules that no part before had: a tied matrix counts once."""
        new = {id(p): p.numel() for module in modules for p in module.parameters() if id(p) not in seen}
        seen.update(new)
        return sum(new.values())

    shapes: dict[int, tuple[list[int], list[int]]] = {}

    def note(module: Any, args: tuple, kwargs: dict, output: Any) -> None:
        shapes[id(module)] = tuple(list(first_tensor(*value).shape[1:]) for value in ((args, kwargs), (output,)))

    modules = [parts.table, *parts.layers, parts.norm, parts.head]
    with hooked([(module, note) for module in modules]):
        lab.logits(lab.ids)
    names = ["token table", *(f"block {n}" for n in range(1, len(parts.layers) + 1)), "final norm", "output matrix"]
    stages = []
    for name, module in zip(names, modules, strict=True):
        into, out = shapes[id(module)]
        owners = [parts.table, *beside] if module is parts.table else [module]
        stages.append({"name": name, "into": into, "out": out, "parameters": count(*owners)})
    inside = {name: sum(p.numel() for p in child.parameters()) for name, child in parts.layers[0].named_children()}
    return {
        "stages": stages,
        "layers": int(lab.model.config.num_hidden_layers),
        "inside": [{"name": name, "parameters": size} for name, size in inside.items() if size],
        "total": int(lab.model.num_parameters()),
        "tied": parts.head.weight is parts.table.weight,
    }


def judge_anatomy(data: Data) -> Verdict:
    stages = data["stages"]
    total = sum(stage["parameters"] for stage in stages)
    joints = sum(after["into"] == before["out"] for before, after in zip(stages, stages[1:], strict=False))
    return Verdict(
        total == data["total"] and joints == len(stages) - 1 == data["layers"] + 2,
        f"{total:,} parameters, {joints} joints fit",
        f"= {data['total']:,}, {data['layers'] + 2} of {data['layers'] + 2}",
    )


def spoil_anatomy(data: Data, lab: Lab) -> Data:
    """One layer dropped."""
    return {**data, "stages": [*data["stages"][:1], *data["stages"][2:]]}


def shape(numbers: list[int]) -> str:
    return " × ".join(f"{number:,}" for number in numbers)


def draw_anatomy(canvas: Canvas, data: Data) -> None:
    first, *blocks, norm, head = data["stages"]
    in_blocks = sum(block["parameters"] for block in blocks)
    canvas.headline(f"{data['total']:,} parameters, {in_blocks / data['total']:.0%} of them in {len(blocks)} blocks of one build")
    canvas.reading("Left to right, what one call runs through and the shape it hands on. The bars: where the parameters are.")
    columns = [
        ("token table", shape(first["out"]), first["parameters"]),
        (f"{len(blocks)} blocks", shape(blocks[-1]["out"]), in_blocks),
        ("final norm", shape(norm["out"]), norm["parameters"]),
        ("output matrix", shape(head["out"]), head["parameters"]),
    ]
    width, gap, top, high = 340, 100, 330, 130
    left = MARGIN + 140
    canvas.text(MARGIN, top + high / 2 - 18, "token ids", size=24, color=GREY)
    canvas.text(MARGIN, top + high / 2 + 18, shape(first["into"]), size=24, weight="bold")
    floor, tallest = 940, 280
    largest = max(size for _, _, size in columns)
    for number, (name, gives, size) in enumerate(columns):
        x = left + number * (width + gap)
        blue = number == 1
        if number == 1:
            for behind in (2, 1):
                canvas.box(x + 9 * behind, top - 9 * behind, width, high, fill=mix(BLUE, 0.12), edge=canvas.paper, z=1)
        canvas.box(x, top, width, high, fill=mix(BLUE, 0.18) if blue else FAINT, z=2)
        canvas.text(x + width / 2, top + 46, name, size=30, weight="bold", align="center").set_zorder(4)
        canvas.text(x + width / 2, top + 92, f"gives {gives}", size=24, color=GREY, align="center").set_zorder(4)
        if number:
            canvas.arrow(x - gap + 26, top + high / 2, x - 14, top + high / 2, color=INK, width=3)
        tall = tallest * size / largest
        if tall > 0:
            canvas.box(x + 20, floor - tall, width - 40, max(tall, 2), fill=BLUE if blue else PALE, radius=1)
        tied = number == 3 and data["tied"]
        note = "shares the token table's" if tied else f"{size:,}"
        canvas.text(x + width / 2, floor - tall - 26, note, size=26, color=BLUE if blue else GREY, align="center")
    canvas.line([(left, floor), (WIDTH - MARGIN, floor)], color=PALE)
    draw_inside(canvas, data["inside"], left + width + gap, top + high + 40, width)


def draw_inside(canvas: Canvas, inside: list[Data], x: float, y: float, width: float) -> None:
    """What one block is made of, as one line of text under its box."""
    total = sum(part["parameters"] for part in inside)
    big = [part for part in inside if part["parameters"] > 0.01 * total]
    text = ", ".join(f"{PART_NAMES.get(part['name'], part['name'])} {part['parameters'] / total:.0%}" for part in big)
    canvas.text(x + width / 2, y, f"in each: {text}", size=22, color=BLUE, align="center", wrap=width + 60, lines=1, smallest=22)


# --- 9 · hidden states ---


def capture_hidden(lab: Lab) -> Data:
    parts = anatomy(lab)
    states = hidden_states(lab, lab.ids)  # [layers + 1, n, width]
    model = lab.next_logits(lab.ids)
    ids = by_rank(model)[: max(8, min(24, PLACES // states.shape[-1]))].tolist()
    torch = lab.torch
    rms = "rms" in type(parts.norm).__name__.lower()
    with torch.inference_mode():
        # an RMS norm hands back its own scale for a vector of ones, however it stores it
        weight = parts.norm(torch.ones(1, states.shape[-1]))[0] if rms else parts.norm.weight
    bias = getattr(parts.norm, "bias", None)
    return {
        "norms": np.linalg.norm(states, axis=-1),  # [layers + 1, n]
        "pieces": lab.pieces(lab.ids),
        "last_state": states[-1, -1],
        "last_but_one_state": states[-2, -1],
        "norm": {
            "kind": "rms" if rms else "layer",
            "weight": weight.detach(),
            "bias": None if bias is None else bias.detach(),
            "eps": float(getattr(parts.norm, "variance_epsilon", getattr(parts.norm, "eps", 1e-5))),
        },
        "scale": parts.scale,
        "ids": ids,
        "matrix_rows": parts.head.weight.detach()[ids],
        "model_logits": model[ids],
    }


def normed(state: np.ndarray, norm: Data) -> np.ndarray:
    """RMSNorm (Zhang and Sennrich 2019) or LayerNorm (Ba, Kiros and Hinton 2016), in float64."""
    if norm["kind"] == "layer":
        state = state - state.mean()
    scaled = state / np.sqrt((state**2).mean() + norm["eps"]) * np.array(norm["weight"])
    return scaled if norm["bias"] is None else scaled + np.array(norm["bias"])


def judge_hidden(data: Data) -> Verdict:
    by_hand = np.array(data["matrix_rows"]) @ normed(np.array(data["last_state"]), data["norm"]) * data["scale"]
    apart = float(np.abs(by_hand - np.array(data["model_logits"])).max())
    return Verdict(apart < NORM_BOUND, f"{len(by_hand)} logits by hand: max |Δ| {apart:.1e}", f"< {NORM_BOUND:.0e}")


def spoil_hidden(data: Data, lab: Lab) -> Data:
    """The state after the second-last layer in place of the last."""
    return {**data, "last_state": data["last_but_one_state"]}


def draw_hidden(canvas: Canvas, data: Data) -> None:
    norms, pieces = np.array(data["norms"]), data["pieces"]
    growth = norms[-1, -1] / norms[0, -1]
    canvas.headline(f"Layer by layer each token's vector is added to: the last one ends {growth:,.0f} times as long")
    canvas.reading(
        "One column a token, one row a layer, the token table at the bottom. The darker, the longer the vector (log scale)."
    )
    shown = list(range(len(pieces)))
    if len(shown) > SHOWN_POSITIONS:
        shown = [0, *range(len(pieces) - SHOWN_POSITIONS + 1, len(pieces))]
    left, top, bottom, right = 230, 230, 880, 1560
    column, row = min(220, (right - left) / len(shown)), (bottom - top) / len(norms)
    low, high = np.log(norms.min()), np.log(norms.max())
    for place, position in enumerate(shown):
        for layer, length in enumerate(norms[:, position]):
            share = (np.log(length) - low) / max(high - low, 1e-9)
            canvas.box(
                left + place * column,
                bottom - (layer + 1) * row,
                column - 3,
                row - 2,
                fill=mix(BLUE, 0.05 + 0.95 * share),
                radius=0,
            )
        canvas.tile(pieces[position], left + place * column, bottom + 14, size=24, width=column - 6)
    if len(shown) < len(pieces):
        canvas.text(left, bottom + 76, f"the first token, then the last {len(shown) - 1} of {len(pieces)}", size=22, color=GREY)
    canvas.text(left - 20, bottom - row / 2, "token table", size=22, color=GREY, align="right")
    canvas.text(left - 20, top + row / 2, f"layer {len(norms) - 1}", size=22, color=GREY, align="right")
    x = left + len(shown) * column + 60
    canvas.text(x, top + 20, "length of the vector", size=24, color=GREY, wrap=WIDTH - MARGIN - x)
    for number in range(5):
        share = 1 - number / 4
        y = top + 90 + number * 62
        canvas.box(x, y, 56, 56, fill=mix(BLUE, 0.05 + 0.95 * share), radius=2)
        length = np.exp(low + share * (high - low))
        canvas.text(x + 72, y + 28, f"{length:,.0f}" if length >= 100 else f"{length:.3g}", size=24)
    most, place = np.unravel_index(norms.argmax(), norms.shape)
    where = "in the token table" if most == 0 else f"after layer {most}"
    canvas.text(
        x, top + 450, f"longest: token {place + 1}, {where}", size=24, weight="bold", wrap=WIDTH - MARGIN - x, valign="top"
    )


SLIDES = [
    Slide(
        number=8,
        name="anatomy",
        section="The forward pass",
        claim="The parameters shown add up to the model's own count, tied weights once, and each part's shape feeds the next.",
        capture=capture_anatomy,
        oracle=judge_anatomy,
        sabotage=spoil_anatomy,
        draw=draw_anatomy,
    ),
    Slide(
        number=9,
        name="hidden_states",
        section="The forward pass",
        claim="The last hidden state through the final norm and the output matrix gives the model's logits.",
        capture=capture_hidden,
        oracle=judge_hidden,
        sabotage=spoil_hidden,
        draw=draw_hidden,
    ),
]

if __name__ == "__main__":
    from regen_all import main

    sys.exit(main(["--only", Path(__file__).stem, *sys.argv[1:]]))
