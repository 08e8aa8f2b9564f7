"""The flags of the command. What they ask for is decided in regen_all.py."""

import argparse
import os
from pathlib import Path
from typing import NoReturn

from pipeline.errors import BadInput
from pipeline.settings import DEFAULT_SENTENCE

ABOUT = """One call, taken apart: bring every slide that is stale up to date, prove it, and assemble the deck.

Exit codes: 0 done, 1 an oracle failed or something drifted, 2 bad input, 3 a needed part is missing, 130 or 143 interrupted.
"""


class OneLineParser(argparse.ArgumentParser):
    """Tells a wrong flag like every other error."""

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
