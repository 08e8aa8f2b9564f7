"""What the command prints: found lines, bars while it works, a table and a last line at the end."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import MissingPart
from pipeline.keys import scrubbed, without_keys
from pipeline.run.manifest import Manifest
from pipeline.run.outcome import SHOWN, Comparison, Outcome, Row, Watcher, measured, plain_line, row_as_data
from pipeline.slide import Slide
from pipeline.text import counted, escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from pipeline.run.plan import Todo
    from pipeline.timings import Stretch


class Screen(Watcher):
    """Prints for people on a terminal, in plain lines elsewhere, as one JSON document with `--json`."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False):
        self.quiet = quiet or as_json
        self.as_json = as_json
        self.live = sys.stdout.isatty() and not self.quiet
        self._progress: Progress | None = None
        self._bars: dict[str, TaskID] = {}
        self._lock = threading.Lock()
        self._document: dict[str, Any] = {}

    @functools.cached_property
    def console(self) -> Console:
        """The terminal's own bars and tables; a run that has none to show does not import them."""
        from rich.console import Console

        return Console(soft_wrap=True, highlight=False, emoji=False)

    def say(self, line: str) -> None:
        if not self.quiet:
            self.line(line)

    def line(self, line: str) -> None:
        """One line as it stands; above the bars while there are any."""
        line = without_keys(line)
        if not self.live:
            print(line)
            return
        from rich.markup import escape

        self.console.print(escape(line))

    # --- while it works ---

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Show the bars for as long as the block runs."""
        if not self.live:
            yield
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description:<14}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}"),
        )
        with Progress(*columns, console=self.console, transient=True) as self._progress:
            yield
        self._progress = None

    def start(self, takes: int, draws: int) -> None:
        if self._progress:
            self._bars = {
                name: self._progress.add_task(name, total=total, now="")
                for name, total in (("photographing", takes), ("drawing", draws))
                if total
            }

    def taking(self, slide: Slide) -> None:
        if self._progress and "photographing" in self._bars:
            self._progress.update(self._bars["photographing"], now=slide.id)

    def checking(self, slide: Slide, found: Sequence[Comparison]) -> None:
        """`--check` turns to a slide; `found` holds what it has said of the ones before."""
        self.taking(slide)
        if self._progress:
            self._progress.update(self._bars["photographing"], completed=len(found))
        else:
            self.say(f"checking {slide.id}")

    def fetching(self, what: str, done: int, total: int) -> None:
        """Bytes of a download; a total of 0 is not known."""
        if self._progress and self._bars:
            if "fetching" not in self._bars:
                self._bars["fetching"] = self._progress.add_task("", now="MB")
            size = round(total / 1e6) or None
            self._progress.update(self._bars["fetching"], description=what, completed=round(done / 1e6), total=size)

    def taken(self, slide: Slide, row: Row) -> None:
        if self._progress:
            if "fetching" in self._bars:
                self._progress.remove_task(self._bars.pop("fetching"))
            self._progress.advance(self._bars["photographing"])
        elif row.here:
            said = "agrees with the committed one" if row.kept else row.here.measured
            self.say(f"{slide.number:>2}  {slide.id}  taken in {row.seconds:.1f} s: {said}")

    def drawn(self, slide_id: str) -> None:
        with self._lock:
            if self._progress:
                self._progress.advance(self._bars["drawing"])

    # --- at the end ---

    def listing(self, slides: Sequence[Slide]) -> None:
        rows = [{"number": s.number, "id": s.id, "kind": s.kind, "section": s.section_on(None), "claim": s.claim} for s in slides]
        if self.as_json:
            self._document["slides"] = rows
            return
        for row in rows:
            self.line(f"{row['number']:>2}  {row['id']:<32} {row['kind']:<10}  {row['claim']}")

    def explain(self, todos: Sequence[Todo]) -> None:
        """Why each slide is stale, or that it is not."""
        if self.as_json:
            self._document["slides"] = [{"id": todo.slide.id, "take": todo.take, "draw": todo.draw} for todo in todos]
            return
        for todo in todos:
            if todo.take:
                why = "take and draw: " + "; ".join(todo.take)
            else:
                why = "draw: " + "; ".join(todo.draw) if todo.draw else "up to date"
            self.line(f"{todo.slide.number:>2}  {todo.slide.id:<32} {why}")

    def table(self, rows: Sequence[Row]) -> None:
        """Slide, claim, measured, bound, verdict, seconds."""
        if self.as_json:
            self._document["slides"] = [row_as_data(row) for row in rows]
            return
        if self.quiet or not rows:
            return
        if not self.live:
            for row in rows:
                self.line(plain_line(row))
            return
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
        for name, style in (
            ("", "dim"),
            ("slide", ""),
            ("claim", "dim"),
            ("measured", ""),
            ("bound", ""),
            ("verdict", ""),
            ("s", "dim"),
        ):
            table.add_column(name, style=style, overflow="fold", justify="right" if name in ("", "s") else "left")
        for row in rows:
            verdict = row.verdict
            table.add_row(
                str(row.slide.number),
                escape(row.slide.id),
                escape(row.slide.claim),
                escape(measured(row)),
                escape(verdict.bound if verdict else ""),
                "[green]holds[/]" if verdict else "[red]fails[/]",
                "" if row.seconds is None else f"{row.seconds:.1f}",
            )
        self.console.print(table, soft_wrap=False)

    def comparisons(self, found: Sequence[Comparison]) -> None:
        """What `--check` found, one line per slide."""
        if self.as_json:
            self._document["slides"] = [
                row_as_data(one.row) | {"drift": [*map(str, one.drift)], "not_comparable": one.not_comparable} for one in found
            ]
            return
        for one in found:
            slide = one.row.slide
            if one.row.failure:
                said = f"oracle FAILS: {one.row.failure}"
            elif one.not_comparable:
                said = f"holds; not comparable: {one.not_comparable}"
            elif one.drift:
                more = f" (and {len(one.drift) - SHOWN} more)" if len(one.drift) > SHOWN else ""
                said = "DRIFT: " + "; ".join(map(str, one.drift[:SHOWN])) + more
            else:
                said = "holds; claim kept" if slide.volatile else "holds; no drift"
            if not self.quiet or one.row.failure or one.drift:
                self.line(f"{slide.number:>2}  {slide.id:<32} {said}")

    def facts(self, name: str, found: dict[str, Any], lines: Sequence[str]) -> None:
        """What was asked for, whole in the document and line by line for people."""
        self._document[name] = found
        if not self.as_json:
            for line in lines:
                self.line(line)

    def what_changed(self, outcome: Outcome) -> None:
        """How many photographs were taken here, how many agree with the committed ones, and what does not."""
        taken = [row for row in outcome.rows if row.here and row.slide.kind == "photograph"]
        for row in outcome.rows:
            if row.apart:
                more = f" (and {len(row.apart) - SHOWN} more)" if len(row.apart) > SHOWN else ""
                self.say(f"changed: {row.slide.id}: {'; '.join(row.apart[:SHOWN])}{more}")
        if taken:
            compared = [row for row in taken if row.apart is not None]
            agree = f"{sum(not row.apart for row in compared)} agree with the committed ones; " if compared else ""
            changed = f"{counted(len(outcome.changed), 'file')} changed" if outcome.changed else "nothing changed"
            self.say(f"{counted(len(taken), 'photograph')} taken here: {agree}{changed}")

    def nothing_to_do(self, known: Manifest, where: Path) -> None:
        """One look said that everything is up to date."""
        kinds = [entry.kind for entry in known.entries.values()]
        counts = {"slides": len(kinds), "photographs": kinds.count("photograph"), "concept cards": kinds.count("concept")}
        holding = sum(entry.verdict.holds for entry in known.entries.values())
        self.table([])
        self.last_line(Outcome(counts=counts, holding=holding), where, "; everything is up to date")

    def last_line(self, outcome: Outcome, where: Path | None, note: str = "") -> None:
        """Counts, and the path to open."""
        counts = outcome.counts
        line = (
            f"{counted(counts['slides'], 'slide')}, {counted(outcome.holding, 'oracle')} hold{'s' * (outcome.holding == 1)} "
            f"({counted(counts['photographs'], 'photograph')}, {counted(counts['concept cards'], 'concept card')}){note}"
        )
        self._document |= {"counts": counts, "holding": outcome.holding, "changed": outcome.changed}
        if len(outcome.servers) > 1:
            asked = (f"{name} on {counted(len(n), 'slide')} ({', '.join(map(str, n))})" for name, n in outcome.servers.items())
            self.say(f"this deck has slides of {len(outcome.servers)} servers: {'; '.join(asked)}")
        if where:
            line += f"; open {where}"
            self._document["deck"] = str(where)
        self.say(line)

    def timings(self, spent: Sequence[Stretch], total: float) -> None:
        """Where the time went: each stage with its sum, the longest first, and what it was spent on."""
        if self.as_json:
            self._document["timings"] = {"total": total, "stretches": [dataclasses.asdict(one) for one in spent]}
            return
        stages = {one.stage: sum(other.seconds for other in spent if other.stage == one.stage) for one in spent}
        for stage, seconds in sorted(stages.items(), key=lambda pair: -pair[1]):
            self.say(f"{seconds:8.2f} s  {stage}")
            parts = sorted((one for one in spent if one.stage == stage and one.what), key=lambda one: -one.seconds)
            for one in parts if len(parts) > 1 else []:
                self.say(f"{one.seconds:12.2f} s  {one.what}")
        self.say(f"{total:8.2f} s  in all; stages overlap where figures are drawn beside captures")

    def error(self, line: str, code: int) -> int:
        """Print one error in one line on stderr; return the exit code."""
        if self.as_json:
            self._document["error"] = line
        else:
            print(f"error: {escaped(' '.join(without_keys(line).splitlines()), str.isprintable)}", file=sys.stderr)
        return code

    def flush(self, code: int) -> int:
        """Print the document, if one is asked for; return the exit code, that of an output that cannot be written among them."""
        try:
            if self.as_json:
                print(json.dumps(scrubbed(self._document | {"exit": code}), indent=1))
            sys.stdout.flush()
        except MissingPart as error:
            print(f"error: {error}", file=sys.stderr)
            return error.exit_code
        return code
