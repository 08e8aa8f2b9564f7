"""Slides, captures, verdicts and figures into one HTML page that needs nothing else. The same input, the same bytes.

Knows no matplotlib, no model and no server; whatever it says of them it reads from the captures.
"""

import base64
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from PIL import Image

from pipeline import paths
from pipeline.command import retake
from pipeline.deck import words
from pipeline.deck.page_fonts import with_fonts
from pipeline.deck.sections import Section, sections
from pipeline.drawing.steps import covers_in
from pipeline.slide import Deck, Slide, Verdict
from pipeline.text import counted

SCRIPTS = ("deck.js", "figure.js", "overview.js", "presenter.js", "start.js")  # one function of the page, in this order
LEAST_LINES = 3  # of words below a figure, so that most figures are of one size
ALONE, BESIDE = 105, 124  # characters a line of words below a figure: of one paragraph, of all that stand side by side
NOT_REPORTED = "not reported"


@dataclass(frozen=True)
class Shown:
    """A slide as one deck shows it: its capture {"slide", "provenance", "data"}, its verdict, its PNG on disk.

    `flags` are what the command was given when it was taken.
    """

    slide: Slide
    capture: dict[str, Any]
    verdict: Verdict
    figure: Path
    flags: str = ""

    @property
    def provenance(self) -> dict[str, Any]:
        return self.capture["provenance"]

    @property
    def section(self) -> str:
        return self.slide.section_on((self.provenance.get("server") or {}).get("name"))


@dataclass(frozen=True)
class Page:
    """One slide with everything the page says about it filled in."""

    number: int
    is_title: bool
    kind: str
    part: str
    section: Section
    claim: str
    words: words.Rendered
    image: str
    covers: list[str]  # of the earlier build steps, first step first
    width: int
    height: int
    verdict: Verdict
    evidence: list[tuple[str, str]]
    command: str

    @property
    def layout(self) -> str:
        """Where the words stand: on the title, beside the figure, below it, or nowhere."""
        if self.is_title:
            return "title"
        if self.words.has_table:
            return "tabled"
        return "worded" if self.words.blocks else "wordless"

    @property
    def lines(self) -> int:
        """Lines that the words below the figure take, at most: on a small screen."""
        lengths = [len(block.text) for block in self.words.blocks]
        across = ALONE if len(lengths) == 1 else BESIDE // max(1, len(lengths))
        return max(LEAST_LINES, *(math.ceil(length / across) for length in lengths)) if lengths else 0


def html(deck: Deck, shown: Sequence[Shown]) -> str:
    """The whole index.html for these slides of a deck, in their order."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.DECK_SOURCES),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["safe_html"] = Markup
    with ThreadPoolExecutor() as pool:
        images = list(pool.map(as_data_uri, (one.figure for one in shown)))
    rendered = [words.render(one.slide, one.capture) for one in shown]
    pages = [_page(*made) for made in zip(shown, rendered, sections_of(shown, rendered), images, strict=True)]
    page = environment.get_template("deck.html.j2").render(
        name=deck.title,
        subtitle=deck.subtitle,
        pages=pages,
        facts=title_facts(shown),
        css=Markup((paths.DECK_SOURCES / "deck.css").read_text(encoding="utf-8")),
        js=Markup("\n".join((paths.DECK_SOURCES / name).read_text(encoding="utf-8") for name in SCRIPTS)),
    )
    return with_fonts(page)


def sections_of(shown: Sequence[Shown], rendered: Sequence[words.Rendered]) -> list[Section]:
    """The section that each slide stands in."""
    pairs = zip(shown, rendered, strict=True)
    found = sections([(one.slide.number, one.section, its.notes_text) for one, its in pairs])
    return [section for section in found for _ in range(section.count)]


def as_data_uri(figure: Path) -> tuple[str, int, int]:
    """A PNG as a data: address, lossless WebP where that is smaller, with its width and height."""
    png = figure.read_bytes()
    with Image.open(io.BytesIO(png)) as image:
        size = image.size
        packed = io.BytesIO()
        image.convert("RGB").save(packed, "WEBP", lossless=True, quality=10, method=1)
    webp = packed.getvalue()
    kind, data = ("webp", webp) if len(webp) < len(png) else ("png", png)
    return data_uri(kind, data), *size


def data_uri(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def title_facts(shown: Sequence[Shown]) -> list[tuple[str, str]]:
    """What the title slide says of this deck: how many of each kind, and what was photographed."""
    photographs = sum(one.slide.kind == "photograph" for one in shown)
    facts = [("In this deck", counted(photographs, "photograph"))]
    if len(shown) > photographs:
        facts[0] = ("In this deck", f"{facts[0][1]}, {counted(len(shown) - photographs, 'concept card')}")
    model = next((one.provenance["model"] for one in shown if one.provenance.get("model")), None)
    server = next((one.provenance["server"] for one in shown if one.provenance.get("server")), None)
    if model:
        parameters = f", {model['parameters']:,} parameters" if model.get("parameters") else ""
        facts.append(("Model", f"{model['name']}{parameters}"))
    if server:
        facts.append(("Server", " ".join(str(server[key]) for key in ("name", "version") if server.get(key))))
    return facts


def evidence(one: Shown) -> Iterator[tuple[str, str]]:
    """What stands behind a slide, as label and value; what was not reported says so."""
    provenance, holds = one.provenance, one.verdict.holds
    yield "Claim", one.slide.claim
    yield "Measured", one.verdict.measured
    yield "Bound", one.verdict.bound
    yield "Verdict", "✓ holds" if holds else "✗ fails"
    yield from _part(provenance.get("model"), "Model", ("name", "source", "revision", "sha256", "tokenizer_sha256", "dtype"))
    yield from _part(provenance.get("server"), "Server", ("name", "version", "model", "digest"))
    yield "Sentence", words.visible(provenance.get("sentence") or NOT_REPORTED)
    yield "Seed", str(provenance.get("seed", NOT_REPORTED))
    versions = provenance.get("versions") or {}
    yield "Versions", ", ".join(f"{name} {version}" for name, version in sorted(versions.items())) or NOT_REPORTED
    machine = provenance.get("machine") or {}
    threads = counted(machine["threads"], "thread") if "threads" in machine else None
    facts = (machine.get("cpu"), machine.get("instruction_set"), threads, f"Python {machine.get('python')}")
    yield "Machine", ", ".join(filter(None, facts)) if machine else NOT_REPORTED
    yield "Code", str(provenance.get("code") or NOT_REPORTED)


def _part(found: Mapping[str, Any] | None, label: str, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not found:
        return
    for key in keys:
        yield label if key == "name" else f"{label} {key.replace('_', ' ')}", str(found.get(key) or NOT_REPORTED)


def _page(one: Shown, rendered: words.Rendered, section: Section, image: tuple[str, int, int]) -> Page:
    slide = one.slide
    return Page(
        number=slide.number,
        is_title=slide.is_title,
        kind=slide.kind,
        part=slide.part,
        section=section,
        claim=slide.claim,
        words=rendered,
        image=image[0],
        covers=[data_uri("webp", cover) for cover in covers_in(one.figure)],
        width=image[1],
        height=image[2],
        verdict=one.verdict,
        evidence=list(evidence(one)),
        command=retake(slide.id, one.flags),
    )
