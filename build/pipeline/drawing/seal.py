"""What a figure's PNG says of itself: slide, capture, verdict; and sums by which a change to it shows.

The sums are of the pixels with their build steps, and of what is said. Without a key they betray damage, another program's
hand and an honest mistake, not a forger: whether a picture is a deck's own, the deck's manifest says. Needs no matplotlib.
"""

import hashlib
import json
import struct
import zlib
from pathlib import Path

from PIL import Image

from pipeline.drawing.layout import HEIGHT, WIDTH
from pipeline.drawing.steps import CHUNK
from pipeline.errors import BadInput

END = b"\0\0\0\0IEND\xaeB`\x82"
FACTS = ("slide", "capture", "verdict", "measured", "bound", "source")
Facts = dict[str, str]


class Altered(BadInput):
    """A picture of ours that is not as it was drawn."""

    exit_code = 1


def put(figure: Path, facts: Facts) -> None:
    """Write facts into a figure's PNG, and the sums over them and over the picture."""
    said = facts | {"pixels": _pixels(figure)}
    chunks = b"".join(_text_chunk(name, text) for name, text in {**said, "seal": _sum_of(said)}.items())
    whole = figure.read_bytes()
    assert whole.endswith(END)
    figure.write_bytes(whole.removesuffix(END) + chunks + END)


def read(figure: Path) -> Facts:
    """The facts in a picture. Raises BadInput for one that is not ours, Altered for one of ours that was changed."""
    try:
        with Image.open(figure, formats=["PNG"]) as image:
            ours = image.size == (WIDTH, HEIGHT)
            if ours:
                image.load()
            said = {name: str(text) for name, text in getattr(image, "text", {}).items() if name in (*FACTS, "pixels", "seal")}
        pixels = _pixels(figure) if ours and "slide" in said else ""
    except OSError as error:
        raise BadInput(f"{figure} cannot be read as a picture ({error.strerror or 'it is no whole PNG'})") from None
    except (ValueError, SyntaxError, EOFError, struct.error, zlib.error, Image.DecompressionBombError):
        raise BadInput(f"{figure} cannot be read as a picture (it is no whole PNG)") from None
    if not pixels:
        raise BadInput(f"{figure} is no figure of this deck's making: nothing in it says which slide it is of")
    seal = said.pop("seal", "")
    if said.keys() != {*FACTS, "pixels"} or seal != _sum_of(said):
        raise Altered(f"{figure} says it is of {said['slide']}, and what it says of itself was altered")
    if said.pop("pixels") != pixels:
        raise Altered(f"{figure} was drawn of {said['slide']}, and the picture was altered since")
    return said


def _pixels(figure: Path) -> str:
    """The SHA-256 over what is seen: every pixel, and the cover of every build step."""
    with Image.open(figure, formats=["PNG"]) as image:
        whole = hashlib.sha256(image.convert("RGBA").tobytes())
        for chunk in getattr(image, "private_chunks", []):
            if chunk[0] == CHUNK:
                whole.update(hashlib.sha256(chunk[1]).digest())
    return whole.hexdigest()


def _sum_of(said: Facts) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _text_chunk(name: str, text: str) -> bytes:
    """An iTXt chunk as the PNG specification has it: UTF-8, not compressed."""
    body = b"iTXt" + name.encode("latin-1") + b"\0\0\0\0\0" + text.encode("utf-8")
    return struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
