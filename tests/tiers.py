"""The two tiers: `make test` runs what is not marked slow, `make test-slow` the rest.

The fast tier keeps one test of each kind; where a test is tried on many like things, a few of them stand for all. In both
tiers the tests of one topic run in one worker, where they share its captures; so do all that ask the real server.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from decks import ONE_CALL

SERVED = {slide.topic for slide in ONE_CALL.slides if "server" in slide.needs}
TOGETHER = {"browser", "deck", "model"}  # rooms whose tests share what is slow to make


def of_the_slow_tier_but(name: str | tuple[str, ...], values: Iterable[Any], *fast: Any) -> pytest.MarkDecorator:
    """Parametrize a test by `values`, all of them slow but those in `fast`."""
    values = list(values)
    assert set(fast) <= set(values)

    def tiered(value: Any) -> Any:
        return value if value in fast else pytest.param(*(value if isinstance(value, tuple) else [value]), marks=pytest.mark.slow)

    return pytest.mark.parametrize(name, [tiered(value) for value in values])


def company(item: pytest.Item) -> str | None:
    """The tests that share a worker with this one; None for a test that may run anywhere."""
    slide = item.callspec.params.get("slide") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    room, name = item.path.parent.name, item.path.stem
    topic = slide.topic if slide else name.removeprefix("test_") if room == "topics" else None
    if topic in SERVED or ({"served", "real_server"} & set(getattr(item, "fixturenames", ())) and topic is None):
        return "server"
    return topic or (room if room in TOGETHER else None)
