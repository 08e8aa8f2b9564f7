"""The flags of the command: what they are, which deck they mean, and what is wrong with them."""

import argparse
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pipeline.command import for_shell
from pipeline.errors import BadInput
from pipeline.paths import COMMITTED, REPO, Out
from pipeline.run.manifest import Manifest
from pipeline.settings import DEFAULT_SENTENCE
from pipeline.slide import Slide

OWN_MODELS, OWN_SERVERS = ("auto", "gpt2", "smollm2"), ("auto", "ollama", "embedded")
CUSTOM_OUT = REPO / "my-deck"
ABOUT = """One call, taken apart: bring every slide that is stale up to date, prove it, and assemble the deck.

Exit codes: 0 done, 1 an oracle failed or something drifted, 2 bad input, 3 a needed part is missing, 130 or 143 interrupted.
"""
LONGEST_SENTENCE = 20_000  # characters; the limit in tokens is the lab's


class OneLineParser(argparse.ArgumentParser):
    """Reports a wrong flag like every other error."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message} (--help lists the flags)")


def parser() -> argparse.ArgumentParser:
    flags = OneLineParser(
        prog="build/regen_all.py", description=ABOUT, formatter_class=argparse.RawTextHelpFormatter, allow_abbrev=False
    )
    flags.add_argument("--only", action="append", default=[], metavar="TOPIC[/SLIDE]", help="only these slides (repeatable)")
    mode = flags.add_mutually_exclusive_group()
    mode.add_argument("--redraw", action="store_true", help="draw every figure again from its capture; needs no model")
    mode.add_argument("--verify", action="store_true", help="re-assert every oracle from the captures; needs no model")
    mode.add_argument("--check", action="store_true", help="take every capture again and compare it with the committed one")
    flags.add_argument("--report", type=Path, metavar="FILE", help="with --check: write what it found as one HTML page")
    mode.add_argument("--whose", type=Path, metavar="PICTURE", help="say which slide, capture and verdict a picture is of")
    mode.add_argument("--list", action="store_true", help="list the slides")
    mode.add_argument("--explain", action="store_true", help="say what is stale and why; do nothing")
    flags.add_argument("--force", action="store_true", help="take the selected slides again even if they are up to date")
    flags.add_argument("--model", default="auto", metavar="auto|gpt2|smollm2|HUB_ID|DIR", help="the model to photograph")
    flags.add_argument("--server", default="auto", metavar="auto|ollama|embedded|URL", help="the server to call in Part 2")
    flags.add_argument("--keep-model", action="store_true", help="leave the deck's own model in the Ollama it was put into")
    flags.add_argument("--ask", metavar="MODEL", help="ask a provider what one_shape asks the server, by litellm's model string")
    flags.add_argument("--sentence", default=DEFAULT_SENTENCE, metavar="TEXT", help="the sentence to complete")
    flags.add_argument("--out", type=Path, metavar="DIR", help="where the deck goes (a custom deck: my-deck/)")
    flags.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), metavar="N", help="drawing processes")
    flags.add_argument("--offline", action="store_true", help="use no network")
    flags.add_argument("--pdf", action="store_true", help="print deck.pdf with a Chromium found on this machine")
    flags.add_argument("--timings", action="store_true", help="say where the run's time went")
    flags.add_argument("--json", action="store_true", help="print one JSON document instead of lines")
    flags.add_argument("--quiet", action="store_true", help="print errors only")
    flags.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return flags


def where(asked: argparse.Namespace, say: Callable[[str], None]) -> Out:
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
        say(f"{custom[0]} makes a deck of its own in {CUSTOM_OUT} (--out DIR puts it elsewhere)")
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


def with_the_decks_own_sources(asked: argparse.Namespace, chosen: Sequence[Slide], known: Manifest) -> argparse.Namespace:
    """Flags, model and server that a check is not given, taken from the captures it compares with.

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
