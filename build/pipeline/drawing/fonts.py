"""The faces of every figure, and text made safe to draw in them: literal, with an escape for what cannot be seen.

Fonts come from Python packages and from matplotlib, never from the system, so that every machine draws the same bytes.
Imports matplotlib only when a face is first asked for.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.text import cut, escaped

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties

PIXEL = 72 / 100  # points in a pixel at 100 dots an inch
SANS, MONO = "Lato", "IBM Plex Mono"  # both with tabular figures
FALLBACKS = ["DejaVu Sans Mono", "DejaVu Sans", "Noto Sans CJK TC", "Noto Emoji"]
FONT_FILES = {  # package -> files in it; matplotlib carries the DejaVu faces
    "fontpkg_lato": ["files/Lato-Regular.ttf", "files/Lato-Bold.ttf"],
    "fontpkg_ibm_plex_mono": ["files/IBMPlexMono-Regular.ttf", "files/IBMPlexMono-Bold.ttf"],
    "matplotlib": ["mpl-data/fonts/ttf/DejaVuSansMono.ttf", "mpl-data/fonts/ttf/DejaVuSans.ttf"],
    "cvttf_NotoSansCJK_Regular": ["NotoSansCJKtc-Regular.otf"],
    "manimgx_fonts": ["NotoEmoji[wght].ttf"],
}
# of Lato and of IBM Plex Mono, by `mono`, in type sizes: a capital; a line with nothing between it and the next
CAP_HEIGHT, LINE_HEIGHT = {False: 0.717, True: 0.698}, {False: 1.2, True: 1.3}
WEIGHTS = {"regular": 400, "bold": 700}


def font_files() -> list[Path]:
    """Our font files, the text faces first, then what stands in for characters that they lack."""
    files = []
    for package, names in FONT_FILES.items():
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"the font package {package} is not installed", name=package)
        files += [Path(spec.origin).parent / name for name in names]
    return files


@functools.cache
def fonts() -> frozenset[int]:
    """Make our font files the only ones matplotlib sees; return the code points they cover between them."""
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    font_manager.fontManager.ttflist.clear()
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # a fallback face has one weight: no news
    covered: set[int] = set()
    for path in font_files():
        font_manager.fontManager.addfont(path)
        covered |= FT2Font(os.fspath(path)).get_charmap().keys()
    return frozenset(covered)


@functools.cache
def font(mono: bool, weight: str, size: float) -> FontProperties:
    """The face for a text of `size` pixels; glyphs it lacks are looked up along FALLBACKS."""
    from matplotlib.font_manager import FontProperties

    fonts()
    family = [MONO, SANS, *FALLBACKS] if mono else [SANS, MONO, *FALLBACKS]
    return FontProperties(family=family, weight=WEIGHTS[weight], size=size * PIXEL)


def literal(text: str) -> str:
    """`text` with every character that cannot be drawn (control, half a surrogate, no glyph) as a visible escape."""
    covered = fonts()

    return escaped(text, lambda character: character.isprintable() and ord(character) in covered)


def visible(piece: str) -> str:
    """A token as its tile shows it: spaces as ␣, everything undrawable as an escape."""
    return literal(piece).replace(" ", "␣")


def quoted(text: str, longest: int = 24) -> str:
    """A word for a headline: in quotation marks, spaces visible, cut when it is long."""
    return f"“{cut(visible(text), longest)}”"
