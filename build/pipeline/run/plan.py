"""Which slides are stale, and why. Compares the manifest of the last good run with the sources as they are now.

Knows no torch, no matplotlib and takes nothing: a run with nothing to do ends after this module.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from pipeline.checksum import file_sha256
from pipeline.errors import BadInput
from pipeline.paths import DECK_SOURCES
from pipeline.run import fingerprint
from pipeline.run.manifest import Entry, Manifest
from pipeline.run.setting import Setting
from pipeline.slide import Slide

CAPTURE_MODULES = ("pipeline.lab", "pipeline.run.taking")
MODEL_MODULES = ("pipeline.model.find",)
SERVER_MODULES = ("pipeline.serving.find",)
MODEL_PINS = ("torch", "transformers", "numpy")
SERVER_PINS = ("requests", "litellm", "transformers")
DRAW_MODULES = ("pipeline.drawing.canvas", "pipeline.drawing.worker")
DECK_MODULES = ("decks", "pipeline.deck.page", "pipeline.deck.words", "pipeline.deck.powerpoint")
FONT_PINS = ("fontpkg-lato", "fontpkg-ibm-plex-mono", "cvttf-notosanscjk-regular", "manimgx-fonts", "matplotlib")
DRAW_PINS = ("pillow", *FONT_PINS)
DECK_PINS = ("jinja2", "markdown-it-py", "pillow", "python-pptx", "fonttools", *FONT_PINS)


@dataclass(frozen=True)
class Todo:
    """What one slide needs: `take` and `draw` hold the reasons, one phrase each; empty means it is up to date.

    A slide that is taken is drawn as well, unless the capture it has turns out to hold and `draw` is empty.
    """

    slide: Slide
    take: list[str] = field(default_factory=list)
    draw: list[str] = field(default_factory=list)
    forced: bool = False  # what is taken is kept, even if the committed capture says the same

    @property
    def stale(self) -> bool:
        return bool(self.take or self.draw)


def capture_parts(slide: Slide, setting: Setting) -> dict[str, str]:
    """Everything a slide's capture depends on, as name -> short hash or identity."""
    parts = fingerprint.of_function(slide.capture.__module__, slide.capture.__name__) | fingerprint.of_modules(CAPTURE_MODULES)
    if "model" in slide.needs:
        parts |= fingerprint.of_modules(MODEL_MODULES) | fingerprint.of_pins(MODEL_PINS) | {"model": setting.model}
    if "server" in slide.needs:
        parts |= fingerprint.of_modules(SERVER_MODULES) | fingerprint.of_pins(SERVER_PINS)
        own = setting.own if slide.own else ""
        parts |= {"asked": setting.asked} if setting.asked and slide.asks else {"server": own or setting.server}
    if slide.needs:
        parts["sentence"] = fingerprint.digest(setting.sentence)
    return parts


def code_sha(slide: Slide) -> str:
    """One short hash over all the code that takes a slide's capture."""
    setting = Setting("", "", "")
    code = {name: value for name, value in capture_parts(slide, setting).items() if name.endswith(".py") or ".py:" in name}
    return fingerprint.digest(*(f"{name}={value}" for name, value in sorted(code.items())))


def draw_parts(slide: Slide) -> dict[str, str]:
    """Everything a slide's figure depends on besides its capture: drawing, oracle (the strip shows it), fonts."""
    return (
        fingerprint.of_function(slide.draw.__module__, slide.draw.__name__)
        | fingerprint.of_function(slide.oracle.__module__, slide.oracle.__name__)
        | fingerprint.of_modules(DRAW_MODULES)
        | fingerprint.of_pins(DRAW_PINS)
        | {"its kind and needs": fingerprint.digest(slide.kind, *slide.needs)}
    )


def deck_parts(shown: Iterable[Entry]) -> dict[str, str]:
    """Everything the assembled deck depends on."""
    sources = [path for path in sorted(DECK_SOURCES.rglob("*")) if path.suffix in (".j2", ".css", ".js", ".md")]
    texts = {path.relative_to(DECK_SOURCES).as_posix(): fingerprint.digest(path.read_text("utf-8")) for path in sources}
    looks = ("number", "section", "kind", "claim", "capture_sha256", "figure_sha256", "verdict", "flags")
    rows = {one.id: fingerprint.digest(json.dumps([asdict(one)[key] for key in looks], sort_keys=True)) for one in shown}
    return texts | rows | fingerprint.of_modules(DECK_MODULES) | fingerprint.of_pins(DECK_PINS)


def select(slides: Sequence[Slide], only: Sequence[str]) -> list[Slide]:
    """The slides that `--only TOPIC[/SLIDE]` names, or all. Raises BadInput for a name that is none."""
    unknown = [name for name in only if not any(name in (slide.topic, slide.id) for slide in slides)]
    if unknown:
        known = ", ".join(dict.fromkeys(slide.topic for slide in slides))
        raise BadInput(f"--only {unknown[0]}: no such topic or slide; topics are {known} (--list names every slide)")
    return [slide for slide in slides if not only or slide.topic in only or slide.id in only]


def make(slides: Sequence[Slide], manifest: Manifest, setting: Setting, *, force: bool = False) -> list[Todo]:
    """What each slide needs to be up to date with `setting`; reasons in the order they are looked at."""
    return [_todo(slide, manifest, setting, force) for slide in slides]


def _todo(slide: Slide, manifest: Manifest, setting: Setting, force: bool) -> Todo:
    if force:
        return Todo(slide, ["--force"], forced=True)
    if flaw := manifest.flaw_of_capture(slide.id):
        return Todo(slide, [flaw])
    entry = manifest.entries[slide.id]
    take = fingerprint.differences(entry.capture_parts, capture_parts(slide, setting))
    if not take and manifest.held_here.get(slide.id) != entry.capture_sha256:
        take = ["not yet taken on this machine"]
    return Todo(slide, take, redraw_reasons(slide, manifest))


def redraw_reasons(slide: Slide, manifest: Manifest) -> list[str]:
    """Why a slide's figure must be drawn again though its capture stays."""
    entry, figure = manifest.entries[slide.id], manifest.out.figure(slide.id)
    if not figure.is_file():
        return ["its figure is missing"]
    if file_sha256(figure) != entry.figure_sha256:
        return ["its figure was changed by hand"]
    return fingerprint.differences(entry.draw_parts, draw_parts(slide))
