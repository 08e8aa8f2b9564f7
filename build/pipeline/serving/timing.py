"""The time of a streamed answer: its parts, its chunks, and what the server says of reading the prompt. Knows no figure."""

from typing import Any

from pipeline.serving.client import Exchange
from pipeline.serving.messages import reported

UNFINISHED = "\ufffd"  # what stands for a character that is cut
WHOLE_SLACK = 1.001  # parts and whole are read off one clock; a thousandth allows for their rounding to microseconds
THEIRS = (("getting ready", "load_duration"), ("prefill", "prompt_eval_duration"), ("decode", "eval_duration"))
OURS = ("prefill", "decode", "closing")  # an answer's parts by our own clock; of Ollama's, with the fields they come from
Run = dict[str, Any]


def what_is_reported(runs: list[Exchange]) -> str:
    """What a server says of reading a prompt that it knows: how long it took, how much of it was cached, or nothing."""
    first, again = runs
    if first.cached_tokens is not None and not (again.cached_tokens or 0) > first.cached_tokens:
        return "nothing"  # it says that it has no such cache
    if first.reading_ms is not None:
        return "durations"
    return "counts" if again.cached_tokens is not None else "nothing"


def run_of(exchange: Exchange) -> Run:
    """One streamed answer: its chunks, and its parts by the server's clock where it reports one, else by ours."""
    parts, whole = times(exchange)
    return {
        "chunks": [{"ms": seconds * 1000, "text": text} for seconds, text in exchange.chunks],
        "parts": parts,
        "whole_ms": whole,
        "seen_ms": exchange.seconds * 1000,
        "reading_ms": 0.0 if exchange.reading_ms is None else float(exchange.reading_ms),
        "prompt_tokens": reported(exchange.prompt_tokens),
        "cached_tokens": exchange.cached_tokens or 0,
    }


def times(exchange: Exchange) -> tuple[list[dict[str, Any]], float]:
    """The parts of an answer's time, and the whole, in milliseconds."""
    answer = exchange.answer
    if "total_duration" in answer:  # nanoseconds; a part that took none is left out of the answer
        # of a loaded model, load_duration is what passes before its runner is at hand
        return [{"name": name, "ms": answer.get(key, 0) / 1e6} for name, key in THEIRS], answer["total_duration"] / 1e6
    first, last = exchange.chunks[0][0], exchange.chunks[-1][0]
    moments = zip(OURS, (first, last - first, exchange.seconds - last), strict=True)
    return [{"name": name, "ms": seconds * 1000} for name, seconds in moments], exchange.seconds * 1000


def possible(run: Run) -> bool:
    """Whether an answer's times can be: parts within the whole, chunks in order and before the end."""
    spent = sum(part["ms"] for part in run["parts"])
    arrivals = [chunk["ms"] for chunk in run["chunks"]]
    names = tuple(part["name"] for part in run["parts"])
    ours = (
        names == OURS
        and abs(spent - run["whole_ms"]) <= (WHOLE_SLACK - 1) * run["whole_ms"]
        and run["whole_ms"] == run["seen_ms"]
    )
    in_order = (ours or names == tuple(name for name, _ in THEIRS)) and all(
        0 <= a <= b for a, b in zip(arrivals, [*arrivals[1:], run["seen_ms"]], strict=True)
    )
    return in_order and 0 < spent <= run["whole_ms"] * WHOLE_SLACK and all(part["ms"] >= 0 for part in run["parts"])


def joined(run: Run) -> str:
    """A stream's text. It holds back a character whose bytes have not all come, where an unstreamed answer shows U+FFFD."""
    return "".join(chunk["text"] for chunk in run["chunks"]).rstrip(UNFINISHED)
