"""Numbers as people write them and texts cut to a room; what the words make of them is tested with the words."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.paths import BUILD
from pipeline.text import (
    amount,
    counted,
    cut,
    first_line,
    percent,
    power_of_ten,
    scientific,
    shortened,
    signed,
    significant,
    thousands,
)

SHARES, DIGITS, NUMBERS = st.floats(0, 1), st.integers(0, 3), st.floats(-1e9, 1e9)
DRAWN = sorted([*(BUILD / "topics").glob("*.py"), *(BUILD / "pipeline" / "drawing").glob("*.py")])


def test_powers_of_ten_are_raised():
    assert [power_of_ten(exponent) for exponent in (-12, 0, 3)] == ["10⁻¹²", "1", "10³"]
    assert [scientific(value) for value in (3.12e-5, 0, 2.5, 4700.0)] == ["3.1 × 10⁻⁵", "0", "2.5", "4.7 × 10³"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.62e-5, "1.6 × 10⁻⁵"), (0.0, "0"), (0.513, "0.513"), (2.134, "2.13"), (19.34, "19.3"), (12345.0, "1.2 × 10⁴")],
)
def test_a_difference_is_shown_for_the_eye(value: float, shown: str):
    assert amount(value) == shown


def test_one_is_no_plural():
    assert [counted(number, "token") for number in (0, 1, 2, 1234)] == ["0 tokens", "1 token", "2 tokens", "1,234 tokens"]


# --- shares ---


@given(SHARES, DIGITS)
def test_a_share_reads_as_nothing_or_as_all_only_when_it_is(share: float, digits: int):
    shown = percent(share, digits)
    assert (shown == percent(0, digits)) == (share == 0)
    assert (shown == percent(1, digits)) == (share == 1)


@given(SHARES, DIGITS)
def test_a_share_reads_what_it_is_to_half_a_step(share: float, digits: int):
    shown, step = percent(share, digits), 10.0**-digits
    number = float(shown.lstrip("<> ").removesuffix("%"))
    if shown[0] in "<>":
        assert number == (step if shown[0] == "<" else round(100 - step, digits))
        assert (100 * share < number) if shown[0] == "<" else (100 * share > number)
    else:
        assert abs(100 * share - number) <= step / 2 + 1e-9


def test_shares_at_the_edges():
    assert [percent(share, 0) for share in (0, 0.005, 0.0051, 0.995, 1)] == ["0%", "< 1%", "1%", "> 99%", "100%"]
    assert [percent(share) for share in (0.0004, 0.0007, 0.9996, -1e-17)] == ["< 0.1%", "0.1%", "> 99.9%", "0.0%"]


def formats_of_its_own(path: Path) -> list[int]:
    """The lines where a module writes a share or a minus itself: a `%` format, a `%` after a number, a replaced hyphen."""
    lines = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            after = zip(node.values, [*node.values[1:], ast.Constant("")], strict=True)
            for part, rest in after:
                spec = ast.unparse(part.format_spec) if isinstance(part, ast.FormattedValue) and part.format_spec else ""
                share = isinstance(part, ast.FormattedValue) and isinstance(rest, ast.Constant) and rest.value.startswith("%")
                lines += [node.lineno] if "%" in spec or share else []
        elif isinstance(node, ast.Constant) and node.value == "−":
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.stem)
def test_what_is_drawn_has_its_shares_and_signs_from_one_place(path: Path):
    assert formats_of_its_own(path) == []


@pytest.mark.parametrize("line", ['f"{x:.0%}"', 'f"{100 * x:.0f}% of it"', 'f"{x:.1f}".replace("-", "−")'])
def test_a_format_of_its_own_is_seen(line: str, tmp_path: Path):
    path = tmp_path / "topic.py"
    path.write_text(line, "utf-8")
    assert formats_of_its_own(path) == [1]


# --- signs ---


@given(NUMBERS, DIGITS)
def test_a_negative_number_has_a_true_minus_and_nothing_else_differs(value: float, digits: int):
    for write in (lambda x: signed(x, digits), lambda x: significant(x, digits + 1), scientific, amount, thousands):
        shown = write(value)
        assert "-" not in shown
        assert shown.removeprefix("−") == write(abs(value))
        assert value < 0 or not shown.startswith("−")


def test_what_rounds_to_nothing_has_no_sign():
    assert [signed(value) for value in (-0.004, -0.006, 0.0, -1234.5)] == ["0.00", "−0.01", "0.00", "−1,234.50"]


# --- cutting ---


@given(st.text(), st.integers(1, 40))
def test_a_text_is_cut_only_when_it_must_be(text: str, room: int):
    assert cut(text, room) == text if len(text) <= room else cut(text, room) == text[: room - 1] + "…"
    assert len(shortened(text, room)) <= room


def test_the_first_line_is_the_first_that_says_anything():
    assert [first_line(text, 9) for text in ("", " \n\n", "\n  one  two\nthree", "one two three")] == [
        "",
        "",
        "one two",
        "one two …",
    ]
