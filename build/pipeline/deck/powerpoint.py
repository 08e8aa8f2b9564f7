"""The deck as a PowerPoint file for people who present from their own tools: native titles, text, tables and notes.

The same input gives the same bytes: no clock is read, and the archive is written again with one fixed time.
"""

import datetime
import io
import zipfile
from collections.abc import Sequence

from PIL import Image
from pptx import Presentation
from pptx.dml.color import RGBColor
from pptx.enum.text import MSO_ANCHOR, PP_ALIGN
from pptx.oxml.ns import qn
from pptx.slide import Slide as PptxSlide
from pptx.slide import SlideLayout
from pptx.util import Emu, Inches, Length, Pt

from pipeline.deck import words
from pipeline.deck.page import Shown, sections_of, title_facts
from pipeline.slide import Deck

WIDTH, HEIGHT = Inches(13.333), Inches(7.5)
EDGE, GAP, TOP = Inches(0.3), Inches(0.25), Inches(0.95)
WORDS, TABLED_WORDS, TITLE_WORDS = Inches(2.35), Inches(3.7), Inches(4.4)  # width of the words beside the figure
TITLE_ONLY = 5  # the layout of python-pptx's own template that has a title and nothing else
INK, QUIET, GROUND, RULE = map(RGBColor.from_string, ("1D1D22", "5A5A62", "F1EFEA", "D5D3CD"))
SANS, MONO = "Arial", "Courier New"
TABLE_SIZE = 12
PLAIN_TABLE = "{2D5ABB26-0587-4C30-8999-92F81FD0307C}"  # PowerPoint's "no style, no grid"
MOMENT = datetime.datetime(2000, 1, 1)


def pptx(deck: Deck, shown: Sequence[Shown]) -> bytes:
    """The whole .pptx for these slides of a deck, in their order."""
    presentation = Presentation()
    presentation.slide_width, presentation.slide_height = WIDTH, HEIGHT
    layout = presentation.slide_layouts[TITLE_ONLY]
    _fit_layout(layout)
    rendered = [words.render(one.slide, one.capture) for one in shown]
    for one, its, section in zip(shown, rendered, sections_of(shown, rendered), strict=True):
        slide = presentation.slides.add_slide(layout)
        _add(slide, one, its, deck, shown)
        notes = slide.notes_slide.notes_text_frame
        assert notes is not None  # python-pptx's own notes page has one
        notes.text = f"{section.pace}\n{its.notes_text}"
    core = presentation.core_properties
    core.title, core.author, core.last_modified_by, core.revision = deck.title, "", "", 1
    core.created = core.modified = MOMENT
    written = io.BytesIO()
    presentation.save(written)
    return _with_fixed_times(written.getvalue())


def _fit_layout(layout: SlideLayout) -> None:
    """The template is 4:3: place its title for ours, drop its empty footers, set the ground."""
    for shape in list(layout.placeholders):
        if shape.placeholder_format.type.name == "TITLE":
            shape.left, shape.top, shape.width, shape.height = EDGE, Inches(0.2), WIDTH - 2 * EDGE, Inches(0.6)
        else:
            shape._element.getparent().remove(shape._element)
    layout.background.fill.solid()
    layout.background.fill.fore_color.rgb = GROUND


