"""An answer within a time limit, whatever the one who is asked does meanwhile."""

import threading
from collections.abc import Callable
from typing import TypeVar

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
