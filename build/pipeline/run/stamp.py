"""Whether anything at all changed since a run last found everything up to date: one digest over all that decides it.

A quick look, for what it spares is parsing our own sources and importing every topic. When in doubt, the long way is taken.
"""

import dataclasses
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from pipeline.paths import BUILD, DECK_SOURCES, REQUIREMENTS, Out
from pipeline.run.setting import Setting


def path(out: Out) -> Path:
    return out.figures / ".up_to_date"


def holds(out: Out, setting: Setting) -> bool:
    """Whether the deck was up to date with this setting, and not one byte of it or of its sources has changed since."""
    if (out.figures / ".staging").exists():  # a killed run left something to finish
        return False
    try:
        return path(out).read_text("utf-8") == digest(out, setting)
    except (OSError, ValueError):
        return False


def note(out: Out, setting: Setting) -> None:
    """Note that the deck is up to date with this setting as everything is now."""
    path(out).write_text(digest(out, setting), "utf-8")


def digest(out: Out, setting: Setting) -> str:
    """The SHA-256 over the setting, this Python, our sources, and every file of the deck."""
    whole = hashlib.sha256(json.dumps([dataclasses.asdict(setting), sys.version]).encode())
    for file in sorted({*_sources(), *_deck(out)}):
        whole.update(f"\0{file}\0".encode("utf-8", "surrogatepass"))
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def _sources() -> Iterator[Path]:
    yield REQUIREMENTS
    yield from BUILD.rglob("*.py")
    yield from (file for file in DECK_SOURCES.rglob("*") if file.suffix in (".j2", ".css", ".js", ".md"))


def _deck(out: Out) -> Iterator[Path]:
    yield from (file for file in out.figures.rglob("*") if file.is_file() and not file.name.startswith("."))
    yield from (file for file in (*out.built, out.figures / ".held_here.json") if file.is_file())
