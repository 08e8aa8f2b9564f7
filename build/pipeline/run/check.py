"""`--check`: every capture taken again and held against the committed one, which is only read."""

import json
from collections.abc import Callable, Sequence

from pipeline.lab import Lab
from pipeline.run.compare import differences, other_source
from pipeline.run.manifest import Manifest
from pipeline.run.outcome import Comparison, Row
from pipeline.run.taking import take
from pipeline.slide import OracleFailure, Slide


def tell_nobody(slide: Slide, found: list[Comparison]) -> None:
    """Says nothing."""


def check(
    slides: Sequence[Slide], lab: Lab, manifest: Manifest, tell: Callable[[Slide, list[Comparison]], None] = tell_nobody
) -> list[Comparison]:
    """Take every capture again, in memory, and compare; the committed files are only read."""
    found: list[Comparison] = []
    kept = [manifest.capture(slide.id) for slide in slides]  # a missing one is reported before anything is taken
    for slide, committed in zip(slides, kept, strict=True):
        tell(slide, found)
        comparison = Comparison(Row(slide))
        found.append(comparison)
        try:
            text, comparison.row.verdict = take(slide, lab)
        except OracleFailure as failure:
            comparison.row.failure = str(failure)
            continue
        retaken = comparison.retaken = json.loads(text)
        comparison.not_comparable = other_source(committed["provenance"], retaken["provenance"])
        if not comparison.not_comparable and not slide.volatile:
            comparison.drift = list(differences(committed["data"], retaken["data"], slide.tolerance))
    return found
