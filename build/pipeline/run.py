"""One run: plan, take what is stale in this process, draw in worker processes, assemble, publish.

Nothing is published unless every oracle of the run holds. torch, transformers and matplotlib are imported only when a
slide must be taken or drawn.
"""

import concurrent.futures
import importlib.metadata
import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline import plan
from pipeline.checksum import file_sha256
from pipeline.draw import draw_by_id, interrupts_held, start_worker
from pipeline.errors import BadInput, MissingPart
from pipeline.lab import Lab
from pipeline.paths import Out
from pipeline.plan import Setting, Todo
from pipeline.publish import Staging
from pipeline.slide import Data, OracleFailure, Slide, Verdict, assert_holds, to_json


@dataclass
class Row:
    """One line of the table at the end. `seconds` is the time its capture took; None when it was not taken."""

    slide: Slide
    verdict: Verdict | None = None
    failure: str | None = None
    seconds: float | None = None


@dataclass
class Outcome:
    """What a run did."""

    rows: list[Row] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    holding: int = 0

    @property
    def failures(self) -> list[str]:
        return [row.failure for row in self.rows if row.failure]


class Watcher:
    """What a run tells while it works; the progress display overrides it."""

    def start(self, takes: int, draws: int) -> None: ...

    def taking(self, slide: Slide) -> None: ...

    def taken(self, slide: Slide, row: Row) -> None: ...

    def drawn(self, slide_id: str) -> None: ...


def take(slide: Slide, lab: Lab) -> tuple[str, Verdict]:
    """Take one capture and judge it; the oracle sees exactly what the file will hold.

    Returns the capture's JSON text and the verdict. Raises OracleFailure.
    """
    data = slide.capture(lab)
    text = to_json({"slide": slide.id, "provenance": provenance(slide, lab, data), "data": data})
    return text, assert_holds(slide, json.loads(text)["data"])


def provenance(slide: Slide, lab: Lab, data: Data) -> dict[str, Any]:
    """Where a capture came from: model, server (the capture says which was asked), sentence, versions, seed."""
    needs_model, needs_server = "model" in slide.needs, "server" in slide.needs
    packages = ["numpy"] * needs_model + ["torch", "transformers"] * needs_model + ["requests", "litellm"] * needs_server
    return {
        "model": lab.loaded.provenance if needs_model else None,
        "server": data["server"] if needs_server else None,
        "sentence": lab.sentence,
        "sentence_sha256": lab.sentence_sha256,
        "seed": lab.seed,
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }


def read_capture(out: Out, slide: Slide) -> dict[str, Any]:
    """A committed capture. Raises MissingPart when it is missing, BadInput when it is damaged."""
    path = out.capture(slide.id)
    try:
        capture = json.loads(path.read_text("utf-8"))
        if not {"provenance", "data"} <= capture.keys():
            raise ValueError("it lacks provenance or data")
        return capture
    except FileNotFoundError:
        again = plan.retake(slide.id, plan.flags_of(slide.id, out))
        raise MissingPart(f"{path} is missing; take it: {again}") from None
    except (ValueError, AttributeError) as error:
        again = plan.retake(slide.id, plan.flags_of(slide.id, out))
        raise BadInput(f"{path} is damaged ({error}); take it again: {again}") from None


def in_taking_order(todos: Sequence[Todo]) -> list[Todo]:
    """Timed slides first, while nothing else runs; those that need the server last, so that it has time to start."""
    return sorted(todos, key=lambda todo: (not todo.slide.volatile or "server" in todo.slide.needs, "server" in todo.slide.needs))


