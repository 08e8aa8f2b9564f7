"""Fingerprints: what counts as a change of the code behind a slide, and that every way to import is seen."""

import ast
import json
import os
import subprocess
import sys

import pytest

from decks import ONE_CALL
from pipeline.paths import BUILD, COMMITTED
from pipeline.run import fingerprint, plan, sources
from pipeline.settings import DEFAULT_SENTENCE
from tracer import job, trace

MODULE = '''
from pipeline.slide import Verdict, Data
LIMIT = 3
OTHER = 4
def helper(x):
    return x + LIMIT
def capture(lab):
    """Doc."""
    return helper(1)
def draw(canvas, data):
    return OTHER
class Unused:
    pass
'''
PROJECT = {
    "pipeline/__init__.py": "",
    "pipeline/slide.py": "Verdict = Data = 1",
    "pipeline/drawing/__init__.py": "",
    "pipeline/drawing/canvas.py": "INK = 1",
    "pipeline/again/__init__.py": "from ..drawing.canvas import INK",
    "pipeline/within/__init__.py": "from . import inner",
    "pipeline/within/inner.py": "def ink():\n    from ..drawing import canvas as c\n    return c.INK",
    "topics/__init__.py": "",
    "topics/topic.py": MODULE,
}
DRAWING = {"pipeline/__init__.py", "pipeline/drawing/__init__.py", "pipeline/drawing/canvas.py"}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """write({path: source}) -> the same project, changed, is what the fingerprints are of."""
    monkeypatch.setattr(sources, "BUILD", tmp_path)
    monkeypatch.setattr(sources, "KEPT", tmp_path / ".sources.json")

    def change(files: dict[str, str]) -> None:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, "utf-8")
        sources.every.cache_clear()

    change(PROJECT)
    yield change
    sources.every.cache_clear()


@pytest.fixture
def hashes(write):
    """hashes(source) -> the fingerprint of `capture` in a topic with that source."""

    def of(source: str) -> dict[str, str]:
        write({"topics/topic.py": source})
        return fingerprint.of_function("topics.topic", "capture")

    return of


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 5"),
        ("x + LIMIT", "x - LIMIT"),
        ("helper(1)", "helper(2)"),
        ("LIMIT = 3", "LIMIT = 3\nLIMIT += 1"),
        ("LIMIT = 3", "if True:\n    LIMIT = 3"),
        ("OTHER = 4", "OTHER = (LIMIT := 4)"),
        ("OTHER = 4", "for _ in range(3): print(_)"),
        ("LIMIT = 3", "from math import pi as LIMIT"),
        ("def helper", "@print\ndef helper"),
    ],
)
def test_what_a_function_reaches_counts(hashes, old, new):
    assert hashes(MODULE) != hashes(MODULE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("OTHER = 4", "OTHER = 5"),
        ("class Unused", "class Renamed"),
        ("return OTHER", "return 1"),
        ("Verdict, Data", "Verdict"),
    ],
)
def test_what_a_function_does_not_reach_does_not_count(hashes, old, new):
    assert hashes(MODULE) == hashes(MODULE.replace(old, new))


