"""The build steps of a figure: what it shows before it is whole.

A figure's PNG is its last step. Each earlier step is kept inside the same file, in a chunk that other programs skip, as a
*cover*: a lossless WebP that shows that step when it is laid over the figure, transparent where both look alike. Knows no
slide; reading covers needs no matplotlib.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, PngImagePlugin

if TYPE_CHECKING:
    import numpy
    from matplotlib.artist import Artist
    from matplotlib.backends.backend_agg import FigureCanvasAgg

CHUNK = b"stEp"  # ancillary and private, as the PNG specification spells it
BLOCK = 8  # pixels: a cover is opaque by whole blocks, which packs smaller than the outline of every letter


class Steps:
    """The marks set in a figure while it is drawn."""

    def __init__(self, canvas: FigureCanvasAgg):
        self._canvas, self._figure = canvas, canvas.figure
        self._marks: list[set[Artist]] = []

    def mark(self) -> None:
        """End a step: what is drawn from here on is not yet seen in it."""
        drawn = set(self._drawn())
        if not self._marks or drawn != self._marks[-1]:
            self._marks.append(drawn)

    def covers(self) -> list[bytes]:
        """A cover for each step but the last, first step first."""
        marks = [mark for mark in self._marks if mark != set(self._drawn())]
        if not marks:
            return []
        whole = self._pixels()
        return [cover(self._pixels_of(mark), whole) for mark in marks]

    def _drawn(self) -> list[Artist]:
        return [artist for axes in self._figure.axes for artist in (axes, *axes.get_children())]

    def _pixels_of(self, mark: set[Artist]) -> numpy.ndarray:
        later = [artist for artist in self._drawn() if artist not in mark and artist.get_visible()]
        for artist in later:
            artist.set_visible(False)
        try:
            return self._pixels()
        finally:
            for artist in later:
                artist.set_visible(True)

    def _pixels(self) -> numpy.ndarray:
        import numpy as np

        self._canvas.draw()
        return np.array(self._canvas.buffer_rgba()).view(np.uint32)[..., 0]


def cover(step: numpy.ndarray, whole: numpy.ndarray) -> bytes:
    """The blocks of `step` that differ from `whole`, both [height, width] of RGBA as one number, as lossless WebP."""
    import numpy as np

    height, width = step.shape
    differs = np.pad((step != whole).reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK).any(axis=(1, 3)), 1)
    rows, columns = height // BLOCK, width // BLOCK  # with their neighbours, else a smaller picture blends into what they hide
    differs = np.any([differs[y : y + rows, x : x + columns] for y in range(3) for x in range(3)], axis=0)
    shown = np.where(np.kron(differs, np.ones((BLOCK, BLOCK), bool)), step, np.uint32(0))
    packed = io.BytesIO()
    Image.fromarray(shown.view(np.uint8).reshape(height, width, 4)).save(packed, "WEBP", lossless=True, quality=10, method=1)
    return packed.getvalue()


def png_info(covers: list[bytes]) -> PngImagePlugin.PngInfo:
    """What goes into a figure's PNG beside its pixels."""
    info = PngImagePlugin.PngInfo()
    for one in covers:
        info.add(CHUNK, one)
    return info


def covers_in(figure: Path) -> list[bytes]:
    """The covers of a figure's PNG, first step first; none for a figure that comes at once."""
    with Image.open(figure) as image:
        chunks = getattr(image, "private_chunks", [])
        return [chunk[1] for chunk in chunks if chunk[0] == CHUNK]
