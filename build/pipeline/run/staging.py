"""How files reach a deck's folders: written beside the old ones, swapped in at the end, never two runs at once.

A run stages its files under `figures/.staging`. Publishing writes a list of renames there, then renames. A run killed
before the list is complete leaves the old deck; one killed after it is completed by the next run.
"""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import filelock

from pipeline.errors import MissingPart
from pipeline.paths import Out


@contextlib.contextmanager
def only_run(out: Out) -> Iterator[None]:
    """Hold the deck's lock. Raises MissingPart naming the holder when another run has it, or when it cannot be made."""
    holder = out.figures / ".lock.holder"
    lock = filelock.FileLock(out.figures / ".lock", blocking=False)
    try:
        out.figures.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except filelock.Timeout:
        who = holder.read_text("utf-8").strip() if holder.exists() else "another run"
        raise MissingPart(f"{who} is building {out.root}; wait for it, or stop it, then run again") from None
    except OSError as error:
        raise MissingPart(f"cannot write to {out.figures} ({error.strerror}); make it writable or choose --out DIR") from None
    try:
        holder.write_text(f"process {os.getpid()}, started {time.strftime('%H:%M:%S')},", "utf-8")
        Staging(out)  # finishes what a killed run began, before anything of the deck is read
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


class Staging:
    """The files of one run on their way to a deck. Made inside `only_run`; finishes or clears what a killed run left."""

    def __init__(self, out: Out):
        self.out = out
        self.folder = out.figures / ".staging"
        self._renames = self.folder / "renames.json"
        self._files: set[str] = set()
        if self._renames.exists():
            self._swap()
        self.clear()

    def __enter__(self) -> "Staging":
        return self

    def __exit__(self, *exception: object) -> None:
        if not self._renames.exists():  # else the next run completes it
            self.clear()

    def path(self, target: Path) -> Path:
        """Where to write what will become `target`; its folder exists."""
        name = target.relative_to(self.out.root).as_posix()
        self._files.add(name)
        staged = self.folder / name
        staged.parent.mkdir(parents=True, exist_ok=True)
        return staged

    def write(self, target: Path, content: str | bytes) -> None:
        self.path(target).write_bytes(content.encode("utf-8") if isinstance(content, str) else content)

    def read_path(self, target: Path) -> Path:
        """The staged file where this run made one, else the published one."""
        staged = self.folder / target.relative_to(self.out.root)
        return staged if staged.exists() else target

    def publish(self) -> list[str]:
        """Swap in every staged file whose bytes differ; return their names."""
        changed = [name for name in sorted(self._files) if not _same(self.folder / name, self.out.root / name)]
        if changed:
            for name in changed:
                _flush(self.folder / name)
            listing = self._renames.with_suffix(".tmp")
            listing.write_text(json.dumps(changed), "utf-8")
            _flush(listing)
            listing.rename(self._renames)
            self._swap()
        self.clear()
        return changed

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._files.clear()

    def _swap(self) -> None:
        for name in json.loads(self._renames.read_text("utf-8")):
            if (self.folder / name).exists():  # a killed run may have renamed it already
                (self.out.root / name).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / name).replace(self.out.root / name)
        self._renames.unlink()


def _same(a: Path, b: Path) -> bool:
    return b.exists() and a.read_bytes() == b.read_bytes()


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
