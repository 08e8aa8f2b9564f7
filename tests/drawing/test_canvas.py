"""The canvas: text is literal whatever it holds, tiles never leave their rows, the bytes never change."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout import texts
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.fonts import literal, visible
from pipeline.drawing.layout import BODY, BODY_BOTTOM, LABEL, MARGIN, NUMBER, TITLE, WIDTH, Box
from pipeline.drawing.sheet import Line

HOSTILE = ["$$", "$5 and $10", "_x_", "\\alpha", "^", "{}", "%", "<b>", "&amp;", "\t", "\r", "\n", "\0", "\ud83d", "東京", "🤗",
           "👩‍👩‍👧", "\u202e", "\ufffd", "é", "𝔘", "ﷺ", "\U0010ffff", ""]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_is_drawn_without_a_warning_or_a_missing_glyph(text, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        canvas = Canvas()
        canvas.headline(text or "empty")
        canvas.text(MARGIN, 300, text, wrap=400)
        canvas.put_tile(Box(MARGIN, 400, 200, 50), text)
        canvas.put_tiles(Box(MARGIN, 500, 900, 0), [text] * 5, rows=2)
        canvas.stack(Box(300, 600, 400, 200), Line(text), Line(text, LABEL, mono=True))
        canvas.put_upright(Box(800, 600, 40, 200), text)
        canvas.strip(text, text, True)
        canvas.save(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


@given(st.text(st.characters(codec=None, categories=None)))
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
def test_tiles_keep_to_their_rows_and_width_and_count_what_is_left_out(pieces, rows):
    canvas = Canvas()
    boxes = canvas.put_tiles(Box(MARGIN, 300, 700, 0), pieces, rows=rows)
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


def ink(canvas: Canvas, box: Box, larger: int = 4) -> tuple[float, float]:
    """Where the ink inside a box begins and ends, downwards, in pixels of the sheet; measured on a larger drawing."""
    canvas.figure.set_dpi(100 * larger)
    canvas.figure.canvas.draw()
    pixels = np.asarray(canvas.figure.canvas.buffer_rgba())[..., 0].astype(int)
    canvas.figure.set_dpi(100)
    part = pixels[int(box.y * larger) : int(box.bottom * larger), int(box.x * larger) : int(box.right * larger)]
    rows = np.flatnonzero((np.abs(part - pixels[0, 0]) > 100).any(axis=1))
    return box.y + rows[0] / larger, box.y + (rows[-1] + 1) / larger


@pytest.mark.parametrize("mono", [False, True])
@pytest.mark.parametrize("size", [LABEL, BODY, NUMBER])
def test_capitals_and_figures_stand_in_the_middle_of_their_box(size, mono):
    canvas, box = Canvas(), Box(100, 300, 200, 100)
    canvas.put(box, "H", size=size, mono=mono)
    top, bottom = ink(canvas, box)
    assert abs((top + bottom) / 2 - box.center[1]) <= 0.6


def test_titles_notes_and_tiles_on_one_line_share_a_middle_whatever_letters_they_hold():
    canvas, box = Canvas(), Box(100, 300, 900, 60)
    drawn = [canvas.put(box, words, size=size) for words, size in (("Hxn", TITLE), ("gjpqy", TITLE), ("Ahg", TITLE))]
    assert len({artist.get_position()[1] for artist in drawn}) == 1
    canvas.put_tile(box, "gpq")
    assert abs(canvas.sheet.texts[-1].get_position()[1] - box.center[1] - 0.698 * BODY / 2) < 0.01


@pytest.mark.parametrize("mono", [False, True])
def test_the_lines_of_a_text_are_as_far_apart_as_those_of_a_stack(mono):
    canvas, box = Canvas(), Box(100, 300, 300, 300)
    canvas.put(box, "H\nH\nH", lines=3, mono=mono)
    together = ink(canvas, box)
    other = Canvas()
    other.stack(box, *[Line("H", mono=mono)] * 3)
    assert together == pytest.approx(ink(other, box), abs=0.6)


@given(
    st.text(st.sampled_from("ab gW東🤗$\n"), max_size=300),
    st.integers(60, 700),
    st.integers(1, 4),
)
def test_a_text_put_into_a_box_keeps_to_its_width_and_lines(text, width, lines):
    canvas, box = Canvas(), Box(200, 300, width, 400)
    artist = canvas.put(box, text, lines=lines)
    assert artist.get_text().count("\n") < lines
    for _, extent, _ in texts(canvas):
        assert box.x - 2 <= extent.x0 and extent.x1 <= box.right + 2


@given(st.text(max_size=60), st.integers(60, 300))
def test_a_token_keeps_inside_its_tile_and_an_upright_one_inside_its_column(piece, room):
    canvas, tile, column = Canvas(), Box(200, 300, room, 50), Box(900, 300, 40, room)
    canvas.put_tile(tile, piece)
    canvas.put_upright(column, piece)
    for artist, start, end in zip(canvas.sheet.texts, (tile.x, 1080 - column.bottom), (tile.right, 1080 - column.y), strict=True):
        extent = artist.get_window_extent(canvas.figure.canvas.get_renderer())
        low, high = (extent.x0, extent.x1) if start == tile.x else (extent.y0, extent.y1)
        assert start - 2 <= low and high <= end + 2


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
        canvas.box(Box(MARGIN, 300, 400, BODY_BOTTOM - 300), edge="#000000")
        canvas.save(tmp_path / f"{kind}.png")
        pictures.append((tmp_path / f"{kind}.png").read_bytes())
    assert pictures[0] != pictures[1]


def test_the_same_drawing_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        canvas = Canvas("concept")
        canvas.put_tiles(Box(MARGIN, 300, 900, 0), ["The", " bee", "keeper"])
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
