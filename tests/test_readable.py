"""Numbers as people write them, in figures; those of the words are tested with the words."""

import pytest

from pipeline.readable import amount, counted, power_of_ten, rounded_up, scientific


def test_powers_of_ten_are_raised():
    assert [power_of_ten(exponent) for exponent in (-12, 0, 3)] == ["10⁻¹²", "1", "10³"]
    assert [scientific(value) for value in (3.12e-5, 0, 2.5, 4700.0)] == ["3.1 × 10⁻⁵", "0", "2.5", "4.7 × 10³"]


@pytest.mark.parametrize(
    ("value", "shown", "aloud"),
    [
        (1.62e-5, "1.6 × 10⁻⁵", "0.00002"), (0.0, "0", "0"), (0.513, "0.513", "0.6"), (2.134, "2.13", "3"), (19.34, "19.3", "20"),
        (12345.0, "1.2 × 10⁴", "20000"),
    ],
)  # fmt: skip
def test_a_difference_is_shown_exactly_and_said_rounded_up(value: float, shown: str, aloud: str):
    assert amount(value) == shown
    assert rounded_up(value) == aloud


def test_one_is_no_plural():
    assert [counted(number, "token") for number in (0, 1, 2, 1234)] == ["0 tokens", "1 token", "2 tokens", "1,234 tokens"]
