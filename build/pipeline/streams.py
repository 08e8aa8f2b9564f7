"""The command's standard streams: what happens when nobody reads them any more, or when they cannot be written.

A reader that leaves (`| head -1`) stops no run: what it would have read is dropped. An output that is full or broken
is one line on stderr. Knows nothing of decks.
"""

import io
import os
import signal
import sys
from typing import Any

from pipeline.errors import MissingPart


class Outlet(io.FileIO):
    """A standard stream that is given up the first time it cannot be written; the caller hears of it if `reported`."""

    def __init__(self, number: int, reported: bool):
        super().__init__(number, "w", closefd=False)
        self._reported = reported

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if self._reported and not isinstance(error, BrokenPipeError):
                raise MissingPart(
                    f"standard output cannot be written ({error.strerror}): make room, or send it elsewhere"
                ) from None
            return len(memoryview(data).cast("B"))


def steady() -> None:
    """Make this process's own stdout and stderr outlets; a stream that is captured or replaced is left as it is.

    A terminal without Unicode still gets its line, with the characters that it lacks written as escapes.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # closed: else the next file that is opened, a capture perhaps, would get its number
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__"):
            encoding = getattr(stream, "encoding", None) or "utf-8"
            outlet = io.BufferedWriter(Outlet(number, reported=name == "stdout"))
            steadied = io.TextIOWrapper(outlet, encoding, "backslashreplace", line_buffering=name == "stderr" or outlet.isatty())
            setattr(sys, name, steadied)


def stop_early() -> None:
    """Until `hear_interrupts`, while modules are imported, a Ctrl-C ends the process with its one line, unless it is ignored."""

    def end(number: int, frame: object) -> None:
        os.write(2, b"error: interrupted; nothing was begun\n")
        os._exit(128 + number)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def hear_interrupts() -> None:
    """From here on a Ctrl-C (unless it is ignored) and a SIGTERM raise KeyboardInterrupt, the exit code in its arguments."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt(128 + number)

    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, stop)
