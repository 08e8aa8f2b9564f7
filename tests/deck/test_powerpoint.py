"""The PowerPoint file: native titles, text, tables and notes, alternative text on each picture, the same bytes each time."""

import io
import re
import shutil
import subprocess
import zipfile

import pypdf
import pytest
from pptx import Presentation

from deck_fixtures import need
from decks import ONE_CALL
from pipeline.deck import powerpoint, words


def opened(data: bytes):
    return Presentation(io.BytesIO(data))


def test_each_slide_has_a_native_title_words_picture_and_notes(deck):
    presentation = opened(powerpoint.pptx(ONE_CALL, deck))
    assert presentation.slide_width / presentation.slide_height == pytest.approx(16 / 9, rel=1e-3)
    assert len(presentation.slides) == len(deck)
    for one, slide in zip(deck, presentation.slides, strict=True):
        rendered = words.render(one.slide, one.capture)
        if not one.slide.is_title:
            assert slide.shapes.title.text_frame.text.endswith(one.section)
        texts = " ".join(shape.text_frame.text for shape in slide.shapes if shape.has_text_frame)
        assert all(block.text in texts for block in rendered.blocks if block.kind in ("paragraph", "definition"))
        pictures = [shape for shape in slide.shapes if shape.shape_type is not None and shape.shape_type.name == "PICTURE"]
        assert [picture._element.nvPicPr.cNvPr.get("descr") for picture in pictures] == [rendered.alt]
        pace, _, notes = slide.notes_slide.notes_text_frame.text.partition("\n")
        assert notes == rendered.notes_text
        assert re.fullmatch(r"By the end of slide \d+: \d+ min of 40", pace)


def test_the_comparison_slides_carry_native_tables(made):
    presentation = opened(powerpoint.pptx(ONE_CALL, made(2, tabled=[2])))
    tables = [[shape.table for shape in slide.shapes if shape.has_table] for slide in presentation.slides]
    assert [len(found) for found in tables] == [0, 1]
    cells = [[cell.text for cell in row.cells] for row in tables[1][0].rows]
    assert cells[0] == ["", "picks", "this run"]
    assert cells[1] == ["greedy", "| always", "|"]
    assert cells[2] == ["top-p", "from 90%", "\\n"]


def test_nothing_lies_outside_the_slide(made):
    presentation = opened(powerpoint.pptx(ONE_CALL, made(20, tabled=[17])))
    for slide in presentation.slides:
        for shape in slide.shapes:
            assert shape.left >= 0 and shape.top >= 0, shape.name
            assert shape.left + shape.width <= presentation.slide_width, shape.name
            assert shape.top + shape.height <= presentation.slide_height, shape.name


def test_a_figure_without_words_takes_the_slide(made, tmp_path):
    shown = made(2, first=2)
    words_file = tmp_path / "made_3.md"
    words_file.write_text(re.sub(r"(?s)(## slide_3\n).*?(### alt)", r"\1\2", words_file.read_text("utf-8")), "utf-8")
    with_words, alone = opened(powerpoint.pptx(ONE_CALL, shown)).slides
    widths = [next(shape.width for shape in slide.shapes if shape.name.startswith("Figure")) for slide in (with_words, alone)]
    assert widths[1] > 1.05 * widths[0]
    assert not any(shape.name == "Words" for shape in alone.shapes)


def test_no_placeholder_is_left_empty(made):
    for slide in opened(powerpoint.pptx(ONE_CALL, made(3))).slides:
        assert all(shape.text_frame.text for shape in slide.placeholders)


def test_the_same_slides_give_the_same_bytes(made):
    shown = made(3, tabled=[2])
    data = powerpoint.pptx(ONE_CALL, shown)
    assert data == powerpoint.pptx(ONE_CALL, shown)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {powerpoint.MOMENT.timetuple()[:6]}


@pytest.mark.slow
def test_libreoffice_opens_it_and_prints_every_slide(deck, tmp_path):
    office = shutil.which("soffice")
    need("libreoffice-impress", office)
    (tmp_path / "deck.pptx").write_bytes(powerpoint.pptx(ONE_CALL, deck))
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    command = [office, profile, "--headless", "--convert-to", "pdf", "--outdir", tmp_path, tmp_path / "deck.pptx"]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    pages = pypdf.PdfReader(tmp_path / "deck.pdf").pages
    assert len(pages) == len(deck)
    for one, page in zip(deck, pages, strict=True):
        assert one.slide.is_title or one.section.split()[0] in page.extract_text()
