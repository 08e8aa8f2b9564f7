#!/usr/bin/env python3
"""The one command: flags in, plan, run, table out. What each flag does and what the exit codes mean: `--help`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))  # Python adds it by itself only where PYTHONSAFEPATH is not set
    from pipeline import streams

    streams.stop_early()

import argparse
import os
import shlex
from collections.abc import Sequence
from typing import Any

try:
    from pipeline import streams
    from pipeline.command import COMMAND, for_shell
    from pipeline.errors import BadInput, DeckError, MissingPart
    from pipeline.lab import Lab
    from pipeline.paths import COMMITTED, REPO, Out
    from pipeline.run import build, manifest, plan
    from pipeline.run.console import Screen
    from pipeline.run.flags import parser
    from pipeline.run.manifest import Manifest
    from pipeline.run.staging import only_run
    from pipeline.settings import DEFAULT_SENTENCE
    from pipeline.slide import Slide
    from topics import slides
except ModuleNotFoundError as error:
    print(f"error: {error.name} is not installed: run `make deck`, or use its .venv/bin/python", file=sys.stderr)
    sys.exit(3)

OWN_MODELS, OWN_SERVERS = ("auto", "gpt2", "smollm2"), ("auto", "ollama", "embedded")
CUSTOM_OUT = REPO / "my-deck"
LONGEST_SENTENCE = 20_000  # characters; the limit in tokens is the lab's


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse flags, do what they ask, turn every error into one line and an exit code."""
    streams.steady()
    given = sys.argv[1:] if arguments is None else arguments
    screen, debug = Screen(quiet="--quiet" in given, as_json="--json" in given), "--debug" in given
    try:
        streams.hear_interrupts()
        code = act(parser().parse_args(given), screen)
    except KeyboardInterrupt as stop:
        code = screen.error("interrupted; the last good deck is untouched", stop.args[0] if stop.args else 130)
    except DeckError as error:
        code = failed(debug, screen, error, str(error), error.exit_code)
    except ImportError as error:
        told = f"{error.name or error} cannot be imported: pip install -r build/requirements.txt with this Python"
        code = failed(debug, screen, error, told, MissingPart.exit_code)
    except OSError as error:
        told = f"{error.strerror or error} ({error.filename or 'no file named'}); the last good deck is untouched"
        code = failed(debug, screen, error, told, MissingPart.exit_code)
    except Exception as error:
        told = f"{type(error).__name__}: {error} (run again with --debug for the traceback)"
        code = failed(debug, screen, error, told, 1)
    return screen.flush(code)


def failed(debug: bool, screen: Screen, error: BaseException, line: str, code: int) -> int:
    if debug:
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
        outcome = build.verify(chosen, manifest.read(out))
        screen.table(outcome.rows)
        screen.last_line(outcome, None)
        return report_failures(outcome, screen)
    checked_sentence(asked.sentence)
    return redraw(asked, screen, chosen, every, out) if asked.redraw else photograph(asked, screen, chosen, every, out)


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
            flags.append(f"--{name}={for_shell(str(Path(value).expanduser().resolve()) if a_place else value)}")
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


def redraw(asked: argparse.Namespace, screen: Screen, chosen: Sequence[Slide], every: Sequence[Slide], out: Out) -> int:
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
            outcome = build.build(todos, every, known, NothingToTake(), asked.jobs, screen)
    return end(asked, screen, outcome, out)


class NothingToTake:
    """The source of a run that takes no captures."""

    setting = plan.Setting("", "", "")

    @property
    def lab(self) -> Lab:
        raise MissingPart("this run takes no captures")

    def begin_server(self) -> None:
        """There is none."""


def photograph(asked: argparse.Namespace, screen: Screen, chosen: Sequence[Slide], every: Sequence[Slide], out: Out) -> int:
    """Find the model and the server, plan, and build or check or explain."""
    from pipeline.run.session import Sitting

    if asked.check:
        asked = with_the_decks_own_sources(asked, chosen, manifest.read(out))
    sentence = checked_sentence(asked.sentence)
    if asked.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    model, server, route = sources(asked, chosen, screen)
    setting = plan.Setting(sentence, model.identity, server.identity, route, own_flags(asked))
    with Sitting(setting, model, server, screen.say, screen.fetching, asked.ask) as sitting:
        if asked.check:
            return check(chosen, sitting.lab, manifest.read(out), screen)
        if asked.explain:
            screen.explain(plan.make(chosen, manifest.read(out), setting, force=asked.force))
            return 0
        with only_run(out):
            known = manifest.read(out)
            todos = plan.make(chosen, known, setting, force=asked.force)
            with screen.working():
                outcome = build.build(todos, every, known, sitting, asked.jobs, screen)
    return end(asked, screen, outcome, out)


