"""Captures against captures: what a retaken one says that the committed one does not.

Whole numbers, words and truth values must be equal; floats may differ within the slide's tolerance; a timed slide must
only keep its claim. A capture of another model, server or sentence cannot be compared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.slide import OracleFailure, Slide, Tolerance, assert_holds


def apart(slide: Slide, committed: Mapping[str, Any], retaken: Mapping[str, Any]) -> list[str]:
    """Why a retaken capture that holds does not agree with the committed one, one line each; empty when it does."""
    if source := other_source(committed["provenance"], retaken["provenance"]):
        return [source]
    try:
        assert_holds(slide, committed["data"])
    except OracleFailure as failure:
        return [f"the committed capture does not hold ({failure})"]
    return [] if slide.volatile else list(map(str, differences(committed["data"], retaken["data"], slide.tolerance)))


def other_source(committed: Mapping[str, Any], retaken: Mapping[str, Any]) -> str:
    """Why two captures cannot be compared, or nothing."""
    for part, keys in (("server", ("kind", "name", "version", "model", "digest")), ("model", ("name", "sha256"))):
        then, now = committed[part], retaken[part]
        if then and now and any(then.get(key) != now.get(key) for key in keys):
            return f"taken from {label(then)}, this machine has {label(now)}"
    if committed["sentence_sha256"] != retaken["sentence_sha256"]:
        return "taken of another sentence"
    return ""


def label(source: Mapping[str, Any]) -> str:
    if "kind" in source:
        engine = " ".join(filter(None, (source["name"], source["version"])))
        return f"{source['model']} on {engine}" + (f" (digest {source['digest'][:8]})" if source["digest"] else "")
    return f"{source['name']} (sha256 {source['sha256'][:8]})"


@dataclass(frozen=True)
class Difference:
    """One place where a retaken value is not the committed one. `bound` says how far a float might have moved."""

    where: str
    told: str  # what became of it, as a line says it
    was: Any = ""
    now: Any = ""
    bound: str = "equal"

    def __str__(self) -> str:
        return f"{self.where} {self.told}"

    def cells(self) -> tuple[Any, ...]:
        """Field, was, is, bound."""
        return self.where, self.was, self.now if self.now != "" else self.told, self.bound


def differences(then: Any, now: Any, tolerance: Tolerance, where: str = "") -> Iterator[Difference]:
    """Each place where a retaken value differs from the committed one."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in sorted(then.keys() | now.keys()):
            if key not in then or key not in now:
                yield Difference(f"{where}.{key}".lstrip("."), "is new" if key in now else "is gone")
            else:
                yield from differences(then[key], now[key], tolerance, f"{where}.{key}".lstrip("."))
    elif isinstance(then, list) and isinstance(now, list):
        if len(then) != len(now):
            yield Difference(where, f"has {len(now)} entries, was {len(then)}", len(then), len(now))
        for index, (a, b) in enumerate(zip(then, now, strict=False)):
            yield from differences(a, b, tolerance, f"{where}[{index}]")
    elif isinstance(then, float | int) and isinstance(now, float | int) and float in (type(then), type(now)):
        if not tolerance.allows(then, now):
            bound = f"± {tolerance.atol:g} + {tolerance.rtol:g} × {abs(then):.6g}"
            yield Difference(where, f"is {now:.6g}, was {then:.6g}", f"{then:.6g}", f"{now:.6g}", bound)
    elif then != now or type(then) is not type(now):
        yield Difference(where, f"is {now!r}, was {then!r}", then, now)
