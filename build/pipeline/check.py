"""Captures against captures: every one taken again, held against the committed one.

Whole numbers, words and truth values must be equal; floats may differ within the slide's tolerance; a timed slide must
only keep its claim. A capture of another model or another kind of server is not comparable, and said to be.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.lab import Lab
from pipeline.paths import Out
from pipeline.run import Row, read_capture, take
from pipeline.slide import OracleFailure, Slide, Tolerance

SHOWN = 3  # differences told for one slide


@dataclass
class Comparison:
    """What `--check` found for one slide."""

    row: Row
    drift: list[str] = field(default_factory=list)
    not_comparable: str = ""


def tell_nobody(slide: Slide, found: list[Comparison]) -> None:
    """Says nothing."""


def check(
    slides: Sequence[Slide], lab: Lab, out: Out, tell: Callable[[Slide, list[Comparison]], None] = tell_nobody
) -> list[Comparison]:
    """Take every capture again, in memory, and compare; the committed files are only read."""
    found: list[Comparison] = []
    kept = [read_capture(out, slide) for slide in slides]  # a missing one is told before anything is taken
    for slide, committed in zip(slides, kept, strict=True):
        tell(slide, found)
        comparison = Comparison(Row(slide))
        found.append(comparison)
        try:
            text, comparison.row.verdict = take(slide, lab)
        except OracleFailure as failure:
            comparison.row.failure = str(failure)
            continue
        retaken = json.loads(text)
        comparison.not_comparable = other_source(committed["provenance"], retaken["provenance"])
        if not comparison.not_comparable and not slide.volatile:
            comparison.drift = list(differences(committed["data"], retaken["data"], slide.tolerance))
    return found


def other_source(committed: Mapping[str, Any], retaken: Mapping[str, Any]) -> str:
    """Why two captures cannot be compared, or nothing."""
    for part, keys in (("server", ("kind", "model")), ("model", ("name", "sha256"))):
        then, now = committed[part], retaken[part]
        if then and now and any(then.get(key) != now.get(key) for key in keys):
            return f"taken from {label(then)}, this machine has {label(now)}"
    if committed["sentence_sha256"] != retaken["sentence_sha256"]:
        return "taken of another sentence"
    return ""


def label(source: Mapping[str, Any]) -> str:
    return f"{source['model']} on {source['name']}" if "kind" in source else f"{source['name']} (sha256 {source['sha256'][:8]})"


def differences(then: Any, now: Any, tolerance: Tolerance, where: str = "") -> Iterator[str]:
    """Each place where a retaken value differs from the committed one, one line each."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in sorted(then.keys() | now.keys()):
            if key not in then or key not in now:
                yield f"{where}.{key} is {'new' if key in now else 'gone'}".lstrip(".")
            else:
                yield from differences(then[key], now[key], tolerance, f"{where}.{key}".lstrip("."))
    elif isinstance(then, list) and isinstance(now, list):
        if len(then) != len(now):
            yield f"{where} has {len(now)} entries, was {len(then)}"
        for index, (a, b) in enumerate(zip(then, now, strict=False)):
            yield from differences(a, b, tolerance, f"{where}[{index}]")
    elif isinstance(then, float | int) and isinstance(now, float | int) and float in (type(then), type(now)):
        if not tolerance.allows(then, now):
            yield f"{where} is {now:.6g}, was {then:.6g}"
    elif then != now or type(then) is not type(now):
        yield f"{where} is {now!r}, was {then!r}"
