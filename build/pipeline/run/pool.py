"""The drawing processes of a run: figures are drawn beside what is being taken, and never beside what is being timed."""

import concurrent.futures
import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from pipeline import timings
from pipeline.drawing.worker import draw_by_id, interrupts_held, start_worker
from pipeline.slide import Slide, Verdict


class DrawingPool:
    """Spawned workers, each made when a first figure is waiting for it; they know none of this process's objects."""

    def __init__(self, jobs: int, drawn: Callable[[str], None]):
        self._drawn = drawn
        self._figures: list[concurrent.futures.Future[tuple[str, float]]] = []
        self._waiting: list[tuple[Slide, Path, Verdict, Path]] | None = None
        self._pool = concurrent.futures.ProcessPoolExecutor(
            max_workers=max(1, jobs), mp_context=multiprocessing.get_context("spawn"), initializer=start_worker
        )

    def draw(self, slide: Slide, capture: Path, verdict: Verdict, figure: Path) -> None:
        """Draw a capture's figure as soon as a worker is free and nothing is being timed."""
        if self._waiting is not None:
            self._waiting.append((slide, capture, verdict, figure))
            return
        with interrupts_held():
            future = self._pool.submit(draw_by_id, slide.id, capture, verdict, figure)
        future.add_done_callback(self._tell)
        self._figures.append(future)

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Inside, nothing is drawn: what is under way is finished first, what comes waits until the end."""
        concurrent.futures.wait(self._figures)
        self._waiting = []
        try:
            yield
        finally:
            waiting, self._waiting = self._waiting, None
        for one in waiting:
            self.draw(*one)

    def finish(self) -> None:
        """Wait for every figure. Raises what a worker raised."""
        for future in concurrent.futures.as_completed(self._figures):
            future.result()

    def _tell(self, done: concurrent.futures.Future[tuple[str, float]]) -> None:
        if not done.cancelled() and not done.exception():
            slide_id, seconds = done.result()
            timings.add("drawing", slide_id, seconds)
            self._drawn(slide_id)

    def __enter__(self) -> "DrawingPool":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
