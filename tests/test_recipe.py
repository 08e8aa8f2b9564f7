"""The README's recipe for a new slide, followed to the letter."""

import re
import textwrap
from pathlib import Path

import pytest

from clones import copy_project, edit, run
from pipeline.paths import REPO
from topics import TOPICS, slides


def blocks() -> dict[str, str]:
    """The recipe's files: path -> text."""
    recipe = (REPO / "README.md").read_text("utf-8").partition("## Add a slide in five steps")[2].partition("\n## ")[0]
    found = {}
    for block in re.findall(r"```(?:python|markdown)\n(.*?)   ```", recipe, re.DOTALL):
        first, _, text = textwrap.dedent(block).partition("\n")
        found[re.search(r"[\w/]+\.\w+", first)[0]] = text
    return found


def test_the_recipe_of_the_readme_adds_a_slide(tmp_path: Path):
    if "lengths" in TOPICS:
        pytest.skip("the slide of the recipe is in this deck already")
    folder = copy_project(tmp_path / "clone")
    files = blocks()
    assert set(files) == {"build/topics/lengths.py", "deck/words/lengths.md"}
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    edit(
        folder / "build/topics/__init__.py",
        lambda source: source.replace('    "whole_path",\n', '    "whole_path",\n    "lengths",\n'),
    )
    said = run(folder, "--only", "lengths")
    assert f"{len(slides()) + 1} slides, {len(slides()) + 1} oracles hold" in said
    assert (folder / "figures/lengths/lengths.png").is_file()
    assert "Point at the longest bar first, then" in (folder / "deck/index.html").read_text("utf-8")
