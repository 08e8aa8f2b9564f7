#!/usr/bin/env python3
"""What one process and a look first save: this command beside two other ways to make the same 39 figures.

The same slides are taken, judged and drawn by the command, by one process for each topic script, and by a sphinx-gallery
with one script for each slide (sphinx-gallery is installed for the benchmark only: `make bench`). Each is timed cold, with
nothing to do, and after one edit of a draw function, the ways in turn, round after round. Prints medians, and ratios with
the smallest and the largest round, as the README's tables; seconds belong to the machine. All decks go to a temporary folder.
"""

import argparse
import importlib.util
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from decks import ONE_CALL
from pipeline.paths import REPO

EDITED = "def draw_slab_or_pages(canvas: Canvas, data: Data) -> None:\n"  # a draw function of build/topics/why_vllm.py
CONF = """
project, extensions, html_theme = "bench", ["sphinx_gallery.gen_gallery"], "alabaster"
sphinx_gallery_conf = {
    "examples_dirs": "scripts", "gallery_dirs": "gallery", "filename_pattern": "/", "image_scrapers": (),
    "reset_modules": (), "show_memory": False, "download_all_examples": False, "abort_on_example_error": True,
}
"""
SCRIPT = '''"""
{id}
====
"""
import bench_lab
bench_lab.make("{id}", {draw_lines!r})
'''
SHARED = '''"""The lab that the gallery's scripts share: the model is loaded and the server started once."""

import argparse
import atexit
import json
from pathlib import Path

from decks import ONE_CALL
from pipeline.drawing.worker import draw_slide
from pipeline.run.found import find
from pipeline.run.session import Session
from pipeline.run.taking import take
from pipeline.settings import DEFAULT_SENTENCE

ASKED = argparse.Namespace(
    model="auto", server="auto", ask=None, sentence=DEFAULT_SENTENCE, out=None, offline=False, explain=False
)
session = Session(find(ASKED, print), print, lambda *told: None)
atexit.register(session.__exit__, None, None, None)
figures = Path(__file__).parent / "figures"
figures.mkdir(exist_ok=True)


def make(slide_id: str, draw_lines: str) -> None:
    """Take, judge and draw one slide; `draw_lines` is its drawing's source, so that an edit of it makes the script another."""
    slide = next(one for one in ONE_CALL.slides if one.id == slide_id)
    text, verdict = take(slide, session.lab)
    draw_slide(slide, json.loads(text), verdict, figures / f"{slide.name}.png")
'''


class Copy:
    """A copy of the sources to build in and to edit."""

    def __init__(self, folder: Path):
        self.folder = folder
        for name in ("build", "deck"):
            shutil.copytree(REPO / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "index.html", "deck.pptx"))

    def regen(self, *flags: str) -> float:
        return seconds(self.folder, self.folder / "build/regen_all.py", *flags)

    def topics(self) -> float:
        return sum(seconds(self.folder, self.folder / f"build/topics/{topic}.py") for topic in ONE_CALL.topics)

    def gallery(self) -> float:
        """Write the gallery's scripts anew where a slide's drawing changed, and build it."""
        source = self.folder / "gallery"
        scripts = source / "scripts"
        scripts.mkdir(parents=True, exist_ok=True)
        write(source / "conf.py", CONF)
        write(source / "index.rst", "Bench\n=====\n\n.. toctree::\n\n   gallery/index\n")
        write(source / "bench_lab.py", SHARED)
        write(scripts / "README.txt", "Slides\n======\n")
        for slide in ONE_CALL.slides:
            lines = (
                (self.folder / f"build/topics/{slide.topic}.py").read_text("utf-8").partition(f"def {slide.draw.__name__}(")[2]
            )
            name = f"plot_{slide.number:02}_{slide.name}.py"
            write(scripts / name, SCRIPT.format(id=slide.id, draw_lines=lines.partition("\n\n\n")[0]))
        return seconds(self.folder, "-m", "sphinx", "-q", "-b", "html", source, self.folder / "html", paths=(source,))

    def edit(self, round_number: int) -> None:
        topic = self.folder / "build/topics/why_vllm.py"
        text = (REPO / "build/topics/why_vllm.py").read_text("utf-8")
        topic.write_text(text.replace(EDITED, f"{EDITED}    canvas.text(0, 0, ' ' * {round_number + 1})\n"), "utf-8")