def build(
    todos: Sequence[Todo],
    every: Sequence[Slide],
    lab: Lab,
    out: Out,
    staging: Staging,
    setting: Setting,
    jobs: int,
    watcher: Watcher,
    begin_server: Callable[[], None] = lambda: None,
) -> Outcome:
    """Bring the slides of `todos` up to date and publish; `every` is the whole deck, for assembling.

    begin_server is called once the timed slides are done, if any slide needs a server.
    """
    outcome = Outcome()
    stale = [todo for todo in todos if todo.stale]
    takes, draws = [todo for todo in stale if todo.take], stale
    rows = {row["id"]: row for row in plan.read_manifest(out)["slides"]}
    drawing: dict[concurrent.futures.Future[str], Slide] = {}
    watcher.start(len(takes), len(draws))
    pool = concurrent.futures.ProcessPoolExecutor(
        max_workers=max(1, jobs), mp_context=multiprocessing.get_context("spawn"), initializer=start_worker
    )
    try:

        def tell_drawn(done: concurrent.futures.Future[str]) -> None:
            if not done.cancelled() and not done.exception():
                watcher.drawn(done.result())

        def send_to_draw(slide: Slide, verdict: Verdict) -> None:
            capture, figure = staging.read_path(out.capture(slide.id)), staging.path(out.figure(slide.id))
            with interrupts_held():
                future = pool.submit(draw_by_id, slide.id, capture, verdict, figure)
            future.add_done_callback(tell_drawn)
            drawing[future] = slide

        for todo in stale:
            if todo.take:
                continue
            row = judge(todo.slide, out)
            outcome.rows.append(row)
            if row.verdict:
                send_to_draw(todo.slide, row.verdict)
        began = False
        waiting: list[tuple[Slide, Verdict]] = []  # drawing would disturb what is timed
        for todo in in_taking_order(takes):
            slide = todo.slide
            quiet = slide.volatile and "server" not in slide.needs
            if not quiet and not began:
                began = True
                for ready in waiting:
                    send_to_draw(*ready)
                if any("server" in other.slide.needs and not (setting.asked and other.slide.asks) for other in takes):
                    begin_server()
            elif quiet and drawing:
                concurrent.futures.wait(drawing)
            watcher.taking(slide)
            row = Row(slide)
            start = time.perf_counter()
            try:
                text, row.verdict = take(slide, lab)
                staging.write(out.capture(slide.id), text)
                if quiet:
                    waiting.append((slide, row.verdict))
                else:
                    send_to_draw(slide, row.verdict)
            except OracleFailure as failure:
                row.failure = str(failure)
            row.seconds = time.perf_counter() - start
            outcome.rows.append(row)
            watcher.taken(slide, row)
        if not began:
            for ready in waiting:
                send_to_draw(*ready)
        for future in concurrent.futures.as_completed(list(drawing)):
            future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    outcome.rows.sort(key=lambda row: row.slide.number)
    if outcome.failures:
        staging.clear()
        return outcome
    verdicts = {row.slide.id: row.verdict for row in outcome.rows if row.verdict}
    taken = {todo.slide.id for todo in takes}
    for slide in every:
        if slide.id in verdicts:
            rows[slide.id] = manifest_row(slide, verdicts[slide.id], out, staging, setting, rows.get(slide.id), slide.id in taken)
    finish(every, rows, out, staging, outcome)
    ledger = plan.taken_here(out) | {slide_id: rows[slide_id]["capture_sha256"] for slide_id in taken}
    if taken:
        plan.ledger(out).write_text(json.dumps(ledger, sort_keys=True), "utf-8")
    return outcome


def manifest_row(
    slide: Slide, verdict: Verdict, out: Out, staging: Staging, setting: Setting, before: dict[str, Any] | None, taken: bool
) -> dict[str, Any]:
    """What the manifest says of one slide: what it is, what was found, and what it was made from."""
    capture_path = staging.read_path(out.capture(slide.id))
    source = json.loads(capture_path.read_text("utf-8"))["provenance"]
    return facts_of(slide) | {
        "verdict": {"holds": verdict.holds, "measured": verdict.measured, "bound": verdict.bound},
        "model": source["model"] and source["model"]["name"],
        "server": source["server"] and source["server"]["name"],
        "capture_sha256": file_sha256(capture_path),
        "figure_sha256": file_sha256(staging.read_path(out.figure(slide.id))),
        "capture_parts": plan.capture_parts(slide, setting) if taken or before is None else before["capture_parts"],
        "draw_parts": plan.draw_parts(slide),
        "flags": setting.flags if taken or before is None else before.get("flags", ""),
    }


