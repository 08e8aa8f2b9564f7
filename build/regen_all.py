#!/usr/bin/env python3
"""One call, taken apart: bring every slide that is stale up to date, prove it, and assemble the deck.

Exit codes: 0 done, 1 an oracle failed or something drifted, 2 bad input, 3 a needed part is missing, 130 or 143 interrupted.
"""

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

try:
    from pipeline import plan, run
    from pipeline.errors import BadInput, DeckError, MissingPart
    from pipeline.lab import DEFAULT_SENTENCE, Lab
    from pipeline.paths import COMMITTED, REPO, Out
    from pipeline.publish import Staging, only_run
    from pipeline.screen import Screen
    from pipeline.slide import Slide
    from topics import slides
except ModuleNotFoundError as error:
    print(f"error: {error.name} is not installed: run `make deck`, or use its .venv/bin/python", file=sys.stderr)
    sys.exit(3)

OWN_MODELS, OWN_SERVERS = ("auto", "gpt2", "smollm2"), ("auto", "ollama", "embedded")
CUSTOM_OUT = REPO / "my-deck"
LONGEST_SENTENCE = 20_000  # characters; the limit in tokens is the lab's


class OneLineParser(argparse.ArgumentParser):
    """Tells a wrong flag in one line, like every other error."""

    def error(self, message: str) -> NoReturn:
        self.exit(BadInput.exit_code, f"error: {message} (--help lists the flags)\n")


def parser() -> argparse.ArgumentParser:
    flags = OneLineParser(prog="build/regen_all.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    flags.add_argument("--only", action="append", default=[], metavar="TOPIC[/SLIDE]", help="only these slides (repeatable)")
    mode = flags.add_mutually_exclusive_group()
    mode.add_argument("--redraw", action="store_true", help="draw every figure again from its capture; needs no model")
    mode.add_argument("--verify", action="store_true", help="re-assert every oracle from the captures; needs no model")
    mode.add_argument("--check", action="store_true", help="take every capture again and compare it with the committed one")
    mode.add_argument("--list", action="store_true", help="list the slides")
    mode.add_argument("--explain", action="store_true", help="say what is stale and why; do nothing")
    flags.add_argument("--force", action="store_true", help="take the selected slides again even if they are up to date")
    flags.add_argument("--model", default="auto", metavar="auto|gpt2|smollm2|HUB_ID|DIR", help="the model to photograph")
    flags.add_argument("--server", default="auto", metavar="auto|ollama|embedded|URL", help="the server to call in Part 2")
    flags.add_argument("--ask", metavar="MODEL", help="take slides 36-37 against a provider, by litellm's model string")
    flags.add_argument("--sentence", default=DEFAULT_SENTENCE, metavar="TEXT", help="the sentence to complete")
    flags.add_argument("--out", type=Path, metavar="DIR", help="where the deck goes (a custom deck: my-deck/)")
    flags.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), metavar="N", help="drawing processes")
    flags.add_argument("--offline", action="store_true", help="use no network")
    flags.add_argument("--pdf", action="store_true", help="print deck.pdf with a Chromium found on this machine")
    flags.add_argument("--json", action="store_true", help="print one JSON document instead of lines")
    flags.add_argument("--quiet", action="store_true", help="print errors only")
    flags.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return flags


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse flags, do what they ask, turn every error into one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode still gets its line
    asked = parser().parse_args(arguments)
    screen = Screen(quiet=asked.quiet, as_json=asked.json)
    signal.signal(signal.SIGTERM, interrupted)
    try:
        code = act(asked, screen)
    except KeyboardInterrupt as stop:
        code = screen.error("interrupted; the last good deck is untouched", stop.args[0] if stop.args else 130)
    except DeckError as error:
        code = failed(asked, screen, error, str(error), error.exit_code)
    except ImportError as error:
        told = f"{error.name or error} cannot be imported: pip install -r build/requirements.txt with this Python"
        code = failed(asked, screen, error, told, MissingPart.exit_code)
    except OSError as error:
        told = f"{error.strerror or error} ({error.filename or 'no file named'}); the last good deck is untouched"
        code = failed(asked, screen, error, told, MissingPart.exit_code)
    except Exception as error:
        told = f"{type(error).__name__}: {error} (run again with --debug for the traceback)"
        code = failed(asked, screen, error, told, 1)
    screen.flush(code)
    return code


def interrupted(number: int, frame: object) -> None:
    raise KeyboardInterrupt(128 + number)


def failed(asked: argparse.Namespace, screen: Screen, error: BaseException, line: str, code: int) -> int:
    if asked.debug:
        raise error
    return screen.error(line, code)


def act(asked: argparse.Namespace, screen: Screen) -> int:
    """Do one run; return its exit code."""
    every = slides()
    chosen = plan.select(every, asked.only)
    if asked.jobs < 1:
        raise BadInput(f"--jobs {asked.jobs}: at least one process is needed")
    if asked.list:
        screen.listing(chosen)
        return 0
    out = where(asked, screen)
    if asked.verify:
        outcome = run.verify(chosen, out)
        screen.table(outcome.rows)
        screen.last_line(outcome, None)
        return report_failures(outcome, screen)
    sentence = checked_sentence(asked.sentence)
    if asked.redraw:
        return redraw(asked, screen, chosen, every, out)
    return photograph(asked, screen, chosen, every, out, sentence)