def write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def seconds(folder: Path, *command: object, paths: Sequence[Path] = ()) -> float:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [folder / "build", *paths]))}
    began = time.perf_counter()
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"error: {' '.join(map(str, command))} failed: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    return time.perf_counter() - began


def rounds(number: int, ways: dict[str, Callable[[Path, int], dict[str, float]]]) -> dict[str, dict[str, list[float]]]:
    """Each way in turn, in a folder of its own, round after round: way -> what was timed -> seconds of each round."""
    found: dict[str, dict[str, list[float]]] = {way: {} for way in ways}
    for turn, (way, measure) in itertools.product(range(number), ways.items()):
        with tempfile.TemporaryDirectory() as folder:
            for name, taken in measure(Path(folder), turn).items():
                found[way].setdefault(name, []).append(taken)
    return found


def ours(folder: Path, turn: int) -> dict[str, float]:
    copy = Copy(folder)
    told = {"from nothing": copy.regen(), "nothing to do": copy.regen()}
    told |= {"every figure drawn again": copy.regen("--redraw"), "every oracle once more": copy.regen("--verify")}
    copy.edit(turn)
    return told | {"one drawing edited": copy.regen()}


def one_process_a_script(folder: Path, turn: int) -> dict[str, float]:
    copy = Copy(folder)
    told = {"from nothing": copy.topics(), "nothing to do": copy.topics()}
    copy.edit(turn)
    return told | {"one drawing edited": copy.topics()}


def sphinx_gallery(folder: Path, turn: int) -> dict[str, float]:
    copy = Copy(folder)
    told = {"from nothing": copy.gallery(), "nothing to do": copy.gallery()}
    copy.edit(turn)
    return told | {"one drawing edited": copy.gallery()}


def by_size(folder: Path, turn: int) -> dict[str, float]:
    """The cost of more slides: the first 10, the first 20, all, and all for five sentences more."""
    copy, ids = Copy(folder), [slide.id for slide in ONE_CALL.slides]
    told = {str(n): copy.regen("--out", str(folder / str(n)), *(f"--only={one}" for one in ids[:n])) for n in (10, 20, len(ids))}
    sentences = ["It was a dark and", "Once upon a time", "The capital of France", "She opened the window and", "Water boils at"]
    decks = [copy.regen("--out", str(folder / f"s{n}"), "--sentence", text) for n, text in enumerate(sentences)]
    return told | {str(len(ids) * len(sentences)): sum(decks)}


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--json", action="store_true", help="every round's seconds")
    asked = flags.parse_args()
    ways: dict[str, Callable[[Path, int], dict[str, float]]] = {
        "this command": ours,
        "a process for each script": one_process_a_script,
    }
    if importlib.util.find_spec("sphinx_gallery"):
        ways["sphinx-gallery"] = sphinx_gallery
    else:
        print("sphinx-gallery is left out: it is not installed (`make bench` installs it)")
    found = rounds(asked.rounds, ways) | rounds(1, {"by number of slides": by_size})
    if asked.json:
        print(json.dumps(found, indent=1))
        return
    base = found["this command"]
    for way, timed in found.items():
        for name, taken in timed.items():
            line = f"{way:<26} {name:<26} {statistics.median(taken):7.2f} s"
            if way in ways and way != "this command":
                ratios = [a / b for a, b in zip(taken, base[name], strict=True)]
                line += f"  {statistics.median(ratios):6.1f} times this command ({min(ratios):.1f} to {max(ratios):.1f})"
            print(line)


if __name__ == "__main__":
    main()
