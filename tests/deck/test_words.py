"""The words: every inserted string shows literally, numbers read as people write them, mistakes are reported in one line."""

import html
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck_fixtures import HOSTILE
from pipeline.deck import words
from pipeline.errors import BadInput
from pipeline.slide import Slide

SOURCE = """# Topic

## one
{body}

### alt
{alt}

### notes
{notes}
"""


def capture_of_a_topic(lab): ...


capture_of_a_topic.__module__ = "topics.a_topic"
UNCALLED: Any = None  # words read only the id of a slide
SLIDE = Slide("one", "Topic", "a claim", capture_of_a_topic, UNCALLED, UNCALLED, UNCALLED)


def render(folder: Path, body: str, alt: str = "An image.", notes: str = "Say it.", **data) -> words.Rendered:
    (folder / "a_topic.md").write_text(SOURCE.format(body=body, alt=alt, notes=notes), "utf-8")
    capture = {"provenance": {"model": {"name": "m"}, "server": None, "sentence": "a\nb"}, "data": data}
    return words.render(SLIDE, capture, folder)


def seen(markup: str) -> str:
    """What a reader sees of HTML."""
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


@pytest.mark.parametrize("token", HOSTILE)
@pytest.mark.parametrize("how", ["{{ data.t }}", "{{ data.t|tok }}", "{{ [data.t]|join }}", "{{ [data.t]|map('tok')|join }}"])
def test_an_inserted_string_shows_literally(tmp_path, token, how):
    rendered = render(tmp_path, f"before {how} after", alt=f"alt {how} end", notes=f"**{how}**", t=token)
    shown = words.visible(token)
    if "tok" in how:
        shown = shown.replace(" ", "␣")
    assert seen(rendered.words_html) == f"before {shown} after"
    assert rendered.words_text == f"before {shown} after"
    assert rendered.alt == f"alt {shown} end"
    assert rendered.notes_text == shown
    assert set(re.findall(r"<(\w+)", rendered.words_html)) <= {"p", "code"}


@given(st.text())
def test_any_text_at_all_shows_literally(tmp_path_factory, text):
    folder = tmp_path_factory.getbasetemp()
    rendered = render(folder, "x{{ data.t }}x\n\n| a |\n|---|\n| {{ data.t|tok }} |", t=text)
    assert seen(rendered.words_html.split("<table>")[0]).strip() == f"x{words.visible(text)}x"
    assert rendered.blocks[1].rows[1][0] == (((words.visible(text.replace(" ", "␣"))), "code"),) or not text


def test_what_cannot_be_seen_is_escaped():
    assert words.visible("a\n\t\r\0\ud83d\u202e\u2028\x07é") == "a\\n\\t\\r\\0\\u{d83d}\\u{202e}\\u{2028}\\x07é"


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("1234567|n", "1,234,567"),
        ("12|n", "12"),
        ("1234.5|n", "1,234.5"),
        ("0.305|pct", "30.5%"),
        ("0.9|pct(0)", "90%"),
        ("0.00001|pct", "< 0.1%"),
        ("0.99999|pct", "> 99.9%"),
        ("1.0|pct", "100.0%"),
        ("0|pct", "0.0%"),
        ("0.000031|sci", "3.1 × 10⁻⁵"),
        ("0|sci", "0"),
        ("3100|sci", "3.1 × 10³"),
        ("0.012345|sig", "0.0123"),
        ("12345.6|sig(2)", "12,000"),
        ("-1.239|sig(3)", "−1.24"),
        ("0|sig", "0"),
        ("548105171|mb", "548 MB"),
        ("92160|kib", "90.0 KiB"),
        ("' the'|tok", "␣the"),
        ("[]|length", "0"),
    ],
)
def test_filters_write_numbers_as_people_do(tmp_path, expression, shown):
    assert render(tmp_path, f"{{{{ {expression} }}}}").words_text.replace("\u202f", " ").replace("\u00a0", " ") == shown


def test_a_key_named_like_a_dict_method_is_the_key(tmp_path):
    assert render(tmp_path, "{{ data.items }} {{ data.values }}", items=3, values="v").words_text == "3 v"


def test_a_table_is_a_real_table_with_headings(tmp_path):
    rendered = render(tmp_path, "Words.\n\n| | a |\n|---|---|\n| **x** | {{ data.t|tok }} |", t="a|b")
    assert '<th scope="col">' in rendered.words_html and '<th scope="row"><strong>x</strong></th>' in rendered.words_html
    assert "<td></td>" in rendered.words_html  # the corner is no heading
    assert '<code class="tok">a|b</code>' in rendered.words_html
    assert rendered.has_table
    assert rendered.blocks[1].rows == (((), (("a", ""),)), ((("x", "bold"),), (("a|b", "code"),)))


def test_a_definition_stands_apart(tmp_path):
    rendered = render(tmp_path, "> **Token.** A piece.\n\nThe rest.")
    assert '<div class="definition">' in rendered.words_html
    assert [block.kind for block in rendered.blocks] == ["definition", "paragraph"]


def test_markup_written_in_the_words_is_text(tmp_path):
    assert "<script>" not in render(tmp_path, "a <script>alert(1)</script> b").words_html


@pytest.mark.parametrize(
    ("body", "alt", "complaint"),
    [
        ("{{ data.missing }}", "a", "'dict object' has no attribute 'missing'"),
        ("{{ nothing }}", "a", "'nothing' is undefined"),
        ("{{ data.t", "a", "unexpected end of template"),
        ("{{ data.t|nofilter }}", "a", "nofilter"),
        ("{{ none }}", "a", "NoneType"),
        ("{{ data }}", "a", "dict"),
        ("{{ data.t|n }}", "a", "ValueError"),
        ("{{ data.t[9] }}", "a", "has no element 9"),
        ("fine", " ", "alt: empty"),
    ],
)
def test_a_mistake_names_the_file_the_slide_and_what_is_wrong(tmp_path, body, alt, complaint):
    with pytest.raises(BadInput) as raised:
        render(tmp_path, body, alt=alt, t="text")
    message = str(raised.value)
    assert message.startswith("deck/words/a_topic.md, slide one")
    assert complaint in message
    assert "\n" not in message


def test_missing_files_slides_and_parts_are_named(tmp_path):
    capture = {"provenance": {}, "data": {}}
    with pytest.raises(BadInput, match=r"deck/words/a_topic.md is missing"):
        words.render(SLIDE, capture, tmp_path)
    (tmp_path / "a_topic.md").write_text("# T\n\n## other\nx\n", "utf-8")
    with pytest.raises(BadInput, match="add a heading '## one'"):
        words.render(SLIDE, capture, tmp_path)
    (tmp_path / "a_topic.md").write_text("# T\n\n## one\nx\n\n### alt\ny\n", "utf-8")
    with pytest.raises(BadInput, match="slide one, notes: missing; add a heading '### notes'"):
        words.render(SLIDE, capture, tmp_path)
