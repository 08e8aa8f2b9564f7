"""The figure every slide is drawn on: shapes and tokens on a sheet, the provenance strip, the only savefig.

`titled` hands back the box a figure draws in; `layout` divides it, and what is put into a box never leaves it. Knows no
model and no server. Imports matplotlib only when something is drawn.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from pathlib import Path

from pipeline.drawing.fonts import PIXEL, visible
from pipeline.drawing.layout import BODY, BODY_BOTTOM, FULL, GAP, HEIGHT, LABEL, LEADING, MARGIN, PAD, STRIP, TILE_RIM, Box, Point
from pipeline.drawing.palette import BLUE, FAINT, GREEN, GREY, INK, PALE, RED, Color
from pipeline.drawing.runs import run
from pipeline.drawing.sheet import Sheet
from pipeline.drawing.steps import png_info
from pipeline.drawing.typesetting import fit_tile

UNSTEADY_FROM = 40  # pixels: a hand-drawn line bends only what is larger, or it looks broken


class Canvas(Sheet):
    """One figure. A concept card has its own paper and a hand-drawn line."""

    # --- shapes ---

    def box(
        self,
        box: Box,
        *,
        fill: Color | None = None,
        edge: Color | None = None,
        width: float = 1.5,
        radius: float = 6,
        dashed: bool = False,
        z: float = 1,
    ) -> Box:
        """A rounded rectangle; `fill` and `edge` are colours or None."""
        from matplotlib.patches import FancyBboxPatch

        patch = FancyBboxPatch(
            (box.x + radius, box.y + radius),
            max(box.w - 2 * radius, 0.1),
            max(box.h - 2 * radius, 0.1),
            boxstyle=f"round,pad={radius},rounding_size={radius}",
            facecolor=fill if fill is not None else "none",
            edgecolor=edge if edge is not None else "none",
            linewidth=width if edge is not None else 0,
            linestyle="--" if dashed else "-",
            zorder=z,
        )
        if min(box.w, box.h) >= UNSTEADY_FROM:
            self._by_hand(patch)
        self.sheet.add_patch(patch)
        return box

    def line(self, points: Sequence[Point], *, color: Color = INK, width: float = 2, dashed: bool = False, z: float = 1) -> None:
        """A polyline through pixel points."""
        (drawn,) = self.sheet.plot(*zip(*points, strict=True), color=color, linewidth=width, zorder=z, ls="--" if dashed else "-")
        self._by_hand(drawn)

    def area(
        self, points: Sequence[Point], fill: Color, *, edge: Color | None = None, dashed: bool = False, z: float = 0.5
    ) -> None:
        """A filled polygon through pixel points: what joins a part of one thing to its part of another."""
        from matplotlib.patches import Polygon

        style = {"facecolor": fill, "edgecolor": edge if edge is not None else "none", "linestyle": "--" if dashed else "-"}
        self.sheet.add_patch(Polygon(points, closed=True, linewidth=1.5, zorder=z, **style))

    def arrow(self, start: Point, end: Point, *, color: Color = INK, width: float = 3, bend: float = 0, z: float = 2) -> None:
        """An arrow between two points; `bend` curves it."""
        from matplotlib.patches import FancyArrowPatch

        head, curve = "-|>,head_width=5,head_length=9", f"arc3,rad={bend}"
        self.sheet.add_patch(
            FancyArrowPatch(
                start, end, arrowstyle=head, connectionstyle=curve, color=color, linewidth=width, shrinkA=0, shrinkB=0, zorder=z
            )
        )

    def dots(
        self,
        points: Sequence[Point],
        *,
        color: Color = BLUE,
        size: float = 20,
        marker: str = "o",
        strength: float = 1,
        hollow: bool = False,
        z: float = 4,
    ) -> None:
        """A mark of `size` pixels at each point; many faint ones make a cloud. Markers: o, s, D and _."""
        across, down = zip(*points, strict=True)
        rim, face = 3 if hollow else 1.5 if marker == "_" else 0, "none" if hollow else color
        (drawn,) = self.sheet.plot(across, down, marker, color=color, markersize=size * PIXEL, alpha=strength, zorder=z)
        drawn.set(markerfacecolor=face, markeredgewidth=rim)

    def mesh(self, box: Box, colors: Sequence[Sequence[Color]], *, seam: float = 1.5) -> None:
        """A box filled with equal cells, a colour each, rows from the top; a seam of paper between them."""
        from matplotlib.colors import to_rgb

        shades = [[to_rgb(color) for color in row] for row in colors]
        across = [box.x + box.w * i / len(shades[0]) for i in range(len(shades[0]) + 1)]
        down = [box.y + box.h * i / len(shades) for i in range(len(shades) + 1)]
        self.sheet.pcolormesh(across, down, shades, edgecolors=self.paper if seam else "none", linewidth=seam)

    def _by_hand(self, artist) -> None:
        if self.kind == "concept":
            artist.set_sketch_params(scale=1.2, length=90, randomness=3)

    # --- tokens ---

    def put_tile(
        self,
        box: Box,
        piece: str,
        *,
        accent: str | None = None,
        edge: Color | None = None,
        size: float = BODY,
        fill: Color | None = None,
        color: Color = INK,
    ) -> Box:
        """One token as a tile that fills the box: monospaced, spaces visible, smaller or cut where it must be.

        `accent` thins a colour under it; `fill` says another ground.
        """
        ground = fill if fill is not None else self.tint(accent) if accent else FAINT
        shown, size = fit_tile(self._measured("regular", True), visible(piece), size, box.w - size * TILE_RIM, LABEL)
        self.box(box, fill=ground, edge=edge)
        self.text(*box.center, shown, size=size, mono=True, color=color, align="center")
        return box

    def tile_width(self, piece: str, size: float = BODY) -> float:
        """The width in pixels of a tile that holds this piece whole."""
        return self.measure(visible(piece), size, mono=True)[0] + size * TILE_RIM

    def put_tiles(
        self,
        box: Box,
        pieces: Sequence[str],
        *,
        rows: int = 1,
        size: float = BODY,
        smallest: float = LABEL,
        gap: float = 8,
        row_gap: float = 16,
        accents: Sequence[str | None] = (),
        fills: Sequence[Color] = (),
        colors: Sequence[Color] = (),
        under: Sequence[str] = (),
        step_from: int | None = None,
    ) -> list[Box | None]:
        """A run of tokens from the top left of a box, in at most `rows` rows of its width; returns each piece's Box.

        What does not fit shrinks down to `smallest`; then the middle is left out, the count of what is missing drawn
        in its place, and None returned for each piece left out. `accents`, `fills`, `colors` and what is written `under`
        a tile hold one a piece. Each piece from `step_from` on is a build step of its own.
        """
        widths = functools.cache(lambda size: [self.tile_width(piece, size) for piece in pieces])
        laid = run(box, widths, self.width, rows, size, smallest, gap, row_gap)
        if laid.note:
            self.text(*laid.note[1].center, laid.note[0], size=laid.size, color=GREY, align="center")
        for i, spot in enumerate(laid.spots):
            if spot:
                accent, fill = accents[i] if accents else None, fills[i] if fills else None
                color = colors[i] if colors else INK
                if step_from is not None and i >= step_from:
                    self.step()
                self.put_tile(spot, pieces[i], size=laid.size, accent=accent, fill=fill, color=color)
                if under:
                    self.text(
                        *spot.below(LABEL * LEADING, GAP / 2).center,
                        under[i],
                        size=LABEL,
                        color=BLUE if fill or accent else GREY,
                        align="center",
                    )
        return laid.spots

    # --- the foot, and out ---

    def strip(self, source: str, verdict: str, holds: bool) -> None:
        """The provenance strip: what this is, what it was taken from, and whether it holds; one that fails says why."""
        foot = Box(MARGIN, BODY_BOTTOM + PAD, FULL.w, HEIGHT - MARGIN - BODY_BOTTOM - PAD)
        self.line([(foot.x, foot.y), (foot.right, foot.y)], color=PALE, width=1)
        mark, shown = self.kind.upper(), "✓ holds" if holds else f"✗ fails · {verdict}"
        badge_width = self.width(mark, STRIP, weight="bold") + STRIP
        verdict_width = min(self.width(shown, STRIP) + 1, foot.w * 0.6)
        badge, said, judged = foot.columns(badge_width, ..., verdict_width, gap=GAP)
        badge = badge.place(badge.w, STRIP * LEADING)
        self.box(badge, fill=BLUE if self.kind == "photograph" else GREY, radius=4)
        self.put(badge, mark, size=STRIP, weight="bold", color="white", align="center")
        self.put(said, source, size=STRIP, color=GREY)
        self.put(judged, shown, size=STRIP, color=GREEN if holds else RED, align="right")

    def save(self, path: Path) -> None:
        """Write the PNG, its build steps inside it. A character that no font covers is an error, not a box."""
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Glyph .* missing")
            info = png_info(self._steps.covers())
            self.figure.savefig(path, format="png", pil_kwargs={"compress_level": 6, "pnginfo": info})
