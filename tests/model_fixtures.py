"""Small models on the disk, a hub's cache laid out by hand, and Pythons of their own to choose a model in."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.checksum import file_sha256
from pipeline.errors import DeckError
from pipeline.model import find as find_model
from pipeline.paths import BUILD

HOSTILE = [
    "$5 and $10 left",
    "<b>&amp;",
    "a\tb\r\n\0c",
    "\u6771\u4eac \U0001f917",
    "<|endoftext|> in text",
    "  runs   of spaces ",
]


@pytest.fixture
def a_copy(gpt2_folder, tmp_path):
    return Path(shutil.copytree(gpt2_folder, tmp_path / "copy"))


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """An empty Hugging Face cache."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def put_in_cache(cache: Path, repo: str, revision: str, folder: Path, names=None) -> Path:
    """Lay a folder out as the hub's own cache does: files under blobs, named links under snapshots."""
    home = cache / f"models--{repo.replace('/', '--')}"
    snapshot = home / "snapshots" / revision
    for part in (home / "blobs", home / "refs", snapshot):
        part.mkdir(parents=True, exist_ok=True)
    (home / "refs" / "main").write_text(revision)
    for path in sorted(folder.iterdir()):
        if names is None or path.name in names:
            blob = home / "blobs" / hashlib.sha256(path.read_bytes()).hexdigest()
            shutil.copyfile(path, blob)
            (snapshot / path.name).symlink_to(blob)
    return snapshot


def sums_of(folder: Path) -> dict[str, str]:
    return {name: file_sha256(folder / name) for name in find_model.GPT2_SHA256}


def run_apart(code: str, tmp_path: Path, timeout: float = 180, **environment: str) -> subprocess.CompletedProcess:
    """Run Python of its own: the libraries read their environment when first imported."""
    kept = {
        name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY") and not name.startswith("HF_")
    }
    kept |= {"HF_HUB_CACHE": str(tmp_path / "hub"), "DECK_CACHE": str(tmp_path / "deck"), "NO_PROXY": "127.0.0.1"}
    kept |= {"PYTHONPATH": os.pathsep.join([str(BUILD), str(Path(__file__).parent)])} | environment
    return subprocess.run([sys.executable, "-c", code], env=kept, capture_output=True, text=True, timeout=timeout)


CHOOSE_AND_REPORT = """
import json, sys, time
from pipeline.errors import DeckError
from pipeline.model.find import choose
start = time.perf_counter()
try:
    choice = choose({request!r}, offline={offline})
    found = {{"name": choice.name, "identity": choice.identity, "lines": choice.lines}}
except DeckError as error:
    found = {{"error": str(error), "exit_code": error.exit_code}}
found["seconds"] = time.perf_counter() - start
found["imported"] = [name for name in ("torch", "transformers") if name in sys.modules]
print(json.dumps(found))
"""


def choose_apart(tmp_path, request="auto", offline=False, **environment) -> dict:
    done = run_apart(CHOOSE_AND_REPORT.format(request=request, offline=offline), tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr  # nothing of the libraries' own on the screen
    return json.loads(done.stdout)


def refused(action, kind: type[DeckError]) -> str:
    with pytest.raises(kind) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message and len(message) < 600
    return message


def edit_json(path: Path, **changes) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def truncate(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(1_000_000)
