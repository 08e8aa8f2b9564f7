"""The way into a run: what asks for little work gets its answer before anything heavy is imported.

A plain run looks first whether anything changed at all since everything was found up to date, and then imports no topic.
"""

import argparse
import os

from pipeline import timings
from pipeline.errors import BadInput, MissingPart
from pipeline.paths import Out
from pipeline.run import manifest, stamp
from pipeline.run.console import Screen
from pipeline.run.flags import checked_sentence, where
from pipeline.run.found import find
from pipeline.slide import Deck


def act(asked: argparse.Namespace, screen: Screen, deck: Deck) -> int:
    """Do one run; return its exit code."""
    if asked.jobs < 1:
        raise BadInput(f"--jobs {asked.jobs}: at least one process is needed")
    if asked.report and not asked.check:
        raise BadInput("--report FILE is written by --check: add --check")
    out = where(asked, screen.say)
    checked_sentence(asked.sentence)
    if asked.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    if asked.whose:
        from pipeline.run.whose import whose

        return whose(asked.whose, manifest.read(out), screen)
    if asked.list or asked.verify or asked.redraw or asked.check:
        from pipeline.run import modes

        code = modes.act(asked, screen, deck, out)
        return code or (print_pdf(asked, screen, out) if asked.redraw else 0)
    return photograph(asked, screen, deck, out)


def photograph(asked: argparse.Namespace, screen: Screen, deck: Deck, out: Out) -> int:
    """Bring the deck up to date, unless one look says that it is."""
    found = None
    if not (asked.only or asked.force or asked.explain):
        with timings.stretch("finding model and server"):
            found = find(asked, screen.say)
        if stamp.holds(out, found.setting):
            screen.nothing_to_do(manifest.read(out), out.html)
            return print_pdf(asked, screen, out)
    with timings.stretch("imports", "topics and modes"):
        from pipeline.run import modes

    code = modes.photograph(asked, screen, deck, out, found)
    return code or print_pdf(asked, screen, out)


def print_pdf(asked: argparse.Namespace, screen: Screen, out: Out) -> int:
    """Print the deck if that was asked for."""
    if asked.pdf:
        from pipeline.deck.pdf import pdf

        reason = pdf(out.html, out.deck / "deck.pdf")
        if reason:
            raise MissingPart(f"the deck is built, and no PDF was printed: {reason}")
        screen.say(f"printed {out.deck / 'deck.pdf'}")
    return 0
