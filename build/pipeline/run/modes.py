"""What the command does: build, redraw, verify, check, explain or list. Each ends with an exit code.

Here every topic is imported; `quick` has answered what could be answered without.
"""

import argparse
from collections.abc import Sequence

from pipeline.command import COMMAND
from pipeline.errors import BadInput, MissingPart
from pipeline.lab import Lab
from pipeline.paths import Out
from pipeline.run import build, manifest, plan, report, stamp
from pipeline.run.check import check
from pipeline.run.console import Screen
from pipeline.run.flags import with_the_decks_own_sources
from pipeline.run.found import Found, find
from pipeline.run.outcome import Outcome
from pipeline.run.session import Session
from pipeline.run.setting import Setting
from pipeline.run.staging import only_run
from pipeline.slide import Deck, Slide


def act(asked: argparse.Namespace, screen: Screen, deck: Deck, out: Out) -> int:
    """List, verify, redraw or check; return the exit code."""
    chosen = plan.select(deck.slides, asked.only)
    if asked.list:
        screen.listing(chosen)
        return 0
    if asked.verify:
        return verify(screen, chosen, out)
    return redraw(asked, screen, chosen, deck, out) if asked.redraw else check_all(asked, screen, chosen, out)


def verify(screen: Screen, chosen: Sequence[Slide], out: Out) -> int:
    """Run every oracle once more on its committed capture."""
    outcome = build.verify(chosen, manifest.read(out))
    screen.table(outcome.rows)
    screen.last_line(outcome, None)
    return report_failures(outcome, screen)


def redraw(asked: argparse.Namespace, screen: Screen, chosen: Sequence[Slide], deck: Deck, out: Out) -> int:
    """Draw the chosen figures again from their captures, and assemble."""
    with only_run(out):
        known = manifest.read(out)
        if known.damage:
            raise BadInput(f"{known.damage}: build the deck once more with `make deck`, or bring it back with git")
        taken = [slide for slide in chosen if slide.id in known.entries]
        if not taken:
            raise MissingPart(f"{out.figures} holds no captures to draw; take them first: {COMMAND}")
        for slide in taken:
            if flaw := known.flaw_of_capture(slide.id):
                raise BadInput(f"{slide.id}: {flaw}; take it again: {known.retake(slide.id)}")
        with screen.working():
            todos = [plan.Todo(slide, draw=["--redraw"]) for slide in taken]
            outcome = build.build(todos, deck, known, NothingToTake(), asked.jobs, screen)
    return end(screen, outcome, out)


class NothingToTake:
    """The source of a run that takes no captures."""

    setting = Setting("", "", "")

    @property
    def lab(self) -> Lab:
        raise MissingPart("this run takes no captures")

    def begin_server(self) -> None:
        """There is none."""


def photograph(asked: argparse.Namespace, screen: Screen, deck: Deck, out: Out, found: Found | None) -> int:
    """Plan, and build or explain; a whole deck that is up to date afterwards is noted to be."""
    chosen = plan.select(deck.slides, asked.only)
    if found is None:
        found = find(asked, screen.say, any(needs_server(slide, asked.ask) for slide in chosen))
    if asked.explain:
        screen.explain(plan.make(chosen, manifest.read(out), found.setting, force=asked.force))
        return 0
    with only_run(out), Session(found, screen.say, screen.fetching, asked.ask, asked.keep_model) as session:
        known = manifest.read(out)
        todos = plan.make(chosen, known, found.setting, force=asked.force)
        with screen.working():
            outcome = build.build(todos, deck, known, session, asked.jobs, screen)
        if not outcome.failures and not asked.only:
            stamp.note(out, found.setting)
    return end(screen, outcome, out)


def check_all(asked: argparse.Namespace, screen: Screen, chosen: Sequence[Slide], out: Out) -> int:
    """Take the chosen captures again and compare; 3 when there was nothing that could be compared."""
    known = manifest.read(out)
    asked = with_the_decks_own_sources(asked, chosen, known)
    found = find(asked, screen.say, any(needs_server(slide, asked.ask) for slide in chosen))
    with Session(found, screen.say, screen.fetching, asked.ask) as session, screen.working():
        screen.start(len(chosen), 0)
        compared = check(chosen, session.lab, known, screen.checking)
    screen.comparisons(compared)
    if asked.report:
        report.write(asked.report, compared, out)
        screen.say(f"wrote {asked.report}")
    drifted = [one for one in compared if one.drift or one.row.failure]
    apart = [one for one in compared if one.not_comparable]
    screen.say(f"{len(compared)} captures taken again, {len(drifted)} drifted or failed, {len(apart)} not comparable")
    if not drifted and apart and all(one.not_comparable for one in compared if one.row.slide.needs):
        raise MissingPart(f"nothing could be compared: {apart[0].not_comparable}; name the deck's own with --model and --server")
    return 1 if drifted else 0


def needs_server(slide: Slide, ask: str | None) -> bool:
    """Whether a slide asks the server of this run, and not a provider."""
    return "server" in slide.needs and not (ask and slide.asks)


def end(screen: Screen, outcome: Outcome, out: Out) -> int:
    """The table, and the failures or the last line."""
    screen.table(outcome.rows)
    if outcome.failures:
        return report_failures(outcome, screen)
    screen.what_changed(outcome)
    screen.last_line(outcome, out.html, "" if outcome.changed or outcome.rows else "; everything is up to date")
    return 0


def report_failures(outcome: Outcome, screen: Screen) -> int:
    for failure in outcome.failures:
        screen.error(f"oracle failed: {failure}", 1)
    return 1 if outcome.failures else 0
