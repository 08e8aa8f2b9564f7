"""The deck in a real Chromium: every key, two windows in step, nothing overflowing, nothing asked of the network."""

import re
import threading
from collections.abc import Iterator

import pytest

from deck_fixtures import CHROMIUM, CHROMIUM_ARGUMENTS, HOSTILE, need
from pipeline import assemble
from pipeline.present import server as present_server

SIZES = {"1920x1080": (1920, 1080), "1280x720": (1280, 720), "390x844": (390, 844)}
THEMES = ["light", "dark"]
FRAME_MS = 1000 / 60
FIRST_SLIDE_MS = 1000

OVERFLOWING = """() => {
  const seen = [...document.querySelectorAll('.slide.current *, #tools *, #tools')].filter((e) => e.checkVisibility());
  const unseen = (e) => e.closest('.unseen') || e.closest('.notes');
  const outside = seen.filter((e) => !unseen(e)).filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width && (box.left < -0.5 || box.right > innerWidth + 0.5);
  });
  const cut = seen.filter((e) => !unseen(e) && e.clientWidth && e.scrollWidth > e.clientWidth + 1 && e.tagName !== 'CODE');
  const words = document.querySelector('.slide.current .words');
  const tall = innerWidth > innerHeight && words.scrollHeight > words.clientHeight + 1 ? [words] : [];
  const wide = document.documentElement.scrollWidth > innerWidth ? [document.documentElement] : [];
  return [...outside, ...cut, ...tall, ...wide].map((e) => `${e.tagName}.${e.className} ${e.textContent.trim().slice(0, 40)}`);
}"""


@pytest.fixture(scope="session")
def browser() -> Iterator:
    need("chromium", CHROMIUM)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, deck_html) -> Iterator:
    """opened(hash, **context options) -> the deck's page; at the end: no console error, no request that left the page."""
    contexts, complaints = [], []

    def watch(page) -> None:
        page.on("console", lambda message: complaints.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda request: check(request.url))

    def check(url: str) -> None:
        if not url.startswith(("data:", deck_html.as_uri())):
            complaints.append(f"request: {url}")

    def open_deck(where: str = "", **options):
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 720}} | options))
        contexts.append(context)
        context.on("page", watch)
        page = context.new_page()
        page.goto(f"{deck_html.as_uri()}{where}")
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_deck
    for context in contexts:
        context.close()
    assert complaints == []


def number(page) -> int:
    numbers = "all => all.filter((e) => e.checkVisibility()).map((e) => Number(e.dataset.number))"
    shown = page.eval_on_selector_all(".slide", numbers)
    assert len(shown) == 1
    return shown[0]


