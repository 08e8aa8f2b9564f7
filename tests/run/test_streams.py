"""The start and the end of the process: what it prints to, how it begins, and Ctrl-C before it has begun."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clones import copy_project, elsewhere
from decks import ONE_CALL
from pipeline.paths import BUILD

REGEN = [sys.executable, str(BUILD / "regen_all.py")]
FULL = Path("/dev/full")
INTERRUPTED = """
import os, runpy, signal, sys
left = {moment}
class Interrupter:
    def find_spec(name, path=None, target=None):
        global left
        if "argparse" in sys.modules or name == "argparse":  # Ctrl-C is minded from here on
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupter)
sys.argv = [{script!r}, "--verify"]
runpy.run_path({script!r}, run_name="__main__")
"""


def ran(*flags: str, **settings) -> subprocess.CompletedProcess:
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": elsewhere(), "timeout": 120} | settings
    return subprocess.run([*REGEN, *flags], **settings)


@pytest.mark.parametrize("flags", [["--list", "--json"], ["--list"], ["--verify"], ["--help"]])
def test_a_reader_that_leaves_ends_nothing(flags):
    reading, writing = os.pipe()
    os.close(reading)  # gone before the first line
    done = ran(*flags, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_build_whose_reader_left_is_built(tmp_path):
    folder = copy_project(tmp_path / "clone")
    figure = folder / "figures/why_vllm/slab_or_pages.png"
    figure.unlink()
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, str(folder / "build/regen_all.py"), "--redraw", "--only", "why_vllm"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
    assert figure.is_file()


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("flags", [["--verify", "--json"], ["--list"], ["--nothing", "--json"]])
def test_a_full_output_is_one_line(flags):
    with FULL.open("w") as full:
        done = ran(*flags, stdout=full)
    assert done.returncode == 3
    assert done.stderr.startswith("error: standard output cannot be written (No space left on device)")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_stream_that_is_closed_from_the_start_changes_no_outcome(number):
    assert ran("--list", preexec_fn=lambda: os.close(number)).returncode == 0
    assert ran("--nothing", preexec_fn=lambda: os.close(number)).returncode == 2


@pytest.mark.parametrize("flags", [["--nothing"], ["--jobs", "x"], ["--verify", "--redraw"], ["--only"]])
def test_a_wrong_flag_with_json_is_json_too(flags):
    done = ran("--json", *flags)
    document = json.loads(done.stdout)
    assert (done.returncode, document["exit"], done.stderr) == (2, 2, "")
    assert "--help" in document["error"]


def test_a_pdf_that_cannot_be_printed_is_reported_even_when_quiet(tmp_path):
    folder = copy_project(tmp_path / "clone")
    command = [sys.executable, str(folder / "build/regen_all.py"), "--redraw", "--only", "why_vllm", "--quiet", "--pdf"]
    (tmp_path / "bin").mkdir()
    env = {**elsewhere(), "PATH": str(tmp_path / "bin")}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout) == (3, "")
    assert "no PDF was printed" in done.stderr and len(done.stderr.splitlines()) == 1


UNBEGUN, UNTOUCHED = "nothing was begun", "the last good deck is untouched"


@pytest.mark.parametrize(("moment", "said"), [*((moment, UNBEGUN) for moment in (1, 2, 5, 20, 50, 90)), (130, UNTOUCHED)])
def test_ctrl_c_while_modules_are_still_imported_is_one_line(moment, said):
    script = INTERRUPTED.format(moment=moment, script=REGEN[1])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 130
    assert done.stderr == f"error: interrupted; {said}\n"


def test_a_python_that_adds_no_folder_to_its_path_runs_the_command_and_a_topic():
    env = {**elsewhere(), "PYTHONSAFEPATH": "1"}
    assert len(ran("--list", env=env).stdout.splitlines()) == len(ONE_CALL.slides)
    script = str(BUILD / "topics" / "opening.py")
    done = subprocess.run([sys.executable, script, "--list"], capture_output=True, text=True, env=env)
    assert len(done.stdout.splitlines()) == 3, done.stderr


def test_a_home_that_cannot_be_written_is_not_mentioned_when_figures_are_drawn(tmp_path):
    folder = copy_project(tmp_path / "clone")
    (tmp_path / "home").write_text("a file: nothing can be written under it")
    env = {**elsewhere(), "HOME": str(tmp_path / "home"), "PYTHONSAFEPATH": "1"}
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR"):
        env.pop(name, None)
    command = [sys.executable, str(folder / "build/regen_all.py"), "--redraw", "--only", "why_vllm"]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_run_that_began_with_ctrl_c_and_hang_up_ignored_is_still_ended_by_sigterm(tmp_path):
    def ignoring():
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    folder = copy_project(tmp_path / "clone")
    before = (folder / "deck/index.html").read_bytes()
    command = [sys.executable, str(folder / "build/regen_all.py"), "--force", "--only", "opening"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=elsewhere(), preexec_fn=ignoring
    )
    while "taken in" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)  # ignored, as it was asked for
    process.terminate()
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 143 and len(error.splitlines()) == 1 and "interrupted" in error
    assert (folder / "deck/index.html").read_bytes() == before
