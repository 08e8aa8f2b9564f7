"""Three ways to decode the same logits, in draws.

It proves that decoding only picks: greedy, temperature and top-p read the same logits, and what was drawn fits the
distribution that float64 NumPy says each of them draws from. It needs the model.
"""

import numpy as np

from pipeline.distributions import by_rank, chi_square, nucleus, seven_digits, softmax
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.columns import Column, compared
from pipeline.drawing.palette import GREY
from pipeline.lab import Lab
from pipeline.slide import Data, Slide, Verdict, run_topic
from pipeline.text import counted

DRAWS, TEMPERATURE, TOP_P = 500, 1.6, 0.9
SHOWN = 8  # tokens with a row of their own


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
    methods = [
        {"name": "greedy", "drawn": scores.expand(DRAWS, -1).argmax(-1).tolist()},
        {"name": f"temperature {TEMPERATURE:g}", "drawn": drawn(TemperatureLogitsWarper(TEMPERATURE)(None, scores), lab.rng(1))},
        {"name": f"top-p {TOP_P:g}", "drawn": drawn(TopPLogitsWarper(TOP_P)(None, scores), lab.rng(2))},
    ]
    ids = by_rank(logits)[:SHOWN].tolist()
    return {
        "logits": logits,
        "shown": [{"id": i, "text": text} for i, text in zip(ids, lab.pieces(ids), strict=True)],
        "draws": DRAWS,
        "temperature": TEMPERATURE,
        "top_p": TOP_P,
        "methods": methods,
    }


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
    holds = (
        len(greedy) == len(hot) == len(inside) == data["draws"]
        and set(greedy) == {int(plain.argmax())}
        and a <= a_most
        and b <= b_most
        and outside == 0
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
    methods, draws, ids = data["methods"], data["draws"], [token["id"] for token in data["shown"]]
    distinct = [len(set(method["drawn"])) for method in methods]
    found = ", ".join(f"{method['name']} finds {count:,}" for method, count in zip(methods, distinct, strict=True))
    body = canvas.titled(
        f"Same logits, {draws} draws each: {found}",
        "Bars: how often each token came out. Upright ticks: how often its probability says it should.",
    )
    vocabulary, rank = len(data["logits"]), np.argsort(by_rank(np.array(data["logits"]))) + 1
    columns = []
    for method, count, probabilities in zip(methods, distinct, distributions(data), strict=True):
        rows = np.bincount(method["drawn"], minlength=vocabulary)[ids].tolist()
        rows.append(draws - sum(rows))
        inside = probabilities[ids].tolist()
        expected = [draws * share for share in (*inside, max(0.0, 1 - sum(inside)))]
        deepest = f"rank {rank[method['drawn']].max():,}"
        columns.append(
            Column(method["name"], counted(count, "different token"), rows, [f"{row}" for row in rows], expected, deepest)
        )
    foot = compared(canvas, body, [token["text"] for token in data["shown"]], vocabulary, columns, draws)
    canvas.put(foot, "deepest drawn", color=GREY, align="right")


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
