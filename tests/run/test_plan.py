"""Staleness: what an edit makes stale, what it leaves alone, and that the reason is said."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from clones import copy_project, edit, run
from pipeline.errors import BadInput
from pipeline.paths import Out
from pipeline.run import fingerprint, manifest, plan
from topics import slides

EVERY = {slide.id for slide in slides()}
MODEL_SLIDES = {slide.id for slide in slides() if "model" in slide.needs}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the sources with its figures, as if every capture had been taken on this machine."""
    return copy_project(tmp_path / "clone")


def explained(folder: Path, *flags: str) -> dict[str, tuple[list[str], list[str]]]:
    """Slide -> (reasons to take, reasons to draw), for the slides that are stale."""
    told = json.loads(run(folder, "--explain", "--json", *flags))["slides"]
    assert len(told) == len(EVERY) or flags
    return {row["id"]: (row["take"], row["draw"]) for row in told if row["take"] or row["draw"]}


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
    edit(clone / "build/topics/opening.py", inside("judge_title", "size = 1"))
    assert explained(clone) == {"opening/title": ([], ["opening.py:judge_title changed"])}


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


def test_editing_the_lab_retakes_everything(clone):
    edit(clone / "build/pipeline/lab.py", lambda source: source + "\nUNUSED = 1\n")
    assert {slide for slide, (take, _) in explained(clone).items() if "pipeline/lab.py changed" in take} == EVERY


def test_a_comment_or_a_blank_line_makes_nothing_stale(clone):
    for path in (clone / "build").rglob("*.py"):
        path.write_text("# a comment\n\n" + path.read_text("utf-8"), "utf-8")
    assert explained(clone) == {}


def test_another_matplotlib_redraws_and_another_torch_retakes(clone):
    requirements = clone / "build/requirements.txt"
    edit(requirements, lambda source: source.replace("matplotlib==", "matplotlib==0."))
    stale = explained(clone)
    assert set(stale) == EVERY and all(not take for take, _ in stale.values())
    edit(requirements, lambda source: source.replace("torch==", "torch==0."))
    assert {slide for slide, (take, _) in explained(clone).items() if "torch changed" in take} == MODEL_SLIDES


def test_another_sentence_retakes_what_reads_it(clone):
    stale = explained(clone, "--sentence", "Another one", "--out", str(clone))
    assert {slide for slide, (take, _) in stale.items() if "sentence changed" in take} == {s.id for s in slides() if s.needs}


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
        plan.select(slides(), ["kv_cash"])
    with pytest.raises(BadInput, match="opening/nothing"):
        plan.select(slides(), ["opening/nothing"])


def test_every_pin_that_staleness_depends_on_stands_in_the_requirements():
    names = {*plan.MODEL_PINS, *plan.SERVER_PINS, *plan.DRAW_PINS, *plan.DECK_PINS}
    assert names <= fingerprint.pins().keys()


def test_every_module_that_staleness_depends_on_exists():
    for name in (*plan.CAPTURE_MODULES, *plan.MODEL_MODULES, *plan.SERVER_MODULES, *plan.DRAW_MODULES, *plan.DECK_MODULES):
        assert fingerprint.module_path(name), name