def _add(slide: PptxSlide, one: Shown, rendered: words.Rendered, deck: Deck, shown: Sequence[Shown]) -> None:
    is_title = one.slide.is_title
    width = TITLE_WORDS if is_title else TABLED_WORDS if rendered.has_table else WORDS
    with Image.open(one.figure) as image:
        shape = image.width / image.height
    beside = GAP + width if rendered.blocks else 0
    figure_width = Emu(min(WIDTH - 2 * EDGE - beside, round((HEIGHT - TOP - EDGE) * shape)))
    figure_height = Emu(round(figure_width / shape))
    top = Emu(TOP + max(0, (HEIGHT - TOP - EDGE - figure_height) // 2))
    figure_left, words_left = Emu(EDGE + is_title * (width + GAP)), Emu(EDGE + (not is_title) * (figure_width + GAP))

    picture = slide.shapes.add_picture(str(one.figure), figure_left, top, figure_width, figure_height)
    picture.name = f"Figure {one.slide.number}"
    next(picture._element.iter(qn("p:cNvPr"))).set("descr", rendered.alt)
    picture.line.color.rgb, picture.line.width = RULE, Pt(0.75)

    title = slide.shapes.title
    assert title is not None  # the layout has one
    text = title.text_frame
    text.word_wrap, text.vertical_anchor, text.margin_left = True, MSO_ANCHOR.MIDDLE, 0
    paragraph = text.paragraphs[0]
    paragraph.alignment = PP_ALIGN.LEFT
    if is_title:
        title.left, title.top, title.width, title.height = EDGE, top, width, Inches(1.6)
        _runs(paragraph, [(deck.title, "bold")], 46)
        room = (words_left, Emu(top + Inches(1.75)), width, Emu(figure_height - Inches(1.75)))
    else:
        part = one.slide.part
        before = [(f"{part} · ", "quiet")] if part != one.section else []
        _runs(paragraph, [*before, (one.section, "bold")], 20)
        room = (words_left, top, width, figure_height)
    facts = [words.Block("paragraph", ((f"{label}: ", "quiet"), (value, ""))) for label, value in title_facts(shown) if is_title]
    _add_words(slide, [*rendered.blocks, *facts], room, 15 if is_title else 14)
    _add_number(slide, one.slide.number)


def _add_words(slide: PptxSlide, blocks: Sequence[words.Block], room: tuple[Length, Length, Length, Length], size: int) -> None:
    """Paragraphs in a text box from the top of `room`, a table after them as a table of its own."""
    left, top, width, height = room
    prose = [block for block in blocks if block.kind != "table"]
    if prose:
        box = slide.shapes.add_textbox(left, top, width, height)
        box.name = "Words"
        text = box.text_frame
        text.word_wrap = True
        text.margin_left = text.margin_right = text.margin_top = text.margin_bottom = 0
        for index, block in enumerate(prose):
            paragraph = text.paragraphs[0] if index == 0 else text.add_paragraph()
            paragraph.space_after = Pt(8)
            _runs(paragraph, [("• ", ""), *block.runs] if block.kind == "item" else block.runs, size)
        if len(prose) < len(blocks):
            used = sum(_lines(block.text, width, size) * size * 1.2 + 8 for block in prose)
            box.height = Pt(used)
            top = Emu(top + box.height + Pt(10))
    for block in blocks:
        if block.kind == "table":
            _add_table(slide, block, left, top, width)


def _add_table(slide: PptxSlide, block: words.Block, left: Length, top: Length, width: Length) -> None:
    columns = len(block.rows[0])
    frame = slide.shapes.add_table(len(block.rows), columns, left, top, width, Inches(0.4 * len(block.rows)))
    frame.name = "Table"
    table = frame.table
    table.first_col, table.horz_banding = True, False
    next(frame._element.iter(qn("a:tableStyleId"))).text = PLAIN_TABLE
    for column, column_width in enumerate(_column_widths(block, width)):
        table.columns[column].width = column_width
    for r, row in enumerate(block.rows):
        for c, runs in enumerate(row):
            cell = table.cell(r, c)
            cell.margin_left, cell.margin_right, cell.margin_top, cell.margin_bottom = (
                Emu(0),
                Inches(0.08),
                Inches(0.06),
                Inches(0.06),
            )
            _underline(cell)
            style = "quiet" if r == 0 else "bold" if c == 0 else None
            _runs(cell.text_frame.paragraphs[0], [(text, style or of_run) for text, of_run in runs], TABLE_SIZE)


def _column_widths(block: words.Block, width: Length) -> list[Emu]:
    """Each column holds its longest word whole; what is left over goes by how much text a column has."""
    columns = list(zip(*([words.text_of(runs) for runs in row] for row in block.rows), strict=True))
    letter = Pt(TABLE_SIZE) * 0.6
    least = [max(len(word) for text in column for word in text.split() or [""]) * letter + Inches(0.1) for column in columns]
    share = [sum(map(len, column)) for column in columns]
    spare = max(0, width - sum(least))
    wanted = [low + spare * part / sum(share) for low, part in zip(least, share, strict=True)]
    return [Emu(round(width * part / sum(wanted))) for part in wanted]


def _underline(cell) -> None:
    """A thin rule under a cell, which python-pptx has no call for."""
    properties = cell._tc.get_or_add_tcPr()
    line = properties.makeelement(qn("a:lnB"), {"w": str(Pt(0.75))})
    fill = line.makeelement(qn("a:solidFill"), {})
    fill.append(fill.makeelement(qn("a:srgbClr"), {"val": str(RULE)}))
    line.append(fill)
    properties.append(line)


def _add_number(slide: PptxSlide, number: int) -> None:
    box = slide.shapes.add_textbox(Emu(WIDTH - EDGE - Inches(1)), Inches(0.3), Inches(1), Inches(0.4))
    box.name = "Number"
    box.text_frame.word_wrap = True  # else its right edge is where the text ends
    box.text_frame.margin_right = 0
    paragraph = box.text_frame.paragraphs[0]
    paragraph.alignment = PP_ALIGN.RIGHT
    _runs(paragraph, [(str(number), "quiet")], 14)


def _runs(paragraph, runs: Sequence[words.Run], size: int) -> None:
    for text, style in runs:
        run = paragraph.add_run()
        run.text = text
        font = run.font
        font.size, font.bold, font.name = Pt(size), style == "bold", MONO if style == "code" else SANS
        font.color.rgb = QUIET if style == "quiet" else INK


def _lines(text: str, width: Length, size: int) -> int:
    """About how many lines a paragraph takes; a letter of Arial is half as wide as high, and a little more for breaks."""
    return 1 + int(len(text) * size * 0.52 / (width / Pt(1)))


def _with_fixed_times(archive: bytes) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(written, "w") as new:
        for name in old.namelist():
            entry = zipfile.ZipInfo(name, MOMENT.timetuple()[:6])
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            new.writestr(entry, old.read(name), zipfile.ZIP_DEFLATED)
    return written.getvalue()
