"""Numbers as people write them, and text with escapes for what cannot be seen."""

import math
from collections.abc import Callable

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
NARROW = "\u202f"  # a narrow no-break space, between a number and its unit


def true_minus(number: str) -> str:
    """A number's hyphen as the sign it stands for."""
    return number.replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    """-1234.567 -> −1,234.57; what rounds to nothing has no sign."""
    return true_minus(f"{value:z,.{digits}f}")


def thousands(value: float) -> str:
    """1234567 -> 1,234,567."""
    return true_minus(f"{value:z,.0f}" if float(value).is_integer() else f"{value:,}")


def counted(number: int, noun: str) -> str:
    """1 -> 1 token, and 1234 -> 1,234 tokens."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(value: float, digits: int = 1) -> str:
    """0.305 -> 30.5%; what is neither nothing nor everything never rounds to it."""
    least, shown = 10.0**-digits, signed(value * 100, digits)
    if value > 0 and shown == signed(0, digits):
        return f"< {signed(least, digits)}%"
    if value < 1 and shown == signed(100, digits):
        return f"> {signed(100 - least, digits)}%"
    return f"{shown}%"


def power_of_ten(exponent: int) -> str:
    """-5 -> 10⁻⁵, and 0 -> 1."""
    return f"10{str(exponent).translate(SUPERSCRIPT)}" if exponent else "1"


def scientific(value: float, digits: int = 2) -> str:
    """3.1e-05 -> 3.1 × 10⁻⁵."""
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = true_minus(mantissa)
    return f"{mantissa} × {power_of_ten(int(exponent))}" if int(exponent) else mantissa


def significant(value: float, digits: int = 3) -> str:
    """0.012345 -> 0.0123 and 12345.6 -> 12,300 at three digits."""
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return signed(round(value, places), max(places, 0))


def megabytes(count: float) -> str:
    return f"{significant(count / 1e6)}{NARROW}MB"


def kibibytes(count: float) -> str:
    return f"{significant(count / 1024)}{NARROW}KiB"


def in_words(count: float) -> str:
    """29151332352 -> 29.2 billion."""
    divisor, unit = (1e9, "billion") if count >= 1e9 else (1e6, "million")
    return f"{count / divisor:,.1f} {unit}"


def amount(value: float) -> str:
    """A difference for the eye: 0, 2.13, or 5.4 × 10⁻⁵."""
    return true_minus(f"{value:z.3g}") if value == 0 or 0.01 <= abs(value) < 1000 else scientific(value)


def escaped(text: str, is_shown: Callable[[str], bool]) -> str:
    """`text` with an escape for every character that is not shown: \\n, \\x07 or \\u{200d}."""

    def one(character: str) -> str:
        if character not in ESCAPES and is_shown(character):
            return character
        code = ord(character)
        return ESCAPES.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}")

    return "".join(map(one, text))


def shortened(text: str, room: int) -> str:
    """`text` on one line of at most `room` characters, runs of space as one space."""
    return cut(" ".join(text.split()), room)


def first_line(text: str, room: int) -> str:
    """The first line of `text` that says anything, in at most `room` characters."""
    return shortened(next((line for line in text.splitlines() if line.strip()), ""), room)


def cut(text: str, room: int) -> str:
    """`text` as it is, or its first `room` - 1 characters and an ellipsis."""
    return text if len(text) <= room else text[: room - 1] + "…"
