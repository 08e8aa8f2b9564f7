"""The words of a slide: Markdown with Jinja over its capture, from deck/words/<topic>.md.

Whatever Jinja inserts travels through Markdown as an inert mark and is put back afterwards, so that a token such as
`<b>`, `*`, `|` or a line break shows literally wherever it is used. Knows no HTML page, no matplotlib and no model.
"""

import html
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt
from markdown_it.token import Token

from pipeline import paths
from pipeline.errors import BadInput
from pipeline.slide import Slide
from pipeline.text import escaped, kibibytes, megabytes, percent, scientific, significant, thousands

PLAIN, TOKEN, END = "\ue000", "\ue002", "\ue001"  # private-use characters: Markdown leaves them and the hex between alone
MARK = re.compile(f"({PLAIN}|{TOKEN})([0-9a-f]*){END}")
HEADING = re.compile(r"^(##|###) +(.+?) *$")
INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")

Run = tuple[str, str]  # a piece of text and its style: "", "bold" or "code"


@dataclass(frozen=True)
class Block:
    """A paragraph, definition, list item or table of the words, for formats that are not HTML."""

    kind: str
    runs: tuple[Run, ...] = ()
    rows: tuple[tuple[tuple[Run, ...], ...], ...] = ()  # a table's rows of cells, the heading first

    @property
    def text(self) -> str:
        if self.kind == "table":
            return "\n".join(" | ".join(text_of(cell) for cell in row) for row in self.rows)
        return text_of(self.runs)


@dataclass(frozen=True)
class Rendered:
    """One slide's words, alternative text and speaker notes, every number filled in."""

    words_html: str
    words_text: str
    alt: str
    notes_html: str
    notes_text: str
    blocks: tuple[Block, ...]

    @property
    def has_table(self) -> bool:
        return any(block.kind == "table" for block in self.blocks)


def render(slide: Slide, capture: Mapping[str, Any], folder: Path = paths.WORDS) -> Rendered:
    """The words of `slide` over its capture. Raises BadInput naming the file, the slide and what is wrong."""
    source = folder / f"{slide.topic}.md"
    shown_name = f"deck/words/{source.name}"
    if not source.is_file():
        raise BadInput(f"{shown_name} is missing: it holds the words of {slide.id}")
    parts = _parts(source.read_text(encoding="utf-8")).get(slide.name)
    if parts is None:
        raise BadInput(f"{shown_name} has no words for this slide: add a heading '## {slide.name}'")
    provenance = capture["provenance"]
    context = {
        "data": capture["data"],
        "model": provenance.get("model"),
        "server": provenance.get("server"),
        "sentence": provenance.get("sentence", ""),
        "slide": slide,
    }
    tokens = {}
    for part in ("words", "alt", "notes"):
        where = f"{shown_name}, slide {slide.name}" + (f", {part}" if part != "words" else "")
        if part not in parts:
            raise BadInput(f"{where}: missing; add a heading '### {part}'")
        text = _fill(parts[part], context, where)
        if not text.strip() and part != "words":  # a figure may need none beside it
            raise BadInput(f"{where}: empty; write a sentence")
        tokens[part] = _with_row_headings(MARKDOWN.parse(text))
    blocks, notes = _blocks(tokens["words"]), _blocks(tokens["notes"])
    return Rendered(
        words_html=_html(tokens["words"]),
        words_text="\n".join(block.text for block in blocks),
        alt=" ".join(block.text for block in _blocks(tokens["alt"])),
        notes_html=_html(tokens["notes"]),
        notes_text="\n".join(block.text for block in notes),
        blocks=blocks,
    )


def _parts(source: str) -> dict[str, dict[str, str]]:
    """slide name -> {"words": …, "alt": …, "notes": …}, as written."""
    found: dict[str, dict[str, str]] = {}
    name, part = "", "words"
    lines: list[str] = []

    def close() -> None:
        if name:
            found.setdefault(name, {})[part] = "\n".join(lines)

    for line in source.splitlines():
        heading = HEADING.match(line)
        if heading is None:
            lines.append(line)
            continue
        close()
        lines = []
        if heading[1] == "##":
            name, part = heading[2], "words"
        else:
            part = heading[2].lower()
    close()
    return found


def _fill(source: str, context: Mapping[str, Any], where: str) -> str:
    try:
        return JINJA.from_string(source).render(context)
    except jinja2.TemplateError as error:
        raise BadInput(f"{where}: {error.message}") from error
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise BadInput(f"{where}: {type(error).__name__}: {error}") from error


# --- what Jinja inserts ---


