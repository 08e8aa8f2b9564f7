"""`--check`: drift is found where it is, and nothing else is called drift."""

import copy
import json

import pytest

from decks import ONE_CALL
from pipeline.lab import Lab
from pipeline.paths import COMMITTED, Out
from pipeline.run import manifest
from pipeline.run.check import check
from pipeline.run.compare import differences, other_source
from pipeline.slide import Tolerance

CLOSE = Tolerance(atol=0.01, rtol=0)


@pytest.mark.parametrize(
    ("then", "now", "found"),
    [
        ({"id": 3}, {"id": 3}, []),
        ({"id": 3}, {"id": 4}, ["id is 4, was 3"]),
        ({"text": "a"}, {"text": "b"}, ["text is 'b', was 'a'"]),
        ({"holds": True}, {"holds": False}, ["holds is False, was True"]),
        ({"id": 1}, {"id": True}, ["id is True, was 1"]),
        ({"x": 1.0}, {"x": 1.005}, []),
        ({"x": 1.0}, {"x": 1}, []),
        ({"x": 1.0}, {"x": 1.02}, ["x is 1.02, was 1"]),
        ({"x": 1.0}, {"x": float("nan")}, ["x is nan, was 1"]),
        ({"x": [1.0, 2.0]}, {"x": [1.0]}, ["x has 1 entries, was 2"]),
        ({"x": [{"y": 1}]}, {"x": [{"y": 2}]}, ["x[0].y is 2, was 1"]),
        ({"x": 1}, {}, ["x is gone"]),
        ({}, {"x": 1}, ["x is new"]),
    ],
)
def test_differences_are_exact_for_tokens_and_within_bounds_for_floats(then, now, found):
    assert list(map(str, differences(then, now, CLOSE))) == found


def committed(slide_id: str) -> dict:
    return json.loads(COMMITTED.capture(slide_id).read_text("utf-8"))


def test_a_capture_of_another_model_or_server_is_not_comparable():
    first = committed("opening/title")["provenance"]
    other = copy.deepcopy(first)
    other["model"]["sha256"] = "0" * 64
    assert other_source(first, first) == ""
    assert "this machine has" in other_source(other, first)
    reason = other_source({**first, "model": {**first["model"], "sha256": "cd" * 32}}, first)
    assert "cdcdcdcd" in reason and first["model"]["sha256"][:8] in reason  # of one name, and yet not the same
    served = committed(server_slide())["provenance"]
    other = copy.deepcopy(served)
    other["server"] |= {"kind": "ollama", "name": "Ollama", "model": "qwen2.5:0.5b"}
    assert "qwen2.5:0.5b on Ollama" in other_source(other, served)


def server_slide() -> str:
    return next(slide.id for slide in ONE_CALL.slides if "server" in slide.needs)


def test_no_capture_of_this_model_drifts_and_a_tampered_one_does(lab: Lab, tmp_path):
    chosen = [slide for slide in ONE_CALL.slides if slide.topic in ("opening", "kv_cache", "why_vllm")]
    if committed("opening/title")["provenance"]["model"]["sha256"] != lab.loaded.provenance["sha256"]:
        pytest.skip("the committed captures are of another model than the one found here")
    assert [one.drift for one in check(chosen, lab, manifest.read(COMMITTED))] == [[] for _ in chosen]
    out = Out(tmp_path)
    for slide in chosen:
        capture = committed(slide.id)
        if slide.id == "opening/title":
            capture["data"]["completion"][0]["id"] += 1
        out.capture(slide.id).parent.mkdir(parents=True, exist_ok=True)
        out.capture(slide.id).write_text(json.dumps(capture), "utf-8")
    drift = {one.row.slide.id: one.drift for one in check(chosen, lab, manifest.read(out))}
    assert drift.pop("opening/title") and not any(drift.values())
