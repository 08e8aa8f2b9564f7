"""Keeps one server for as long as its parent lives, and not a moment longer. Run as a program; standard library only.

    python watchdog.py FOLDER COMMAND…

The command runs in FOLDER, in a process group of its own, its output in FOLDER/log. The parent holds the other end of
our standard input: when that closes (the parent is done, or dead of whatever cause), the group is ended and FOLDER is
removed. When the server ends by itself we end with its exit code and leave FOLDER, so that the log can be read.
"""

import contextlib
import ctypes
import functools
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

POLL_S = 0.2  # how often the parent is looked for; a closed pipe is noticed at once
GRACE_S = 3.0  # between asking a server to end and ending it
PR_SET_PDEATHSIG = 1  # Linux: the signal that a child gets when its parent dies


def die_with_parent(parent: int) -> None:
    """In the child, before it becomes the server: if even the keeper is killed, the server goes too (Linux only)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was killed before we asked for the signal
        os._exit(1)


def end_group(server: subprocess.Popen) -> None:
    """Ask the whole group to end, then end it; grandchildren are in the group too."""
    for sign, patience in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(server.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(patience)
    # a group outlives its leader while it has members: the last SIGKILL above reached them


def keep(folder: Path, command: list[str]) -> int:
    parent = os.getppid()
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)  # only the pipe ends us: a Ctrl-C is the parent's to handle
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=functools.partial(prepare_child, os.getpid()),
        )
    while server.poll() is None:
        readable, _, _ = select.select([sys.stdin], [], [], POLL_S)
        if (readable and not os.read(0, 4096)) or os.getppid() != parent:
            end_group(server)
            shutil.rmtree(folder, ignore_errors=True)
            return 0
    end_group(server)  # whatever it left behind
    return server.returncode


def prepare_child(parent: int) -> None:
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_DFL)
    die_with_parent(parent)


if __name__ == "__main__":
    sys.exit(keep(Path(sys.argv[1]), sys.argv[2:]))
