"""A capture taken again that agrees leaves the committed bytes alone; what does not is kept, and the run says what changed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clones import copy_project, run
from decks import ONE_CALL
from pipeline.checksum import file_sha256
from pipeline.paths import COMMITTED, Out
from pipeline.run import compare, manifest
from pipeline.run.flags import parser, with_the_decks_own_sources

TITLE = next(slide for slide in ONE_CALL.slides if slide.id == "opening/title")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the project on a machine that has taken nothing yet."""
    folder = copy_project(tmp_path / "clone")
    manifest.ledger(Out(folder)).unlink()
    return folder


def rewrite(folder: Path, slide_id: str, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Change a committed capture as if it had been taken like that; return its bytes."""
    out = Out(folder)
    capture = json.loads(out.capture(slide_id).read_text("utf-8"))
    change(capture)
    out.capture(slide_id).write_text(json.dumps(capture), "utf-8")
    kept = json.loads(out.manifest.read_text("utf-8"))
    next(row for row in kept["slides"] if row["id"] == slide_id)["capture_sha256"] = file_sha256(out.capture(slide_id))
    out.manifest.write_text(json.dumps(kept), "utf-8")
    return out.capture(slide_id).read_bytes()


def nudge(by: float) -> Callable[[dict[str, Any]], None]:
    def change(capture: dict[str, Any]) -> None:
        capture["data"]["steps"][0]["probability"] += by

    return change


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for part in ("figures", "deck") for path in (folder / part).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if not path.name.startswith(".")}


def test_photographs_taken_on_a_new_machine_that_agree_change_no_byte(clone):
    before = tree(clone)
    said = run(clone, "--only", "opening", "--only", "kv_cache", "--only", "why_vllm")
    assert "5 photographs taken here: 5 agree with the committed ones; nothing changed" in said
    assert tree(clone) == before
    assert "taken in" not in run(clone, "--only", "opening", "--only", "kv_cache", "--only", "why_vllm")  # it held here


@pytest.mark.slow
def test_noise_in_the_last_digits_is_left_as_it_was_and_force_keeps_what_was_taken(clone):
    noisy = rewrite(clone, TITLE.id, nudge(1e-6))
    said = run(clone, "--only", TITLE.id)
    assert "1 photograph taken here: 1 agree with the committed ones" in said
    assert Out(clone).capture(TITLE.id).read_bytes() == noisy
    run(clone, "--only", TITLE.id, "--force")
    assert Out(clone).capture(TITLE.id).read_bytes() != noisy


def test_what_does_not_agree_is_kept_as_taken_and_reported_with_its_size(clone):
    before = Out(clone).capture(TITLE.id).read_bytes()
    rewrite(clone, TITLE.id, nudge(-0.05))
    said = run(clone, "--only", TITLE.id)
    assert "changed: opening/title: steps[0].probability is" in said and ", was" in said
    assert "1 photograph taken here: 0 agree with the committed ones" in said
    taken = json.loads(Out(clone).capture(TITLE.id).read_text("utf-8"))
    assert compare.apart(TITLE, json.loads(before), taken) == []


@pytest.mark.slow
def test_a_capture_of_another_model_is_replaced_and_said_to_be_of_another(clone):
    rewrite(clone, TITLE.id, lambda capture: capture["provenance"]["model"].update(name="some-other-model"))
    said = run(clone, "--only", TITLE.id)
    assert "changed: opening/title: taken from some-other-model" in said


def test_a_check_in_which_nothing_can_be_compared_ends_with_3(clone):
    rewrite(clone, TITLE.id, lambda capture: capture["provenance"]["model"].update(sha256="0" * 64))
    run(clone, "--check", "--only", TITLE.id, code=3)


@pytest.mark.parametrize(
    ("model", "server", "flags", "expected"),
    [
        ("SmolLM2-135M-Instruct", "transformers serve", "", ("smollm2", "embedded", None)),
        ("gpt2", "Ollama", "", ("gpt2", "auto", None)),
        ("mine", None, "--model=./mine --sentence='A b'", ("./mine", "auto", "A b")),
    ],
)
def test_a_check_takes_the_model_and_the_server_of_the_captures_it_compares_with(model, server, flags, expected):
    known = manifest.read(COMMITTED)
    entry = known.entries[TITLE.id]
    fields = {**vars(entry), "model": model, "server": server, "flags": flags}
    known = manifest.Manifest(COMMITTED, {TITLE.id: manifest.Entry(**fields)})
    asked = with_the_decks_own_sources(parser().parse_args(["--check"]), [TITLE], known)
    assert (asked.model, asked.server) == expected[:2]
    assert expected[2] is None or asked.sentence == expected[2]


def test_a_check_that_is_told_another_model_takes_that():
    asked = parser().parse_args(["--check", "--model", "gpt2"])
    assert with_the_decks_own_sources(asked, [TITLE], manifest.read(COMMITTED)).model == "gpt2"


def test_a_damaged_manifest_never_publishes_a_part_as_the_whole(clone):
    before = (clone / "deck/index.html").read_bytes()
    Out(clone).manifest.write_text("{", "utf-8")
    run(clone, "--only", "why_vllm", code=2)
    run(clone, "--redraw", "--only", "why_vllm", code=2)
    run(clone, "--verify", code=2)
    assert (clone / "deck/index.html").read_bytes() == before
