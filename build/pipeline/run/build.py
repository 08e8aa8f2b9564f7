"""One run: take what is stale in this process, draw in worker processes, assemble, publish.

A capture that agrees with the committed one leaves that alone; the ledger notes that it was seen to hold here. Nothing is
published unless every oracle of the run holds. torch, transformers and matplotlib are imported only when they are needed.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from pipeline import timings
from pipeline.checksum import file_sha256
from pipeline.errors import BadInput
from pipeline.lab import Lab
from pipeline.run import compare, manifest, plan
from pipeline.run.manifest import Entry, Manifest
from pipeline.run.outcome import Outcome, Row, Watcher
from pipeline.run.plan import Todo
from pipeline.run.pool import DrawingPool
from pipeline.run.setting import Setting
from pipeline.run.staging import Staging
from pipeline.run.taking import in_taking_order, take
from pipeline.slide import Deck, OracleFailure, Slide, assert_holds


class Source(Protocol):
    """Where a run's captures are taken from."""

    @property
    def lab(self) -> Lab:
        """What the captures may touch."""

    @property
    def setting(self) -> Setting:
        """What they will be taken of."""

    def begin_server(self) -> None:
        """Start what the slides that ask a server will need, and return at once."""


@dataclass
class Build:
    """One run on its way from `todos` to a published `deck`."""

    deck: Deck
    manifest: Manifest
    source: Source
    watcher: Watcher
    staging: Staging
    pool: DrawingPool

    def photograph(self, todos: Sequence[Todo]) -> list[Row]:
        """Take and judge captures, the timed ones first and in silence; what must be drawn goes to the pool."""
        timed, rest = in_taking_order(todos)
        with self.pool.still():
            rows = [self._photograph(todo) for todo in timed]
        setting = self.source.setting
        if any("server" in todo.slide.needs and not (setting.asked and todo.slide.asks) for todo in rest):
            self.source.begin_server()
        return rows + [self._photograph(todo) for todo in rest]

    def _photograph(self, todo: Todo) -> Row:
        slide, row = todo.slide, Row(todo.slide)
        self.watcher.taking(slide)
        start = time.perf_counter()
        try:
            text, row.here = take(slide, self.source.lab)
            self._settle(todo, row, text)
        except OracleFailure as failure:
            row.failure = str(failure)
        row.seconds = time.perf_counter() - start
        timings.add("capture", slide.id, row.seconds)
        self.watcher.taken(slide, row)
        return row

    def _settle(self, todo: Todo, row: Row, text: str) -> None:
        """Keep the committed capture where the new one agrees with it, else the new one."""
        slide, out = todo.slide, self.manifest.out
        if not self.manifest.flaw_of_capture(slide.id):
            committed = self.manifest.capture(slide.id)
            row.apart = compare.apart(slide, committed, json.loads(text))
            row.kept = not row.apart and not todo.forced
        if row.kept:
            row.verdict = assert_holds(slide, committed["data"])
            if not plan.redraw_reasons(slide, self.manifest):
                self.watcher.drawn(slide.id)
                return
        else:
            row.verdict = row.here
            self.staging.write(out.capture(slide.id), text)
        self._draw(row)

    def redraw(self, todos: Sequence[Todo]) -> list[Row]:
        """Judge and draw captures as they are."""
        rows = [judge(todo.slide, self.manifest) for todo in todos]
        for row in rows:
            self._draw(row)
        return rows

    def _draw(self, row: Row) -> None:
        if row.verdict:
            capture, figure = self.manifest.out.capture(row.slide.id), self.manifest.out.figure(row.slide.id)
            self.pool.draw(row.slide, self.staging.read_path(capture), row.verdict, self.staging.path(figure))

    def publish(self, rows: Sequence[Row]) -> Outcome:
        """Write the manifest, assemble the deck if anything in it changed, swap everything in."""
        entries = self.manifest.entries | {row.slide.id: self._entry(row) for row in rows}
        present = [replace(entries[one.id], **manifest.facts_of(one)) for one in self.deck.slides if one.id in entries]
        kinds = [entry.kind for entry in present]
        counts = {"slides": len(kinds), "photographs": kinds.count("photograph"), "concept cards": kinds.count("concept")}
        parts = plan.deck_parts(present)
        if self.manifest.deck_parts != parts or not self.manifest.deck_is_whole():
            with timings.stretch("assembling"):
                self._assemble(present)
        files = {path.name: file_sha256(self.staging.read_path(path)) for path in self.manifest.out.built}
        self.staging.write(self.manifest.out.manifest, manifest.text_of(counts, present, parts, files))
        with timings.stretch("publishing"):
            changed = self.staging.publish()
        held = {row.slide.id: entries[row.slide.id].capture_sha256 for row in rows if row.here}
        if held:
            manifest.note_held(self.manifest, held)
        servers = {name: [one.number for one in present if one.server == name] for one in present if (name := one.server)}
        return Outcome(list(rows), changed, counts, sum(entry.verdict.holds for entry in present), servers)

    def _entry(self, row: Row) -> Entry:
        """What the manifest says of one slide: what it is, what was found, and what it was made from."""
        slide, setting, before = row.slide, self.source.setting, self.manifest.entries.get(row.slide.id)
        capture = self.staging.read_path(self.manifest.out.capture(slide.id))
        found = json.loads(capture.read_text("utf-8"))["provenance"]
        assert row.verdict is not None
        return Entry(
            **manifest.facts_of(slide),
            verdict=row.verdict,
            model=found["model"] and found["model"]["name"],
            server=found["server"] and found["server"]["name"],
            capture_sha256=file_sha256(capture),
            figure_sha256=file_sha256(self.staging.read_path(self.manifest.out.figure(slide.id))),
            capture_parts=before.capture_parts if before and not row.here else plan.capture_parts(slide, setting),
            draw_parts=plan.draw_parts(slide),
            flags=before.flags if before and (row.kept or not row.here) else setting.flags,
        )

    def _assemble(self, present: Sequence[Entry]) -> None:
        from pipeline.deck import page as deck_page
        from pipeline.deck import powerpoint

        whole = shown(self.deck.slides, {entry.id: entry for entry in present}, self.manifest, self.staging)
        page, slides = self.manifest.out.built
        self.staging.write(page, deck_page.html(self.deck, whole))
        self.staging.write(slides, powerpoint.pptx(self.deck, whole))