def facts_of(slide: Slide) -> dict[str, Any]:
    """What a slide says of itself, without any run."""
    return {
        "id": slide.id,
        "number": slide.number,
        "section": slide.section,
        "kind": slide.kind,
        "volatile": slide.volatile,
        "claim": slide.claim,
    }


def finish(every: Sequence[Slide], rows: dict[str, dict[str, Any]], out: Out, staging: Staging, outcome: Outcome) -> None:
    """Write the manifest, assemble the deck if anything in it changed, publish."""
    present = [rows[slide.id] | facts_of(slide) for slide in every if slide.id in rows]
    kinds = [row["kind"] for row in present]
    outcome.counts = {"slides": len(kinds), "photographs": kinds.count("photograph"), "concept cards": kinds.count("concept")}
    outcome.holding = sum(row["verdict"]["holds"] for row in present)
    parts = plan.deck_parts(present)
    before = plan.read_manifest(out)
    built = {path: staging.read_path(path) for path in deck_files(out)}
    if before["deck"].get("parts") != parts or not deck_is_whole(before["deck"], out):
        from pipeline import assemble, slides_pptx

        deck = shown(every, rows, out, staging)
        staging.write(out.html, assemble.html(deck))
        staging.write(out.deck / "deck.pptx", slides_pptx.pptx(deck))
        built = {path: staging.read_path(path) for path in deck_files(out)}
    files = {path.name: file_sha256(staged) for path, staged in built.items()}
    manifest = {"counts": outcome.counts, "slides": present, "deck": {"parts": parts, "files": files}}
    staging.write(out.manifest, json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    outcome.changed = staging.publish()


def deck_files(out: Out) -> list[Path]:
    return [out.html, out.deck / "deck.pptx"]


def deck_is_whole(deck: dict[str, Any], out: Out) -> bool:
    """Whether the built deck's files are there with the bytes the manifest says."""
    return all(path.exists() and file_sha256(path) == deck.get("files", {}).get(path.name) for path in deck_files(out))


def shown(every: Sequence[Slide], rows: dict[str, dict[str, Any]], out: Out, staging: Staging | None = None) -> list:
    """The slides that have a capture, a figure and a verdict, ready to be assembled."""
    from pipeline.assemble import Shown

    def where(path: Path) -> Path:
        return staging.read_path(path) if staging else path

    return [
        Shown(
            slide=slide,
            capture=json.loads(where(out.capture(slide.id)).read_text("utf-8")),
            verdict=Verdict(**rows[slide.id]["verdict"]),
            figure=where(out.figure(slide.id)),
            flags=rows[slide.id].get("flags", ""),
        )
        for slide in every
        if slide.id in rows
    ]


def judge(slide: Slide, out: Out) -> Row:
    """Run a slide's oracle on its committed capture."""
    row = Row(slide)
    try:
        row.verdict = assert_holds(slide, read_capture(out, slide)["data"])
    except OracleFailure as failure:
        row.failure = str(failure)
    return row


def verify(slides: Sequence[Slide], out: Out) -> Outcome:
    """Re-assert every oracle from the committed captures; needs no torch, no matplotlib, no model."""
    rows = {row["id"]: row for row in plan.read_manifest(out)["slides"]}
    outcome = Outcome()
    for slide in slides:
        row = judge(slide, out)
        recorded = rows.get(slide.id)
        if row.verdict and (recorded is None or recorded["capture_sha256"] != file_sha256(out.capture(slide.id))):
            again = plan.retake(slide.id, plan.flags_of(slide.id, out))
            row.failure, row.verdict = f"{slide.id}: the manifest is of another capture; take it again: {again}", None
        outcome.rows.append(row)
    outcome.holding = sum(row.verdict is not None for row in outcome.rows)
    outcome.counts = {
        "slides": len(slides),
        "photographs": sum(slide.kind == "photograph" for slide in slides),
        "concept cards": sum(slide.kind == "concept" for slide in slides),
    }
    return outcome
