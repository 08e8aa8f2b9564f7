"""A server process of ours: started on a free port of loopback, waited for, and ended when we end, of whatever cause."""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from pipeline.errors import MissingPart
from pipeline.serving import watchdog

Ready = TypeVar("Ready")  # what a process is once it is ready to be asked


START_S = 120.0  # about 5 s here; a slow disk reads the weights for longer
PORT_TRIES = 3


class Process:
    """One server that we started, and the keeper that ends it when we close or die."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        links: dict[str, Path] | None = None,
        folders: dict[str, str] | None = None,
    ):
        """`links`: names in its folder that stand for others; `folders`: variables that name a folder in its own."""
        self.folder = Path(tempfile.mkdtemp(prefix="one-call-server-"))
        for variable, name in (folders or {}).items():
            (self.folder / name).mkdir()
            environment = {**environment, variable: str(self.folder / name)}
        for name, target in (links or {}).items():
            (self.folder / name).symlink_to(target.resolve(), target_is_directory=True)
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", watchdog.__file__, str(self.folder), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )

    @property
    def log(self) -> str:
        try:
            return (self.folder / "log").read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    @property
    def running(self) -> bool:
        return self._keeper.poll() is None

    def last_words(self) -> str:
        """The end of the log in one line, for an error."""
        lines = [line.strip() for line in self.log.splitlines() if line.strip() and "it/s]" not in line]
        return " / ".join(lines[-3:])[-300:] or "it said nothing"

    def close(self) -> None:
        """End the server and its keeper; returns when both are gone."""
        if self._keeper.stdin and not self._keeper.stdin.closed:
            self._keeper.stdin.close()
        try:
            self._keeper.wait(2 * watchdog.GRACE_S + 2)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Starting(Generic[Ready]):
    """A server on its way up. begin() has spawned it; ready() waits and hands it over."""

    def __init__(self, spawn: Callable[[int], Process], marker: Callable[[int], str], take: Callable[[str, Process], Ready]):
        self._spawn, self._marker, self._take = spawn, marker, take
        self.tries = 0
        self._launch()

    def _launch(self) -> None:
        self.tries += 1
        self.port = free_port()
        self.process = self._spawn(self.port)

    def ready(self, deadline_s: float = START_S) -> Ready:
        """Wait until the server answers; on another port when this one was taken in between."""
        limit = time.monotonic() + deadline_s
        try:
            # its own log says that this very process got the port; an answer alone could be somebody else's
            while self._marker(self.port) not in (log := self.process.log):
                if not self.process.running:
                    if "address already in use" in log.lower() and self.tries < PORT_TRIES:
                        self.process.close()
                        self._launch()
                        continue
                    why = self.process.last_words()
                    died = f"the server on 127.0.0.1:{self.port} died while starting ({why})"
                    raise MissingPart(f"{died}: fix that or pass --server URL")
                if time.monotonic() > limit:
                    why = self.process.last_words()
                    raise MissingPart(f"the server on 127.0.0.1:{self.port} was not up after {deadline_s:g} s ({why}): run again")
                time.sleep(0.05)
            return self._take(f"http://127.0.0.1:{self.port}", self.process)
        except BaseException:
            self.process.close()
            raise

    def close(self) -> None:
        self.process.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
