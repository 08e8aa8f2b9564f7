"""The figure every slide is drawn on: size, palette, tiles, charts, the provenance strip, the only savefig.

Positions are pixels of a 1920 x 1080 sheet, origin at the top left, y growing downwards. Knows no model and no server.
Imports matplotlib only when something is drawn.
"""

from __future__ import annotations

import bisect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.drawing.fonts import FALLBACKS, PIXEL, SANS, font, literal, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

WIDTH, HEIGHT, MARGIN = 1920, 1080, 60
NARROWEST = 0.1  # of a letter's size: no letter is narrower
BODY_TOP, BODY_BOTTOM = 220, 975  # the drawing goes between the reading line and the strip
HEADLINE, READING, LABEL, STRIP = 42, 26, 22, 18  # text heights in pixels; no label is smaller than LABEL

PAPER, CONCEPT_PAPER = "#fbfaf7", "#e9eef5"
INK, GREY, PALE, FAINT = "#1d1d22", "#66666e", "#c9c8c4", "#ecebe6"
BLUE, ORANGE = "#2563c9", "#d9631e"  # the thing to look at; what is contrasted with it
GREEN, RED = "#1f8a5b", "#c0362c"  # only for "holds"; only for "fails"


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels: x, y of its top left corner."""

    x: float
    y: float
    w: float
    h: float

    @property
    def center(self) -> tuple[float, float]:
        return self.x + self.w / 2, self.y + self.h / 2

    @property
    def right(self) -> float:
        return self.x + self.w

    @property
    def bottom(self) -> float:
        return self.y + self.h


def mix(color: str, share: float, paper: str = PAPER) -> tuple[float, float, float]:
    """`color` at strength `share` (0 … 1) over paper: the one way a shade means an amount."""
    ink, ground = (bytes.fromhex(name.removeprefix("#")) for name in (color, paper))
    red, green, blue = ((g + (i - g) * share) / 255 for i, g in zip(ink, ground, strict=True))
    return red, green, blue


class Canvas:
    """One figure. `kind` is photograph or concept; a concept card has its own paper and a hand-drawn line."""

    def __init__(self, kind: str = "photograph"):
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        matplotlib.rcParams.update({"font.family": [SANS, *FALLBACKS], "text.parse_math": False, "axes.unicode_minus": True})
        self.kind = kind
        self.paper = CONCEPT_PAPER if kind == "concept" else PAPER
        self.figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor=self.paper)
        self._renderer = FigureCanvasAgg(self.figure).get_renderer()
        self.sheet = self.figure.add_axes((0, 0, 1, 1))
        self.sheet.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
        self.sheet.axis("off")

    # --- text ---

    def headline(self, text: str) -> None:
        """The finding as one sentence. Long ones shrink to fit one line, down to 32 px, then wrap to two."""
        self.text(MARGIN, 70, text, size=HEADLINE, weight="bold", valign="top", wrap=WIDTH - 2 * MARGIN, lines=1, smallest=32)

    def reading(self, text: str) -> None:
        """One grey line that says how to read the drawing."""
        self.text(MARGIN, 142, text, size=READING, color=GREY, valign="top", wrap=WIDTH - 2 * MARGIN, lines=1, smallest=LABEL)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 24,
        color=INK,
        weight: str = "regular",
        align: str = "left",
        valign: str = "center",
        mono: bool = False,
        wrap: float | None = None,
        lines: int = 99,
        smallest: float | None = None,
        rotation: float = 0,
        axes: Axes | None = None,
    ) -> Text:
        """Draw `text` literally at (x, y). align left|center|right; valign top|center|bottom|baseline.

        With `wrap` (pixels) it is broken into at most `lines` lines of that width; where it still does not fit it
        shrinks down to `smallest` pixels and then ends in an ellipsis. Newlines in `text` are kept as line breaks;
        anything undrawable becomes a visible escape.
        """
        shown = "\n".join(literal(line) for line in text.split("\n"))
        if wrap is not None:
            shown, size = self._fit(shown, size, weight, mono, wrap, lines, smallest or size)
        return (axes or self.sheet).text(
            x,
            y,
            shown,
            fontproperties=font(mono, weight, size),
            color=color,
            ha=align,
            va=valign,
            rotation=rotation,
            linespacing=1.3,
            parse_math=False,
        )

    def measure(self, text: str, size: float = 24, *, weight: str = "regular", mono: bool = False) -> tuple[float, float]:
        """Width and height in pixels of one line of text (already literal)."""
        from matplotlib.text import Text

        probe = Text(0, 0, text, fontproperties=font(mono, weight, size), parse_math=False)
        probe.set_figure(self.figure)
        box = probe.get_window_extent(self._renderer)
        return box.width, box.height

    def _fit(self, text, size, weight, mono, width, lines, smallest) -> tuple[str, float]:
        room = int(lines * width / (NARROWEST * smallest)) + 1
        text = text if len(text) <= room else text[:room] + "…"  # what cannot fit anyhow is not measured
        broken = self._break(text, size, weight, mono, width)
        while len(broken) > lines and size > smallest:
            size = max(smallest, size - 1)
            broken = self._break(text, size, weight, mono, width)
        if len(broken) > lines:
            broken = [*broken[: lines - 1], self._elided(broken[lines - 1], size, weight, mono, width)]
        return "\n".join(broken), size

    def _elided(self, text: str, size: float, weight: str, mono: bool, width: float) -> str:
        """The longest beginning of `text` that fits `width` with an ellipsis after it."""
        return text[: self._longest(text, "…", size, weight, mono, width)].rstrip() + "…"

    def _longest(self, text: str, after: str, size: float, weight: str, mono: bool, width: float) -> int:
        """How many characters of `text` fit `width` with `after` behind them."""
        cuts = range(len(text) + 1)
        wide = bisect.bisect_right(cuts, width, key=lambda n: self.measure(text[:n] + after, size, weight=weight, mono=mono)[0])
        return max(wide - 1, 0)

    def _break(self, text, size, weight, mono, width) -> list[str]:
        """Break at spaces; a single word wider than `width` is broken between characters."""
        broken: list[str] = []
        for paragraph in text.split("\n"):
            line = ""
            for word in paragraph.split(" "):
                candidate = f"{line} {word}" if line else word
                if self.measure(candidate, size, weight=weight, mono=mono)[0] <= width:
                    line = candidate
                    continue
                if line:
                    broken.append(line)
                while self.measure(word, size, weight=weight, mono=mono)[0] > width and len(word) > 1:
                    cut = max(1, self._longest(word[:-1], "", size, weight, mono, width))
                    broken.append(word[:cut])
                    word = word[cut:]
                line = word
            broken.append(line)
        return broken

    # --- shapes ---

    def box(
        self, x, y, w, h, *, fill=None, edge=None, width: float = 1.5, radius: float = 6, dashed: bool = False, z: float = 1
    ) -> Box:
        """A rounded rectangle; `fill` and `edge` are colours or None."""
        from matplotlib.patches import FancyBboxPatch

        patch = FancyBboxPatch(
            (x + radius, y + radius),
            max(w - 2 * radius, 0.1),
            max(h - 2 * radius, 0.1),
            boxstyle=f"round,pad={radius},rounding_size={radius}",
            facecolor=fill if fill is not None else "none",
            edgecolor=edge if edge is not None else "none",
            linewidth=width if edge is not None else 0,
            linestyle="--" if dashed else "-",
            zorder=z,
        )
        self._by_hand(patch)
        self.sheet.add_patch(patch)
        return Box(x, y, w, h)

    def line(
        self, points: Sequence[tuple[float, float]], *, color=INK, width: float = 2, dashed: bool = False, z: float = 1
    ) -> None:
        """A polyline through pixel points."""
        (drawn,) = self.sheet.plot(*zip(*points, strict=True), color=color, linewidth=width, zorder=z, ls="--" if dashed else "-")
        self._by_hand(drawn)

    def arrow(self, x0, y0, x1, y1, *, color=GREY, width: float = 2, bend: float = 0, z: float = 2) -> None:
        """An arrow from (x0, y0) to (x1, y1); `bend` curves it."""
        from matplotlib.patches import FancyArrowPatch

        self.sheet.add_patch(
            FancyArrowPatch(
                (x0, y0), (x1, y1), arrowstyle="-|>,head_width=5,head_length=9", connectionstyle=f"arc3,rad={bend}",
                color=color, linewidth=width, shrinkA=0, shrinkB=0, zorder=z,
            )
        )  # fmt: skip

    def _by_hand(self, artist) -> None:
        if self.kind == "concept":
            artist.set_sketch_params(scale=1.2, length=90, randomness=3)

    # --- tokens ---

    def tile(
        self, piece: str, x: float, y: float, *, size: float = 28, fill=FAINT, color=INK, edge=None, width: float | None = None
    ) -> Box:
        """One token as a tile: monospaced, spaces visible. `width` fixes the tile's width and elides what is longer."""
        shown = visible(piece)
        pad, height = size * 0.45, size * 1.8
        if width is not None:
            shown, size = self._fit_one(shown, size, width - 2 * pad)
        w = width if width is not None else self.measure(shown, size, mono=True)[0] + 2 * pad
        box = self.box(x, y, w, height, fill=fill, edge=edge)
        self.sheet.text(
            box.center[0], box.center[1] + 0.33 * size, shown, fontproperties=font(True, "regular", size), color=color,
            ha="center", va="baseline", parse_math=False, zorder=3,
        )  # fmt: skip
        return box

    def _fit_one(self, shown: str, size: float, width: float) -> tuple[str, float]:
        while self.measure(shown, size, mono=True)[0] > width and size > LABEL:
            size = max(LABEL, size - 1)
        if self.measure(shown, size, mono=True)[0] > width:
            shown = self._elided(shown, size, "regular", True, width)
        return shown, size

    def tile_width(self, piece: str, size: float = 28) -> float:
        """The width in pixels that `tile` gives this piece."""
        return self.measure(visible(piece), size, mono=True)[0] + 2 * size * 0.45

    def tiles(
        self,
        pieces: Sequence[str],
        x: float,
        y: float,
        *,
        width: float = WIDTH - 2 * MARGIN,
        rows: int = 2,
        size: float = 28,
        smallest: float = LABEL,
        gap: float = 8,
        row_gap: float = 16,
        fills: Sequence | None = None,
        colors: Sequence | None = None,
        edges: Sequence | None = None,
    ) -> list[Box | None]:
        """A run of tokens, wrapped to at most `rows` rows of `width` pixels; returns each piece's Box.

        What does not fit shrinks down to `smallest`; then the middle is left out, the count of what is missing drawn
        in its place, and None returned for each piece left out.
        """
        while True:
            widths = [min(self.tile_width(piece, size), width) for piece in pieces]
            if _rows_needed(widths, width, gap) <= rows or size <= smallest:
                break
            size = max(smallest, size - 1)
        head, tail, note, note_width = len(pieces), 0, "", 0.0
        while _rows_needed([*widths[:head], *[note_width] * bool(note), *widths[len(pieces) - tail :]], width, gap) > rows:
            if head + tail <= 2:
                break
            kept = head + tail - 1
            head, tail = (kept + 1) // 2, kept // 2
            note = f"⋯ {len(pieces) - kept} more ⋯"
            note_width = self.measure(note, size)[0] + 2 * gap
        shown = [*range(head), *range(len(pieces) - tail, len(pieces))]
        boxes: list[Box | None] = [None] * len(pieces)
        left, top, height = x, y, size * 1.8

        def place(w: float) -> tuple[float, float]:
            nonlocal left, top
            if left > x and left + w > x + width + 0.5:
                left, top = x, top + height + row_gap
            spot = left, top
            left += w + gap
            return spot

        for index in shown:
            if note and index == len(pieces) - tail:
                at = place(note_width)
                self.text(at[0] + note_width / 2, at[1] + height / 2, note, size=size, color=GREY, align="center")
            at = place(widths[index])
            boxes[index] = self.tile(
                pieces[index], *at, size=size, width=widths[index] if widths[index] >= width else None,
                fill=fills[index] if fills is not None else FAINT,
                color=colors[index] if colors is not None else INK,
                edge=edges[index] if edges is not None else None,
            )  # fmt: skip
        return boxes

    # --- charts ---

    def chart(self, x: float, y: float, w: float, h: float, *, xlabel: str = "", ylabel: str = "") -> Axes:
        """Matplotlib axes over the pixel rectangle (tick labels lie outside it), in the house style.

        Every text put on them must go through `label`, which draws it literally.
        """
        axes = self.figure.add_axes((x / WIDTH, 1 - (y + h) / HEIGHT, w / WIDTH, h / HEIGHT), facecolor="none")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set(color=PALE, linewidth=1.5)
        axes.tick_params(
            colors=GREY, length=5, width=1.5, color=PALE, labelfontfamily=[SANS, *FALLBACKS], labelsize=LABEL * PIXEL
        )
        if xlabel:
            axes.set_xlabel(literal(xlabel), fontproperties=font(False, "regular", 24), color=GREY, labelpad=10)
        if ylabel:
            axes.set_ylabel(literal(ylabel), fontproperties=font(False, "regular", 24), color=GREY, labelpad=10)
        return axes

    def label(self, axes: Axes, x: float, y: float, text: str, **style) -> Text:
        """Text in the data coordinates of a chart; the same arguments as `text`."""
        return self.text(x, y, text, axes=axes, **style)

    # --- the foot, and out ---

    def strip(self, source: str, verdict: str, holds: bool) -> None:
        """The provenance strip: what this is, what it was taken from, and what its oracle said."""
        mark, y = self.kind.upper(), 1012
        color = BLUE if self.kind == "photograph" else ORANGE
        self.line([(MARGIN, y - 24), (WIDTH - MARGIN, y - 24)], color=PALE, width=1)
        width = self.measure(mark, STRIP, weight="bold")[0] + 20
        self.box(MARGIN, y - 15, width, 30, fill=color, radius=4)
        self.text(MARGIN + width / 2, y, mark, size=STRIP, weight="bold", color="white", align="center", valign="center_baseline")
        sign, room = ("✓ holds" if holds else "✗ fails"), WIDTH - 2 * MARGIN - width - 40
        shown = f"{sign} · {verdict}"
        right = min(self.measure(literal(shown), STRIP)[0], room * 0.6)
        color, left = GREEN if holds else RED, MARGIN + width + 16
        self.text(WIDTH - MARGIN, y, shown, size=STRIP, color=color, align="right", valign="center_baseline",
                  wrap=room * 0.6 + 4, lines=1)  # fmt: skip
        self.text(left, y, source, size=STRIP, color=GREY, valign="center_baseline", wrap=room - right - 16, lines=1)

    def save(self, path: Path) -> None:
        """Write the PNG. A character that no font covers is an error, not a box."""
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Glyph .* missing")
            self.figure.savefig(path, format="png", metadata={"Software": None}, pil_kwargs={"compress_level": 6})


def _rows_needed(widths: Sequence[float], width: float, gap: float) -> int:
    rows, left = 1, 0.0
    for w in widths:
        if left and left + w > width + 0.5:
            rows, left = rows + 1, 0.0
        left += w + gap
    return rows