MEANINGLESS = [
    ("LIMIT = 3\n", "# why\n\nLIMIT = 3\n"),
    ("LIMIT = 3\n", "LIMIT = 3  # three\n"),
    ("x + LIMIT", "(x\n            + LIMIT)"),
    ("Doc.", "Another.\n\n    With a second line.\n    "),
    ('    """Doc."""\n', ""),
    ("\nfrom", '\n"""The module\'s own."""\nfrom'),
    ("LIMIT = 3", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pipeline.drawing import canvas\nLIMIT = 3"),
]


@pytest.mark.parametrize(("old", "new"), MEANINGLESS)
def test_comments_docstrings_and_layout_do_not_count(hashes, old, new):
    assert hashes(MODULE) == hashes(MODULE.replace(old, new))


@pytest.mark.parametrize(("old", "new"), MEANINGLESS[:-1])
def test_comments_docstrings_and_layout_do_not_count_in_a_whole_module_either(write, old, new):
    write({"pipeline/slide.py": MODULE})
    before = fingerprint.of_modules(["pipeline.slide"])
    write({"pipeline/slide.py": MODULE.replace(old, new)})
    assert fingerprint.of_modules(["pipeline.slide"]) == before
    write({"pipeline/slide.py": MODULE.replace("OTHER = 4", "OTHER = 5")})
    assert fingerprint.of_modules(["pipeline.slide"]) != before


@pytest.mark.parametrize(
    ("top", "inside"),
    [
        ("from pipeline.drawing import canvas", "return canvas.INK"),
        ("from pipeline.drawing.canvas import INK", "return INK"),
        ("from pipeline.drawing.canvas import INK as BLACK", "return BLACK"),
        ("from pipeline.drawing.canvas import *", "return INK"),
        ("import pipeline.drawing.canvas", "return pipeline.drawing.canvas.INK"),
        ("import pipeline.drawing.canvas as c", "return c.INK"),
        ("from pipeline import drawing\nimport pipeline.drawing.canvas", "return drawing.canvas.INK"),
        ("", "from pipeline.drawing import canvas; return canvas.INK"),
        ("", "from pipeline.drawing.canvas import INK; return INK"),
        ("", "import pipeline.drawing.canvas; return pipeline.drawing.canvas.INK"),
        ("import importlib", "return importlib.import_module('pipeline.drawing.canvas').INK"),
        ("from pipeline.again import INK", "return INK"),
        ("from pipeline import again", "return again.INK"),
        ("from pipeline.within import inner", "return inner.ink()"),
        ("from pipeline import within", "return within.inner.ink()"),
        ("try:\n    from pipeline.drawing.canvas import INK\nexcept ImportError:\n    INK = 2", "return INK"),
        (
            "class Pen:\n    def ink(self):\n        from pipeline.drawing import canvas\n        return canvas.INK",
            "return Pen().ink()",
        ),
    ],
)
def test_every_way_to_import_is_seen_and_names_what_python_loads(write, tmp_path, top, inside):
    write({"topics/topic.py": f"{top}\ndef capture():\n    {inside}\n"})
    found = fingerprint.of_function("topics.topic", "capture").keys() - {"topic.py:capture"}
    code = "import json, sys; from topics.topic import capture; assert capture() == 1; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = {source.path for name, source in sources.every().items() if name in json.loads(done.stdout)}
    assert found >= DRAWING
    assert found == loaded - {"topics/__init__.py", "topics/topic.py"}


def test_a_module_that_becomes_a_package_is_followed(hashes, write, tmp_path):
    topic = "from pipeline.drawing.canvas import INK\ndef capture(lab):\n    return INK\n"
    before = hashes(topic)
    (tmp_path / "pipeline/drawing/canvas.py").unlink()
    write({"pipeline/drawing/canvas/__init__.py": "INK = 1"})
    after = hashes(topic)
    assert fingerprint.differences(before, after) == [
        "pipeline/drawing/canvas/__init__.py is new",
        "pipeline/drawing/canvas.py is gone",
    ]


HIDING = ("importlib.import_module", "import_module", "__import__", "runpy.run_module", "runpy.run_path", "exec", "eval")


def test_no_module_of_ours_is_imported_in_a_way_that_is_not_seen():
    unseen = []
    for path in sorted({*BUILD.rglob("*.py")} - {*BUILD.glob("doubt/*")}):  # mutants are run, and no deck knows of them
        calls = (node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call))
        for call in calls:
            if sources.dotted(call.func) in HIDING and not isinstance(call.args[0], ast.Constant):
                unseen.append(f"{path.relative_to(BUILD)}: {ast.unparse(call)}")
    assert unseen == ["pipeline/slide.py: importlib.import_module(f'topics.{topic}')"]  # a deck's list of all, part of no slide


def test_no_slide_reads_a_docstring():
    assert [
        name for name in sources.every() if "." in name and b"__doc__" in (BUILD / sources.every()[name].path).read_bytes()
    ] == []


