"""The sheet of paper under a figure: its size and paper, and every text on it. Knows no shapes, tiles or charts.

Positions are pixels of a 1920 x 1080 sheet, origin at the top left, y growing downwards. Imports matplotlib only when
something is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.drawing.fonts import CAP_HEIGHT, FALLBACKS, LINE_HEIGHT, SANS, font, literal, visible
from pipeline.drawing.layout import (
    BODY,
    FULL,
    HEADLINE,
    HEADLINE_LEADING,
    HEADLINE_LEAST,
    HEADLINE_LINE,
    HEIGHT,
    LABEL,
    LEADING,
    READING_LINE,
    WIDTH,
    Across,
    Box,
    Down,
)
from pipeline.drawing.palette import CONCEPT_PAPER, GREY, INK, PAPER, TINT, Color, mix
from pipeline.drawing.steps import Steps
from pipeline.drawing.typesetting import Measure, fit, fit_tile

if TYPE_CHECKING:
    from matplotlib.text import Text

FEATURES = ("-liga",)  # Lato joins t and i: read from the back of a room, that is another letter


@dataclass(frozen=True)
class Line:
    """One line of a stack, and how it is set."""

    text: str
    size: float = BODY
    color: Color = INK
    weight: str = "regular"
    mono: bool = False


class Sheet:
    """A figure's paper and words. `kind` is photograph or concept; a concept card has its own paper and a hand-drawn line."""

    def __init__(self, kind: str = "photograph"):
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        matplotlib.rcParams.update({"font.family": [SANS, *FALLBACKS], "text.parse_math": False, "axes.unicode_minus": True})
        self.kind = kind
        self.paper = CONCEPT_PAPER if kind == "concept" else PAPER
        self.figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor=self.paper)
        canvas = FigureCanvasAgg(self.figure)
        self._renderer = canvas.get_renderer()
        self.sheet = self.figure.add_axes((0, 0, 1, 1))
        self.sheet.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
        self.sheet.axis("off")
        self._steps = Steps(canvas)

    def step(self) -> None:
        """End a build step: the page shows what is drawn so far, and the rest at the next key; a picture file shows all."""
        self._steps.mark()

    def tint(self, color: str, share: float = TINT) -> Color:
        """A colour thinned over this figure's own paper."""
        return mix(color, share, self.paper)

    # --- text ---

    def titled(self, headline: str, reading: str) -> Box:
        """The finding and how to read the drawing; returns the box that the figure draws in."""
        below = self.headline(headline)
        self.put(Box(READING_LINE.x, READING_LINE.y + below, READING_LINE.w, READING_LINE.h), reading, size=LABEL, color=GREY)
        return Box(FULL.x, FULL.y + below, FULL.w, FULL.h - below)

    def headline(self, text: str) -> float:
        """The finding as one sentence: a long one takes a second line, then shrinks, then is cut; returns the pixels added."""
        shown, size = fit(self._measured("bold", False), literal(text), HEADLINE, HEADLINE_LINE.w, 2, HEADLINE_LEAST)
        x, y = HEADLINE_LINE.west
        added = shown.count("\n") * size * HEADLINE_LEADING
        self.text(x, y + added / 2, shown, size=size, weight="bold", leading=HEADLINE_LEADING)
        return added

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = BODY,
        color: Color = INK,
        weight: str = "regular",
        align: str = "left",
        valign: str = "center",
        mono: bool = False,
        wrap: float | None = None,
        lines: int = 99,
        smallest: float | None = None,
        upright: bool = False,
        leading: float = LEADING,
        z: float = 3,
    ) -> Text:
        """Draw `text` literally at (x, y). align left|center|right; valign top|center|bottom|baseline.

        `center` centres the capitals, whatever else the text holds, so that texts and tiles on one line agree. With
        `wrap` (pixels) the text is broken into at most `lines` lines of that width; where it still does not fit it
        shrinks down to `smallest` pixels and then ends in an ellipsis. Newlines in `text` are kept as line breaks;
        anything undrawable becomes a visible escape. `upright` turns it to read upwards, capitals centred on x.
        """
        shown = "\n".join(literal(line) for line in text.split("\n"))
        if wrap is not None:
            shown, size = fit(self._measured(weight, mono), shown, size, wrap, lines, smallest or size)
        capitals = CAP_HEIGHT[mono] * size / 2
        if upright:
            x += capitals
        elif valign == "center":
            y += capitals + shown.count("\n") * leading * size / 2
        return self.sheet.text(
            x,
            y,
            shown,
            fontproperties=font(mono, weight, size),
            color=color,
            zorder=z,
            linespacing=leading / LINE_HEIGHT[mono],
            parse_math=False,
            fontfeatures=FEATURES,
            ha=align,
            va="baseline" if upright or valign == "center" else valign,
            rotation=90 if upright else 0,
            rotation_mode="anchor" if upright else "default",
        )

    def put(
        self, box: Box, text: str, *, align: Across = "left", down: Down = "center", lines: int = 1, size: float = BODY, **style
    ) -> Text:
        """Draw `text` inside a box in at most `lines` lines: it shrinks down to LABEL, then ends in an ellipsis."""
        style = {"smallest": min(size, LABEL)} | style
        x, y = {"left": box.x, "center": box.center[0], "right": box.right}[align], box.center[1]
        drawn = self.text(x, y, text, align=align, size=size, wrap=box.w, lines=lines, **style)
        if down != "center":
            half = (drawn.get_text().count("\n") + 1) * LEADING * size / 2
            free = box.h / 2 - half
            drawn.set_y(drawn.get_position()[1] + (free if down == "bottom" else -free))
        return drawn

    def stack(self, box: Box, *lines: Line, align: Across = "left", down: Down = "center") -> None:
        """Lines one under another inside a box, as a block at its top, middle or foot."""
        block = box.place(box.w, sum(line.size for line in lines) * LEADING, "left", down)
        for line, slot in zip(lines, block.rows(*(line.size * LEADING for line in lines)), strict=True):
            self.put(slot, line.text, align=align, size=line.size, color=line.color, weight=line.weight, mono=line.mono)

    def put_upright(self, box: Box, text: str, *, down: Down = "top", size: float = LABEL, **style) -> None:
        """A token written upwards in a column, cut where it is longer than the column is high."""
        shown, size = fit_tile(self._measured("regular", True), visible(text), size, box.h, LABEL)
        x, y = {"top": box.north, "bottom": box.south, "center": box.center}[down]
        ends = {"top": "right", "bottom": "left", "center": "center"}[down]
        self.text(x, y, shown, size=size, mono=True, upright=True, align=ends, **style)

    def measure(self, text: str, size: float = BODY, *, weight: str = "regular", mono: bool = False) -> tuple[float, float]:
        """Width and height in pixels of one line of text (already literal)."""
        from matplotlib.text import Text

        probe = Text(0, 0, text, fontproperties=font(mono, weight, size), parse_math=False, fontfeatures=FEATURES)
        probe.set_figure(self.figure)
        box = probe.get_window_extent(self._renderer)
        return box.width, box.height

    def width(self, text: str, size: float = BODY, *, weight: str = "regular", mono: bool = False) -> float:
        """Width in pixels of one line of text, made literal first."""
        return self.measure(literal(text), size, weight=weight, mono=mono)[0]

    def _measured(self, weight: str, mono: bool) -> Measure:
        return lambda text, size: self.measure(text, size, weight=weight, mono=mono)[0]
