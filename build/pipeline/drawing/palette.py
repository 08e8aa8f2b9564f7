"""The colours of every figure, and how one is thinned. Knows no canvas and no matplotlib.

Blue is what is kept or chosen, orange what is wasted or wrong, never a product or a place. Grey is context. Green says
"holds" and red "fails", and nothing else has these two.
"""

PAPER, CONCEPT_PAPER = "#fbfaf7", "#e9eef5"
INK, GREY, PALE, FAINT = "#1d1d22", "#66666e", "#c9c8c4", "#ecebe6"
BLUE, ORANGE = "#2563c9", "#d9631e"
GREEN, RED = "#1f8a5b", "#c0362c"
TINT = 0.2  # how strong a colour lies under ink

Color = str | tuple[float, float, float]


def mix(color: str, share: float, paper: str = PAPER) -> tuple[float, float, float]:
    """`color` at strength `share` (0 … 1) over paper: the one way a shade means an amount."""
    ink, ground = (bytes.fromhex(name.removeprefix("#")) for name in (color, paper))
    red, green, blue = ((g + (i - g) * share) / 255 for i, g in zip(ink, ground, strict=True))
    return red, green, blue
