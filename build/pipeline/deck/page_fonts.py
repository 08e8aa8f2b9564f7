"""The fonts of the page: those of the figures, cut down to the characters that it shows, as CSS that holds them.

So the page has the same lines on every machine, whatever fonts are installed there. Knows no slide.
"""

import base64
import io
import logging

from fontTools import subset
from fontTools.ttLib import TTFont

from pipeline.drawing.fonts import MONO, SANS, font_files

PLACE = "/* fonts */"  # where they go in the page's style
KEPT_NAMES = [0, 1, 2, 13, 14]  # copyright, family, style, licence and its address


def with_fonts(page: str) -> str:
    """The page with its fonts in place of PLACE; a fallback is there only for characters that a text face lacks."""
    logging.getLogger("fontTools.subset").setLevel(logging.ERROR)
    shown = set(map(ord, page))
    rules: list[str] = []
    lacking: set[int] = set()
    for path in font_files():
        with TTFont(path, lazy=True, recalcTimestamp=False) as font:
            family, has = font["name"].getBestFamilyName(), font.getBestCmap().keys()
            if family in (SANS, MONO):
                wanted = shown & has
                lacking |= shown - has
            else:
                wanted = lacking & has
                lacking -= wanted
            if wanted:
                rules.append(rule(font, family, wanted))
    return page.replace(PLACE, "\n".join(rules), 1)


def rule(font: TTFont, family: str, characters: set[int]) -> str:
    """One @font-face with these characters of a font; not compressed, so that every machine makes the same bytes."""
    weight = font["OS/2"].usWeightClass
    options = subset.Options(hinting=False, name_IDs=KEPT_NAMES, notdef_outline=True, recalc_timestamp=False)
    cut = subset.Subsetter(options)
    cut.populate(unicodes=sorted(characters))
    cut.subset(font)
    written = io.BytesIO()
    font.save(written)
    source = f"data:font/sfnt;base64,{base64.b64encode(written.getvalue()).decode()}"
    return f'@font-face {{ font-family: "{family}"; font-weight: {weight}; src: url("{source}"); }}'
