"""A slide's committed capture, and its figure drawn from any capture but not saved."""

import json

import pytest

from pipeline.drawing.canvas import Canvas
from pipeline.paths import COMMITTED
from pipeline.slide import Data, OracleFailure, Slide, assert_holds


def committed(slide: Slide) -> Data:
    """The data of the capture that the repository holds; a fresh copy each time."""
    return json.loads(COMMITTED.capture(slide.id).read_text("utf-8"))["data"]


def drawn(slide: Slide, data: Data) -> Canvas:
    """The slide's figure with its strip, not saved."""
    verdict = assert_holds(slide, data)
    canvas = Canvas(slide.kind)
    slide.draw(canvas, data)
    canvas.strip(
        "some-model · sha256 00000000 · float32 on CPU · sentence 00000000", f"{verdict.measured} · {verdict.bound}", True
    )
    return canvas


def refused(slide: Slide, data: Data) -> None:
    """The slide's oracle must not let this capture pass."""
    with pytest.raises(OracleFailure):
        assert_holds(slide, data)
