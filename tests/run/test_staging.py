"""Publishing: whole or not at all, whatever ends the run, and one run at a time."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from clones import copy_project, elsewhere, run
from pipeline.errors import MissingPart
from pipeline.paths import BUILD, Out
from pipeline.run.staging import Staging, only_run

MOMENTS = 10
FILES = [f"figures/f{n}.png" for n in range(6)] + ["figures/manifest.json", "deck/index.html"]
WRITER = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {build!r})
from pipeline.paths import Out
from pipeline.run.staging import Staging, only_run
left = int(sys.argv[2])
def dying(call):
    def wrapped(*args, **kwargs):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)
    return wrapped
for name in ("write_bytes", "write_text", "rename", "replace", "unlink"):
    setattr(Path, name, dying(getattr(Path, name)))
out = Out(Path(sys.argv[1]))
with only_run(out):
    staging = Staging(out)
    for name in {files!r}:
        staging.write(out.root / name, "new " + name)
    staging.publish()
"""


def state(root: Path) -> set[str]:
    return {(root / name).read_text("utf-8").split()[0] for name in FILES}


def test_a_kill_at_any_step_leaves_all_old_or_all_new_after_the_next_run(tmp_path):
    script = WRITER.format(build=str(BUILD), files=FILES)
    seen = set()
    for step in range(60):
        root = tmp_path / str(step)
        for name in FILES:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"old {name}", "utf-8")
        done = subprocess.run([sys.executable, "-c", script, str(root), str(step)], capture_output=True, text=True)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        with only_run(Out(root)):
            Staging(Out(root))
        after = state(root)
        assert len(after) == 1, f"mixed after a kill at step {step}: {after}"
        seen |= after
        assert not (root / "figures" / ".staging").exists()
        if done.returncode == 0:
            break
    else:
        pytest.fail("the writer never got through")
    assert seen == {"old", "new"}


def test_files_with_the_same_bytes_are_not_touched(tmp_path):
    out = Out(tmp_path)
    for _ in range(2):
        with only_run(out):
            staging = Staging(out)
            staging.write(out.html, "same")
            changed = staging.publish()
    assert changed == []


def test_a_second_run_at_the_same_time_is_refused_and_told_who_runs(tmp_path):
    out = Out(tmp_path)
    with only_run(out):
        script = (
            f"import sys; sys.path.insert(0, {str(BUILD)!r})\nfrom pathlib import Path\n"
            f"from pipeline.paths import Out; from pipeline.run.staging import only_run\n"
            f"with only_run(Out(Path({str(tmp_path)!r}))): pass"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"process {os.getpid()}" in done.stderr.splitlines()[-1]


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "figures").write_text("a file where the folder should be", "utf-8")
    with pytest.raises(MissingPart, match="--out DIR"), only_run(Out(tmp_path)):
        pass


def deck_bytes(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for root in ("figures", "deck")
        for path in sorted((folder / root).rglob("*"))
        if path.is_file()
        and ".staging" not in path.parts
        and not path.name.startswith(".lock")
        and path.name != ".held_here.json"
    }


@pytest.mark.slow
def test_a_build_killed_at_ten_random_moments_leaves_the_last_good_deck_whole(tmp_path):
    """SIGKILL of a real redraw after an edit that changes every figure; the next run completes."""
    folder = copy_project(tmp_path / "clone")
    before = deck_bytes(folder)
    canvas = folder / "build/pipeline/drawing/canvas.py"
    canvas.write_text(
        canvas.read_text("utf-8").replace('PAPER, CONCEPT_PAPER = "#fbfaf7"', 'PAPER, CONCEPT_PAPER = "#fbfaf6"'), "utf-8"
    )
    command = [sys.executable, str(folder / "build/regen_all.py"), "--redraw", "--only", "opening", "--only", "why_vllm"]
    start = time.monotonic()
    rehearsal = copy_project(tmp_path / "rehearsal")
    run(rehearsal, "--redraw", "--only", "opening", "--only", "why_vllm")
    whole = time.monotonic() - start
    chance = random.Random(7)
    for _ in range(MOMENTS):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(chance.uniform(0.1, whole * 0.8))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        after = deck_bytes(folder)
        assert after.keys() == before.keys()
        if (folder / "figures/.staging/renames.json").exists() or after["figures/manifest.json"] != before[
            "figures/manifest.json"
        ]:
            break  # it had come to publishing: from here on the next run completes it
        assert after == before
    run(folder, "--redraw", "--only", "opening", "--only", "why_vllm")
    completed = deck_bytes(folder)
    assert completed["figures/opening/title.png"] != before["figures/opening/title.png"]
    assert not (folder / "figures/.staging").exists()
    run(folder, "--verify")


@pytest.mark.slow
def test_drawing_processes_end_when_their_parent_is_killed(tmp_path):
    folder = copy_project(tmp_path / "clone")
    command = [sys.executable, str(folder / "build/regen_all.py"), "--redraw"]
    process = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=elsewhere())
    while len(workers := process.children(recursive=True)) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(1)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert alive == []


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path):
    folder = copy_project(tmp_path / "clone")
    before = deck_bytes(folder)

    def small_files_only():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(
        [sys.executable, str(folder / "build/regen_all.py"), "--redraw", "--only", "opening"],
        capture_output=True, text=True, env=elsewhere(), preexec_fn=small_files_only,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "the last good deck is untouched" in done.stderr
    assert deck_bytes(folder) == before


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of two megabytes; skipped where mounting is not allowed."""
    place = tmp_path / "disk"
    place.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True).returncode
    ):
        pytest.skip("mounting a small file system needs root")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.slow
def test_a_disk_that_fills_up_is_one_line(tiny_disk):
    done = subprocess.run(
        [sys.executable, str(BUILD / "regen_all.py"), "--only", "why_vllm", "--only", "serving_options", "--out", str(tiny_disk)],
        capture_output=True, text=True,
    )  # fmt: skip
    (tiny_disk / "ballast").write_bytes(b"\0" * (2 << 20)) if done.returncode == 0 else None
    assert done.returncode in (0, 3)
    assert len(done.stderr.strip().splitlines()) <= 1


@pytest.mark.slow
def test_a_read_only_folder_is_one_line(tiny_disk):
    subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)
    done = subprocess.run(
        [sys.executable, str(BUILD / "regen_all.py"), "--only", "why_vllm", "--out", str(tiny_disk)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert len(done.stderr.strip().splitlines()) == 1 and "cannot write" in done.stderr
