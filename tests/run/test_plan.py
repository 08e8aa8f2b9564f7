"""Staleness: what an edit makes stale, what it leaves alone, and that the reason is said."""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from clones import copy_project, edit, run
from decks import ONE_CALL
from pipeline.errors import BadInput
from pipeline.paths import Out
from pipeline.run import fingerprint, manifest, plan, sources

EVERY = {slide.id for slide in ONE_CALL.slides}
MODEL_SLIDES = {slide.id for slide in ONE_CALL.slides if "model" in slide.needs}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the sources with its figures, as if every capture had been taken on this machine."""
    return copy_project(tmp_path / "clone")


def explained(folder: Path, *flags: str) -> dict[str, tuple[list[str], list[str]]]:
    """Slide -> (reasons to take, reasons to draw), for the slides that are stale."""
    document = json.loads(run(folder, "--explain", "--json", *flags))["slides"]
    assert len(document) == len(EVERY) or flags
    return {row["id"]: (row["take"], row["draw"]) for row in document if row["take"] or row["draw"]}


def inside(function: str, line: str) -> Callable[[str], str]:
    """An edit that adds one harmless line at the top of a function's body."""
    return lambda source: re.sub(rf"(def {function}\([^)]*\)[^\n]*:\n)", rf"\1    {line}\n", source, count=1)


def test_the_committed_deck_is_up_to_date_with_its_sources(clone):
    assert explained(clone) == {}


def test_editing_a_draw_function_redraws_its_slide_only(clone):
    edit(clone / "build/topics/opening.py", inside("draw_title", "size = 1"))
    stale = explained(clone)
    assert stale == {"opening/title": ([], ["opening.py:draw_title changed"])}


def test_editing_a_capture_function_retakes_its_slide_only(clone):
    edit(clone / "build/topics/opening.py", inside("capture_running_example", "size = 1"))
    stale = explained(clone)
    assert set(stale) == {"opening/running_example"}
    assert stale["opening/running_example"][0] == ["opening.py:capture_running_example changed"]


def test_editing_an_oracle_asserts_and_redraws_its_slide_without_retaking(clone):
    edit(clone / "build/topics/opening.py", inside("oracle_title", "size = 1"))
    assert explained(clone) == {"opening/title": ([], ["opening.py:oracle_title changed"])}


def test_editing_a_constant_makes_stale_only_what_reaches_it(clone):
    edit(clone / "build/topics/opening.py", lambda source: source.replace("EXAMPLE_STEPS = 4", "EXAMPLE_STEPS = 3"))
    assert set(explained(clone)) == {"opening/running_example"}


def test_editing_a_claim_takes_and_draws_nothing_and_reaches_the_deck(clone):
    edit(clone / "build/topics/why_vllm.py", lambda source: source.replace('claim="', 'claim="Changed. ', 1))
    assert explained(clone) == {}
    assert "deck/index.html" in json.loads(run(clone, "--json"))["changed"]
    assert "Changed. " in (clone / "deck/index.html").read_text("utf-8")


def test_editing_the_strip_redraws_everything(clone):
    edit(clone / "build/pipeline/drawing/worker.py", lambda source: source + "\nUNUSED = 1\n")
    assert set(explained(clone)) == EVERY


def test_editing_the_canvas_redraws_everything_and_retakes_nothing(clone):
    edit(clone / "build/pipeline/drawing/canvas.py", lambda source: source + "\nUNUSED = 1\n")
    stale = explained(clone)
    assert set(stale) == EVERY
    assert all(not take for take, _ in stale.values())


@pytest.mark.parametrize("module", ["lab", "run/taking"])
def test_editing_what_every_capture_is_taken_with_retakes_everything(clone, module):
    edit(clone / f"build/pipeline/{module}.py", lambda source: source + "\nUNUSED = 1\n")
    assert {slide for slide, (take, _) in explained(clone).items() if f"pipeline/{module}.py changed" in take} == EVERY


