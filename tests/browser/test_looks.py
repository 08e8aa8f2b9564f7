"""The deck in a real Chromium, as it looks: nothing overflows, an accessibility engine is content, paper, speed."""

import re

import pytest

from browser_fixtures import THEMES, press
from deck_fixtures import HOSTILE
from decks import ONE_CALL
from pipeline.deck import page as deck_page
from pipeline.deck import words

SIZES = {"1920x1080": (1920, 1080), "1280x720": (1280, 720), "390x844": (390, 844)}

OVERFLOWING = """() => {
  const seen = [...document.querySelectorAll('.slide.current *, #tools *, #tools')].filter((e) => e.checkVisibility());
  const unseen = (e) => e.closest('.unseen') || e.closest('.notes');
  const outside = seen.filter((e) => !unseen(e)).filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width && (box.left < -0.5 || box.right > innerWidth + 0.5);
  });
  const cut = seen.filter((e) => !unseen(e) && e.clientWidth && e.scrollWidth > e.clientWidth + 1 && e.tagName !== 'CODE');
  const words = document.querySelector('.slide.current .words');
  const tall = words && innerWidth > innerHeight && words.scrollHeight > words.clientHeight + 1 ? [words] : [];
  const wide = document.documentElement.scrollWidth > innerWidth ? [document.documentElement] : [];
  return [...outside, ...cut, ...tall, ...wide].map((e) => `${e.tagName}.${e.className} ${e.textContent.trim().slice(0, 40)}`);
}"""


# --- looks ---


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_nothing_overflows_on_any_slide(opened, deck, size, theme, tmp_path):
    width, height = SIZES[size]
    page = opened(viewport={"width": width, "height": height}, color_scheme=theme)
    overflowing = {}
    for one in deck:
        page.evaluate(f"location.hash = '#{one.slide.number}'")
        page.wait_for_selector(f"#slide-{one.slide.number}.current")
        page.screenshot(path=tmp_path / f"{one.slide.number}.png")
        if found := page.evaluate(OVERFLOWING):
            overflowing[one.slide.id] = found
    assert overflowing == {}


@pytest.mark.parametrize("size", SIZES)
def test_awkward_and_endless_tokens_overflow_nothing(browser, made, size, tmp_path):
    width, height = SIZES[size]
    shown = made(3, tabled=[2], tokens=[*HOSTILE[:6], "Ungeheuer" * 12, "a" * 90])
    (tmp_path / "index.html").write_text(deck_page.html(ONE_CALL, shown), "utf-8")
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto((tmp_path / "index.html").as_uri())
    for _ in range(3):
        assert [found for found in page.evaluate(OVERFLOWING) if not found.startswith("DIV.words")] == []  # long words scroll
        press(page, "Shift+ArrowRight")
    page.close()


@pytest.mark.parametrize("theme", THEMES)
def test_an_accessibility_engine_finds_no_violation(opened, deck, theme):
    from axe_playwright_python.sync_playwright import Axe

    page = opened(color_scheme=theme, reduced_motion="reduce")
    steps = [(f"slide {one.slide.number}", ("Shift+ArrowRight",)) for one in deck] + [
        ("overview", ("o",)), ("evidence", ("Escape", "e")), ("help", ("Escape", "?")), ("black", ("Escape", "b")),
    ]  # fmt: skip
    press(page, "Home")
    for where, keys in steps:
        found = Axe().run(page)
        assert found.violations_count == 0, f"before {where}: {found.generate_report()}"
        press(page, *keys)
    assert Axe().run(page).violations_count == 0
    narrow = opened("#2", color_scheme=theme, viewport={"width": 390, "height": 844})
    assert Axe().run(narrow).violations_count == 0
    desk = opened("?presenter#2", color_scheme=theme)
    found = Axe().run(desk)
    assert found.violations_count == 0, found.generate_report()


def test_the_page_brings_its_faces_and_they_are_there_before_anything_is_measured(opened):
    page = opened()
    faces = page.evaluate(
        "[...document.fonts].map((face) => `${face.family} ${face.weight} ${face.status}`.replaceAll('\"', ''))"
    )
    assert {"Lato 400 loaded", "Lato 700 loaded", "IBM Plex Mono 400 loaded"} <= set(faces)
    assert all(face.endswith(" loaded") for face in faces)


def test_reduced_motion_is_honoured(opened):
    page = opened(reduced_motion="reduce")
    press(page, "e")
    assert page.eval_on_selector("#drawer", "e => getComputedStyle(e).animationName") == "none"
    assert page.eval_on_selector("#progress i", "e => getComputedStyle(e).transitionDuration") in ("0s", "")


def test_comparison_slides_show_their_table_beside_the_figure(opened, deck):
    tabled = [one.slide.number for one in deck if words.render(one.slide, one.capture).has_table]
    assert tabled
    for wanted in tabled:
        page = opened(f"#{wanted}", viewport={"width": 1920, "height": 1080})
        rows = page.eval_on_selector_all(".current table tbody tr", "all => all.map((row) => row.children.length)")
        assert len(rows) >= 3 and min(rows) >= 2
        table, figure = (
            page.eval_on_selector(f".current {part}", "e => e.getBoundingClientRect().toJSON()") for part in ("table", "figure")
        )
        assert table["left"] > figure["right"]


# --- print ---


@pytest.mark.parametrize("keys", [(), ("o",), ("e",), ("b",)])
def test_printing_gives_one_page_a_slide_whatever_is_open(opened, deck, keys, tmp_path):
    import pypdf

    page = opened("#2", color_scheme="dark")
    press(page, *keys)
    page.pdf(path=tmp_path / "deck.pdf", prefer_css_page_size=True, print_background=True)
    pages = pypdf.PdfReader(tmp_path / "deck.pdf").pages
    assert len(pages) == len(deck)
    for one, printed in zip(deck, pages, strict=True):
        text = printed.extract_text()
        assert re.search(rf"\b{one.slide.number}\s*/\s*{deck[-1].slide.number}\b", text), one.slide.id
        assert len(printed.images) == 1


def test_words_are_not_cut_on_paper(opened, deck):
    page = opened(viewport={"width": 1280, "height": 720})
    page.emulate_media(media="print")
    cut = page.eval_on_selector_all(
        ".words",
        "all => all.filter((e) => e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1)"
        ".map((e) => e.closest('.slide').dataset.number)",
    )
    assert cut == []


# --- speed, told by what is there after one frame and not by a clock ---


def test_the_next_slide_is_there_after_one_frame(opened):
    page = opened()
    press(page, "Shift+ArrowRight")
    drawn = page.evaluate(
        """async () => {
          const frame = () => new Promise(requestAnimationFrame);
          await frame();
          const before = document.querySelector('.slide.current');
          document.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft', shiftKey: true, bubbles: true }));
          await frame();
          const now = document.querySelector('.slide.current');
          return now !== before && now.checkVisibility() && now.querySelector('img').complete;
        }"""
    )
    assert drawn
