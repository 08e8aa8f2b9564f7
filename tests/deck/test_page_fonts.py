"""The page's own fonts: every character it shows is in one of them, and nothing is in them for no reason."""

import base64
import io
import re
import unicodedata

import pytest
from fontTools.ttLib import TTFont

from pipeline.deck.page_fonts import PLACE, with_fonts

RULE = re.compile(r'@font-face \{ font-family: "([^"]+)"; font-weight: (\d+); src: url\("data:font/sfnt;base64,([^"]+)"\); \}')


def faces(text: str) -> dict[tuple[str, int], TTFont]:
    """The faces in a page of this text, by family and weight."""
    found = RULE.findall(with_fonts(f"{PLACE} {text}"))
    return {(family, int(weight)): TTFont(io.BytesIO(base64.b64decode(data))) for family, weight, data in found}


def test_plain_text_needs_the_text_faces_only():
    assert set(faces("one call, 39 slides")) == {("Lato", 400), ("Lato", 700), ("IBM Plex Mono", 400), ("IBM Plex Mono", 700)}


@pytest.mark.parametrize(
    "text", ["naïve Привет", "東京", "🤗🐝", "χ² ≤ 10⁻⁵ ␣ ⏎ →", "5.1\u00a0×\u00a010⁻⁵, 538\u202fMB", "<b>&amp;\\{}"]
)
def test_every_character_is_in_a_face_and_no_face_has_others(text):
    page = set(f"{PLACE} {text}")
    has = [set(map(chr, face.getBestCmap())) for face in faces(text).values()]
    assert set().union(*has) >= page
    assert [c for characters in has for c in characters - page if not unicodedata.mirrored(c)] == []  # ≥ comes with ≤


def test_a_character_that_no_face_has_is_left_to_the_browser():
    assert with_fonts(f"{PLACE} \U0001fffd") == with_fonts(f"{PLACE} ").replace(f"{PLACE} ", "") + "\U0001fffd"


def test_a_face_keeps_its_copyright_and_licence():
    for (family, _), face in faces("A").items():
        said = {record.nameID: record.toUnicode() for record in face["name"].names}
        assert "Copyright" in said[0] and "Open Font License" in said[13], family


def test_the_same_page_has_the_same_faces_to_the_byte():
    assert with_fonts(f"{PLACE} A東🤗") == with_fonts(f"{PLACE} A東🤗")
