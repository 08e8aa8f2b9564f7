"""The deck in a real Chromium, by key and by touch: moving, overview, evidence, help, black, theme, full screen."""

import pytest

from browser_fixtures import THEMES, focused, number, place, places, press, wait_until
from decks import ONE_CALL
from pipeline.command import retake

# --- moving ---


def test_every_moving_key_moves(opened, deck):
    page, every = opened(), places(deck)
    last = len(every) - 1
    assert number(page) == 1
    for key, expected in [
        ("ArrowRight", 1), ("ArrowDown", 2), ("Space", 3), ("PageDown", 4), ("ArrowLeft", 3), ("ArrowUp", 2), ("Shift+Space", 1),
        ("PageUp", 0), ("ArrowLeft", 0), ("End", last), ("ArrowRight", last), ("Home", 0),
    ]:  # fmt: skip
        press(page, key)
        assert place(page) == every[expected], key


def test_shift_and_an_arrow_go_over_the_steps(opened):
    page = opened("#2")
    press(page, "Shift+ArrowRight")
    assert place(page) == "#3"
    press(page, "ArrowRight", "Shift+ArrowLeft")
    assert place(page) == "#2"


def keydown(page, key: str, code: str, shift: bool = False) -> None:
    """A key of a keyboard that has `key` at the place `code`."""
    page.evaluate(
        """([key, code, shiftKey]) =>
          document.body.dispatchEvent(new KeyboardEvent('keydown', { key, code, shiftKey, bubbles: true }))""",
        [key, code, shift],
    )


@pytest.mark.parametrize(
    ("key", "code", "shift", "means"),
    [
        ("и", "KeyB", False, "black"), ("β", "KeyB", False, "black"), ("Process", "KeyB", False, "black"),
        (".", "Period", False, "black"),
        ("ю", "Period", False, "black"), ("щ", "KeyO", False, "overview"), ("ο", "KeyO", False, "overview"),
        ("у", "KeyE", False, "drawer"), ("ε", "KeyE", False, "drawer"), (",", "Slash", True, "help"), ("x", "KeyB", False, ""),
        ("b", "KeyN", False, "black"),
    ],
)  # fmt: skip
def test_a_key_of_another_alphabet_means_what_stands_at_its_place(opened, key, code, shift, means):
    page = opened("#2")
    keydown(page, key, code, shift)
    happened = {
        "black": page.is_visible("#black"),
        "overview": page.evaluate("document.documentElement.classList.contains('overview')"),
        "drawer": page.is_visible("#drawer"),
        "help": page.is_visible("#help"),
    }
    assert [name for name, did in happened.items() if did] == [means] * bool(means)


def test_digits_of_a_keyboard_that_shifts_them_go_to_a_slide(opened):
    page = opened()
    for key, code in (("&", "Digit1"), ("é", "Digit2"), ("Enter", "Enter")):
        keydown(page, key, code)
    assert number(page) == 12


def test_a_number_and_enter_goes_there(opened):
    page = opened()
    press(page, "1", "2", "Enter")
    assert number(page) == 12
    press(page, "9", "9", "Enter")
    assert number(page) == 12
    assert page.text_content("#toast").endswith(" 99")
    press(page, "4", "Shift+ArrowRight", "Enter")  # moving on forgets what was typed
    assert number(page) == 13
    press(page, "3", "Space", "5", "Enter")
    assert number(page) == 5


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
    page.evaluate("location.hash = '#none'")
    page.wait_for_timeout(50)
    assert number(page) == 5 and page.text_content("#toast") == ""


def test_swiping_moves_and_a_tap_does_not(opened, deck):
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

    first, second = places(deck)[:2]
    swipe(300, 100)
    assert place(page) == second
    swipe(100, 300)
    assert place(page) == first
    swipe(300, 290)
    swipe(300, 200, 200, 500)
    assert place(page) == first
    press(page, "?")
    swipe(300, 100)
    assert place(page) == first


def test_buttons_do_what_their_keys_do(opened, deck):
    page, every = opened(), places(deck)
    page.click("#tools [data-key='ArrowRight']")
    assert place(page) == every[1]
    press(page, "Space")  # the button has the focus: space presses it, once
    assert place(page) == every[2]
    page.click("#tools [data-key='e']")
    assert page.is_visible("#drawer")


def test_progress_and_title_follow(opened, deck):
    page = opened()
    press(page, "Shift+ArrowRight")
    assert page.get_attribute("#progress", "aria-valuenow") == "2"
    assert page.eval_on_selector("#progress i", "e => e.style.width").startswith(f"{200 / len(deck):.3f}"[:4])
    assert page.title() == f"2 · {ONE_CALL.title}"


def test_a_slide_change_is_announced_with_its_alternative_text(opened):
    page = opened()
    assert page.text_content("#announcer") == ""
    press(page, "Shift+ArrowRight")
    said = page.text_content("#announcer")
    assert said.startswith(f"Slide {number(page)} of")
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
        for said in (one.slide.claim, one.verdict.measured, one.verdict.bound, "✓ holds", retake(one.slide.id, one.flags)):
            assert " ".join(said.split()) in text
        press(page, "Shift+ArrowRight")  # the drawer follows
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
    press(page, "b", "Shift+ArrowRight")
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
    for _ in range(13):
        press(page, "Tab")
        reached.append(page.evaluate("document.activeElement.dataset.key ?? document.activeElement.tagName"))
        if reached[-1] != "BODY":
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", reached[-1]
    assert {"ArrowLeft", "ArrowRight", "o", "e", "n", "v", "f", "t", "?"} <= set(reached)
    assert "BODY" in reached or reached[0] in reached[1:]
