"""The figure in a real Chromium: its build steps, alone on the screen, and closer."""

import io
import re
from itertools import pairwise

import pytest
from PIL import Image, ImageChops

from browser_fixtures import THEMES, place, places, press, wait_until
from pipeline.drawing.steps import covers_in

SIZES = [(1280, 720), (1920, 1080)]
PAGE_BYTES = 10_000_000
STILL = {"reduced_motion": "reduce"}


def stepped(deck):
    """The slide with the most steps, and how many."""
    one = max(deck, key=lambda one: len(covers_in(one.figure)))
    return one, len(covers_in(one.figure)) + 1


def seen(page) -> Image.Image:
    """The figure as it stands on the screen."""
    return Image.open(io.BytesIO(page.locator(".current .picture").screenshot())).convert("RGB")


def differ(a: Image.Image, b: Image.Image) -> bool:
    return ImageChops.difference(a, b).point(lambda value: 255 * (value > 24)).getbbox() is not None


# --- build steps ---


@pytest.mark.slow
def test_the_arrows_walk_through_every_step_and_back(opened, deck):
    page, every = opened(**STILL), places(deck)
    for key, walk in (("ArrowRight", every), ("ArrowLeft", every[::-1])):
        for expected in walk:
            assert place(page) == expected
            press(page, key)
    assert place(page) == every[0]


def test_each_step_adds_to_the_picture_and_the_last_is_the_whole(opened, deck):
    one, steps = stepped(deck)
    page = opened(f"#{one.slide.number}", viewport={"width": 1920, "height": 1080}, **STILL)
    press(page, "v")
    shown = []
    for _ in range(steps):
        shown.append(seen(page))
        press(page, "ArrowRight")
    assert all(differ(a, b) for a, b in pairwise(shown))
    whole = Image.open(one.figure).convert("RGB")
    assert shown[-1].size == whole.size
    assert not differ(shown[-1], whole)
    for cover, picture in zip(covers_in(one.figure), shown, strict=False):
        expected = Image.alpha_composite(whole.convert("RGBA"), Image.open(io.BytesIO(cover)).convert("RGBA"))
        assert not differ(picture, expected.convert("RGB"))


def test_a_deep_link_opens_its_step_and_a_reload_keeps_it(opened, deck):
    one, steps = stepped(deck)
    number = one.slide.number
    page = opened(f"#{number}.2")
    assert place(page) == f"#{number}.2"
    assert page.locator(f"#slide-{number} .steps i.on").count() == 2
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert place(page) == f"#{number}.2"
    page.evaluate(f"location.hash = '#{number}.{steps}'")
    page.wait_for_selector(f"#slide-{number} .steps i:last-child.on")
    assert page.locator(f"#slide-{number} .cover.on").count() == 0
    press(page, *str(number), ".", "3", "Enter")
    assert place(page) == f"#{number}.3"
    assert place(opened(f"#{number}.99")) == f"#{number}.{steps}"
    assert place(opened(f"#{number}.0")) == f"#{number}"
    assert place(opened(f"#{number}.x")) == "#1"


def test_a_step_is_announced(opened, deck):
    one, steps = stepped(deck)
    page = opened(f"#{one.slide.number}")
    press(page, "ArrowRight")
    assert page.text_content("#announcer") == f"Step 2 of {steps}."


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_steps_fade_unless_motion_is_not_wanted(opened, deck, motion):
    one, _ = stepped(deck)
    page = opened(f"#{one.slide.number}", reduced_motion=motion)
    press(page, "ArrowRight")
    moving = page.evaluate("document.getAnimations().filter((one) => one.effect.target.matches('.cover')).length")
    assert bool(moving) == (motion == "no-preference")


def test_the_presenters_window_walks_the_steps_and_sees_what_comes(opened, deck):
    one, steps = stepped(deck)
    number = one.slide.number
    page = opened(f"#{number}")
    with page.context.expect_page() as waiting:
        press(page, "n")
    desk = waiting.value
    desk.wait_for_selector("html[data-ready]")
    press(desk, "ArrowRight")
    wait_until(page, f"location.hash === '#{number}.2'")
    assert f"step 2 of {steps}" in desk.text_content("#desk-section")
    press(page, "ArrowRight")
    wait_until(desk, f"location.hash === '#{number}.3'")
    opacity = "Number(getComputedStyle(document.querySelector('.current .cover.on')).opacity)"
    assert 0.5 < desk.evaluate(opacity) < 1 == page.evaluate(opacity)
    press(desk, "z")
    page.wait_for_selector(".current .picture.zoomed")
    press(page, "ArrowLeft", "z")
    desk.wait_for_selector(".picture.zoomed", state="detached")


