"""Runs one function of a slide in a process of its own, and says which of our modules that process loaded.

The process holds the libraries, imported once and forked, and none of our modules. Its topic is cut down to the statements
that the fingerprint names: a name that the fingerprint misses is a NameError, and nothing is loaded for another slide's sake.
Run as a script it reads jobs as JSON from its input and prints, for each, `{"loaded": [...]}` or `{"error": "..."}`.
"""

import ast
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
import types
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BUILD = Path(__file__).resolve().parents[1] / "build"
DRAWING = ("numpy", "PIL.Image", "matplotlib.backends.backend_agg", "matplotlib.figure", "matplotlib.font_manager")
TAKING = ("torch", "transformers", "requests", "litellm")


def trace(jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run the jobs, each in a process of its own; what each loaded, as paths below build/, or its error."""
    environment = {**os.environ, "PYTHONPATH": str(BUILD), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(
        [sys.executable, __file__], input=json.dumps(list(jobs)), capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def job(slide: Any, functions: Sequence[str], **world: Any) -> dict[str, Any]:
    """What the tracer needs to run a slide's capture, or its oracle and its drawing, without importing its topic."""
    from pipeline.run.fingerprint import WITHOUT_CONTENT, reached

    named = {name: getattr(slide, name).__name__ for name in functions}
    module = slide.capture.__module__
    kept = sorted(set().union(*(reached(module, function) for function in named.values())))
    entry = {name: getattr(slide, name) for name in ("number", "name", "section", "claim", "kind", "needs", "volatile", "asks")}
    empty = sorted({imported for _, imported in WITHOUT_CONTENT})
    return {"module": module, "functions": named, "kept": kept, "entry": entry, "empty": empty, **world}


# --- in the forked process ---


def cut_down(module: str, kept: set[str]) -> types.ModuleType:
    """The topic, of which only the kept names are defined and imported."""
    path = BUILD / f"{module.replace('.', '/')}.py"
    tree = ast.parse(path.read_bytes())
    tree.body = [less for statement in tree.body if (less := shortened(statement, kept))]
    made = types.ModuleType(module)
    made.__file__ = str(path)
    sys.modules[module] = made
    exec(compile(tree, str(path), "exec"), made.__dict__)
    return made


def shortened(statement: ast.stmt, kept: set[str]) -> ast.stmt | None:
    """A statement with what is kept of it; None where that is nothing."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        statement.names = [one for one in statement.names if (one.asname or one.name.partition(".")[0]) in kept]
        return statement if statement.names else None
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return statement if statement.name in kept else None
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        bound = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        return statement if bound & kept else None
    return None  # a docstring, a footer, what is for type checkers; a topic has nothing else


class Empty(types.ModuleType):
    """Stands for a module that is said to carry nothing into a slide: whatever is called in it answers nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *given: ""


def run(job: dict[str, Any]) -> None:
    """Take the capture, or judge and draw the committed one."""
    sys.modules |= {name: Empty(name) for name in job["empty"]}
    topic = cut_down(job["module"], set(job["kept"]))
    functions = {name: getattr(topic, function) for name, function in job["functions"].items()}
    (take if "capture" in functions else draw)(job, functions)


def draw(job: dict[str, Any], functions: dict[str, Any]) -> None:
    """Judge and draw the committed capture."""
    from pipeline.drawing.worker import draw_slide
    from pipeline.slide import Slide, assert_holds

    uncalled: Any = types.SimpleNamespace(__module__=job["module"])
    slide = Slide(**job["entry"], capture=uncalled, sabotage=uncalled, **functions)
    capture = json.loads(Path(job["capture"]).read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        draw_slide(slide, capture, assert_holds(slide, capture["data"]), Path(folder) / "figure.png")
        assert (Path(folder) / "figure.png").stat().st_size > 1000


def take(job: dict[str, Any], functions: dict[str, Any]) -> None:
    """Take a capture as a run does: the model and the server are found only by slides that need them."""
    from pipeline.lab import Lab
    from pipeline.run.taking import take
    from pipeline.slide import Slide, Verdict

    def load_model() -> Any:
        from pipeline.model import find

        return find.choose("auto").load(lambda line: None)

    def connect() -> Any:
        from pipeline.serving.server import connect as connected

        server = connected(*job["server"]["address"])
        server.provenance |= job["server"]["provenance"]
        return server

    uncalled: Any = None  # what a timed slide reads on a busy machine is judged elsewhere
    slide = Slide(
        **job["entry"], capture=functions["capture"], oracle=lambda data: Verdict(True, "", ""), sabotage=uncalled, draw=uncalled
    )
    text, _ = take(slide, Lab(job["sentence"], load_model, connect))
    assert json.loads(text)["data"]


def loaded() -> list[str]:
    """Our modules that this process holds, as paths below build/; the cut-down topic, which no file was read for, is not one."""
    files = (getattr(getattr(module, "__spec__", None), "origin", None) for module in list(sys.modules.values()))
    return sorted(Path(file).relative_to(BUILD).as_posix() for file in files if file and Path(file).is_relative_to(BUILD))


def apart(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job in a forked process and return what it sent back."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            run(job)
            answer: dict[str, Any] = {"loaded": loaded()}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        with os.fdopen(writing, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text or '{"error": "the process died"}')


def main() -> None:
    jobs = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    for name in (*DRAWING, *(TAKING if any("capture" in job["functions"] and job["entry"]["needs"] for job in jobs) else ())):
        importlib.import_module(name)
    assert loaded() == []
    print(json.dumps([apart(job) for job in jobs]))


if __name__ == "__main__":
    main()
