"""A deck that does not hold: damaged, changed by hand, not there, or refused by an oracle. Nothing is published."""

import json
import re
import sys

from clones import copy_project, ran, refused, run
from decks import ONE_CALL


def test_a_capture_changed_by_hand_is_not_redrawn(tmp_path):
    folder = copy_project(tmp_path / "clone")
    path = folder / "figures/captures/opening/title.json"
    path.write_text(path.read_text("utf-8").replace("hive", "five"), "utf-8")
    done = ran([sys.executable, str(folder / "build/regen_all.py"), "--redraw"])
    assert done.returncode == 2 and "changed by hand" in done.stderr


def test_verify_of_an_empty_folder_says_what_to_run(tmp_path):
    assert "python build/regen_all.py" in refused("--verify", "--out", str(tmp_path), code=3)


def test_redraw_of_an_empty_folder_says_what_to_run(tmp_path):
    assert "python build/regen_all.py" in refused("--redraw", "--out", str(tmp_path), code=3)


def test_verify_of_a_damaged_capture_is_one_line_and_not_a_traceback(tmp_path):
    folder = copy_project(tmp_path / "clone")
    (folder / "figures/captures/opening/title.json").write_text("{", "utf-8")
    done = ran([sys.executable, str(folder / "build/regen_all.py"), "--verify"])
    assert done.returncode == 2
    assert "damaged" in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_verify_of_a_tampered_capture_fails_with_the_measured_value(tmp_path):
    folder = copy_project(tmp_path / "clone")
    path = folder / "figures/captures/opening/one_call.json"
    capture = json.loads(path.read_text("utf-8"))
    capture["data"]["distribution"][0] += 0.5
    path.write_text(json.dumps(capture), "utf-8")
    done = ran([sys.executable, str(folder / "build/regen_all.py"), "--verify"])
    assert done.returncode == 1
    assert "opening/one_call" in done.stderr and "5.0e-01" in done.stderr


def test_a_failing_oracle_publishes_nothing_and_is_tried_again(tmp_path):
    folder = copy_project(tmp_path / "clone")
    topic = folder / "build/topics/why_vllm.py"
    good = topic.read_text("utf-8")
    before = (folder / "deck/index.html").read_bytes()
    name = ONE_CALL.slides[[s.topic for s in ONE_CALL.slides].index("why_vllm")].oracle.__name__
    topic.write_text(
        re.sub(rf"(def {name}\([^)]*\)[^\n]*:\n)", r"\1    return Verdict(False, 'nothing', 'never')\n", good), "utf-8"
    )
    for _ in range(2):  # a failure is never kept as done
        done = ran(
            [sys.executable, str(folder / "build/regen_all.py"), "--only", "why_vllm"],
        )
        assert done.returncode == 1, done.stdout + done.stderr
        assert "oracle failed" in done.stderr
        assert (folder / "deck/index.html").read_bytes() == before
    topic.write_text(good, "utf-8")
    run(folder, "--only", "why_vllm")
