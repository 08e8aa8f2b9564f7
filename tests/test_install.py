"""Setting up: which installer is taken, what it is told, and that each stage is one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.paths import BUILD

INSTALL = BUILD / "install.py"
TELLS_ITS_ARGUMENTS = '#!/bin/sh\necho "$@" >> "$TOLD"\n'


def set_up(tmp_path: Path, *, uv: bool, code: int = 0, **environment: str) -> tuple[subprocess.CompletedProcess, list[str]]:
    """Run the installer on an environment that has a stand-in for pip (and one for uv); return it and what they were told."""
    told, folder, tools = tmp_path / "told", tmp_path / "env", tmp_path / "tools"
    for path in (told.parent, folder / "bin", tools):
        path.mkdir(parents=True, exist_ok=True)
    for path in (folder / "bin" / "python", *([tools / "uv"] if uv else [])):
        path.write_text(f"{TELLS_ITS_ARGUMENTS}exit {code}\n")
        path.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_", "TORCH_INDEX"))}
    env = {**kept, "PATH": f"{tools}:/usr/bin:/bin", "TOLD": str(told)} | environment
    command = [sys.executable, str(INSTALL), str(folder), str(BUILD / "requirements.txt")]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    return done, [line for line in told.read_text().splitlines() if "pip config" not in line]


@pytest.mark.parametrize("uv", [True, False])
def test_it_installs_with_uv_where_that_is_there_and_keeps_to_the_constraints(tmp_path, uv):
    done, (told,) = set_up(tmp_path, uv=uv)
    assert done.returncode == 0, done.stderr
    assert told.startswith("pip install" if uv else "-m pip install")
    assert told.endswith(f"-r {BUILD / 'requirements.txt'} -c {BUILD / 'constraints.txt'}")
    first, *_, last = done.stdout.splitlines()
    assert ("with uv" if uv else "with pip") in first and "is ready" in last and len(done.stdout.splitlines()) == 3


@pytest.mark.parametrize("uv", [True, False])
def test_torch_comes_from_an_index_of_cpu_builds_when_one_is_named(tmp_path, uv):
    _, told = set_up(tmp_path, uv=uv, TORCH_INDEX="https://cpu.example", PIP_INDEX_URL="https://all.example")
    assert len(told) == 2 and "--no-deps" in told[0] and "https://cpu.example torch==" in told[0]
    assert "all.example" not in told[0] and "cpu.example" not in told[1]


def test_uv_is_told_the_index_that_pip_is_set_up_with(tmp_path):
    _, (told,) = set_up(tmp_path, uv=True, PIP_INDEX_URL="https://all.example")
    assert "--default-index https://all.example" in told


def test_an_installation_that_fails_says_so_and_stops(tmp_path):
    done, told = set_up(tmp_path, uv=True, code=1)
    assert done.returncode == 3 and len(told) == 1
    assert done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 1
