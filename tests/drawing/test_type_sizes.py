"""A figure sets its text in the named sizes of the layout and in no other."""

import ast

import pytest

from pipeline.paths import BUILD

BY_HAND = {"whole_path"}  # with a figure to be redrawn
TOPICS = sorted(path.stem for path in (BUILD / "topics").glob("[a-z]*.py"))


def typed_sizes(topic: str) -> list[int]:
    """The lines of a topic that give a text a size as a number."""
    tree = ast.parse((BUILD / "topics" / f"{topic}.py").read_text("utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    texts = [call for call in calls if call.func.attr in ("text", "put", "put_tile", "put_tiles", "put_upright")]
    return [
        call.lineno
        for call in texts
        for keyword in call.keywords
        if keyword.arg in ("size", "smallest") and isinstance(keyword.value, ast.Constant)
    ]


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_types_no_size_of_its_own(topic):
    assert bool(typed_sizes(topic)) == (topic in BY_HAND), "a topic that is no longer set by hand leaves the list"
