"""Columns of bars over the same tokens: one row a token, the last row for all the other tokens of the vocabulary."""

from pipeline.drawing.canvas import BLUE, FAINT, GREY, INK, MARGIN, ORANGE, PALE, Canvas, mix

LEFT, LONGEST = (340, 870, 1400), 370  # where the three columns start; pixels of the longest bar
TOP, PITCH = 340, 58
TILES = 240  # width of the tiles at the left margin


def row_heads(canvas: Canvas, pieces: list[str], vocabulary: int) -> None:
    """The tokens as tiles, the first marked, and under them how many others there are."""
    for row, piece in enumerate(pieces):
        canvas.tile(piece, MARGIN, TOP + row * PITCH, size=26, width=TILES, fill=mix(BLUE, 0.18) if row == 0 else FAINT)
    y = TOP + len(pieces) * PITCH + 24
    canvas.text(MARGIN + TILES, y, f"{vocabulary - len(pieces):,} others", size=26, color=ORANGE, align="right")


def column(
    canvas: Canvas, place: int, title: str, under: str, values: list[float], labels: list[str], full: float,
    expected: list[float] | None = None,
) -> None:  # fmt: skip
    """One column: a bar a row, `full` the value of the longest; a black tick where `expected` says the bar should end."""
    x = LEFT[place]
    canvas.text(x, 252, title, size=32, weight="bold", valign="baseline")
    canvas.text(x, 300, under, size=28, color=GREY, valign="baseline")
    canvas.line([(x, TOP - 8), (x, TOP + len(values) * PITCH - 4)], color=PALE)
    for row, (value, label) in enumerate(zip(values, labels, strict=True)):
        color = BLUE if row == 0 else ORANGE if row == len(values) - 1 else GREY
        y, end = TOP + row * PITCH + 6, x + LONGEST * value / full
        if value > 0:
            canvas.box(x, y, max(end - x, 2), 35, fill=mix(color, 0.85), radius=1)
        if expected is not None and expected[row] > 0:
            tick = x + LONGEST * expected[row] / full
            canvas.line([(tick, y - 5), (tick, y + 40)], color=INK, width=3, z=3)
            end = max(end, tick)
        canvas.text(end + 12, y + 18, label, size=24, color=color)
