"""Two stacks of the same parts, each part of the one joined to its part of the other by a band."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import THIN
from pipeline.drawing.layout import GAP, NUMBER, Across, Box
from pipeline.drawing.palette import BLUE, GREY, INK, PALE


@dataclass(frozen=True)
class Stack:
    """Parts of one whole in a box from its top, and a column beside it for the words on each."""

    box: Box
    words: Box
    values: Sequence[float]
    labels: Sequence[str]

    def parts(self) -> list[Box]:
        """The parts to scale; one too low to be seen is a hair."""
        each = self.box.h / sum(self.values)
        before = [sum(self.values[:row]) for row in range(len(self.values))]
        return [
            Box(self.box.x, self.box.y + each * start, self.box.w, max(each * value, THIN))
            for start, value in zip(before, self.values, strict=True)
        ]

    def lines(self) -> list[Box]:
        """A line of words beside each part, moved down, then up, where they would stand on each other."""
        height = NUMBER * 1.6
        tops = [part.center[1] - height / 2 for part in self.parts()]
        for row in range(1, len(tops)):
            tops[row] = max(tops[row], tops[row - 1] + height)
        lowest = self.words.bottom
        for row in reversed(range(len(tops))):
            tops[row] = lowest = min(tops[row], lowest - height)
        return [Box(self.words.x, top, self.words.w, height) for top in tops]


def joined(canvas: Canvas, left: Stack, right: Stack) -> None:
    """Four parts of two wholes: the first in blue, the next paler, the last, which hardly counts, in grey."""
    colors = [BLUE, canvas.tint(BLUE, 0.6), canvas.tint(BLUE, 0.3), PALE]
    bands = [canvas.tint(BLUE, 0.4), canvas.tint(BLUE, 0.25), canvas.tint(BLUE, 0.12), canvas.tint(GREY)]
    for near, far, color, band in zip(left.parts(), right.parts(), colors, bands, strict=True):
        canvas.box(near, fill=color, radius=0)
        canvas.box(far, fill=color, radius=0)
        canvas.area([(near.right, near.y), (far.x, far.y), (far.x, far.bottom), (near.right, near.bottom)], band)
    for stack in (left, right):
        for row, (part, line, label) in enumerate(zip(stack.parts(), stack.lines(), stack.labels, strict=True)):
            align: Across = "right" if stack is left else "left"
            canvas.put(line, label, size=NUMBER, weight="bold", color=INK if row else BLUE, align=align)
            if stack is right:
                canvas.line([part.inset(-GAP / 2, 0).east, line.inset(-GAP / 2, 0).west], color=GREY, width=1.5)