def where(asked: argparse.Namespace, screen: Screen) -> Out:
    """The deck's folder: a custom model, server or sentence never overwrites the committed deck unless told to."""
    custom = [
        flag
        for flag, is_custom in (
            ("--model", asked.model not in OWN_MODELS),
            ("--server", asked.server not in OWN_SERVERS),
            ("--ask", asked.ask is not None),
            ("--sentence", asked.sentence != DEFAULT_SENTENCE),
        )
        if is_custom
    ]
    if custom and asked.verify:
        raise BadInput(f"--verify reads captures as they are: leave out {custom[0]}, and name another deck with --out DIR")
    if asked.out:
        return Out(asked.out.resolve())
    if custom and not asked.check:
        screen.say(f"{custom[0]} makes a deck of its own in {CUSTOM_OUT} (--out DIR puts it elsewhere)")
        return Out(CUSTOM_OUT)
    return COMMITTED


def own_flags(asked: argparse.Namespace) -> str:
    """The flags that say which deck this is, as a shell reads them; none for the committed one."""
    defaults, flags = parser(), []
    for name in ("model", "server", "ask", "sentence", "out"):
        value = getattr(asked, name)
        if value != defaults.get_default(name):
            a_place = name == "out" or (name == "model" and Path(value).expanduser().is_dir())
            flags.append(f"--{name}={plan.for_shell(str(Path(value).expanduser().resolve()) if a_place else value)}")
    return " ".join(flags)


def checked_sentence(text: str) -> str:
    """The sentence, or BadInput for one that cannot be completed: empty, not text, too long."""
    if not text.strip():
        raise BadInput("the sentence is empty; give some words: --sentence 'The beekeeper …'")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput("the sentence is not valid text (half a surrogate, or bytes that are not UTF-8); retype it") from None
    if len(text) > LONGEST_SENTENCE:
        raise BadInput(f"the sentence has {len(text):,} characters; at most {LONGEST_SENTENCE:,} can be shown: shorten it")
    return text


def redraw(asked: argparse.Namespace, screen: Screen, chosen, every, out: Out) -> int:
    """Draw the chosen figures again from their captures, and assemble."""
    taken = {row["id"] for row in plan.read_manifest(out)["slides"]}
    if not any(slide.id in taken for slide in chosen):
        raise MissingPart(f"{out.figures} holds no captures to draw; take them first: {plan.COMMAND}")
    changed = plan.changed_by_hand(chosen, out)
    if changed:
        again = plan.retake(changed[0], plan.flags_of(changed[0], out))
        raise BadInput(f"{changed[0]}: its capture was changed by hand; take it again: {again}")
    with only_run(out), Staging(out) as staging:
        todos = [plan.Todo(slide, [], ["--redraw"]) for slide in chosen if slide.id in taken]
        setting = plan.Setting("", "", "")
        with screen.working():
            outcome = run.build(todos, every, nothing_to_take(), out, staging, setting, asked.jobs, screen)
    return end(asked, screen, outcome, out)


def nothing_to_take() -> Lab:
    def refuse():
        raise MissingPart("this run takes no captures")

    return Lab("", refuse)


def photograph(asked: argparse.Namespace, screen: Screen, chosen, every, out: Out, sentence: str) -> int:
    """Find the model and the server, plan, and build or check or explain."""
    from pipeline import models, one_shape, servers
    from pipeline.sitting import Sitting

    if asked.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    model = models.choose(asked.model, offline=asked.offline)
    embedded = models.choose("smollm2").identity
    route = one_shape.ask_route(asked.ask).identity if asked.ask else ""  # a missing key is told before anything is taken
    fetch_nothing = asked.offline or asked.explain or not any(needs_server(slide, route) for slide in chosen)
    server = servers.choose(asked.server, offline=fetch_nothing, embedded_identity=embedded, say=screen.say)
    for line in (*model.lines, *server.lines):
        screen.say(line)
    setting = plan.Setting(sentence, model.identity, server.identity, route, own_flags(asked))
    with Sitting(sentence, model, server, screen.say, screen.fetching, asked.ask) as sitting:
        if asked.check:
            from pipeline.check import check

            with screen.working():
                screen.start(len(chosen), 0)
                found = check(chosen, sitting.lab, out, screen.checking)
            screen.comparisons(found)
            drifted = [one for one in found if one.drift or one.row.failure]
            apart = sum(bool(one.not_comparable) for one in found)
            screen.say(f"{len(found)} captures taken again, {len(drifted)} drifted or failed, {apart} not comparable")
            return 1 if drifted else 0
        if asked.explain:
            screen.explain(plan.make(chosen, out, setting, force=asked.force))
            return 0
        with only_run(out), Staging(out) as staging:
            todos = plan.make(chosen, out, setting, force=asked.force)
            with screen.working():
                outcome = run.build(todos, every, sitting.lab, out, staging, setting, asked.jobs, screen, sitting.begin_server)
    return end(asked, screen, outcome, out)


def needs_server(slide: Slide, route: str) -> bool:
    """Whether a slide asks the server of this run, and not a provider."""
    return "server" in slide.needs and not (route and slide.asks)


def end(asked: argparse.Namespace, screen: Screen, outcome: run.Outcome, out: Out) -> int:
    """The table, the failures or the last line, and the PDF if asked for."""
    screen.table(outcome.rows)
    if outcome.failures:
        return report_failures(outcome, screen)
    screen.last_line(outcome, out.html, "" if outcome.changed or outcome.rows else "; everything is up to date")
    if asked.pdf:
        from pipeline.pdf import pdf

        reason = pdf(out.html, out.deck / "deck.pdf")
        screen.say(f"no PDF was printed: {reason}" if reason else f"printed {out.deck / 'deck.pdf'}")
    return 0


def report_failures(outcome: run.Outcome, screen: Screen) -> int:
    for failure in outcome.failures:
        screen.error(f"oracle failed: {failure}", 1)
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
