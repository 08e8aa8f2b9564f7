"""Which slides are stale, and why. Compares the manifest of the last good run with the sources as they are now.

Knows no torch, no matplotlib and takes nothing: a run with nothing to do ends after this module.
"""

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline import fingerprint
from pipeline.checksum import file_sha256
from pipeline.errors import BadInput
from pipeline.paths import COMMITTED, DECK_SOURCES, Out
from pipeline.slide import Slide

CAPTURE_MODULES = ("pipeline.lab",)
MODEL_MODULES = ("pipeline.models",)
SERVER_MODULES = ("pipeline.servers", "pipeline.wire", "pipeline.one_shape")
MODEL_PINS = ("torch", "transformers", "numpy")
COMMAND = ".venv/bin/python build/regen_all.py"
SERVER_PINS = ("requests", "litellm", "transformers")
DRAW_MODULES = ("pipeline.canvas", "pipeline.draw")
DECK_MODULES = ("pipeline.assemble", "pipeline.words", "pipeline.slides_pptx")
FONT_PINS = ("fontpkg-lato", "fontpkg-ibm-plex-mono", "cvttf-notosanscjk-regular", "manimgx-fonts", "matplotlib")
DRAW_PINS = ("pillow", *FONT_PINS)
DECK_PINS = ("jinja2", "markdown-it-py", "pillow", "python-pptx", "fonttools", *FONT_PINS)


@dataclass(frozen=True)
class Setting:
    """What the captures of this run will be taken of: the part of the world that decides staleness."""

    sentence: str
    model: str  # identity, see models.ModelChoice
    server: str  # identity, see servers.ServerChoice
    asked: str = ""  # a provider's model for slides 36-37 instead of the server
    flags: str = ""  # of the command: another model, sentence or folder, as a shell reads them


@dataclass(frozen=True)
class Todo:
    """What one slide needs: `take` and `draw` hold the reasons, one phrase each; empty means it is up to date."""

    slide: Slide
    take: list[str] = field(default_factory=list)
    draw: list[str] = field(default_factory=list)

    @property
    def stale(self) -> bool:
        return bool(self.take or self.draw)


def capture_parts(slide: Slide, setting: Setting) -> dict[str, str]:
    """Everything a slide's capture depends on, as name -> short hash or identity."""
    parts = fingerprint.of_function(slide.capture.__module__, slide.capture.__name__) | fingerprint.of_modules(CAPTURE_MODULES)
    if "model" in slide.needs:
        parts |= fingerprint.of_modules(MODEL_MODULES) | fingerprint.of_pins(MODEL_PINS) | {"model": setting.model}
    if "server" in slide.needs:
        parts |= fingerprint.of_modules(SERVER_MODULES) | fingerprint.of_pins(SERVER_PINS) | {"server": setting.server}
        parts |= {"asked": setting.asked} if setting.asked and slide.asks else {}
    if slide.needs:
        parts["sentence"] = fingerprint.digest(setting.sentence)
    return parts


def draw_parts(slide: Slide) -> dict[str, str]:
    """Everything a slide's figure depends on besides its capture: drawing, oracle (the strip shows it), fonts."""
    return (
        fingerprint.of_function(slide.draw.__module__, slide.draw.__name__)
        | fingerprint.of_function(slide.oracle.__module__, slide.oracle.__name__)
        | fingerprint.of_modules(DRAW_MODULES)
        | fingerprint.of_pins(DRAW_PINS)
    )