def test_what_a_slide_loads_is_what_its_fingerprint_names():
    """One slide of each kind here; all of them, captures of the model and the server too, in the slow tests."""
    chosen = {slide.id: slide for slide in ONE_CALL.slides}
    drawn, taken = [chosen[name] for name in ("sampling/temperature", "ollama/request")], chosen["hosted_or_local/same_call"]
    jobs = [job(slide, ["oracle", "draw"], capture=str(COMMITTED.capture(slide.id))) for slide in drawn]
    answers = trace([*jobs, job(taken, ["capture"], sentence=DEFAULT_SENTENCE)])
    assert [answer.get("error") for answer in answers] == [None, None, None]
    parts = [*map(plan.draw_parts, drawn), plan.capture_parts(taken, plan.Setting(DEFAULT_SENTENCE, "", ""))]
    for answer, named in zip(answers, parts, strict=True):
        assert len(answer["loaded"]) > 3
        assert set(answer["loaded"]) - named.keys() == set()


def test_an_import_that_is_said_to_carry_nothing_into_a_slide_is_there_and_followed_no_further():
    for importer, imported in fingerprint.WITHOUT_CONTENT:
        every = sources.every()
        assert imported in every[importer].imports
        assert every[imported].path not in fingerprint.of_modules([importer])
        assert every[imported].path in fingerprint.of_modules([imported])


# --- what was read is kept ---


def everything() -> dict[str, sources.Source]:
    sources.every.cache_clear()
    return dict(sources.every())


def never(*what: object) -> None:
    raise AssertionError("parsed")


def test_what_was_read_is_not_parsed_again(write, monkeypatch):
    read = everything()
    monkeypatch.setattr(sources, "read", never)
    assert everything() == read


def test_only_what_was_edited_is_parsed_again_even_if_its_size_and_time_are_the_same(write, monkeypatch, tmp_path):
    everything()
    path, parsed, read = tmp_path / "pipeline/slide.py", [], sources.read
    before = path.stat()
    write({"pipeline/slide.py": "Verdict = Data = 2"})
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    monkeypatch.setattr(sources, "read", lambda text, path, roots: parsed.append(path) or read(text, path, roots))
    everything()
    assert parsed == ["pipeline/slide.py"]


@pytest.mark.parametrize("damage", ["", "{}", "[]\n[]", "\x00", None])
def test_damage_to_what_was_kept_costs_a_reading_and_nothing_else(write, damage):
    read = everything()
    text = sources.KEPT.read_text("utf-8")
    sources.KEPT.write_text(
        text.replace(":helper", ":other").replace('"LIMIT"', '"LIMIX"') if damage is None else damage, "utf-8"
    )
    assert everything() == read
    assert sources.KEPT.read_text("utf-8") == text


def test_where_nothing_can_be_kept_it_is_read_every_time(write, monkeypatch, tmp_path):
    read = everything()
    monkeypatch.setattr(sources, "KEPT", tmp_path / "no such folder" / ".sources.json")
    assert everything() == read
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(sources, "KEPT", tmp_path / "folder")
    assert everything() == read
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(("no", "folder."))] == []


def test_a_half_edited_module_counts_by_its_bytes(write):
    write({"pipeline/slide.py": "def"})
    half = fingerprint.of_modules(["pipeline.slide"])["pipeline/slide.py"]
    write({"pipeline/slide.py": "def f"})
    assert fingerprint.of_modules(["pipeline.slide"])["pipeline/slide.py"] != half


def test_a_module_brings_the_modules_it_imports():
    found = fingerprint.of_modules(["pipeline.run.check"]).keys()
    assert found >= {"pipeline/run/__init__.py", "pipeline/run/check.py", "pipeline/run/taking.py", "pipeline/slide.py"}


def test_a_function_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="nothing"):
        fingerprint.of_function("topics.opening", "nothing")


def test_differences_name_what_changed_what_is_new_and_what_is_gone():
    then, now = {"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}
    assert fingerprint.differences(then, now) == ["b changed", "d is new", "c is gone"]
