"""Taking a capture: measure, note where it came from, judge it. And in which order captures are taken."""

import importlib.metadata
import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.keys import scrubbed
from pipeline.lab import Lab
from pipeline.run import plan
from pipeline.run.plan import Todo
from pipeline.slide import Data, Slide, Verdict, assert_holds, to_json


def take(slide: Slide, lab: Lab) -> tuple[str, Verdict]:
    """Take one capture and judge it; the oracle sees exactly what the file will hold.

    Returns the capture's JSON text and the verdict. Raises OracleFailure.
    """
    data = slide.capture(lab)
    text = to_json(scrubbed({"slide": slide.id, "provenance": provenance(slide, lab, data), "data": data}))
    return text, assert_holds(slide, json.loads(text)["data"])


def provenance(slide: Slide, lab: Lab, data: Data) -> dict[str, Any]:
    """Where a capture came from: model, server (the capture says which was asked), sentence, versions, machine, code, seed."""
    needs_model, needs_server = "model" in slide.needs, "server" in slide.needs
    packages = ["numpy"] * needs_model + ["torch", "transformers"] * needs_model + ["requests", "litellm"] * needs_server
    return {
        "model": lab.loaded.provenance if needs_model else None,
        "server": data["server"] if needs_server else None,
        "sentence": lab.sentence,
        "sentence_sha256": lab.sentence_sha256,
        "seed": lab.seed,
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "machine": machine(lab if needs_model else None),
        "code": plan.code_sha(slide),
    }


def machine(lab: Lab | None) -> dict[str, Any]:
    """The machine a capture is taken on; what torch does with it, where a slide runs the model."""
    facts: dict[str, Any] = {"cpu": cpu_name(), "system": platform.system(), "python": platform.python_version()}
    if lab is not None:
        facts["instruction_set"] = lab.torch.backends.cpu.get_cpu_capability()
        facts["threads"] = lab.torch.get_num_threads()
    return facts


def cpu_name() -> str:
    """The processor as the system calls it; its architecture where the system says no more."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2] for line in lines if line.startswith("model name")), platform.processor())
    return " ".join(named.split()) or platform.machine()


def timed(slide: Slide) -> bool:
    """Whether a capture reads the clock over the model in this process: nothing else may run meanwhile."""
    return slide.volatile and "server" not in slide.needs


def in_taking_order(todos: Sequence[Todo]) -> tuple[list[Todo], list[Todo]]:
    """The timed slides, taken first while nothing else runs; and the others, those that need the server last.

    The server needs seconds to start, and has them while the others are taken.
    """
    rest = [todo for todo in todos if not timed(todo.slide)]
    return [todo for todo in todos if timed(todo.slide)], sorted(rest, key=lambda todo: "server" in todo.slide.needs)
