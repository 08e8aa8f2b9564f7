"""Boxes that divide: what is divided is filled and nothing overlaps, and a run of tiles stays in its rows."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.drawing.layout import FULL, GAP, HEADLINE_LINE, LABEL, MARGIN, READING_LINE, STRIP, TILE, WIDTH, Box, Share
from pipeline.drawing.runs import run

PIXELS = st.floats(0, 400)
PARTS = st.lists(st.one_of(PIXELS, st.just(...), st.floats(0.1, 5).map(Share)), min_size=1, max_size=6)
A_BOX = st.builds(Box, PIXELS, PIXELS, st.floats(1, 2000), st.floats(1, 2000))
CLOSE = 1e-6


def needed(parts, gap) -> float:
    return sum(part for part in parts if isinstance(part, float)) + gap * (len(parts) - 1)


@given(A_BOX, PARTS, st.floats(0, 40))
def test_columns_stand_in_order_a_gap_apart_and_end_where_the_box_ends(box, parts, gap):
    if needed(parts, gap) > box.w:
        with pytest.raises(ValueError, match="do not fit"):
            Box(box.x, box.y, needed(parts, gap) - 1, box.h).columns(*parts, gap=gap)
        return
    columns = box.columns(*parts, gap=gap)
    assert columns[0].x == box.x
    assert all(abs(right.x - left.right - gap) < CLOSE for left, right in pairwise(columns))
    if any(not isinstance(part, float) for part in parts):
        assert abs(columns[-1].right - box.right) < CLOSE
    assert all((column.y, column.h) == (box.y, box.h) for column in columns)


@given(A_BOX, PARTS, st.floats(0, 40))
def test_rows_are_columns_on_their_side(box, parts, gap):
    if needed(parts, gap) > min(box.w, box.h):
        return
    turned = Box(box.y, box.x, box.h, box.w).columns(*parts, gap=gap)
    assert [(row.y, row.h) for row in box.rows(*parts, gap=gap)] == [(column.x, column.w) for column in turned]


def test_fixed_parts_are_kept_and_shares_divide_the_rest_by_their_weight():
    head, one, two = Box(0, 0, 100, 460).rows(100, ..., Share(2), gap=30)
    assert (head.h, one.h, two.h) == (100, 100, 200)


@given(A_BOX, st.integers(1, 9), st.integers(1, 9))
def test_a_grid_has_equal_cells_that_fill_the_box(box, rows, columns):
    cells = box.grid(rows, columns)
    assert [len(row) for row in cells] == [columns] * rows
    assert abs(cells[-1][-1].right - box.right) < CLOSE and abs(cells[-1][-1].bottom - box.bottom) < CLOSE
    assert len({(round(cell.w, 6), round(cell.h, 6)) for row in cells for cell in row}) == 1


def test_even_rows_are_no_higher_than_asked():
    assert [row.h for row in Box(0, 0, 100, 400).even_rows(2, gap=20, most=50)] == [50, 50]
    assert [row.h for row in Box(0, 0, 100, 120).even_rows(2, gap=20, most=500)] == [50, 50]


@given(
    A_BOX, st.floats(0, 100), st.floats(0, 100), st.sampled_from(["left", "center", "right"]), st.sampled_from(["top", "bottom"])
)
def test_what_is_placed_touches_the_sides_it_was_placed_at(box, w, h, across, down):
    placed = box.place(w, h, across, down)
    assert (placed.w, placed.h) == (w, h)
    sides = {"left": placed.x - box.x, "right": placed.right - box.right, "center": placed.center[0] - box.center[0]}
    assert abs(sides[across]) < CLOSE
    assert abs(placed.y - box.y if down == "top" else placed.bottom - box.bottom) < CLOSE


def test_neighbours_touch_and_an_inset_of_nothing_changes_nothing():
    box = Box(10, 20, 100, 50)
    assert box.below(30, GAP) == Box(10, 70 + GAP, 100, 30)
    assert box.above(30, GAP).bottom == box.y - GAP
    assert box.inset(0) == box and box.inset(-5).inset(5) == box
    assert box.until(Box(200, 100, 10, 10)) == Box(10, 20, 200, 90)
    assert (box.north, box.south, box.west, box.east) == ((60, 20), (60, 70), (10, 45), (110, 45))


def test_headline_reading_line_and_body_follow_one_another_inside_the_margins():
    for box in (HEADLINE_LINE, READING_LINE, FULL):
        assert (box.x, box.right) == (MARGIN, WIDTH - MARGIN)
    assert HEADLINE_LINE.bottom <= READING_LINE.y and READING_LINE.bottom <= FULL.y


@given(st.lists(st.integers(1, 40), min_size=1, max_size=80), st.integers(1, 3), st.integers(100, 900))
def test_a_run_keeps_to_its_rows_or_leaves_out_its_middle_and_says_how_much(lengths, rows, width):
    box = Box(MARGIN, 0, width, 0)
    laid = run(box, lambda size: [n * size / 2 for n in lengths], lambda text, size: len(text) * size / 2, rows, 30, LABEL, 8, 16)
    shown = [spot for spot in laid.spots if spot]
    gone = [i for i, spot in enumerate(laid.spots) if spot is None]
    assert len({spot.y for spot in shown}) <= rows or len(shown) <= 2
    assert all(spot.right <= box.right + 0.5 and spot.h == laid.size * TILE for spot in shown)
    assert gone == list(range(gone[0], gone[0] + len(gone))) if gone else laid.note is None
    if gone:
        assert laid.note is not None and f"⋯ {len(gone)} more ⋯" == laid.note[0]
    assert STRIP < LABEL <= laid.size <= 30
