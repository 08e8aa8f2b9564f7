"""What a piece of the project depends on, as short hashes that say why it is stale.

A topic's function is hashed together with everything of its own module that it reaches by name, so that editing a
drawing leaves the captures alone. A pipeline module is hashed whole, with every module of ours that it can import.
"""

import functools
import re
from collections.abc import Iterable

from pipeline.paths import REQUIREMENTS
from pipeline.run import sources
from pipeline.run.sources import STAR, digest

# Imports that carry nothing into a slide: who imports whom -> why not. Each stands in the sources, and the tests take and
# draw every slide with an empty module in its place.
WITHOUT_CONTENT = {
    ("pipeline.run.taking", "pipeline.run.plan"): "a capture names its code by these very hashes; they change no reading",
    ("pipeline.slide", "regen_all"): "a topic's script that is run by itself calls the command, and measures nothing by it",
}


def reached(module: str, function: str) -> set[str]:
    """The names at the top of a module that one of its functions reads, directly or through others. Raises ValueError."""
    if module not in sources.every() or function not in sources.every()[module].names:
        raise ValueError(f"{module} is not a module of this project with a {function} in it")
    names = sources.every()[module].names
    found: set[str] = set()
    todo = [function, STAR]
    while todo:
        name = todo.pop()
        if name in names and name not in found:
            found.add(name)
            todo += names[name].uses
    return found


def of_function(module: str, function: str) -> dict[str, str]:
    """The hashes a topic's function depends on: its own code under its name, each module of ours under its path."""
    names = reached(module, function)
    source = sources.every()[module]
    own = digest(*(f"{name}={source.names[name].digest}" for name in sorted(names)))
    imports = {other for name in names for other in source.names[name].imports}
    return {f"{source.path.rpartition('/')[2]}:{function}": own} | of_modules(imports, module)


def of_modules(names: Iterable[str], importer: str = "") -> dict[str, str]:
    """The hash of each named module and of every module of ours that they import, by path below build/."""
    hashes: dict[str, str] = {}
    todo = [(importer, name) for name in names]
    while todo:
        edge = todo.pop()
        source = sources.every()[edge[1]]
        if source.path not in hashes and edge not in WITHOUT_CONTENT:
            hashes[source.path] = source.digest
            todo += [(edge[1], other) for other in source.imports]
    return hashes


@functools.cache
def pins() -> dict[str, str]:
    """requirements.txt as name -> version."""
    found = re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==(\S+)", REQUIREMENTS.read_text("utf-8"), re.MULTILINE)
    return {name.lower(): version for name, version in found}


def of_pins(names: Iterable[str]) -> dict[str, str]:
    return {name: pins().get(name, "unpinned") for name in names}


def differences(then: dict[str, str], now: dict[str, str]) -> list[str]:
    """What changed between two sets of hashes, one phrase each; empty when nothing did."""
    return [f"{name} changed" if name in then else f"{name} is new" for name in sorted(now) if then.get(name) != now[name]] + [
        f"{name} is gone" for name in sorted(set(then) - set(now))
    ]
