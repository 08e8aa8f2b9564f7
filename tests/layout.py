"""What is wrong with a figure's layout, measured on its text boxes."""

from collections.abc import Iterator
from itertools import combinations

from matplotlib.text import Text
from matplotlib.transforms import Bbox

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.fonts import PIXEL
from pipeline.drawing.layout import BODY_TOP, HEADLINE, HEADLINE_LEAST, HEIGHT, LABEL, MARGIN, STRIP, WIDTH

SLACK = 3  # pixels: a glyph's box is a little larger than its ink
STRIP_TOP = HEIGHT - 100  # below this stand the strip's own, smaller letters


def texts(canvas: Canvas) -> list[tuple[str, Bbox, float]]:
    """Every visible text of a figure: its words, its box in pixels from the bottom left, its height in pixels."""
    renderer = canvas.figure.canvas.get_renderer()
    canvas.figure.draw(renderer)
    undrawn = set(undrawn_tick_labels(canvas))
    return [
        (artist.get_text(), artist.get_window_extent(renderer), artist.get_size() / PIXEL)
        for artist in canvas.figure.findobj(Text)
        if artist.get_text().strip() and artist.get_visible() and artist not in undrawn
    ]


def undrawn_tick_labels(canvas: Canvas) -> Iterator[Text]:
    """The tick labels that matplotlib keeps but never draws: beyond an axis' limits, or of axes switched off."""
    for axes in canvas.figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not axes.axison or not low <= tick.get_loc() <= high:
                    yield from (tick.label1, tick.label2)


def problems(canvas: Canvas, *, hostile: bool = False) -> list[str]:
    """Each text that is clipped, too near the edge, too small, or on top of another; one line each.

    A headline over a `hostile` sentence may shrink a little.
    """
    found = texts(canvas)
    flaws = []
    headline = max(box.y1 for _, box, _ in found)
    for words, box, size in found:
        if box.x0 < MARGIN - SLACK or box.x1 > WIDTH - MARGIN + SLACK or box.y0 < 40 or box.y1 > HEIGHT - MARGIN + SLACK:
            flaws.append(f"{words!r} is too near the edge: {[round(value) for value in box.extents]}")
        if box.y1 == headline > HEIGHT - BODY_TOP and size < (HEADLINE_LEAST if hostile else HEADLINE) - 0.1:
            flaws.append(f"the headline is {size:.0f} px high: {words!r}")
        if box.y1 > HEIGHT - BODY_TOP and words.endswith("…") and not hostile:
            flaws.append(f"{words!r} is cut")
        if size < (STRIP if box.y1 < HEIGHT - STRIP_TOP else LABEL) - 0.1:
            flaws.append(f"{words!r} is {size:.0f} px high")
    for (a, box_a, _), (b, box_b, _) in combinations(found, 2):
        overlap = Bbox.intersection(box_a, box_b)
        if overlap is not None and overlap.width > SLACK and overlap.height > 2 * SLACK:
            flaws.append(f"{a!r} and {b!r} overlap by {overlap.width:.0f} x {overlap.height:.0f} px")
    return flaws
