"""The recurring charts: lengths in proportion, labels inside their lanes, values and bounds where their scale says."""

import ast
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout import problems, texts
from pipeline.drawing.canvas import Canvas
from pipeline.drawing.charts import Bar, Plane, Ruler, Scale, bars, tiles_and_bars, towers
from pipeline.drawing.layout import FULL, HEIGHT, LABEL, Box
from pipeline.drawing.palette import ORANGE
from pipeline.paths import BUILD

VALUES = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=8)


@given(VALUES)
def test_bars_are_as_long_as_their_values_and_end_with_their_labels_inside_the_lane(values):
    canvas, lanes = Canvas(), FULL.even_rows(len(values), gap=10)
    drawn = bars(canvas, lanes, [Bar(value, f"{value:.6g}") for value in values])
    longest = max(bar.w for bar in drawn)
    for bar, value in zip(drawn, values, strict=True):
        assert bar.w == pytest.approx(max(longest * value / max(values), 2))
    assert max(box.x1 for _, box, _ in texts(canvas)) <= FULL.right + 1


def test_nothing_is_no_bar_and_a_very_small_value_is_still_seen():
    nothing, little, much = bars(Canvas(), FULL.even_rows(3), [Bar(0, "0"), Bar(1e-9, "tiny"), Bar(1, "1")])
    assert (nothing.w, little.w) == (0, 2) and much.w > 1000


def test_charts_that_share_a_full_value_share_a_scale():
    left, right = FULL.columns(..., ...)
    (one,) = bars(Canvas(), [left], [Bar(1, "a long label")], full=4, room=200)
    (four,) = bars(Canvas(), [right], [Bar(4, "x")], full=4, room=200)
    assert four.w == pytest.approx(4 * one.w)


def test_a_label_stands_behind_the_mark_that_lies_beyond_its_bar():
    canvas = Canvas()
    (bar,) = bars(canvas, [FULL.rows(60, ...)[0]], [Bar(1, "label", mark=2)])
    ((_, box, _),) = texts(canvas)
    assert box.x0 > bar.x + 2 * bar.w


@given(st.lists(st.text(st.sampled_from("abc 東🤗$"), max_size=40), min_size=1, max_size=8))
def test_tiles_stay_in_front_of_their_bars(pieces):
    canvas = Canvas()
    lanes = FULL.even_rows(len(pieces), gap=10, most=60)
    heads = tiles_and_bars(canvas, lanes, pieces, [Bar(n + 1, str(n)) for n in range(len(pieces))], tile=240)
    assert all(head.w == 240 for head in heads)
    assert problems(canvas) == []


@given(VALUES)
def test_towers_stand_on_one_foot_in_proportion_with_their_labels_inside_the_box(values):
    canvas = Canvas()
    drawn = towers(canvas, FULL.even_columns(len(values), gap=20), [Bar(value, f"{value:.3g}", ORANGE) for value in values])
    highest = max(bar.h for bar in drawn)
    assert {round(bar.bottom, 6) for bar in drawn} == {round(FULL.bottom, 6)}
    assert all(bar.h == pytest.approx(max(highest * value / max(values), 3)) for bar, value in zip(drawn, values, strict=True))
    assert max(box.y1 for _, box, _ in texts(canvas)) <= HEIGHT - FULL.y + 1


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0, 1))
def test_a_scale_is_linear_and_keeps_what_lies_beyond_at_its_ends(low, span, share):
    scale = Scale(low, low + span, 100, 900)
    assert scale.at(low + share * span) == pytest.approx(100 + 800 * share, abs=0.1)
    assert (scale.at(low - span), scale.at(low + 2 * span)) == (100, 900)


@given(st.integers(-9, 3), st.integers(1, 9))
def test_powers_of_ten_are_equally_far_apart_on_a_log_scale(low, powers):
    scale = Scale(10.0**low, 10.0 ** (low + powers), 0, 1000, log=True)
    spots = [scale.at(10.0 ** (low + n)) for n in range(powers + 1)]
    assert all(b - a == pytest.approx(1000 / powers) for a, b in pairwise(spots))
    assert scale.ticks(20) == pytest.approx([10.0 ** (low + n) for n in range(powers + 1)])
    assert scale.at(0) == 0


@given(st.floats(0, 1e3), st.floats(1e-3, 1e7), st.integers(3, 12))
def test_ticks_are_few_even_and_inside(low, span, most):
    scale = Scale(low, low + span, 0, 1)
    ticks = scale.ticks(most)
    assert 1 <= len(ticks) <= most + 1
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in ticks)
    steps = [b - a for a, b in pairwise(ticks)]
    assert all(math.isclose(step, steps[0], rel_tol=1e-6) for step in steps)


@pytest.mark.parametrize("value", [0, 1e-12, 1e-8, 3e-5, 9.9e-4, 1e-3, 0.5, 10, 1e9])
def test_a_ruler_writes_each_value_where_it_hides_neither_the_bound_nor_the_edge(value):
    canvas = Canvas()
    ruler = Ruler(FULL.inset(120, 200), -8, 1, 1e-3)
    ruler.draw(canvas)
    x, _ = ruler.dot(canvas, value, FULL.center[1])
    assert (x < ruler.at(1e-3)) == (value < 1e-3)
    assert problems(canvas) == []
    (label,) = [box for _, box, _ in texts(canvas) if abs(HEIGHT - box.y0 - box.height / 2 - FULL.center[1]) < LABEL]
    if abs(math.log10(max(value, 1e-8)) + 3) > 1:  # nearer, the value itself is at the bound
        assert (label.x1 < ruler.at(1e-3)) == (value < 1e-3)


def test_a_plane_puts_its_corners_at_the_corners_of_its_box():
    plane = Plane.over(Box(100, 200, 400, 300), (0, 10), (1, 100), log_up=True)
    assert plane.at(0, 1) == (100, 500) and plane.at(10, 100) == (500, 200)
    assert plane.at(5, 10) == pytest.approx((300, 350))


def test_the_last_label_of_a_plane_that_reaches_the_margin_stays_inside():
    canvas = Canvas()
    plane = Plane.over(FULL.inset(100, 100).until(FULL.inset(0, 100)), (0, 50_000), (0, 1))
    plane.frame(
        canvas, {tick: f"{tick:,.0f}" for tick in plane.across.ticks(5)}, {0: "0", 1: "1"}, across_name="id", up_name="share"
    )
    assert problems(canvas) == []


def test_no_topic_touches_matplotlib_or_the_axes_it_draws_on():
    offered = {*dir(Canvas())} - {"sheet", "figure"}
    for path in (BUILD / "topics").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(module.split(".")[0] == "matplotlib" for module in modules), path.name
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "canvas":
                assert node.attr in offered, f"{path.name}: canvas.{node.attr}"
