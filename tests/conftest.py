"""The fixtures every test file shares: the real model, a GPT-2-shaped one, and captures taken once."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from pipeline.errors import DeckError
from pipeline.lab import Lab
from pipeline.model import find as find_model
from pipeline.settings import DEFAULT_SENTENCE
from pipeline.slide import Slide, to_json
from slide_fixtures import committed
from small_models import build_gpt2
from tiers import company

pytest_plugins = ["serving_fixtures", "deck_fixtures", "model_fixtures", "browser_fixtures"]

HOSTILE_SENTENCES = {
    "one token": "Hi",
    "symbols and scripts": "$5 and $10, <b>not</b> a_b ^c^ \\x & `y` | *z* 🤗 東京 naïve Привет 👩‍👩‍👧 \t tab\nline",
    "one long word": "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenfabrik" * 3,
    "long": "The keeper of the bees walked slowly along the wall of the old garden, counting hives as she went. " * 7,
}

PASS_THROUGH_THE_BROWSER = "test_browser"  # of the tests in a browser, the one file that the fast tier runs too


settings.register_profile("fast", deadline=None, max_examples=25)  # a busy machine is no fault of the code's
settings.register_profile("thorough", deadline=None, max_examples=300)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("fast" if config.option.markexpr == "not slow" else "thorough")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "slow" or (item.path.parent.name == "browser" and item.path.stem != PASS_THROUGH_THE_BROWSER):
            item.add_marker(pytest.mark.slow)
        if together := company(item):
            item.add_marker(pytest.mark.xdist_group(together))


@pytest.fixture(scope="session", autouse=True)
def children_that_mind_signals() -> None:
    """Started under nohup, or in the background of a script, this process ignores Ctrl-C and hang-ups: its children must not.

    A child inherits what is ignored, and not what is handled: so these are handled, by doing nothing.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *signalled: None)


@pytest.fixture(scope="session")
def loaded_model() -> find_model.LoadedModel:
    """The model that `auto` finds. Without one, nothing here can be tested: say what to do, and stop."""
    try:
        return find_model.choose("auto").load()
    except DeckError as error:
        pytest.exit(f"the tests need the real model: {error}", returncode=error.exit_code)


@pytest.fixture(scope="session")
def lab(loaded_model: find_model.LoadedModel, served: Callable[[], Any]) -> Lab:
    """The lab of the committed deck: the real model, the default sentence, a real server started when first asked for."""
    return Lab(DEFAULT_SENTENCE, lambda: loaded_model, served)


@pytest.fixture(scope="session")
def gpt2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2-shaped model of random weights with gpt2's own vocabulary."""
    return build_gpt2(tmp_path_factory.mktemp("gpt2_shaped"))


@pytest.fixture(scope="session")
def gpt2_lab(gpt2_folder: Path, served: Callable[[], Any]) -> Lab:
    loaded = find_model.choose(str(gpt2_folder)).load()
    return Lab(DEFAULT_SENTENCE, lambda: loaded, served)


@pytest.fixture(scope="session")
def captured() -> Callable[[Slide, Lab], dict[str, Any]]:
    """captured(slide, lab) -> the data of its capture, read back from JSON; taken once for each lab.

    Of a timed slide it is the committed one: what a clock says while tests run beside it proves nothing.
    """
    kept: dict[tuple[str, int], str] = {}

    def take(slide: Slide, lab: Lab) -> dict[str, Any]:
        if slide.volatile:
            return committed(slide)
        key = slide.id, id(lab)
        if key not in kept:
            kept[key] = to_json(slide.capture(lab))
        return json.loads(kept[key])

    return take
