"""Copies of the project for tests to build in and to edit, and an environment in which only the embedded parts are found."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pipeline.paths import BUILD, COMMITTED, REPO, Out
from pipeline.run import manifest

CLOSED = "http://127.0.0.1:9"  # nothing listens there
REGEN = str(BUILD / "regen_all.py")


def elsewhere() -> dict[str, str]:
    """An environment in which neither gpt2 nor an Ollama is found, whatever this machine has: only the embedded ones."""
    empty = REPO / "tests" / "no-such-cache"
    path = os.pathsep.join(p for p in os.environ.get("PATH", "").split(os.pathsep) if not (Path(p) / "ollama").exists())
    return {**os.environ, "HF_ENDPOINT": CLOSED, "HF_HUB_CACHE": str(empty), "OLLAMA_HOST": CLOSED, "PATH": path}


def copy_project(folder: Path) -> Path:
    for name in ("build", "deck", "figures"):
        shutil.copytree(REPO / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".staging", ".lock*"))
    held = {entry.id: entry.capture_sha256 for entry in manifest.read(COMMITTED).entries.values()}
    manifest.ledger(Out(folder)).write_text(json.dumps(held), "utf-8")
    return folder


def run(folder: Path, *flags: str, code: int = 0, **settings) -> str:
    """Run the copy's own command; return what it printed."""
    done = subprocess.run(
        [sys.executable, str(folder / "build" / "regen_all.py"), *flags],
        capture_output=True,
        text=True,
        timeout=300,
        env=elsewhere(),
        **settings,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def edit(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text("utf-8")
    after = change(before)
    assert after != before
    path.write_text(after, "utf-8")


def ran(command: list[str], **settings) -> subprocess.CompletedProcess:
    return subprocess.run(command, **{"capture_output": True, "text": True, "env": elsewhere(), "timeout": 300} | settings)


def refused(*flags: str, code: int, **settings) -> str:
    """The one line on stderr of a run that must fail with `code`."""
    done = ran([sys.executable, REGEN, *flags], timeout=120, **settings)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == code, done.stderr
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    return lines[0]
