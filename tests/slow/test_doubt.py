"""Every oracle refuses damage to what it reads, but for what is explained; and the trial itself can fail."""

import dataclasses

import numpy as np
import pytest

from decks import ONE_CALL
from doubt.damage import cases
from doubt.falsify import explained, trial
from doubt.seen import Seen, is_read
from pipeline.slide import Slide, Verdict


@pytest.mark.parametrize("slide", ONE_CALL.slides, ids=lambda slide: slide.id)
def test_the_oracle_refuses_damage_to_what_it_reads(slide: Slide):
    done = trial(slide)
    assert {case.told(slide.id) for case in done.survived} <= explained("damage").keys()
    assert sum(done.refused.values()) > 40


def test_an_oracle_that_looks_and_does_not_judge_survives_everything_that_no_guard_sees():
    slide = next(slide for slide in ONE_CALL.slides if slide.id == "kv_cache/growth")
    lenient = dataclasses.replace(slide, oracle=lambda data: Verdict(data["steps"][0]["tokens"] is not None, "", ""))
    assert {case.damage for case in trial(lenient).survived} >= {"moved", "missing", "other type"} - {"missing"}


def test_a_place_is_read_when_its_key_is_looked_up_also_by_numpy():
    data = {"a": [1.0, 2.0], "b": [{"c": 1, "d": "x"}], "e": ["x", "y"], "f": 1}
    log: set = set()
    seen = Seen(data, log)
    assert np.array(seen["a"]).sum() == 3 and seen["b"][0]["c"] == 1 and len(seen["e"]) == 2
    read = {case.path for case in cases(data) if is_read(case.path, data, log, case.damage)}
    assert read == {("a",), ("a", 0), ("a", 1), ("b",), ("b", 0), ("b", 0, "c"), ("e",)}
    damaged = {case.told("s") for case in cases(data)}
    assert "s: swapped at e" in damaged and not is_read(("e",), data, log, "swapped")
    assert data == {"a": [1.0, 2.0], "b": [{"c": 1, "d": "x"}], "e": ["x", "y"], "f": 1}
