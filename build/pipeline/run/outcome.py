"""What a run, and what `--check`, found for each slide; and what follows it while it works."""

from dataclasses import dataclass, field

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
    drift: list[str] = field(default_factory=list)
    not_comparable: str = ""
