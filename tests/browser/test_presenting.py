"""The presenter's window in step with the deck, and the deck reloaded when it is rebuilt."""

import threading

import pytest

from browser_fixtures import number, press, wait_until
from pipeline.deck.present import server as present_server


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
    press(page, "Shift+ArrowRight")
    in_step(desk, 4)
    press(desk, "Shift+ArrowRight", "Shift+ArrowRight")
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
    press(desk, "Shift+ArrowRight")
    in_step(page, 4)
    desk.wait_for_timeout(1300)  # the desk says hello once a second
    press(page, "Shift+ArrowRight")
    in_step(desk, 5)
    desk.reload()
    desk.wait_for_selector("html[data-ready]")
    press(page, "Shift+ArrowRight")
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


@pytest.mark.parametrize("size", [(1280, 720), (1280, 760), (1366, 768), (1440, 900), (1920, 1080), (390, 844)])
def test_every_slides_notes_can_be_read_whole(opened, deck, size):
    desk = opened("?presenter", viewport={"width": size[0], "height": size[1]})
    cut = []
    for one in deck:
        desk.evaluate(f"location.hash = '#{one.slide.number}'")
        desk.wait_for_selector(f"#slide-{one.slide.number}.current", state="attached")
        notes = desk.eval_on_selector(
            ".current .notes", "e => [e.scrollHeight - e.clientHeight, e.getBoundingClientRect().height]"
        )
        if notes[0] > 1 or notes[1] < 60 or desk.evaluate("document.documentElement.scrollWidth > innerWidth"):
            cut.append(one.slide.id)
    assert cut == []


def test_a_reload_keeps_a_black_screen_and_the_clock(opened):
    page = opened("#3")
    desk = present(page)
    wait_until(desk, "document.querySelector('#timer').textContent !== '0:00'")
    press(desk, "p")
    held = desk.text_content("#timer")
    press(page, "b")
    desk.wait_for_selector("#desk-black", state="visible")
    for window in (page, desk):
        window.reload()
        window.wait_for_selector("html[data-ready]")
    desk.wait_for_timeout(1300)
    assert page.is_visible("#black") and desk.text_content("#desk-count").startswith("3 /")
    assert desk.text_content("#timer") == held and "Go on" in desk.text_content("#pause")
    press(page, "b")
    desk.wait_for_selector("#desk-black", state="hidden")
    fresh = opened("?presenter")
    assert fresh.is_hidden("#desk-black") and "Pause" in fresh.text_content("#pause")  # its clock runs


def test_the_presenters_help_lists_the_keys_that_work_there(opened):
    desk, page = opened("?presenter"), opened()
    for window, here in ((desk, {"p", "r", "o"}), (page, {"o", "n", "v", "f"})):
        press(window, "?")
        shown = window.eval_on_selector_all(
            "#help kbd", "all => all.filter((e) => e.checkVisibility()).map((e) => e.textContent)"
        )
        assert {"p", "r", "o", "n", "v", "f"} & set(shown) == here


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
