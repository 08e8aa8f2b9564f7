"""Figures in the dark theme of a real Chromium: dark, readable, and of the same hues."""

import colorsys
import io

import pytest
from PIL import Image

from browser_fixtures import press
from pipeline.drawing import palette

STILL = {"reduced_motion": "reduce"}
INKS = {name: getattr(palette, name) for name in ("INK", "GREY", "BLUE", "ORANGE", "GREEN", "RED")}


def luminance(color) -> float:
    red, green, blue = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a, b) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def hue(color) -> float:
    return colorsys.rgb_to_hsv(*color)[0] * 360


@pytest.fixture
def in_the_dark(opened):
    """in_the_dark(colours) -> the same colours, 0 … 1, as a figure shows them in the dark theme of a real page."""
    page = opened("#4", color_scheme="dark", **STILL)

    def show(colors: list[str]) -> list[tuple[float, ...]]:
        page.evaluate(
            """(colors) => {
              const sheet = document.createElement('canvas');
              [sheet.width, sheet.height] = [colors.length * 10, 10];
              colors.forEach((color, i) => {
                sheet.getContext('2d').fillStyle = color;
                sheet.getContext('2d').fillRect(i * 10, 0, 10, 10);
              });
              const image = document.querySelector('.current .picture img');
              image.id = 'swatches';
              image.src = sheet.toDataURL();
              image.style.cssText = `position: fixed; inset: 0 auto auto 0; width: ${sheet.width}px; height: 10px`;
              return image.decode();
            }""",
            colors,
        )
        shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        box = page.eval_on_selector("#swatches", "e => e.getBoundingClientRect().toJSON()")
        return [
            tuple(value / 255 for value in shot.getpixel((int(box["x"] + i * 10 + 5), int(box["y"] + 5))))
            for i in range(len(colors))
        ]

    return show


@pytest.mark.parametrize("paper", [palette.PAPER, palette.CONCEPT_PAPER])
def test_dark_figures_keep_their_contrast_and_their_hues(in_the_dark, paper):
    names = list(INKS)
    ground, *shown = in_the_dark([paper, *INKS.values()])
    assert luminance(ground) < 0.02
    for name, color in zip(names, shown, strict=True):
        assert contrast(color, ground) >= 4.5, name
        meant = [int(INKS[name][at : at + 2], 16) / 255 for at in (1, 3, 5)]
        if max(meant) - min(meant) > 0.2:  # a grey has no hue to keep
            apart = abs(hue(color) - hue(meant)) % 360
            assert min(apart, 360 - apart) < 15, name


def test_white_on_a_colour_is_read_in_the_dark_too(in_the_dark):
    white, *grounds = in_the_dark(["#ffffff", *INKS.values()])
    for name, ground in zip(INKS, grounds, strict=True):
        assert contrast(white, ground) >= 4.5, name


def test_a_theme_chosen_by_hand_turns_the_figures_too(opened):
    page = opened("#4", color_scheme="light", **STILL)
    filters = "getComputedStyle(document.querySelector('.current .picture img')).filter"
    assert page.evaluate(filters) == "none"
    press(page, "t")
    assert page.evaluate(filters) != "none"
    press(page, "t")
    assert page.evaluate(filters) == "none"
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(filters) == "none"  # light was chosen
    press(page, "t")
    assert page.evaluate(filters) != "none"
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(filters) == "none"  # paper is light
