"""What a piece of the project depends on, as short hashes that say why it is stale. Reads source text; imports nothing.

A topic's function is hashed together with everything of its own module that it reaches by name, so that editing a
drawing leaves the captures alone. A pipeline module is hashed whole, with the pipeline modules it imports. Blank lines
and lines that hold only a comment do not count.
"""

import ast
import functools
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from pipeline.paths import BUILD, REQUIREMENTS


def digest(*texts: str) -> str:
    """Twelve hexadecimal digits of the SHA-256 over the texts; enough to tell versions of one file apart."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def significant(source: str) -> str:
    """Source text without blank and comment-only lines."""
    return "\n".join(line.rstrip() for line in source.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def module_path(name: str) -> Path | None:
    """The file of one of our own modules (`pipeline.drawing.canvas`, `topics.sampling`); None for anybody else's."""
    path = BUILD.joinpath(*name.split(".")).with_suffix(".py")
    return path if path.is_file() else None


@functools.cache
def parsed(path: Path) -> tuple[dict[str, str], dict[str, str], dict[str, set[str]]]:
    """A module's top level: source by defined name, our module by imported name, names used by defined name."""
    source = path.read_text("utf-8")
    lines = source.splitlines()
    segments: dict[str, str] = {}
    imports: dict[str, str] = {}
    uses: dict[str, set[str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.module and module_path(node.module):
            imports |= {alias.asname or alias.name: node.module for alias in node.names}
            continue
        if isinstance(node, ast.ImportFrom) and node.module in ("pipeline", "topics"):
            imports |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            continue
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        text = significant("\n".join(lines[first - 1 : node.end_lineno]))
        names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
        for name in _bound_names(node):
            segments[name] = segments.get(name, "") + text
            uses[name] = uses.get(name, set()) | names
    return segments, imports, uses


def _bound_names(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [child.id for target in targets for child in ast.walk(target) if isinstance(child, ast.Name)]
    return []


def of_function(module: str, function: str) -> dict[str, str]:
    """The hashes a topic's function depends on: its own code under its name, each pipeline module under its path."""
    path = module_path(module)
    if path is None:
        raise ValueError(f"{module} is not a module of this project")
    segments, imports, uses = parsed(path)
    reached: set[str] = set()
    modules: set[str] = set()
    todo = [function]
    while todo:
        name = todo.pop()
        if name in imports:
            modules.add(imports[name])
        elif name in segments and name not in reached:
            reached.add(name)
            todo += uses[name]
    own = digest(*(f"{name}={segments[name]}" for name in sorted(reached)))
    return {f"{path.name}:{function}": own} | of_modules(modules)


def of_modules(names: Iterable[str]) -> dict[str, str]:
    """The hash of each named module of ours and of every module of ours that they import, by path below build/."""
    hashes: dict[str, str] = {}
    todo = list(names)
    while todo:
        name = todo.pop()
        path = module_path(name)
        if path is None or (key := path.relative_to(BUILD).as_posix()) in hashes:
            continue
        hashes[key] = digest(significant(path.read_text("utf-8")))
        todo += parsed(path)[1].values()
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
