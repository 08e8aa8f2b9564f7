"""Fingerprints: what counts as a change of the code behind a slide."""

import pytest

from pipeline.run import fingerprint

MODULE = '''
from pipeline.slide import Verdict
LIMIT = 3
OTHER = 4
def helper(x):
    return x + LIMIT
def capture(lab):
    """Doc."""
    return helper(1)
def draw(canvas, data):
    return OTHER
class Unused:
    pass
'''


@pytest.fixture
def hashes(tmp_path, monkeypatch):
    """hashes(source) -> the fingerprint of `capture` in a module with that source."""
    real = fingerprint.module_path
    path = tmp_path / "topic.py"
    monkeypatch.setattr(fingerprint, "module_path", lambda name: path if name == "topics.topic" else real(name))

    def of(source: str) -> dict[str, str]:
        path.write_text(source, "utf-8")
        fingerprint.parsed.cache_clear()
        return fingerprint.of_function("topics.topic", "capture")

    yield of
    fingerprint.parsed.cache_clear()


@pytest.mark.parametrize(
    ("old", "new"), [("LIMIT = 3", "LIMIT = 5"), ("x + LIMIT", "x - LIMIT"), ("helper(1)", "helper(2)"), ("Doc.", "Other.")]
)
def test_what_a_function_reaches_counts(hashes, old, new):
    assert hashes(MODULE) != hashes(MODULE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("OTHER = 4", "OTHER = 5"),
        ("class Unused", "class Renamed"),
        ("LIMIT = 3\n", "# why\n\nLIMIT = 3\n"),
        ("return OTHER", "return 1"),
    ],
)
def test_what_a_function_does_not_reach_does_not_count(hashes, old, new):
    assert hashes(MODULE) == hashes(MODULE.replace(old, new))


def test_a_pipeline_module_counts_only_where_it_is_reached(hashes):
    assert "pipeline/slide.py" not in hashes(MODULE)
    assert "pipeline/slide.py" in hashes(MODULE.replace("return helper(1)", "return Verdict"))


def test_a_module_brings_the_modules_it_imports():
    found = fingerprint.of_modules(["pipeline.run.check"]).keys()
    assert {"pipeline/run/check.py", "pipeline/run/build.py", "pipeline/slide.py"} <= found


def test_differences_name_what_changed_what_is_new_and_what_is_gone():
    then, now = {"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}
    assert fingerprint.differences(then, now) == ["b changed", "d is new", "c is gone"]
