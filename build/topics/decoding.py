"""Three ways to decode the same logits, in draws.

It proves that decoding only picks: greedy, temperature and top-p read the same logits, and what was drawn fits the
distribution that float64 NumPy says each of them draws from. It needs the model.
"""

import numpy as np

from pipeline.distributions import by_rank, chi_square, nucleus, plausible, seven_digits, smallest_prefix, softmax
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import BODY, GAP, LEADING, PAD, TILE, TITLE, Box
from pipeline.drawing.palette import BLUE
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic

DRAWS, TEMPERATURE, TOP_P = 500, 1.6, 0.9
GOES_ON = 8  # tokens of each method's continuation, the first of its draws among them
SLIVER = 3  # pixels: narrower parts of a strip run together


def drawn(scores, rng: np.random.Generator) -> list[int]:
    """DRAWS tokens from the softmax of `scores` [1, vocabulary], each the winner of a race with exponential waiting times.

    torch draws a single token in the same way. Unlike a search in the summed probabilities, where a change in a logit's
    last bit moves every later edge, this gives the same tokens on another processor.
    """
    probabilities = scores.softmax(-1)[0].numpy()  # [vocabulary]
    return [int((probabilities / rng.standard_exponential(len(probabilities))).argmax()) for _ in range(DRAWS)]


def capture_three_ways(lab: Lab) -> Data:
    from transformers import TemperatureLogitsWarper, TopPLogitsWarper

    logits = seven_digits(lab.next_logits(lab.ids))
    scores = lab.torch.tensor(logits)[None]  # [1, vocabulary]
    methods: list[Data] = [{"name": "greedy", "drawn": scores.expand(DRAWS, -1).argmax(-1).tolist()}]
    warpers = TemperatureLogitsWarper(TEMPERATURE), TopPLogitsWarper(TOP_P)
    for salt, (name, draws_by) in enumerate(zip((f"temperature {TEMPERATURE:g}", f"top-p {TOP_P:g}"), warpers, strict=True), 1):
        methods.append({"name": name, "drawn": drawn(draws_by(None, scores), lab.rng(salt))})
    for salt, (method, warper) in enumerate(zip(methods, (None, *warpers), strict=True), 3):
        method["goes_on"] = continuation(lab, method["drawn"][0], warper, lab.rng(salt))
    return {"logits": logits, "draws": DRAWS, "temperature": TEMPERATURE, "top_p": TOP_P, "methods": methods}


def continuation(lab: Lab, first: int, warper, rng: np.random.Generator) -> list[Data]:
    """The text goes on from the first draw in the same way: of each token its rank among all, and how many top-p would keep."""
    chosen: list[int] = []
    found = []
    while len(chosen) < GOES_ON:
        logits = seven_digits(lab.next_logits(lab.ids + chosen))
        scores = lab.torch.tensor(logits)[None]
        order = by_rank(logits)
        token = first if not chosen else drawn(warper(None, scores), rng)[0] if warper else int(order[0])
        kept = smallest_prefix(softmax(logits)[order], TOP_P)
        chosen.append(token)
        rank = order.tolist().index(token) + 1
        found.append({"id": token, "text": lab.pieces([token])[0], "rank": rank, "kept": kept})
    return found


def distributions(data: Data) -> list[np.ndarray]:
    """What each of the three methods draws from, float64 [vocabulary]."""
    logits = np.array(data["logits"])
    plain = softmax(logits)
    greedy = (np.arange(len(plain)) == plain.argmax()).astype(float)
    return [greedy, softmax(logits / data["temperature"]), nucleus(plain, data["top_p"])]


def oracle_three_ways(data: Data) -> Verdict:
    greedy, hot, inside = (method["drawn"] for method in data["methods"])
    plain, tempered, cut = distributions(data)
    (a, a_free, a_most), (b, b_free, b_most) = chi_square(hot, tempered), chi_square(inside, cut)
    logits = np.array(data["logits"])
    outside = int((logits[inside] < logits[cut > 0].min()).sum())
    texts = [method["goes_on"] for method in data["methods"]]
    go_on = (
        all(text[0]["id"] == method["drawn"][0] for text, method in zip(texts, data["methods"], strict=True))
        and all(step["rank"] == 1 for step in texts[0])
        and all(1 <= step["rank"] <= step["kept"] for step in texts[2])
        and {len(text) for text in texts} == {GOES_ON}
    )
    holds = (
        go_on
        and len(greedy) == len(hot) == len(inside) == data["draws"]
        and set(greedy) == {int(plain.argmax())}
        and a <= a_most
        and b <= b_most
        and outside == 0
        and (data["temperature"], data["top_p"]) == (TEMPERATURE, TOP_P)
        and plausible(logits)
    )
    return Verdict(
        holds,
        f"greedy {len(set(greedy))} token; χ² {a:.0f}, {b:.0f}; {outside} outside",
        f"1; ≤ {a_most:.0f} ({a_free} df), {b_most:.0f} ({b_free} df); 0",
    )


def sabotage_three_ways(data: Data, lab: Lab) -> Data:
    """Real draws from the wrong distribution: the weights forgotten, every token as likely as any other."""
    rng, (greedy, *random) = lab.rng(), data["methods"]
    wrong = [{**method, "drawn": rng.integers(len(data["logits"]), size=data["draws"]).tolist()} for method in random]
    return {**data, "methods": [greedy, *wrong]}


def draw_three_ways(canvas: Canvas, data: Data) -> None:
    methods = data["methods"]
    body = canvas.titled(
        "The scores stay the same; only the way to pick differs",
        f"Each strip: {data['draws']} picks of the next token, a part for each token. Under it: one text that goes on so.",
    )
    for method, row in zip(methods, body.even_rows(len(methods), gap=2 * PAD), strict=True):
        head, strip, text = row.rows(TITLE * LEADING, ..., TILE * BODY, gap=GAP)
        counts = sorted(np.unique(method["drawn"], return_counts=True)[1].tolist(), reverse=True)
        canvas.put(head, method["name"], size=TITLE, weight="bold")
        found = f"{len(counts)} different tokens" if len(counts) > 1 else "always the same token"
        canvas.put(head, found, size=TITLE, weight="bold", align="right")
        draw_draws(canvas, strip, counts)
        canvas.put_tiles(text, [step["text"] for step in method["goes_on"]], accents=[BLUE] * len(method["goes_on"]))


def draw_draws(canvas: Canvas, strip: Box, counts: list[int]) -> None:
    """The picks as one strip, the most frequent token first; where the parts become slivers, lines stand for them."""
    canvas.box(strip, fill=canvas.tint(BLUE, 0.3), radius=0)
    parts = strip.columns(*(strip.w * count / sum(counts) for count in counts))
    for part in parts:
        if part.w > 2 * SLIVER:
            canvas.box(part, fill=BLUE if part is parts[0] else canvas.tint(BLUE, 0.6), edge=canvas.paper, radius=0)
        else:
            canvas.line([(part.x, part.y), (part.x, part.bottom)], color=canvas.paper, width=0.8)


SLIDES = [
    Slide(
        name="three_ways",
        section="Three ways to decode the same logits",
        claim="Greedy gives one token, the draws fit the distributions they came from, and none leaves the nucleus.",
        capture=capture_three_ways,
        oracle=oracle_three_ways,
        sabotage=sabotage_three_ways,
        draw=draw_three_ways,
    ),
]

if __name__ == "__main__":
    run_topic(__file__)
