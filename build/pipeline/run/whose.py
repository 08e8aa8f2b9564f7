"""`--whose PICTURE`: which slide, capture and verdict a picture is of, by what it says of itself and what the deck knows."""

from pathlib import Path
from typing import Any

from pipeline.checksum import file_sha256
from pipeline.drawing import seal
from pipeline.run.console import Screen
from pipeline.run.manifest import Manifest


def whose(picture: Path, known: Manifest, screen: Screen) -> int:
    """Say it. Raises BadInput for a picture that is not ours, Altered for one that was changed."""
    said = seal.read(picture)
    entry = known.entries.get(said["slide"])
    facts: dict[str, Any] = {**said, "of_this_deck": False}
    if entry is None:
        place = f"{known.out.root} has no such slide"
    elif entry.figure_sha256 == file_sha256(picture):
        place, facts["of_this_deck"] = f"it is the figure of this deck's slide {entry.number}", True
    elif entry.capture_sha256 == said["capture"]:
        place = f"this deck's slide {entry.number} has the same capture, drawn otherwise"
    else:
        place = f"this deck's slide {entry.number} was taken another time"
    lines = [
        f"slide    {said['slide']}",
        f"capture  sha256 {said['capture']}",
        f"verdict  {said['verdict']}: {said['measured']} · {said['bound']}",
        f"from     {said['source']}",
        f"deck     {place}",
    ]
    screen.facts("whose", facts, lines)
    return 0
