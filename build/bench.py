#!/usr/bin/env python3
"""How much one process saves: the whole deck in one run, against the same slides one process per topic script.

Prints ratios; seconds are shown only for scale, since they belong to the machine. Both decks go to a temporary folder.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from decks import ONE_CALL
from pipeline.paths import BUILD

REGEN = BUILD / "regen_all.py"


def seconds(*command: object) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *map(str, command)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, many = Path(folder, "one"), Path(folder, "many")
        whole = seconds(REGEN, "--out", one)
        apart = sum(seconds(BUILD / "topics" / f"{topic}.py", "--out", many) for topic in ONE_CALL.topics)
        nothing = seconds(REGEN, "--out", one)
        redraw = seconds(REGEN, "--redraw", "--out", one)
        changed = seconds(REGEN, "--only", "opening", "--force", "--out", one)
    rows = [
        ("everything from nothing, one run", whole),
        ("the same, one process per topic script", apart),
        ("one topic taken again", changed),
        ("every figure drawn again", redraw),
        ("nothing to do", nothing),
    ]
    for name, taken in rows:
        print(f"{name:<40} {taken / whole:6.2f} of a whole run  ({taken:.1f} s here)")


if __name__ == "__main__":
    main()