def deck_parts(shown: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Everything the assembled deck depends on; `shown` are the manifest's rows."""
    sources = [path for path in sorted(DECK_SOURCES.rglob("*")) if path.suffix in (".j2", ".css", ".js", ".md")]
    texts = {path.relative_to(DECK_SOURCES).as_posix(): fingerprint.digest(path.read_text("utf-8")) for path in sources}
    looks = ("number", "section", "kind", "claim", "capture_sha256", "figure_sha256", "verdict", "flags")
    rows = {row["id"]: fingerprint.digest(json.dumps([row.get(key) for key in looks], sort_keys=True)) for row in shown}
    return texts | rows | fingerprint.of_modules(DECK_MODULES) | fingerprint.of_pins(DECK_PINS)


def read_manifest(out: Out) -> dict[str, Any]:
    """The manifest of the last good run; an empty one when there is none."""
    empty: dict[str, Any] = {"slides": [], "deck": {}}
    if not out.manifest.exists():
        return empty
    try:
        manifest = json.loads(out.manifest.read_text("utf-8"))
        return manifest if {"slides", "deck"} <= manifest.keys() else empty
    except (ValueError, AttributeError):
        return empty  # damaged: everything is stale, and the next good run replaces it


def retake(slide_id: str, flags: str) -> str:
    """The command that takes a slide again; `flags` are those that its deck was made with."""
    return " ".join(filter(None, (COMMAND, flags, f"--only {slide_id} --force")))


def for_shell(text: str) -> str:
    """`text` as one word for a shell, on one line and printable whatever is in it."""
    if text.isprintable():
        return shlex.quote(text)
    plain = (f"\\x{byte:02x}" if not 32 <= byte < 127 or chr(byte) in "\\'" else chr(byte) for byte in os.fsencode(text))
    return f"$'{''.join(plain)}'"


def flags_of(slide_id: str, out: Out) -> str:
    """The flags that a slide of this deck was taken with, or those that lead to its folder."""
    kept = next((row.get("flags") for row in read_manifest(out)["slides"] if row["id"] == slide_id), None)
    return kept or ("" if out == COMMITTED else f"--out={for_shell(str(out.root))}")


def select(slides: Sequence[Slide], only: Sequence[str]) -> list[Slide]:
    """The slides that `--only TOPIC[/SLIDE]` names, or all. Raises BadInput for a name that is none."""
    unknown = [name for name in only if not any(name in (slide.topic, slide.id) for slide in slides)]
    if unknown:
        known = ", ".join(dict.fromkeys(slide.topic for slide in slides))
        raise BadInput(f"--only {unknown[0]}: no such topic or slide; topics are {known} (--list names every slide)")
    return [slide for slide in slides if not only or slide.topic in only or slide.id in only]


def taken_here(out: Out) -> dict[str, str]:
    """Slide id -> sha256 of the capture that this very clone took last; not committed."""
    path = ledger(out)
    try:
        return json.loads(path.read_text("utf-8")) if path.exists() else {}
    except ValueError:
        return {}


def ledger(out: Out) -> Path:
    return out.figures / ".taken_here.json"


def make(slides: Sequence[Slide], out: Out, setting: Setting, *, force: bool = False) -> list[Todo]:
    """What each slide needs to be up to date with `setting`; reasons in the order they are looked at."""
    rows = {row["id"]: row for row in read_manifest(out)["slides"]}
    here = taken_here(out)
    return [_todo(slide, rows.get(slide.id), out, setting, here.get(slide.id), force) for slide in slides]


def _todo(slide: Slide, row: Mapping[str, Any] | None, out: Out, setting: Setting, here: str | None, force: bool) -> Todo:
    capture, figure = out.capture(slide.id), out.figure(slide.id)
    if force:
        return Todo(slide, ["--force"], ["the capture is taken again"])
    if row is None:
        return Todo(slide, ["never taken"], ["the capture is taken again"])
    if not capture.exists():
        return Todo(slide, ["its capture is missing"], ["the capture is taken again"])
    if file_sha256(capture) != row["capture_sha256"]:
        return Todo(slide, ["its capture was changed by hand"], ["the capture is taken again"])
    take = fingerprint.differences(row["capture_parts"], capture_parts(slide, setting))
    if not take and here != row["capture_sha256"]:
        take = ["not yet taken on this machine"]
    if take:
        return Todo(slide, take, ["the capture is taken again"])
    return Todo(slide, [], redraw_reasons(slide, row, figure))


def changed_by_hand(slides: Sequence[Slide], out: Out) -> list[str]:
    """The ids of slides whose capture is not the one that the manifest was written for."""
    kept = {row["id"]: row["capture_sha256"] for row in read_manifest(out)["slides"]}
    files = {slide.id: out.capture(slide.id) for slide in slides if slide.id in kept}
    return [name for name, path in files.items() if path.exists() and file_sha256(path) != kept[name]]


def redraw_reasons(slide: Slide, row: Mapping[str, Any], figure: Path) -> list[str]:
    if not figure.exists():
        return ["its figure is missing"]
    if file_sha256(figure) != row["figure_sha256"]:
        return ["its figure was changed by hand"]
    return fingerprint.differences(row["draw_parts"], draw_parts(slide))
