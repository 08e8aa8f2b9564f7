"""Set up a virtual environment: python build/install.py FOLDER REQUIREMENTS… Standard library only.

Installs with uv where it is on PATH, else with pip; every version comes from the requirements and from constraints.txt.
TORCH_INDEX=URL takes torch from an index of CPU builds. Prints one line per stage and ends with the size that it came to.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

BUILD = Path(__file__).resolve().parent
GRAPHICS = "PyPI's torch for Linux brings its graphics libraries: 5.6 GB in all; TORCH_INDEX=URL of CPU builds: about 2 GB"


def installer(python: Path) -> list[str]:
    """The command that installs into the environment of `python`; uv is told the index that pip is set up with."""
    uv = shutil.which("uv")
    if not uv:
        return [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    asked = subprocess.run([python, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True)
    index = os.environ.get("PIP_INDEX_URL") or asked.stdout.strip()
    own = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL")
    return [uv, "pip", "install", "--quiet", "--python", str(python), *(["--default-index", index] if index and not own else [])]


def torch_pin() -> str:
    (pin,) = re.findall(r"^torch==\S+", (BUILD / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    return pin


def stage(line: str, command: list[str]) -> None:
    """Say what is done, do it, say how long it took; ends the process where it fails."""
    print(f"{line} …", flush=True)
    start = time.monotonic()
    if subprocess.run(command).returncode:
        print(f"error: {' '.join(command)} failed (see above): mend that and run the same again", file=sys.stderr)
        sys.exit(3)
    print(f"  done in {time.monotonic() - start:.0f} s", flush=True)


def size_gb(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*")) / 1e9


def put_on_path(folder: Path) -> None:
    """Let this environment find the pipeline from anywhere, so that a topic runs as a script under PYTHONSAFEPATH too."""
    for packages in folder.glob("[Ll]ib/**/site-packages"):
        (packages / "one_call.pth").write_text(f"{BUILD}\n", "utf-8")


def main(folder: Path, requirements: list[Path]) -> None:
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        print(f"making {folder} with Python {sys.version.split()[0]}", flush=True)
        venv.create(folder, with_pip=True)
    install, index = installer(python), os.environ.get("TORCH_INDEX")
    if index:
        option = "--default-index" if "uv" in Path(install[0]).name else "--index-url"
        bare = install[: install.index("--default-index")] if "--default-index" in install else install
        stage(f"fetching {torch_pin()} from {index}", [*bare, "--no-deps", option, index, torch_pin()])
    for listed in requirements:
        note = f" ({GRAPHICS})" if sys.platform == "linux" and listed.parent == BUILD and not index else ""
        said = f"installing what {listed} pins with {'uv' if 'uv' in Path(install[0]).name else 'pip'}{note}"
        stage(said, [*install, "-r", str(listed), "-c", str(BUILD / "constraints.txt")])
    put_on_path(folder)
    print(f"{folder} is ready: {size_gb(folder):.1f} GB", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
