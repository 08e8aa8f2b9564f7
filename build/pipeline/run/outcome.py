"""What a run, and what `--check`, found for each slide; and what follows it while it works."""

from dataclasses import dataclass, field
from typing import Any

from pipeline.run.compare import Difference
from pipeline.slide import Slide, Verdict

SHOWN = 3  # differences shown for one slide


@dataclass
class Row:
    """One line of the table at the end.

    `verdict` is of the capture that the deck shows. `seconds` is the time that taking one here took, None when none was
    taken; `here` is then its verdict, and `apart` says why it does not agree with the committed capture: an empty list when
    it does, None when there is none to compare with.
    """

    slide: Slide
    verdict: Verdict | None = None
    failure: str | None = None
    seconds: float | None = None
    here: Verdict | None = None
    kept: bool = False  # the committed capture was left alone
    apart: list[str] | None = None


@dataclass
class Outcome:
    """What a run did."""

    rows: list[Row] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    holding: int = 0
    servers: dict[str, list[int]] = field(default_factory=dict)  # each server of the deck, and the numbers of its slides

    @property
    def failures(self) -> list[str]:
        return [row.failure for row in self.rows if row.failure]


class Watcher:
    """What a run reports while it works; the progress display overrides it."""

    def start(self, takes: int, draws: int) -> None: ...

    def taking(self, slide: Slide) -> None: ...

    def taken(self, slide: Slide, row: Row) -> None: ...

    def drawn(self, slide_id: str) -> None: ...


@dataclass
class Comparison:
    """What `--check` found for one slide."""

    row: Row
    drift: list[Difference] = field(default_factory=list)
    not_comparable: str = ""
    retaken: dict[str, Any] | None = None  # the capture that was taken now


def row_as_data(row: Row) -> dict[str, Any]:
    verdict = row.verdict
    return {
        "number": row.slide.number,
        "id": row.slide.id,
        "claim": row.slide.claim,
        "holds": verdict is not None and verdict.holds,
        "measured": verdict.measured if verdict else row.failure,
        "here": row.here.measured if row.here else None,
        "kept": row.kept,
        "apart": row.apart,
        "bound": verdict.bound if verdict else None,
        "seconds": row.seconds,
    }


def plain_line(row: Row) -> str:
    if row.verdict is None:
        return f"{row.slide.number:>2}  {row.slide.id}  FAILS  {row.failure}"
    return f"{row.slide.number:>2}  {row.slide.id}  holds  {measured(row)} · {row.verdict.bound}"


def measured(row: Row) -> str:
    """What the deck's capture says; beside a timed one that was kept, what this machine said."""
    if row.verdict is None:
        return row.failure or ""
    here = f"; here: {row.here.measured}" if row.kept and row.here and row.slide.volatile else ""
    return row.verdict.measured + here
