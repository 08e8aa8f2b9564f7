"""The printed deck: one page a slide, none blank, its text text; and without a browser one line that says so."""

import pypdf
import pytest

from deck_fixtures import CHROMIUM, need
from pipeline.deck import pdf


@pytest.fixture(scope="session")
def printed(deck_html, tmp_path_factory):
    need("chromium", CHROMIUM)
    path = tmp_path_factory.mktemp("pdf") / "deck.pdf"
    assert pdf.pdf(deck_html, path) is None
    return path


@pytest.mark.slow
def test_every_slide_is_one_page_and_none_is_blank(deck, printed):
    pages = pypdf.PdfReader(printed).pages
    assert len(pages) == len(deck)
    for one, page in zip(deck, pages, strict=True):
        text = page.extract_text()
        assert f"{one.slide.number} / {deck[-1].slide.number}" in " ".join(text.split()), one.slide.id
        assert len(text) > 60, f"{one.slide.id}: the words are not text"
        assert len(page.images) == 1, f"{one.slide.id}: no figure"
        assert page.mediabox.width / page.mediabox.height == pytest.approx(16 / 9, rel=1e-3)


@pytest.mark.slow
def test_printing_twice_gives_the_same_bytes(deck_html, printed, tmp_path):
    assert pdf.pdf(deck_html, tmp_path / "again.pdf") is None
    assert (tmp_path / "again.pdf").read_bytes() == printed.read_bytes()


def test_time_and_numbers_of_elements_are_settled_without_moving_a_byte():
    first = b"/CreationDate (D:20261129180000+00'00') /ID (node00000951) /P (node00000953) (node00000951)"
    again = b"/CreationDate (D:20261129180101+00'00') /ID (node00000955) /P (node00000960) (node00000955)"
    assert pdf.settled(first) == pdf.settled(again) and len(pdf.settled(first)) == len(first)
    assert b"(node00000000) /P (node00000001) (node00000000)" in pdf.settled(first)


def test_without_a_browser_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(pdf.shutil, "which", lambda name: None)
    monkeypatch.setattr(pdf, "PLACES", ())
    reason = pdf.pdf(tmp_path / "index.html", tmp_path / "deck.pdf")
    assert reason and "no Chromium" in reason and "\n" not in reason
    assert not (tmp_path / "deck.pdf").exists()


@pytest.mark.parametrize("script", ["#!/bin/sh\necho one >&2\necho it broke >&2\nexit 9\n", "not a program at all"])
def test_a_browser_that_fails_is_reported_in_one_line(tmp_path, monkeypatch, script):
    broken = tmp_path / "chromium"
    broken.write_text(script, "utf-8")
    broken.chmod(0o755)
    monkeypatch.setattr(pdf, "browser", lambda: str(broken))
    reason = pdf.pdf(tmp_path / "index.html", tmp_path / "deck.pdf")
    assert reason and "\n" not in reason
    assert "it broke" in reason or "did not start" in reason


def test_a_browser_that_hangs_is_given_up(tmp_path, monkeypatch):
    hanging = tmp_path / "chromium"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n", "utf-8")
    hanging.chmod(0o755)
    monkeypatch.setattr(pdf, "browser", lambda: str(hanging))
    monkeypatch.setattr(pdf, "TIMEOUT_S", 0.3)
    assert "did not finish" in (pdf.pdf(tmp_path / "index.html", tmp_path / "deck.pdf") or "")


def test_a_place_that_cannot_be_written_is_reported_in_one_line(tmp_path, monkeypatch):
    printer = tmp_path / "chromium"
    printer.write_text('#!/bin/sh\nfor a in "$@"; do case $a in --print-to-pdf=*) echo pdf > "${a#*=}";; esac; done\n', "utf-8")
    printer.chmod(0o755)
    monkeypatch.setattr(pdf, "browser", lambda: str(printer))
    (tmp_path / "file").write_text("", "utf-8")
    reason = pdf.pdf(tmp_path / "index.html", tmp_path / "file" / "deck.pdf")
    assert reason and "cannot be written" in reason and "\n" not in reason