def build(todos: Sequence[Todo], deck: Deck, known: Manifest, source: Source, jobs: int, watcher: Watcher) -> Outcome:
    """Bring the slides of `todos` up to date and publish; the whole `deck` is assembled.

    Raises BadInput when the manifest is damaged and a part of the deck would be published as the whole.
    """
    if known.damage and len(todos) < len(deck.slides):
        raise BadInput(f"{known.damage}: run once without --only, or bring it back with `git checkout figures deck`")
    takes = [todo for todo in todos if todo.take]
    draws = [todo for todo in todos if todo.draw and not todo.take]
    watcher.start(len(takes), len(takes) + len(draws))
    with Staging(known.out) as staging, DrawingPool(jobs, watcher.drawn) as pool:
        work = Build(deck, known, source, watcher, staging, pool)
        rows = work.redraw(draws) + work.photograph(takes)
        rows.sort(key=lambda row: row.slide.number)
        with timings.stretch("waiting for the last figures"):
            pool.finish()
        if any(row.failure for row in rows):
            return Outcome(rows)
        return work.publish(rows)


def shown(every: Sequence[Slide], entries: dict[str, Entry], known: Manifest, staging: Staging | None = None) -> list[Any]:
    """The slides that have a capture, a figure and a verdict, ready to be assembled."""
    from pipeline.deck.page import Shown

    def where(path: Path) -> Path:
        return staging.read_path(path) if staging else path

    return [
        Shown(
            slide=slide,
            capture=json.loads(where(known.out.capture(slide.id)).read_text("utf-8")),
            verdict=entries[slide.id].verdict,
            figure=where(known.out.figure(slide.id)),
            flags=entries[slide.id].flags,
        )
        for slide in every
        if slide.id in entries
    ]


def judge(slide: Slide, known: Manifest) -> Row:
    """Run a slide's oracle on its committed capture."""
    row = Row(slide)
    try:
        row.verdict = assert_holds(slide, known.capture(slide.id)["data"])
    except OracleFailure as failure:
        row.failure = str(failure)
    return row


def verify(slides: Sequence[Slide], known: Manifest) -> Outcome:
    """Re-assert every oracle from the committed captures; needs no torch, no matplotlib, no model."""
    if known.damage:
        raise BadInput(f"{known.damage}: build the deck once more with `make deck`, or bring it back with git")
    outcome = Outcome()
    for slide in slides:
        row = judge(slide, known)
        if row.verdict and known.flaw_of_capture(slide.id):
            row.failure = f"{slide.id}: the manifest is of another capture; take it again: {known.retake(slide.id)}"
            row.verdict = None
        outcome.rows.append(row)
    kinds = [slide.kind for slide in slides]
    outcome.holding = sum(row.verdict is not None for row in outcome.rows)
    outcome.counts = {"slides": len(kinds), "photographs": kinds.count("photograph"), "concept cards": kinds.count("concept")}
    return outcome
