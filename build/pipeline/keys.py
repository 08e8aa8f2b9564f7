"""Keys: known by the names of the variables that hold them, and taken out of whatever is kept or printed.

Every capture and every printed line goes through here, so that a server that repeats a key cannot make this deck keep it.
"""

import os
from collections.abc import Mapping
from typing import Any

ENDINGS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS")  # of a variable that holds a key
SHORTEST = 6  # characters; a shorter one would take words out of sentences
HIDDEN = "***"


def known() -> list[str]:
    """The keys in this process's environment, the longest first: one may be a part of another."""
    held = {value.strip() for name, value in os.environ.items() if name.upper().endswith(ENDINGS)}
    return sorted((key for key in held if len(key) >= SHORTEST), key=len, reverse=True)


def without_keys(text: str) -> str:
    """A text with every key in it replaced."""
    for key in known():
        text = text.replace(key, HIDDEN)
    return text


def scrubbed(value: Any) -> Any:
    """Data with every key in any of its texts replaced."""
    if isinstance(value, str):
        return without_keys(value)
    if isinstance(value, Mapping):
        return {without_keys(name) if isinstance(name, str) else name: scrubbed(child) for name, child in value.items()}
    return [scrubbed(child) for child in value] if isinstance(value, list | tuple) else value
