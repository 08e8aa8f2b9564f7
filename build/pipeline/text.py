"""Numbers as people write them, and text with escapes for what cannot be seen."""

import math
from collections.abc import Callable

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
NARROW = "\u202f"  # a narrow no-break space, between a number and its unit


def thousands(value: float) -> str:
    """1234567 -> 1,234,567."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,}"


def counted(number: int, noun: str) -> str:
    """1 -> 1 token, and 1234 -> 1,234 tokens."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(value: float, digits: int = 1) -> str:
    """0.305 -> 30.5%; what is neither nothing nor everything never rounds to it."""
    least = 10.0**-digits
    if 0 < value * 100 < least / 2:
        return f"< {least:.{digits}f}%"
    if 100 - least / 2 <= value * 100 < 100:
        return f"> {100 - least:.{digits}f}%"
    return f"{value * 100:.{digits}f}%"


def power_of_ten(exponent: int) -> str:
    """-5 -> 10⁻⁵, and 0 -> 1."""
    return f"10{str(exponent).translate(SUPERSCRIPT)}" if exponent else "1"


def scientific(value: float, digits: int = 2) -> str:
    """3.1e-05 -> 3.1 × 10⁻⁵."""
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa} × {power_of_ten(int(exponent))}" if int(exponent) else mantissa


def significant(value: float, digits: int = 3) -> str:
    """0.012345 -> 0.0123 and 12345.6 -> 12,300 at three digits."""
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, places):,.{max(places, 0)}f}"


def megabytes(count: float) -> str:
    return f"{significant(count / 1e6)}{NARROW}MB"


def kibibytes(count: float) -> str:
    return f"{significant(count / 1024)}{NARROW}KiB"


def amount(value: float) -> str:
    """A difference for the eye: 0, 2.13, or 5.4 × 10⁻⁵."""
    return f"{value:.3g}" if value == 0 or 0.01 <= value < 1000 else scientific(value)


def escaped(text: str, is_shown: Callable[[str], bool]) -> str:
    """`text` with an escape for every character that is not shown: \\n, \\x07 or \\u{200d}."""

    def one(character: str) -> str:
        if character not in ESCAPES and is_shown(character):
            return character
        code = ord(character)
        return ESCAPES.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}")

    return "".join(map(one, text))


def shortened(text: str, room: int) -> str:
    """`text` on one line of at most `room` characters."""
    text = " ".join(text.split())
    return text if len(text) <= room else text[: room - 1] + "…"
