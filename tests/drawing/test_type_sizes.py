"""A figure sets its text in the named sizes of the layout and in no other."""

import ast

import pytest

from layout import problems, texts
from pipeline.drawing import layout
from pipeline.drawing.canvas import Canvas
from pipeline.paths import BUILD

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
    assert typed_sizes(topic) == []


def test_the_sizes_are_for_the_back_row():
    assert layout.HEADLINE == 52 and layout.HEADLINE_LEAST == 40
    assert min(layout.HERO, layout.NUMBER, layout.TITLE, layout.BODY, layout.LABEL) == 28 and 20 <= layout.STRIP <= 22


def test_a_long_headline_takes_two_lines_before_it_shrinks_and_the_body_makes_room():
    short, long = Canvas().titled("A finding", ""), Canvas().titled("A finding of many words " * 4, "")
    assert short == layout.FULL and short.bottom == long.bottom and 0 < long.y - short.y < 1.3 * layout.HEADLINE
    canvas = Canvas()
    canvas.titled("A finding of very many words " * 8, "how to read it")
    assert problems(canvas, hostile=True) == [] and "…" in canvas.sheet.texts[0].get_text()
    assert len(problems(canvas)) == 2  # in the deck itself it would be too small, and cut


def test_what_the_strip_of_a_failure_says_a_strip_that_holds_leaves_out():
    for holds in (True, False):
        canvas = Canvas()
        canvas.strip("a model", "2 of 3 · 3 of 3", holds)
        assert any("2 of 3 · 3 of 3" in words for words, _, _ in texts(canvas)) != holds