def test_overview_and_paper_show_the_last_step(opened, deck):
    page = opened("#2")
    press(page, "o")
    assert page.eval_on_selector_all(".cover", "all => all.filter((e) => e.checkVisibility()).length") == 0
    press(page, "o")
    page.emulate_media(media="print")
    assert page.eval_on_selector_all(".cover", "all => all.filter((e) => e.checkVisibility()).length") == 0


def test_choosing_in_the_overview_shows_the_whole_picture(opened, deck):
    one, steps = stepped(deck)
    page = opened()
    press(page, "o")
    page.click(f"#slide-{one.slide.number} .jump")
    assert place(page) == f"#{one.slide.number}.{steps}"


def test_the_page_with_its_steps_is_under_ten_megabytes(deck_html):
    page = deck_html.read_text("utf-8")
    covers = re.findall(r'<img class="cover" src="data:image/webp;base64,([^"]+)"', page)
    assert covers and sum(map(len, covers)) < 0.1 * len(page)
    assert deck_html.stat().st_size < PAGE_BYTES


# --- the figure alone, and closer ---


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_the_figure_alone_fills_the_screen(opened, deck, size):
    page = opened("#4", viewport={"width": size[0], "height": size[1]})
    press(page, "v")
    for _ in deck[4:]:
        box = page.eval_on_selector(".current .picture", "e => e.getBoundingClientRect().toJSON()")
        assert (box["x"], box["y"], box["width"], box["height"]) == pytest.approx((0, 0, *size), abs=1)
        press(page, "Shift+ArrowRight")
    assert page.is_hidden(".current .bar") and page.is_hidden("#progress")
    press(page, "Escape")
    assert page.is_visible(".current .bar")


def test_the_title_keeps_its_words_where_figures_stand_alone(opened):
    page = opened("#1")
    press(page, "v")
    assert page.is_visible(".current .deck-name") and page.is_hidden(".current .bar")


@pytest.mark.parametrize("size", SIZES)
def test_with_its_words_the_figure_has_two_thirds_of_the_screen(opened, deck, size):
    page = opened(viewport={"width": size[0], "height": size[1]})
    shares = page.evaluate(
        """() => [...document.querySelectorAll('.slide.worded, .slide.wordless')].map((slide) => {
          document.querySelectorAll('.slide').forEach((one) => one.classList.toggle('current', one === slide));
          const box = slide.querySelector('figure').getBoundingClientRect();
          return box.width * box.height / (innerWidth * innerHeight);
        })"""
    )
    assert len(shares) > len(deck) / 2
    assert sorted(shares)[len(shares) // 10] > 0.64


def test_full_screen_begins_with_the_figure_alone_and_ends_as_it_was(opened):
    page = opened("#4")
    press(page, "f")
    page.wait_for_selector("html.alone")
    press(page, "v")
    assert page.is_visible(".current .bar")
    press(page, "v", "f")
    page.wait_for_selector("html:not(.alone)")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("kind", ["photograph", "concept"])
def test_the_ground_around_a_figure_alone_is_its_own_paper(opened, deck, theme, kind):
    one = next(one for one in deck[1:] if one.slide.kind == kind)
    page = opened(f"#{one.slide.number}", viewport={"width": 1280, "height": 900}, color_scheme=theme, **STILL)
    press(page, "v")
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    ground, paper = shot.getpixel((640, 20)), shot.getpixel((20, 450))
    assert max(abs(a - b) for a, b in zip(ground, paper, strict=True)) <= 2


@pytest.mark.parametrize("alone", [False, True])
def test_a_click_looks_closer_at_that_place_and_another_goes_back(opened, alone):
    page = opened("#4", **STILL)
    press(page, *"v" * alone)
    whole = page.eval_on_selector(".current figure", "e => e.getBoundingClientRect().toJSON()")
    page.mouse.click(whole["x"] + whole["width"] * 0.9, whole["y"] + whole["height"] * 0.1)
    near = page.eval_on_selector(".current .picture", "e => e.getBoundingClientRect().toJSON()")
    assert near["width"] == pytest.approx(2 * whole["width"], abs=1)
    assert near["right"] == pytest.approx(whole["right"], abs=1) and near["top"] == pytest.approx(whole["top"], abs=1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.mouse.click(640, 300)
    assert page.locator(".picture.zoomed").count() == 0
    for keys in (("z", "z"), ("z", "Escape"), ("z", "Shift+ArrowRight")):
        press(page, *keys)
        assert page.locator(".picture.zoomed").count() == 0, keys
    assert page.evaluate("document.documentElement.classList.contains('alone')") == alone
