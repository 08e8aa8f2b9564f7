"""CONTRIBUTING's recipe for a new slide, followed to the letter; and a slide in the middle moves all that come after it."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pptx import Presentation

from clones import copy_project, edit, run
from decks import ONE_CALL
from pipeline.paths import REPO

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("recipe")]
PLACE = 5
STANDS = re.compile(  # what one slide of the page says of its place, and its words
    r'[^>]*id="slide-(?P<number>\d+)" data-number="(?P<data>\d+)" aria-labelledby="heading-(?P<heading>\d+)">\n'
    r'<p class="bar"><span class="where">(?P<where>[^\n]*)</span> '
    r'<span class="count"><b>(?P<shown>\d+)</b> / (?P<last>\d+)</span></p>'
    r'.*?href="#(?P<link>\d+)"><span>(?P<jump>\d+)</span>.*?<div class="words">\n(?P<words>.*?)</div>\n<div class="evidence"'
    r".*?--only (?P<id>\S+) --force</code>",
    re.DOTALL,
)


def blocks() -> dict[str, str]:
    """The recipe's files: path -> text."""
    recipe = (REPO / "CONTRIBUTING.md").read_text("utf-8").partition("## Add a slide in five steps")[2].partition("\n## ")[0]
    found = {}
    for block in re.findall(r"```(?:python|markdown)\n(.*?)   ```", recipe, re.DOTALL):
        first, _, text = textwrap.dedent(block).partition("\n")
        found[re.search(r"[\w/]+\.\w+", first)[0]] = text
    return found


@pytest.fixture(scope="module")
def grown(tmp_path_factory) -> tuple[Path, str]:
    """A copy of the project with the recipe's slide at PLACE, and what its run said."""
    if "lengths" in ONE_CALL.topics:
        pytest.skip("the slide of the recipe is in this deck already")
    folder = copy_project(tmp_path_factory.mktemp("grown") / "clone")
    files = blocks()
    assert set(files) == {"build/topics/lengths.py", "deck/words/lengths.md"}
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    before = f'"{ONE_CALL.slides[PLACE - 1].id}",'
    edit(folder / "build/decks.py", lambda source: source.replace(before, f'"lengths",\n                {before}'))
    return folder, run(folder, "--only", "lengths")


def test_the_recipe_adds_a_slide(grown):
    folder, said = grown
    count = len(ONE_CALL.slides) + 1
    assert f"{count} slides, {count} oracles hold" in said
    assert (folder / "figures/lengths/lengths.png").is_file()
    assert "Point at the longest bar first, then" in (folder / "deck/index.html").read_text("utf-8")


def test_the_recipes_script_runs_by_itself_on_the_code_of_its_own_clone(grown, tmp_path):
    command = [sys.executable, str(grown[0] / "build/topics/lengths.py"), "--list"]
    listed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True).stdout
    assert [line.split()[:2] for line in listed.splitlines()] == [[str(PLACE), "lengths/lengths"]]


def standing(page: Path) -> list[dict[str, str]]:
    """What each slide of a page says of its place, with its id and its words."""
    return [STANDS.match(section).groupdict() for section in page.read_text("utf-8").split("<section ")[1:]]


def expected() -> list[tuple[int, str, str]]:
    """Number, id and part of each slide of the grown deck."""
    ids = [(slide.id, slide.part) for slide in ONE_CALL.slides]
    ids.insert(PLACE - 1, ("lengths/lengths", ONE_CALL.slides[PLACE - 1].part))
    return [(number, name, part) for number, (name, part) in enumerate(ids, 1)]


def test_a_slide_in_the_middle_moves_those_after_it_on_the_page(grown, deck_html):
    new, old = standing(grown[0] / "deck/index.html"), {one["id"]: one for one in standing(deck_html)}
    photographs = sum(slide.kind == "photograph" for slide in ONE_CALL.slides)
    assert [(int(one["number"]), one["id"]) for one in new] == [(number, name) for number, name, _ in expected()]
    for one, (number, name, part) in zip(new, expected(), strict=True):
        assert {one["number"]} == {one[key] for key in ("data", "heading", "shown", "link", "jump")}, name
        assert int(one["last"]) == len(new)
        if name in old:
            assert (one["words"] != old[name]["words"]) == (number == 1), name  # the title counts the slides
            words = one["words"].replace(f"{photographs + 1} photographs", f"{photographs} photographs")
            assert (one["where"], words) == (old[name]["where"], old[name]["words"]), name
        else:
            assert part in one["where"] and '<span class="section">Lengths</span>' in one["where"]


def test_a_slide_in_the_middle_moves_those_after_it_in_powerpoint(grown):
    shown = Presentation(grown[0] / "deck/deck.pptx").slides
    sections = {slide.id: slide.section for slide in ONE_CALL.slides}
    for slide, (number, name, part) in zip(shown, expected(), strict=True):
        shapes = {shape.name: shape for shape in slide.shapes}
        assert shapes["Number"].text_frame.text == str(number) and f"Figure {number}" in shapes
        if number > 1 and part != sections.get(name):
            assert slide.shapes.title.text_frame.text.startswith(f"{part} · "), name


def test_a_slide_in_the_middle_moves_those_after_it_in_the_manifest_and_the_list(grown):
    manifest = json.loads((grown[0] / "figures/manifest.json").read_text("utf-8"))
    assert [(row["number"], row["id"]) for row in manifest["slides"]] == [(number, name) for number, name, _ in expected()]
    assert manifest["counts"]["slides"] == len(ONE_CALL.slides) + 1
    listed = [line.split()[:2] for line in run(grown[0], "--list").splitlines()]
    assert listed == [[str(number), name] for number, name, _ in expected()]