class _Environment(jinja2.Environment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        """`data.items` means the capture's key, where it has one, before the method of dict."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)


def visible(text: str) -> str:
    """`text` with every character that would not be seen (control, format, half a surrogate) as an escape."""
    return escaped(text, lambda character: unicodedata.category(character) not in INVISIBLE)


def _mark(kind: str, text: str) -> str:
    """`text` as an inert mark. Marks already in it (a macro's, a join's) stay; all else in it is made visible."""
    kept, end = "", 0
    for mark in MARK.finditer(text):
        kept += visible(text[end : mark.start()]) + mark[0]
        end = mark.end()
    return f"{kind}{(kept + visible(text[end:])).encode().hex()}{END}"


def _inserted(value: Any) -> str:
    """What an expression of the words becomes. A list, a dict or nothing at all is a mistake, not words."""
    if isinstance(value, jinja2.Undefined):
        return str(value)  # StrictUndefined raises here, naming what is missing
    if value is None or isinstance(value, Mapping | list | tuple):
        raise TypeError(f"an expression gives {type(value).__name__}, not a text or a number")
    return _mark(PLAIN, str(value))


def unbroken_scientific(value: float, digits: int = 2) -> str:
    """As scientific, and no line breaks in it."""
    return scientific(value, digits).replace(" ", "\u00a0")


def token(piece: Any) -> str:
    """A token as inline code, its spaces visible."""
    return _mark(TOKEN, str(piece).replace(" ", "␣"))


JINJA = _Environment(undefined=jinja2.StrictUndefined, finalize=_inserted, trim_blocks=True, autoescape=False)
JINJA.filters.update(n=thousands, pct=percent, sci=unbroken_scientific, sig=significant, tok=token, mb=megabytes, kib=kibibytes)


# --- Markdown to HTML and to plain blocks ---

MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """`text` with its marks opened: (literal text, whether it is a token). A mark may hold further marks."""
    end = 0
    for mark in MARK.finditer(text):
        if mark.start() > end:
            yield text[end : mark.start()], False
        inner = bytes.fromhex(mark[2]).decode()
        if mark[1] == TOKEN:
            yield inner, True
        else:
            yield from _pieces(inner)
        end = mark.end()
    if end < len(text):
        yield text[end:], False


def _html(tokens: Sequence[Token]) -> str:
    def opened(mark: re.Match[str]) -> str:
        return "".join(
            f'<code class="tok">{html.escape(text)}</code>' if is_token else html.escape(text)
            for text, is_token in _pieces(mark[0])
        )

    return MARK.sub(opened, MARKDOWN.renderer.render(tokens, MARKDOWN.options, {})).strip()


def _with_row_headings(tokens: list[Token]) -> list[Token]:
    """The first cell of each row heads it, an empty heading is none, a block quote is a definition, not a quotation."""
    heads_row = False
    for index, current in enumerate(tokens):
        if current.type == "th_open":
            if tokens[index + 1].content:
                current.attrSet("scope", "col")
            else:
                current.tag = tokens[index + 2].tag = "td"
        elif current.type == "td_open" and tokens[index - 1].type == "tr_open":
            heads_row = True
            current.attrSet("scope", "row")
        if current.type in ("td_open", "td_close") and heads_row:
            current.tag = "th"
            heads_row = current.type == "td_open"
        elif current.type in ("blockquote_open", "blockquote_close"):
            current.tag = "div"
            if current.nesting == 1:
                current.attrSet("class", "definition")
    return tokens


def _blocks(tokens: Sequence[Token]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    rows: list[list[tuple[Run, ...]]] = []
    inside: list[str] = []
    for current in tokens:
        if current.nesting == 1:
            inside.append(current.type)
        elif current.nesting == -1:
            inside.pop()
        if current.type == "tr_open":
            rows.append([])
        elif current.type == "table_close":
            blocks.append(Block("table", rows=tuple(map(tuple, rows))))
            rows = []
        elif current.type == "inline" and "tr_open" in inside:
            rows[-1].append(_runs(current))
        elif current.type == "inline":
            kind = "definition" if "blockquote_open" in inside else "item" if "list_item_open" in inside else "paragraph"
            blocks.append(Block(kind, runs=_runs(current)))
    return tuple(blocks)


def _runs(inline: Token) -> tuple[Run, ...]:
    runs: list[Run] = []
    bold = 0
    for child in inline.children or []:
        if child.type in ("strong_open", "strong_close"):
            bold += child.nesting
        elif child.type in ("softbreak", "hardbreak"):
            runs.append((" ", ""))
        elif child.content:
            style = "code" if child.type == "code_inline" else "bold" if bold else ""
            runs.extend((text, "code" if is_token else style) for text, is_token in _pieces(child.content))
    return tuple(runs)


def text_of(runs: Sequence[Run]) -> str:
    """The runs as plain text."""
    return "".join(text for text, _ in runs)
