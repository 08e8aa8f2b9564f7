"""Decks for the deck's tests: the committed one assembled afresh, and one made by hand around awkward words."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from decks import ONE_CALL
from pipeline.deck import page as deck_page
from pipeline.deck import pdf, words
from pipeline.deck.page import Shown
from pipeline.paths import COMMITTED
from pipeline.run import build, manifest
from pipeline.slide import Slide, Verdict

CHROMIUM = pdf.browser()
CHROMIUM_ARGUMENTS = [*pdf.QUIET, "--no-sandbox"]
HOSTILE = [
    "<b>",
    "*",
    "_x_",
    "|",
    "`",
    "``",
    "\n",
    "\t",
    "<|endoftext|>",
    "$5",
    "&amp;",
    "\\",
    "[a](b)",
    " the",
    "東京",
    "🤗",
    "# 1.",
]
HOSTILE += ["\u202e"]
WORDS = """# A topic

## {name}
> **Thing.** A thing in our own words, with {{{{ data.tokens[0]|tok }}}} in it.

It takes {{{{ data.count|n }}}} of them: {{% for t in data.tokens %}}{{{{ t|tok }}}}{{{{ ", " if not loop.last }}}}{{% endfor %}}.
{table}
### alt
The tokens {{{{ data.tokens|join(", ") }}}} in a row.

### notes
Point at **{{{{ data.tokens[1] }}}}** first.

Then wait.
"""
TABLE = """
| | picks | this run |
|---|---|---|
| **greedy** | {{ data.tokens[3]|tok }} always | {{ data.tokens[3] }} |
| **top-p** | from {{ 0.9|pct(0) }} | {{ data.tokens[6]|tok }} |
"""


def need(part: str, found: object) -> None:
    """Skip the test, saying what it lacks; where CI is set that is a failure."""
    if not found:
        how = f"install it to have these checks (Debian: apt-get install {part})"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{part} is not installed on this machine: {how}")


def committed_deck() -> list[Shown]:
    """The slides of the committed deck, from its captures and figures."""
    known = manifest.read(COMMITTED)
    return build.shown(ONE_CALL.slides, known.entries, known)


@pytest.fixture(scope="session")
def deck() -> list[Shown]:
    """The committed deck, ready to be assembled."""
    found = committed_deck()
    if not found:
        pytest.fail("there is no committed deck: run python build/regen_all.py first")
    return found


@pytest.fixture(scope="session")
def deck_html(deck: list[Shown], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed deck's page, assembled afresh."""
    path = tmp_path_factory.mktemp("deck") / "index.html"
    path.write_text(deck_page.html(ONE_CALL, deck), "utf-8")
    return path


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[Shown]]]:
    """made(count) -> slides with hostile tokens, their words in a folder of their own; those of `tabled` numbers have a table."""
    real = words.render
    monkeypatch.setattr(words, "render", lambda slide, capture, folder=tmp_path: real(slide, capture, tmp_path))

    def make(count: int = 3, first: int = 1, **changes: Any) -> list[Shown]:
        return [_made_slide(number, tmp_path, **changes) for number in range(first, first + count)]

    yield make


def _made_slide(
    number: int,
    folder: Path,
    tokens: list[str] = HOSTILE,
    kind: Any = "photograph",
    tabled: Sequence[int] = (),
    **provenance: Any,
) -> Shown:
    name = f"slide_{number}"

    def capture(lab): ...

    capture.__module__ = f"topics.made_{number}"
    uncalled: Any = None  # the page is made from what a slide says and from its capture
    section, claim = f"Section <{number}>", f"claim {number} & more"
    slide = Slide(name, section, claim, capture, uncalled, uncalled, uncalled, kind=kind, number=number, part="A part")
    (folder / f"made_{number}.md").write_text(WORDS.format(name=name, table=TABLE if number in tabled else ""), "utf-8")
    figure = folder / f"{name}.png"
    Image.new("RGB", (192, 108), (number * 5 % 256, 90, 160)).save(figure)
    source = {
        "model": {"name": "a-model", "revision": None, "sha256": "ab" * 32, "dtype": "float32", "parameters": 1234567},
        "server": None,
        "sentence": "A <i>sentence</i>\nof two lines",
        "sentence_sha256": "cd" * 32,
        "versions": {"torch": "1", "numpy": "2"},
        "seed": 20,
    } | provenance
    data = {"tokens": tokens, "count": 1234}
    whole = {"slide": slide.id, "provenance": source, "data": data}
    return Shown(slide, whole, Verdict(True, "measured <1>", "bound & 2"), figure)
