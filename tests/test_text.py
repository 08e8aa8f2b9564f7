"""Numbers as people write them, in figures; those of the words are tested with the words."""

import pytest

from pipeline.text import amount, counted, power_of_ten, scientific


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
