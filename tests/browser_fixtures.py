"""The deck opened in a real Chromium; at the end of each test no console error and no request that left the page."""

from collections.abc import Iterator

import pytest

from deck_fixtures import CHROMIUM, CHROMIUM_ARGUMENTS, need
from pipeline.drawing.steps import covers_in

THEMES = ["light", "dark"]


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


def place(page) -> str:
    """Where the page is, as its address says it: #21 or #21.2."""
    return page.evaluate("location.hash")


def places(deck) -> list[str]:
    """Every step of every slide in order, as addresses."""
    steps = {one.slide.number: len(covers_in(one.figure)) + 1 for one in deck}
    return [f"#{number}.{step}" if step > 1 else f"#{number}" for number in steps for step in range(1, steps[number] + 1)]


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
