"""Drawing a slide from its capture, in a worker process: no model, no server, no torch."""

import contextlib
import hashlib
import json
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.slide import Slide, Verdict, slides_of, to_json


def start_worker() -> None:
    """A worker leaves Ctrl-C to its parent, so that the screen shows one line, and ends when its parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ |= {"MPLBACKEND": "Agg", "MATPLOTLIBRC": os.devnull}  # nobody's own settings change a figure
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # a home that cannot be written is no reason for two lines
    threading.Thread(target=end_with_parent, daemon=True).start()


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while a worker is spawned: the worker inherits that and shows no traceback while it starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def draw_by_id(slide_id: str, capture: Path, verdict: Verdict, figure: Path) -> tuple[str, float]:
    """Draw one slide by its id (workers are spawned and know none of the parent's objects); return it and the seconds taken."""
    began = time.perf_counter()
    draw_slide(slides_of(slide_id)[0], json.loads(capture.read_text("utf-8")), verdict, figure)
    return slide_id, time.perf_counter() - began


def draw_slide(slide: Slide, capture: dict[str, Any], verdict: Verdict, figure: Path) -> None:
    """Draw the figure of a capture, its provenance strip included, and write it as a PNG."""
    from pipeline.drawing import seal
    from pipeline.drawing.canvas import Canvas

    canvas = Canvas(slide.kind)
    canvas.strip(source_line(slide, capture["provenance"]), f"{verdict.measured} · {verdict.bound}", verdict.holds)
    slide.draw(canvas, capture["data"])  # after the strip, which every step shows
    canvas.save(figure)
    seal.put(
        figure,
        {
            "slide": slide.id,
            "capture": hashlib.sha256(to_json(capture).encode()).hexdigest(),
            "verdict": "holds" if verdict.holds else "fails",
            "measured": verdict.measured,
            "bound": verdict.bound,
            "source": source_line(slide, capture["provenance"]),
        },
    )


def source_line(slide: Slide, provenance: dict[str, Any]) -> str:
    """What the figure was taken from, in few words, for its strip; the page's evidence has the rest."""
    server, model = provenance["server"], provenance["model"]
    parts = [f"{server['name']} {server['version'] or ''}".strip(), server["model"]] if server else []
    if model and not (server and server.get("digest") == model["sha256"]):
        parts.append(f"{'beside ' if server else ''}{model['name']}")
    if slide.kind == "concept":
        parts.append("drawn from what it states, not run")
    if slide.volatile:
        parts.append("timed")
    return " · ".join(parts)