def press(page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def wait_until(page, condition: str) -> None:
    """Playwright's own wait evaluates a string in the page, which the deck's policy forbids."""
    for _ in range(100):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never came true: {condition}")


def focused(page) -> str:
    return page.evaluate("document.activeElement.id || document.activeElement.tagName")


# --- moving ---


def test_every_moving_key_moves(opened, deck):
    page, last = opened(), deck[-1].slide.number
    assert number(page) == 1
    for key, expected in [
        ("ArrowRight", 2), ("ArrowDown", 3), ("Space", 4), ("PageDown", 5), ("ArrowLeft", 4), ("ArrowUp", 3), ("Shift+Space", 2),
        ("PageUp", 1), ("ArrowLeft", 1), ("End", last), ("ArrowRight", last), ("Home", 1),
    ]:  # fmt: skip
        press(page, key)
        assert number(page) == expected, key
    assert page.evaluate("location.hash") == "#1"


def test_a_number_and_enter_goes_there(opened):
    page = opened()
    press(page, "1", "2", "Enter")
    assert number(page) == 12
    press(page, "9", "9", "Enter")
    assert number(page) == 12
    assert "no slide 99" in page.text_content("#toast")
    press(page, "4", "ArrowRight", "Enter")  # moving on forgets what was typed
    assert number(page) == 13


def test_a_deep_link_opens_its_slide_and_follows_the_address(opened):
    page = opened("#9")
    assert number(page) == 9
    page.evaluate("location.hash = '#5'")
    page.wait_for_selector("#slide-5.current")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert number(page) == 5
    for nonsense in ("#", "#none", "#9999", "#-1"):
        assert number(opened(nonsense)) == 1


def test_swiping_moves_and_a_tap_does_not(opened):
    page = opened(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)

    def swipe(x0: int, x1: int, y0: int = 300, y1: int = 300) -> None:
        page.evaluate(
            """([x0, x1, y0, y1]) => {
              const at = (x, y) => [new Touch({ identifier: 1, target: document.body, clientX: x, clientY: y })];
              const fire = (type, touches, changed) => document.body.dispatchEvent(
                new TouchEvent(type, { touches, changedTouches: changed, bubbles: true }));
              fire('touchstart', at(x0, y0), at(x0, y0));
              fire('touchend', [], at(x1, y1));
            }""",
            [x0, x1, y0, y1],
        )

    swipe(300, 100)
    assert number(page) == 2
    swipe(100, 300)
    assert number(page) == 1
    swipe(300, 290)
    swipe(300, 200, 200, 500)
    assert number(page) == 1


def test_buttons_do_what_their_keys_do(opened):
    page = opened()
    page.click("#tools [data-key='ArrowRight']")
    assert number(page) == 2
    press(page, "Space")  # the button has the focus: space presses it, once
    assert number(page) == 3
    page.click("#tools [data-key='e']")
    assert page.is_visible("#drawer")


def test_progress_and_title_follow(opened, deck):
    page = opened()
    press(page, "ArrowRight")
    assert page.get_attribute("#progress", "aria-valuenow") == "2"
    assert page.eval_on_selector("#progress i", "e => e.style.width").startswith(f"{200 / len(deck):.3f}"[:4])
    assert page.title() == f"2 · {assemble.NAME}"


def test_a_slide_change_is_announced_with_its_alternative_text(opened):
    page = opened()
    assert page.text_content("#announcer") == ""
    press(page, "ArrowRight")
    said = page.text_content("#announcer")
    assert said.startswith("Slide 2 of")
    assert page.get_attribute(".current img", "alt") in said


# --- overview, evidence, help, black, theme, full screen ---


def test_the_overview_shows_every_slide_and_goes_to_the_chosen_one(opened, deck):
    page = opened("#2")
    press(page, "o")
    visible = page.eval_on_selector_all(".slide", "all => all.filter((e) => e.checkVisibility()).length")
    assert visible == len(deck)
    assert page.evaluate("document.activeElement.hash") == "#2"
    press(page, "ArrowRight", "ArrowRight")
    assert page.evaluate("document.activeElement.hash") == "#4"
    press(page, "ArrowDown")
    below = int(page.evaluate("document.activeElement.hash")[1:])
    assert below > 5
    press(page, "ArrowUp", "Enter")
    assert number(page) == 4
    press(page, "o")
    page.click("#slide-6 .jump")
    assert number(page) == 6
    press(page, "o", "Escape")
    assert number(page) == 6
    press(page, "o", "o")
    assert number(page) == 6


def test_the_evidence_drawer_shows_what_stands_behind_this_slide(opened, deck):
    page = opened("#3")
    press(page, "e")
    assert focused(page) == "drawer"
    for _ in range(2):
        text = " ".join(page.text_content("#drawer").split())
        one = next(one for one in deck if one.slide.number == number(page))
        for said in (one.slide.claim, one.verdict.measured, one.verdict.bound, "✓ holds", assemble.retake(one.slide)):
            assert " ".join(said.split()) in text
        press(page, "ArrowRight")  # the drawer follows
    press(page, "Escape")
    assert page.is_hidden("#drawer")
    page.focus("#tools [data-key='e']")
    press(page, "Enter")
    assert focused(page) == "drawer"
    press(page, "Escape")
    assert page.evaluate("document.activeElement.dataset.key") == "e"


def test_help_opens_traps_nothing_and_closes(opened):
    page = opened("#2")
    page.focus("#tools [data-key='t']")
    press(page, "?")
    assert page.is_visible("#help")
    press(page, "ArrowRight")
    assert number(page) == 2
    press(page, "Escape")
    assert page.is_hidden("#help")
    assert page.evaluate("document.activeElement.dataset.key") == "t"
    press(page, "?", "Enter")
    assert page.is_hidden("#help")


def test_black_hides_everything_until_the_next_key(opened):
    page = opened("#2")
    press(page, "b")
    assert page.eval_on_selector("#black", "e => [e.offsetWidth, e.offsetHeight]") == [1280, 720]
    assert page.evaluate("document.elementFromPoint(640, 300).id") == "black"
    press(page, "b")
    assert page.is_hidden("#black")
    press(page, "b", "Escape")
    assert page.is_hidden("#black")
    press(page, "b", "ArrowRight")
    assert page.is_hidden("#black")
    assert number(page) == 3
    press(page, "b")
    page.mouse.click(200, 200)
    assert page.is_hidden("#black")


@pytest.mark.parametrize("system", THEMES)
def test_the_theme_follows_the_system_and_can_be_switched(opened, system):
    page = opened(color_scheme=system)
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    first = page.evaluate(ground)
    press(page, "t")
    second = page.evaluate(ground)
    assert second != first
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate(ground) == second
    press(page, "t", "t")
    assert page.evaluate(ground) == first
    page.emulate_media(color_scheme=THEMES[system == "light"])
    assert page.evaluate(ground) == second


def test_full_screen_is_asked_for_and_left(opened):
    page = opened()
    press(page, "f")
    wait_until(page, "document.fullscreenElement === document.documentElement")
    press(page, "f")
    wait_until(page, "!document.fullscreenElement")


def test_keys_with_a_modifier_are_left_to_the_browser(opened):
    page = opened("#2")
    press(page, "Control+ArrowRight", "Alt+ArrowRight", "Control+b")
    assert number(page) == 2
    assert page.is_hidden("#black")


def test_the_keyboard_reaches_everything_and_is_never_trapped(opened):
    page = opened("#2")
    reached = []
    for _ in range(12):
        press(page, "Tab")
        reached.append(page.evaluate("document.activeElement.dataset.key ?? document.activeElement.tagName"))
        if reached[-1] != "BODY":
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", reached[-1]
    assert {"ArrowLeft", "ArrowRight", "o", "e", "n", "f", "t", "?"} <= set(reached)
    assert "BODY" in reached or reached[0] in reached[1:]


# --- the presenter's window ---


def present(page):
    with page.context.expect_page() as waiting:
        press(page, "n")
    desk = waiting.value
    desk.wait_for_selector("html[data-ready]")
    return desk


def in_step(page, expected: int) -> None:
    page.wait_for_selector(f"#slide-{expected}.current", timeout=5000, state="attached")


def test_the_presenters_window_keeps_in_step_both_ways(opened, deck):
    page = opened("#3")
    desk = present(page)
    in_step(desk, 3)
    press(page, "ArrowRight")
    in_step(desk, 4)
    press(desk, "ArrowRight", "ArrowRight")
    in_step(page, 6)
    press(desk, "2", "Enter")
    in_step(page, 2)
    press(desk, "b")
    page.wait_for_selector("#black", state="visible")
    assert desk.is_visible("#desk-black") and desk.is_hidden("#black")
    press(page, "b")
    desk.wait_for_selector("#desk-black", state="hidden")
    press(desk, "End")
    in_step(page, deck[-1].slide.number)
    assert desk.is_visible("#the-end")


def test_the_windows_find_each_other_again_after_a_reload(opened):
    page = opened("#3")
    desk = present(page)
    page.reload()
    page.wait_for_selector("html[data-ready]")
    press(desk, "ArrowRight")
    in_step(page, 4)
    desk.wait_for_timeout(1300)  # the desk says hello once a second
    press(page, "ArrowRight")
    in_step(desk, 5)
    desk.reload()
    desk.wait_for_selector("html[data-ready]")
    press(page, "ArrowRight")
    in_step(desk, 6)


def test_the_presenter_sees_notes_timer_and_next_slide(opened, deck):
    page = opened("#2")
    desk = present(page)
    assert desk.is_visible("#slide-2 .notes") and desk.is_visible("#slide-2 img")
    assert desk.is_visible("#slide-3 img") and desk.is_hidden("#slide-3 .notes")
    assert desk.text_content("#desk-count") == f"2 / {deck[-1].slide.number}"
    wait_until(desk, "document.querySelector('#timer').textContent !== '0:00'")
    press(desk, "p")
    held = desk.text_content("#timer")
    desk.wait_for_timeout(1300)
    assert desk.text_content("#timer") == held
    press(desk, "r")
    assert desk.text_content("#timer") == "0:00"
    press(desk, "p")
    wait_until(desk, "document.querySelector('#timer').textContent !== '0:00'")
    assert page.is_hidden("#slide-2 .notes")


def test_every_slides_notes_fit_the_presenters_window(opened, deck):
    desk = opened("?presenter", viewport={"width": 1280, "height": 760})
    for one in deck:
        desk.evaluate(f"location.hash = '#{one.slide.number}'")
        desk.wait_for_selector(f"#slide-{one.slide.number}.current", state="attached")
        assert desk.evaluate("document.documentElement.scrollWidth <= innerWidth"), one.slide.id


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
    shown = made(3, first=16, tokens=[*HOSTILE[:6], "Ungeheuer" * 12, "a" * 90])
    (tmp_path / "index.html").write_text(assemble.html(shown), "utf-8")
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto((tmp_path / "index.html").as_uri())
    for _ in range(3):
        assert [found for found in page.evaluate(OVERFLOWING) if not found.startswith("DIV.words")] == []  # long words scroll
        press(page, "ArrowRight")
    page.close()


@pytest.mark.parametrize("theme", THEMES)
def test_an_accessibility_engine_finds_no_violation(opened, deck, theme):
    from axe_playwright_python.sync_playwright import Axe

    page = opened(color_scheme=theme, reduced_motion="reduce")
    steps = [(f"slide {one.slide.number}", ("ArrowRight",)) for one in deck] + [
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


def test_reduced_motion_is_honoured(opened):
    page = opened(reduced_motion="reduce")
    press(page, "e")
    assert page.eval_on_selector("#drawer", "e => getComputedStyle(e).animationName") == "none"
    assert page.eval_on_selector("#progress i", "e => getComputedStyle(e).transitionDuration") in ("0s", "")


def test_comparison_slides_show_their_table_beside_the_figure(opened, deck):
    for wanted in {17, 38} & {one.slide.number for one in deck}:
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
        ".words", "all => all.filter((e) => e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1)"
        ".map((e) => e.closest('.slide').dataset.number)",
    )  # fmt: skip
    assert cut == []


# --- speed ---


def test_the_first_slide_is_shown_within_a_second(opened):
    page = opened()
    wait_until(page, "performance.getEntriesByName('first-contentful-paint').length")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    ready = page.evaluate("performance.timing.domContentLoadedEventEnd - performance.timing.navigationStart")
    assert max(painted, ready) < FIRST_SLIDE_MS


def test_the_next_slide_is_there_within_one_frame(opened, deck):
    page = opened()
    page.wait_for_timeout(300)
    took = page.evaluate(
        """async (count) => {
          const frame = () => new Promise(requestAnimationFrame);
          const took = [];
          for (let i = 0; i < count; i++) {
            await new Promise((done) => setTimeout(done, 120));
            await frame();
            performance.mark('pressed');
            document.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
            document.querySelector('.slide.current').getBoundingClientRect();  // style and layout done
            took.push(performance.measure('shown', 'pressed').duration);
          }
          return took;
        }""",
        min(len(deck) - 1, 20),
    )
    assert sorted(took)[len(took) // 4] < FRAME_MS, took  # other work on the machine can only add to it
    drawn = page.evaluate(
        """async () => {
          const frame = () => new Promise(requestAnimationFrame);
          await frame();
          const before = document.querySelector('.slide.current');
          document.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft', bubbles: true }));
          await frame();
          const now = document.querySelector('.slide.current');
          return now !== before && now.checkVisibility() && now.querySelector('img').complete;
        }"""
    )
    assert drawn


# --- make present ---


def test_a_presented_deck_reloads_when_it_is_rebuilt_and_stays_on_its_slide(browser, deck_html, tmp_path):
    copy = tmp_path / "index.html"
    copy.write_bytes(deck_html.read_bytes())
    server = present_server(copy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page()
    try:
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/#3")
        page.wait_for_selector("html[data-ready]")
        page.wait_for_timeout(1000)  # it has asked once what version it shows
        copy.write_bytes(deck_html.read_bytes().replace(b"</main>", b'<p id="rebuilt"></p></main>'))
        page.wait_for_selector("#rebuilt", state="attached", timeout=10_000)
        page.wait_for_selector("html[data-ready]")
        assert number(page) == 3
    finally:
        page.close()
        server.shutdown()
        server.server_close()
