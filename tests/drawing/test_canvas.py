"""The canvas: text is literal whatever it holds, tiles never leave their rows, the bytes never change."""

import warnings
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout import texts
from pipeline.drawing.canvas import BODY_BOTTOM, MARGIN, WIDTH, Canvas, literal, visible

HOSTILE = ["$$", "$5 and $10", "_x_", "\\alpha", "^", "{}", "%", "<b>", "&amp;", "\t", "\r", "\n", "\0", "\ud83d", "東京", "🤗",
           "👩‍👩‍👧", "\u202e", "\ufffd", "é", "𝔘", "ﷺ", "\U0010ffff", ""]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_is_drawn_without_a_warning_or_a_missing_glyph(text, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        canvas = Canvas()
        canvas.headline(text or "empty")
        canvas.text(MARGIN, 300, text, wrap=400)
        canvas.tile(text, MARGIN, 400)
        canvas.tiles([text] * 5, MARGIN, 500)
        axes = canvas.chart(300, 600, 400, 200, xlabel=text, ylabel=text)
        canvas.label(axes, 0.5, 0.5, text)
        canvas.strip(text, text, True)
        canvas.save(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


@given(st.text(st.characters(codec=None, categories=None)))
@settings(max_examples=300, deadline=None)
def test_literal_text_holds_no_control_character_and_is_its_own_literal(text):
    shown = literal(text)
    assert shown.isprintable()
    assert literal(shown) == shown


def test_undrawable_characters_become_visible_escapes():
    assert literal("a\tb\0\ud83d\x1b") == "a\\tb\\0\\u{d83d}\\x1b"
    assert visible(" the\n") == "␣the\\n"


def test_two_spaces_and_one_space_look_different():
    assert len({visible(" "), visible("  "), visible("")}) == 3


@given(st.lists(st.text(st.sampled_from("abcdefghij 東🤗"), max_size=14), min_size=1, max_size=60), st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_tiles_keep_to_their_rows_and_width_and_count_what_is_left_out(pieces, rows):
    canvas = Canvas()
    boxes = canvas.tiles(pieces, MARGIN, 300, width=700, rows=rows)
    shown = [box for box in boxes if box]
    assert len(boxes) == len(pieces)
    assert len({box.y for box in shown}) <= rows
    assert all(box.right <= MARGIN + 700 + 1 for box in shown)
    left_out = len(pieces) - len(shown)
    notes = [words for words, _, _ in texts(canvas) if "more ⋯" in words]
    assert notes == ([f"⋯ {left_out} more ⋯"] if left_out else [])


def test_a_wrapped_text_keeps_to_its_width_and_lines():
    canvas = Canvas()
    artist = canvas.text(MARGIN, 300, "word " * 200 + "x" * 300, wrap=500, lines=4, size=24)
    assert artist.get_text().count("\n") == 3 and artist.get_text().endswith("…")
    assert artist.get_window_extent(canvas.figure.canvas.get_renderer()).width <= 502


def test_the_strip_of_a_very_long_source_and_verdict_stays_on_the_sheet_without_overlap():
    canvas = Canvas()
    canvas.strip("m" * 400, "v" * 400, False)
    boxes = sorted((box for _, box, _ in texts(canvas)), key=lambda box: box.x0)
    assert all(a.x1 <= b.x0 for a, b in pairwise(boxes))
    assert boxes[-1].x1 <= WIDTH - MARGIN + 2


def test_a_concept_card_does_not_look_like_a_photograph(tmp_path):
    pictures = []
    for kind in ("photograph", "concept"):
        canvas = Canvas(kind)
        canvas.box(MARGIN, 300, 400, BODY_BOTTOM - 300, edge="#000000")
        canvas.save(tmp_path / f"{kind}.png")
        pictures.append((tmp_path / f"{kind}.png").read_bytes())
    assert pictures[0] != pictures[1]


def test_the_same_drawing_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        canvas = Canvas("concept")
        canvas.tiles(["The", " bee", "keeper"], MARGIN, 300)
        canvas.line([(100, 500), (400, 600)])
        canvas.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("text", ["x" * 20_000, "word " * 4_000, "\u0301" * 20_000, "supercalifragilistic" * 1_000])
def test_an_endless_text_is_cut_after_few_measurements(text, monkeypatch):
    canvas, measured, measure = Canvas(), [], Canvas.measure
    monkeypatch.setattr(Canvas, "measure", lambda self, *given, **named: measured.append(1) or measure(self, *given, **named))
    drawn = canvas.text(96, 300, text, size=44, wrap=1700, lines=1, smallest=32).get_text()
    assert drawn.endswith("…") and "\n" not in drawn
    assert len(measured) < 4_000