def sources(asked: argparse.Namespace, chosen: Sequence[Slide], screen: Screen):
    """The model, the server and the provider's route that the flags name; tells what was found and why the rest was not."""
    from pipeline.model import find as find_model
    from pipeline.serving import find as find_server
    from pipeline.serving.providers import ask_route

    model = find_model.choose(asked.model, offline=asked.offline)
    embedded = find_model.choose("smollm2").identity
    route = ask_route(asked.ask).identity if asked.ask else ""  # a missing key is told before anything is taken
    fetch_nothing = asked.offline or asked.explain or not any(needs_server(slide, route) for slide in chosen)
    server = find_server.choose(asked.server, offline=fetch_nothing, embedded_identity=embedded, say=screen.say)
    for line in (*model.lines, *server.lines):
        screen.say(line)
    return model, server, route


def with_the_decks_own_sources(asked: argparse.Namespace, chosen: Sequence[Slide], known: Manifest) -> argparse.Namespace:
    """What a check is told no other it takes from the captures it compares with: flags, model and server.

    An Ollama that is not there is no reason to compare nothing: the check then says so of the slides that asked it.
    """
    from pipeline.model import find as find_model

    defaults, flags = vars(parser().parse_args([])), dict[str, Any]()
    entries = [known.entries[slide.id] for slide in chosen if slide.id in known.entries]
    for text in {entry.flags for entry in entries if entry.flags}:
        flags |= {name: value for name, value in vars(parser().parse_args(shlex.split(text))).items() if value != defaults[name]}
    of_model = {entry.model for entry in entries} - {None}
    of_server = {entry.server for entry in entries} - {None}
    if not flags.get("model") and len(of_model) == 1:
        flags["model"] = {"gpt2": "gpt2", find_model.EMBEDDED: "smollm2"}.get(str(of_model.pop()), "auto")
    if not flags.get("server") and of_server == {"transformers serve"}:
        flags["server"] = "embedded"
    found = {name: value for name, value in flags.items() if name in ("model", "server", "ask", "sentence")}
    return argparse.Namespace(**{**vars(asked), **{n: v for n, v in found.items() if vars(asked)[n] == defaults[n]}})


def check(chosen: Sequence[Slide], lab: Lab, known: Manifest, screen: Screen) -> int:
    """Take the chosen captures again and compare; 3 when there was nothing that could be compared."""
    from pipeline.run.check import check

    with screen.working():
        screen.start(len(chosen), 0)
        found = check(chosen, lab, known, screen.checking)
    screen.comparisons(found)
    drifted = [one for one in found if one.drift or one.row.failure]
    apart = [one for one in found if one.not_comparable]
    screen.say(f"{len(found)} captures taken again, {len(drifted)} drifted or failed, {len(apart)} not comparable")
    if not drifted and apart and all(one.not_comparable for one in found if one.row.slide.needs):
        raise MissingPart(f"nothing could be compared: {apart[0].not_comparable}; name the deck's own with --model and --server")
    return 1 if drifted else 0


def needs_server(slide: Slide, route: str) -> bool:
    """Whether a slide asks the server of this run, and not a provider."""
    return "server" in slide.needs and not (route and slide.asks)


def end(asked: argparse.Namespace, screen: Screen, outcome: build.Outcome, out: Out) -> int:
    """The table, the failures or the last line, and the PDF if asked for."""
    screen.table(outcome.rows)
    if outcome.failures:
        return report_failures(outcome, screen)
    screen.what_changed(outcome)
    screen.last_line(outcome, out.html, "" if outcome.changed or outcome.rows else "; everything is up to date")
    if asked.pdf:
        from pipeline.deck.pdf import pdf

        reason = pdf(out.html, out.deck / "deck.pdf")
        if reason:
            raise MissingPart(f"the deck is built, and no PDF was printed: {reason}")
        screen.say(f"printed {out.deck / 'deck.pdf'}")
    return 0


def report_failures(outcome: build.Outcome, screen: Screen) -> int:
    for failure in outcome.failures:
        screen.error(f"oracle failed: {failure}", 1)
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
