"""An answer within a time limit, whatever the one who is asked does meanwhile."""

import socket
import threading
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")


def within(seconds: float, ask: Callable[[], T]) -> T:
    """What `ask` returns or raises, or TimeoutError after `seconds`. Its thread may hang on; it ends with the process."""
    answer: list[T] = []
    failure: list[Exception] = []

    def run() -> None:
        try:
            answer.append(ask())
        except Exception as error:  # handed over to the thread that waits
            failure.append(error)

    thread = threading.Thread(target=run, name="within", daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not answer:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return answer[0]


def connect_to(url: str, seconds: float) -> None:
    """Open a connection to an address and close it: a quick look whether anybody is there. Raises OSError."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    within(seconds, lambda: socket.create_connection((parts.hostname or "", port), seconds).close())