def with_other_docstrings(source: str) -> str:
    """The same code in another layout, with other docstrings and other comments."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body[0] = ast.Expr(ast.Constant("Another.\n\nMuch longer."))
    return ast.unparse(tree).replace(":\n", ":  # a comment\n\n")


def test_comments_docstrings_and_layout_make_nothing_stale(clone):
    for path in (clone / "build").rglob("*.py"):
        edit(path, with_other_docstrings)
    assert explained(clone) == {}


def test_a_topic_more_or_in_another_order_makes_no_slide_stale(clone):
    edit(
        clone / "build/decks.py",
        lambda source: source.replace('"attention",\n                "logits"', '"logits",\n                "attention"'),
    )
    assert explained(clone) == {}


def test_editing_what_decides_staleness_makes_nothing_stale(clone):
    edit(clone / "build/pipeline/run/plan.py", lambda source: source + "\nUNUSED = 1\n")
    assert explained(clone) == {}


def test_editing_what_only_a_function_imports_retakes_its_slides(clone):
    edit(clone / "build/pipeline/serving/gateway.py", lambda source: source + "\nUNUSED = 1\n")
    stale = explained(clone)
    assert set(stale) == {"one_shape/native_and_normalised", "one_shape/direct_and_through", "whole_path/five_ways"}
    assert all(take == ["pipeline/serving/gateway.py changed"] for take, _ in stale.values())


def test_another_kind_redraws_its_slide(clone):
    edit(
        clone / "build/topics/opening.py",
        lambda source: source.replace("    Slide(\n", '    Slide(\n        kind="concept",\n', 1),
    )
    assert list(explained(clone).values()) == [([], ["its kind and needs changed"])]


def test_a_run_with_nothing_to_do_parses_nothing_and_keeps_what_it_read(clone):
    explained(clone)
    kept = (clone / "build/.sources.json").stat()
    explained(clone)
    again = (clone / "build/.sources.json").stat()
    assert (again.st_ino, again.st_mtime_ns) == (kept.st_ino, kept.st_mtime_ns)  # written anew whenever anything is parsed


def test_another_matplotlib_redraws_and_another_torch_retakes(clone):
    requirements = clone / "build/requirements.txt"
    edit(requirements, lambda source: source.replace("matplotlib==", "matplotlib==0."))
    stale = explained(clone)
    assert set(stale) == EVERY and all(not take for take, _ in stale.values())
    edit(requirements, lambda source: source.replace("torch==", "torch==0."))
    assert {slide for slide, (take, _) in explained(clone).items() if "torch changed" in take} == MODEL_SLIDES


def test_another_sentence_retakes_what_reads_it(clone):
    stale = explained(clone, "--sentence", "Another one", "--out", str(clone))
    readers = {slide.id for slide in ONE_CALL.slides if slide.needs}
    assert {slide for slide, (take, _) in stale.items() if "sentence changed" in take} == readers


def test_a_capture_from_another_machine_is_taken_again_here(clone):
    manifest.ledger(Out(clone)).unlink()
    assert {slide for slide, (take, _) in explained(clone).items() if take == ["not yet taken on this machine"]} == EVERY


def test_a_missing_damaged_or_edited_capture_or_figure_is_noticed(clone):
    out = Out(clone)
    out.capture("opening/title").unlink()
    out.capture("opening/one_call").write_text("{", "utf-8")
    out.figure("opening/running_example").unlink()
    stale = explained(clone)
    assert stale["opening/title"][0] == ["its capture is missing"]
    assert stale["opening/one_call"][0] == ["its capture was changed by hand"]
    assert stale["opening/running_example"] == ([], ["its figure is missing"])
    assert len(stale) == 3


def test_a_damaged_manifest_makes_everything_stale_instead_of_crashing(clone):
    for damage in (
        "",
        "[]",
        "{}",
        "\x00",
        '{"version": 2, "slides": [{}], "deck": {}}',
        '{"version": 99, "slides": []}',
        "[" * 100_000,
    ):
        Out(clone).manifest.write_text(damage, "utf-8")
        assert set(explained(clone)) == EVERY


def test_an_unknown_topic_or_slide_is_named():
    with pytest.raises(BadInput, match="kv_cash"):
        plan.select(ONE_CALL.slides, ["kv_cash"])
    with pytest.raises(BadInput, match="opening/nothing"):
        plan.select(ONE_CALL.slides, ["opening/nothing"])


def test_every_pin_that_staleness_depends_on_stands_in_the_requirements():
    names = {*plan.MODEL_PINS, *plan.SERVER_PINS, *plan.DRAW_PINS, *plan.DECK_PINS}
    assert names <= fingerprint.pins().keys()


def test_every_module_that_staleness_depends_on_exists():
    for name in (*plan.CAPTURE_MODULES, *plan.MODEL_MODULES, *plan.SERVER_MODULES, *plan.DRAW_MODULES, *plan.DECK_MODULES):
        assert name in sources.every(), name
