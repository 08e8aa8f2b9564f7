"""A figure says whose it is; a changed picture, changed words and a stranger's picture are told apart."""

import json
import shutil

import pytest
from PIL import Image, PngImagePlugin

from decks import ONE_CALL
from pipeline.checksum import file_sha256
from pipeline.drawing import seal
from pipeline.drawing.worker import draw_slide
from pipeline.errors import BadInput
from pipeline.paths import COMMITTED
from pipeline.run import manifest
from pipeline.run.console import Screen
from pipeline.run.whose import whose
from pipeline.slide import assert_holds

SLIDE = next(slide for slide in ONE_CALL.slides if slide.id == "why_vllm/block_table")  # with build steps, and quick to draw


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    figure = tmp_path_factory.mktemp("sealed") / "figure.png"
    capture = json.loads(COMMITTED.capture(SLIDE.id).read_text("utf-8"))
    draw_slide(SLIDE, capture, assert_holds(SLIDE, capture["data"]), figure)
    return figure


@pytest.fixture
def figure(drawn, tmp_path):
    return shutil.copy(drawn, tmp_path / "copy.png")


def test_a_figure_says_which_slide_capture_and_verdict_it_is_of(figure):
    said = seal.read(figure)
    assert said["slide"] == SLIDE.id and said["verdict"] == "holds" and "read back in order" in said["measured"]
    assert said["capture"] == file_sha256(COMMITTED.capture(SLIDE.id)) and said["bound"] and said["source"]


def resaved(figure, change, texts=lambda name, text: text):
    with Image.open(figure) as image:
        image.load()
        info = PngImagePlugin.PngInfo()
        for name, text in image.text.items():
            info.add_itxt(name, texts(name, text))
        for chunk in image.private_chunks:
            info.add(chunk[0], chunk[1])
        changed = change(image.copy())
    changed.save(figure, pnginfo=info)


def dotted(image):
    image.putpixel((900, 500), (1, 2, 3, 255))
    return image


def test_another_programs_encoding_of_the_same_picture_is_the_same_picture(figure):
    resaved(figure, lambda image: image)
    assert seal.read(figure)["slide"] == SLIDE.id


@pytest.mark.parametrize(
    ("change", "texts", "said"),
    [
        (dotted, lambda name, text: text, "the picture was altered"),
        (lambda image: image, lambda name, text: "fails" if name == "verdict" else text, "what it says of itself was altered"),
        (lambda image: image, lambda name, text: "0" * 64 if name == "capture" else text, "what it says of itself was altered"),
        (lambda image: image, lambda name, text: "0" * 64 if name == "pixels" else text, "what it says of itself was altered"),
    ],
)
def test_a_change_shows(figure, change, texts, said):
    resaved(figure, change, texts)
    with pytest.raises(seal.Altered, match=said) as refusal:
        seal.read(figure)
    assert refusal.value.exit_code == 1 and SLIDE.id in str(refusal.value)


def test_a_build_step_taken_out_shows(figure):
    figure.write_bytes(figure.read_bytes().replace(b"stEp", b"stEq", 1))  # and no check of a chunk's sum hides it
    with pytest.raises(BadInput):
        seal.read(figure)


@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "text", "cut short", "another size", "another program's", "JPEG"])
def test_what_is_not_ours_is_said_not_to_be(figure, kind):
    whole = figure.read_bytes()
    if kind == "missing":
        figure.unlink()
    elif kind == "folder":
        figure.unlink()
        figure.mkdir()
    elif kind in ("empty", "text", "cut short"):
        figure.write_bytes({"empty": b"", "text": b"figure", "cut short": whole[: len(whole) // 2]}[kind])
    else:
        size = (20, 20) if kind == "another size" else (1920, 1080)
        Image.new("RGB", size).save(figure, "JPEG" if kind == "JPEG" else "PNG")
    with pytest.raises(BadInput) as refusal:
        seal.read(figure)
    assert refusal.value.exit_code == 2 and str(figure) in str(refusal.value) and "Error" not in str(refusal.value)


def test_whose_agrees_with_the_manifest(figure, capsys):
    known = manifest.read(COMMITTED)
    committed = COMMITTED.figure(SLIDE.id)
    assert whose(committed, known, Screen()) == 0
    assert f"this deck's slide {known.entries[SLIDE.id].number}" in capsys.readouterr().out
    for slide_id, entry in known.entries.items():
        if file_sha256(COMMITTED.figure(slide_id)) == entry.figure_sha256:  # else the deck is being rebuilt
            said = seal.read(COMMITTED.figure(slide_id))
            verdict = said["verdict"] == "holds", said["measured"], said["bound"]
            assert (said["slide"], said["capture"]) == (slide_id, entry.capture_sha256)
            assert verdict == (entry.verdict.holds, entry.verdict.measured, entry.verdict.bound)
