"""The command that rebuilds the deck, as errors, the page and the manifest name it: one word, one line, for any shell."""

import os
import shlex

COMMAND = ".venv/bin/python build/regen_all.py"


def retake(slide_id: str, flags: str = "") -> str:
    """The command that takes a slide again; `flags` are those that its deck was made with."""
    return " ".join(filter(None, (COMMAND, flags, f"--only {slide_id} --force")))


def for_shell(text: str) -> str:
    """`text` as one word for a shell, on one line and printable whatever is in it."""
    if text.isprintable():
        return shlex.quote(text)
    plain = (f"\\x{byte:02x}" if not 32 <= byte < 127 or chr(byte) in "\\'" else chr(byte) for byte in os.fsencode(text))
    return f"$'{''.join(plain)}'"
