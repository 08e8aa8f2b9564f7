"""The deck's sections, and the minute by which a talk should have come to the end of each. Knows no HTML page."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pipeline.text import counted

MINUTES = 40  # of the talk; a section has the share of them that its notes have of all the words


@dataclass(frozen=True)
class Section:
    """A run of slides under one name: the numbers of its first and last, how many there are, the minute it ends at."""

    name: str
    first: int
    last: int
    count: int
    minute: int

    @property
    def counted(self) -> str:
        return counted(self.count, "slide")

    @property
    def pace(self) -> str:
        """The target, for the one who speaks."""
        return f"By the end of slide {self.last}: {self.minute} min of {MINUTES}"


def sections(slides: Sequence[tuple[int, str, str]]) -> list[Section]:
    """The sections of slides given as (number, section, notes), in order."""
    every = sum(len(notes.split()) for _, _, notes in slides)
    said, found = 0, []
    for name, members in groupby(slides, key=lambda slide: slide[1]):
        run = list(members)
        said += sum(len(notes.split()) for _, _, notes in run)
        found.append(Section(name, run[0][0], run[-1][0], len(run), round(MINUTES * said / every)))
    return found
