"""What a slide is: a capture with pure readers; and a deck: slides in an order. Knows no torch and no matplotlib.

A capture is measured once and kept as JSON; its oracle, its drawing and its words only read it.
"""

import functools
import importlib
import importlib.util
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipeline.errors import BadInput

if TYPE_CHECKING:
    from pipeline.drawing.canvas import Canvas
    from pipeline.lab import Lab

Data = dict[str, Any]


class OracleFailure(AssertionError):
    """An oracle does not hold for a capture. The message is one line: slide, measured, bound."""


@dataclass(frozen=True)
class Verdict:
    """What an oracle found: `measured` against `bound`, both short enough for a figure's foot."""

    holds: bool
    measured: str
    bound: str


@dataclass(frozen=True)
class Tolerance:
    """How far a float of a retaken capture may lie from the committed one: atol + rtol * |committed|."""

    atol: float = 1e-3
    rtol: float = 1e-3

    def allows(self, committed: float, retaken: float) -> bool:
        return abs(retaken - committed) <= self.atol + self.rtol * abs(committed)


@dataclass(frozen=True)
class Slide:
    """One slide. The four functions are read in this order: measure, assert, sabotage, draw.

    capture(lab) -> data        the only one that touches the model or the server
    oracle(data) -> Verdict     compares with something independent
    sabotage(data, lab) -> data what the oracle must refuse: a sabotaged real run, or a copy tampered with
    draw(canvas, data)          sees neither model nor server

    Its number and its part come from its place in a deck.
    """

    name: str
    section: str
    claim: str
    capture: Callable[["Lab"], Data]
    oracle: Callable[[Data], Verdict]
    sabotage: Callable[[Data, "Lab"], Data]
    draw: Callable[["Canvas", Data], None]
    kind: Literal["photograph", "concept"] = "photograph"
    needs: tuple[Literal["sentence", "model", "server"], ...] = ("model",)
    volatile: bool = False
    own: bool = False  # it asks a server for the deck's own model, whatever the other slides ask it for
    asks: bool = False  # `--ask MODEL` takes it against a provider instead of the server
    tolerance: Tolerance = Tolerance()
    number: int = 0
    part: str = ""

    @property
    def is_title(self) -> bool:
        """Whether it opens its deck."""
        return self.number == 1

    @property
    def topic(self) -> str:
        """The stem of the topic script that the slide's functions stand in."""
        return self.capture.__module__.rpartition(".")[2]

    def section_on(self, server: str | None) -> str:
        """The section, with the name of the server that was asked where it says {server}."""
        return self.section.replace("{server}", server or "A model server")

    @property
    def id(self) -> str:
        """`topic/name`: the stem of its capture, its figure and its words."""
        return f"{self.topic}/{self.name}"


@dataclass(frozen=True)
class Part:
    """A part of a deck: it begins with the first of its topics. An entry is `topic`, for all of its slides, or `topic/slide`."""

    title: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class Deck:
    """One deck as data: what it is called, and what stands in it, in order."""

    name: str
    title: str
    subtitle: str
    parts: tuple[Part, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """Each topic once, in the order of the deck."""
        return tuple(dict.fromkeys(entry.partition("/")[0] for part in self.parts for entry in part.topics))

    @functools.cached_property
    def slides(self) -> tuple[Slide, ...]:
        """Every slide with its number and its part. Raises BadInput for an entry that names none."""
        entries = [(entry, part.title) for part in self.parts for entry in part.topics]
        if unknown := [entry for entry, _ in entries if not slides_of(entry)]:
            raise BadInput(f"{self.name} in build/decks.py names {unknown[0]}, and no script in build/topics has such a slide")
        placed = [(slide, part) for entry, part in entries for slide in slides_of(entry)]
        return tuple(replace(slide, number=number, part=part) for number, (slide, part) in enumerate(placed, 1))


def slides_of(entry: str) -> list[Slide]:
    """The slides that `topic` or `topic/slide` names, out of the topic's script; none when there are no such slides."""
    topic = entry.partition("/")[0]
    if importlib.util.find_spec(f"topics.{topic}") is None:
        return []
    return [slide for slide in importlib.import_module(f"topics.{topic}").SLIDES if entry in (topic, slide.id)]


def run_topic(script: str) -> None:
    """What a topic's script does when it is run: the command, for its own slides."""
    sys.exit(importlib.import_module("regen_all").main(["--only", Path(script).stem, *sys.argv[1:]]))


def assert_holds(slide: Slide, data: Data) -> Verdict:
    """Run a slide's oracle on the data of a capture.

    Raises OracleFailure when the verdict does not hold, when any number in the data is NaN or infinite, when any
    list is empty, and when the data lacks what the oracle reads.
    """
    flaw = first_flaw(data)
    if flaw:
        raise OracleFailure(f"{slide.id}: {flaw}")
    try:
        verdict = slide.oracle(data)
    except Exception as error:  # a capture of any other shape must fail, never stop the run
        lacks = f"it lacks {error}" if isinstance(error, KeyError) else f"it has another shape: {error}"
        raise OracleFailure(f"{slide.id}: the capture cannot be judged, {lacks}") from error
    if not verdict.holds:
        raise OracleFailure(f"{slide.id}: {verdict.measured}; must hold: {verdict.bound}")
    return replace(verdict, holds=True)  # NumPy's truth is no JSON


def first_flaw(value: Any, where: str = "data") -> str | None:
    """Say where the first NaN, infinity, empty list or list of mixed kinds of a JSON value stands; None when there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{where} is {value}"
    if isinstance(value, Mapping):
        children = ((f"{where}.{key}", child) for key, child in value.items())
    elif isinstance(value, list | tuple):
        kinds = set(map(type, value)) - {type(None)}
        if not value:
            return f"{where} is an empty list"
        if len(kinds) > 1 and kinds != {int, float}:
            return f"{where} holds values of different kinds"
        if kinds <= {int, str} or (kinds <= {int, float} and None not in value and all(map(math.isfinite, value))):
            return None  # tens of thousands of numbers, looked at in one go
        children = ((f"{where}[{index}]", child) for index, child in enumerate(value))
    else:
        return None
    return next((flaw for name, child in children if (flaw := first_flaw(child, name))), None)


def to_json(capture: Data) -> str:
    """Serialise a capture: the same text for the same capture, whatever the order its keys were set in.

    Floats are kept to nine significant digits, which is every bit of a float32.
    """
    return json.dumps(_plain(capture), ensure_ascii=True, sort_keys=True, indent=None, separators=(",", ":")) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(child) for key, child in value.items()}
    if hasattr(value, "tolist"):  # a NumPy array or number, a torch tensor
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(child) for child in value]
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.9g}")
    return value
