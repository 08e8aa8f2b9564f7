"""Build steps: a cover laid over the whole figure shows exactly what the figure was at that step."""

import io

import pytest
from PIL import Image, ImageChops

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.layout import Box
from pipeline.drawing.palette import BLUE, INK, ORANGE
from pipeline.drawing.steps import covers_in


def first(canvas):
    canvas.strip("source", "verdict", True)
    canvas.headline("A headline")
    canvas.box(Box(200, 300, 500, 300), fill=ORANGE)


def second(canvas):
    canvas.text(210, 400, "over and beside what was there", size=60, color=INK)
    canvas.mesh(Box(1000, 300, 600, 400), [["#123456", "#654321"], ["#abcdef", "#fedcba"]])


def third(canvas):
    canvas.dots([(1100, 320), (1200, 350)], color=BLUE)
    canvas.line([(100, 700), (900, 350)])


def saved(canvas, path):
    canvas.save(path)
    return Image.open(path).convert("RGBA")


@pytest.mark.parametrize("kind", ["photograph", "concept"])
def test_a_cover_over_the_figure_is_the_figure_at_that_step(tmp_path, kind):
    stepped, one, two = Canvas(kind), Canvas(kind), Canvas(kind)
    first(stepped)
    stepped.step()
    second(stepped)
    stepped.step()
    third(stepped)
    whole = saved(stepped, tmp_path / "stepped.png")
    first(one)
    first(two)
    second(two)
    covers = covers_in(tmp_path / "stepped.png")
    assert len(covers) == 2
    for cover, wanted in zip(covers, (one, two), strict=True):
        shown = Image.alpha_composite(whole, Image.open(io.BytesIO(cover)))
        expected = saved(wanted, tmp_path / "wanted.png")
        assert ImageChops.difference(shown, expected).convert("RGB").getbbox() is None
        assert ImageChops.difference(shown, whole).convert("RGB").getbbox() is not None


def test_a_picture_file_shows_the_last_step(tmp_path):
    stepped, plain = Canvas(), Canvas()
    for canvas in (stepped, plain):
        first(canvas)
        if canvas is stepped:
            canvas.step()
        second(canvas)
    assert saved(stepped, tmp_path / "stepped.png").tobytes() == saved(plain, tmp_path / "plain.png").tobytes()
    assert covers_in(tmp_path / "plain.png") == []


def test_a_step_that_adds_nothing_is_none(tmp_path):
    canvas = Canvas()
    first(canvas)
    canvas.step()
    canvas.step()
    second(canvas)
    canvas.step()
    canvas.save(tmp_path / "figure.png")
    assert len(covers_in(tmp_path / "figure.png")) == 1


def test_the_same_steps_give_the_same_bytes(tmp_path):
    for name in ("a.png", "b.png"):
        canvas = Canvas("concept")
        first(canvas)
        canvas.step()
        second(canvas)
        canvas.save(tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
