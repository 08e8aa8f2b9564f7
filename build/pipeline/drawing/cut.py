"""A text in one piece, and under it the tiles that it is cut into."""

from collections.abc import Sequence
from itertools import groupby

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import GAP, HERO, LEADING, PAD, TILE, TILE_RIM, Box
from pipeline.drawing.palette import INK, PALE

FAN = 90  # pixels between the text and its tiles
ABOVE = HERO * LEADING + FAN  # over each row of tiles: the text, and what leads down from it


def cut_into_tiles(canvas: Canvas, box: Box, pieces: Sequence[str], accents: Sequence[str | None]) -> None:
    """Tiles in at most two rows, over each row the text that they make, and from each cut in it a way down to its tile."""
    lower = box.rows(ABOVE, ...)[1]
    tiles = canvas.put_tiles(lower, pieces, rows=2, size=HERO, gap=GAP, row_gap=ABOVE + PAD, accents=accents)
    shown = [(tile, piece, accent) for tile, piece, accent in zip(tiles, pieces, accents, strict=True) if tile]
    for _, group in groupby(shown, key=lambda entry: entry[0].y):
        row = list(group)
        size = row[0][0].h / TILE
        widths = [tile.w - size * TILE_RIM for tile, _, _ in row]
        x = (row[0][0].x + row[-1][0].right - sum(widths)) / 2
        for (tile, piece, accent), width in zip(row, widths, strict=True):
            whole = Box(x, tile.y - ABOVE, width, size * LEADING)
            bare = piece.lstrip(" ")
            ahead = canvas.width(" " * (len(piece) - len(bare)), size, mono=True)  # a wrapped text drops its leading spaces
            canvas.put(Box(x + ahead, whole.y, width - ahead + 1, whole.h), bare, size=size, mono=True, color=accent or INK)
            way = [(whole.x, whole.bottom), (whole.right, whole.bottom), (tile.right, tile.y), (tile.x, tile.y)]
            canvas.area(way, canvas.tint(accent or PALE, 0.25), edge=canvas.paper)
            x += width
