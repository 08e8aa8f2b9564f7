"""Our own modules as syntax trees: what each name stands for, uses and imports. Imports none of them.

Comments, docstrings, positions, what only a type checker reads and a script's footer are left out. Every import counts,
wherever it stands: at the top, inside a function, of a package, of a name in it, relative, with a star, by
`import_module("…")`. What was read is kept in a file that git ignores, so that a run parses only what was edited.
"""

import ast
import contextlib
import functools
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.paths import BUILD

STAR = "*"  # the name of what may bind or change any name: a star import, a loop, a call
GUARDS = ("TYPE_CHECKING", "typing.TYPE_CHECKING", "__name__ == '__main__'")  # never true in a run's modules
KEPT = BUILD / ".sources.json"


class Definition(NamedTuple):
    """All statements that bind or change one name at the top of a module."""

    digest: str
    uses: list[str]  # the names that they read
    imports: list[str]  # our modules that they import


class Source(NamedTuple):
    """One module: its path below build/, a digest of the whole of it, our modules that it imports, what it defines."""

    path: str
    digest: str
    imports: list[str]
    names: dict[str, Definition]


def digest(*texts: str) -> str:
    """Twelve hexadecimal digits of the SHA-256 over the texts; enough to tell versions of one file apart."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


# --- all modules, parsed once ---


@functools.cache
def every() -> Mapping[str, Source]:
    """Each module below build/ by its dotted name, as the files are now; read once a process."""
    texts = {
        path.relative_to(BUILD).as_posix(): text for path in sorted(BUILD.rglob("*.py")) if (text := content(path)) is not None
    }
    roots = {path.partition("/")[0].removesuffix(".py") for path in texts}
    reader = digest((content(Path(__file__)) or b"").hex(), *sorted(roots))  # read in another way, nothing kept is of use
    kept = load(reader)
    shas = {path: hashlib.sha256(text).hexdigest() for path, text in texts.items()}
    found = {
        path: kept[path][1] if kept.get(path, ("",))[0] == shas[path] else read(text, path, roots) for path, text in texts.items()
    }
    if {path: sha for path, (sha, _) in kept.items()} != shas:
        save(reader, {path: (shas[path], source) for path, source in found.items()})
    return resolved({module_of(path): source for path, source in found.items()})


def resolved(found: Mapping[str, Source]) -> dict[str, Source]:
    """The same with modules for dotted names: importing `pipeline.drawing.canvas.Canvas` runs three modules, of two packages."""

    @functools.cache
    def run_by(target: str) -> set[str]:
        parts = target.split(".")
        return {".".join(parts[: count + 1]) for count in range(len(parts))} & found.keys()

    def modules(targets: list[str]) -> list[str]:
        return sorted(set().union(*map(run_by, targets)))

    return {
        module: source._replace(
            imports=modules(source.imports),
            names={name: one._replace(imports=modules(one.imports)) for name, one in source.names.items()},
        )
        for module, source in found.items()
    }


def content(path: Path) -> bytes | None:
    """A file's bytes; None where it cannot be read, such as an editor's lock beside it."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def module_of(path: str) -> str:
    """`pipeline/drawing/canvas.py` -> `pipeline.drawing.canvas`, `pipeline/__init__.py` -> `pipeline`."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def load(reader: str) -> dict[str, tuple[str, Source]]:
    """What was kept by this very reader: path -> SHA-256 of the file and its source. Nothing, if it is damaged."""
    try:
        checksum, _, text = KEPT.read_text("utf-8").partition("\n")
        if checksum != digest(reader, text):
            return {}
        rows = json.loads(text)
    except (OSError, ValueError):
        return {}
    return {
        path: (sha, Source(path, whole, imports, {name: Definition(*parts) for name, parts in names.items()}))
        for path, (sha, (_, whole, imports, names)) in rows.items()
    }


def save(reader: str, rows: dict[str, tuple[str, Source]]) -> None:
    """Keep what was read, whole or not at all. Where nothing can be written it is read again next time."""
    text = json.dumps(rows, separators=(",", ":"))
    whole = KEPT.with_suffix(f".{os.getpid()}")
    try:
        whole.write_text(f"{digest(reader, text)}\n{text}", "utf-8")
        whole.replace(KEPT)
    except OSError:
        with contextlib.suppress(OSError):
            whole.unlink()


# --- one module ---


def read(text: bytes, path: str, roots: set[str]) -> Source:
    """One module's source, its imports as dotted names that begin with one of `roots`. No Python: a digest only."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return Source(path, digest(text.hex()), [], {})
    for node in ast.walk(tree):
        for body in (getattr(node, field, None) for field in ("body", "orelse", "finalbody")):
            if isinstance(body, list):
                body[:] = [kept for statement in body for kept in meaningful(statement)]
    module = module_of(path)
    package = module if path.endswith("/__init__.py") else module.rpartition(".")[0]
    bound: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        for name, base, _ in imported(node, package):
            bound[name].add(base)
    parts: dict[str, list[Definition]] = defaultdict(list)
    for statement in tree.body:
        for name, definition in definitions(statement, package, bound):
            ours = [target for target in definition.imports if target.partition(".")[0] in roots]
            parts[name].append(definition._replace(imports=ours))
    names = {name: _joined(found) for name, found in parts.items()}
    imports = {target for definition in names.values() for target in definition.imports}
    return Source(path, digest(*map(spelled, tree.body)), sorted(imports), names)


def _joined(found: list[Definition]) -> Definition:
    if len(found) == 1:
        return found[0]
    uses = {use for definition in found for use in definition.uses}
    imports = {target for definition in found for target in definition.imports}
    return Definition(digest(*(definition.digest for definition in found)), sorted(uses), sorted(imports))


def meaningful(statement: ast.stmt) -> list[ast.stmt]:
    """What of a statement counts: nothing of a docstring, of a block for type checkers and of a script's footer."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return []
    if isinstance(statement, ast.If) and ast.unparse(statement.test) in GUARDS:
        return [kept for other in statement.orelse for kept in meaningful(other)]
    return [statement]


def spelled(node: Any) -> str:
    """A tree as text, the same whichever Python parsed it: empty fields, which differ from one to the next, are left out."""
    if isinstance(node, ast.AST):
        fields = ((name, getattr(node, name, None)) for name in node._fields if name not in ("ctx", "kind", "type_comment"))
        inside = ",".join(f"{name}={spelled(value)}" for name, value in fields if value is not None and value != [])
        return f"{type(node).__name__}({inside})"
    return f"[{','.join(map(spelled, node))}]" if isinstance(node, list) else repr(node)


def definitions(statement: ast.stmt, package: str, bound: Mapping[str, set[str]]) -> Iterator[tuple[str, Definition]]:
    """The names that a statement at the top of a module binds or changes, each with what it adds to their definition."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for name, base, target in imported(statement, package):  # each name for itself: one more on the line is none of theirs
            yield name, Definition(digest("import", base, target), [], [target])
        return
    uses = sorted({node.id for node in ast.walk(statement) if isinstance(node, ast.Name)})
    definition = Definition(digest(spelled(statement)), uses, sorted(set(imports_in(statement, package, bound))))
    for name in binds(statement):
        yield name, definition


def binds(statement: ast.stmt) -> set[str]:
    """The names that a statement at the top of a module binds; STAR where it is neither a definition nor an assignment."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        inline = [node.target for node in ast.walk(statement) if isinstance(node, ast.NamedExpr)]
        return {node.id for target in [*targets, *inline] for node in ast.walk(target) if isinstance(node, ast.Name)}
    return {STAR}


def imported(node: ast.AST, package: str) -> Iterator[tuple[str, str, str]]:
    """What an import statement binds: the name, the dotted name that it stands for, the dotted name that is imported."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            first = alias.name.partition(".")[0]
            yield alias.asname or first, alias.name if alias.asname else first, alias.name
    elif isinstance(node, ast.ImportFrom):
        parents = package.split(".")
        above = parents[: len(parents) - node.level + 1] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            target = base if alias.name == STAR else f"{base}.{alias.name}"
            yield alias.asname or alias.name, target, target


def imports_in(tree: ast.AST, package: str, bound: Mapping[str, set[str]]) -> Iterator[str]:
    """Dotted names that a piece of code imports or reads off what is imported anywhere in its module."""
    for node in ast.walk(tree):
        yield from (target for _, _, target in imported(node, package))
        if isinstance(node, ast.Attribute):
            first, _, rest = dotted(node).partition(".")
            yield from (f"{base}.{rest}" for base in bound.get(first, ()))
        elif isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in ("import_module", "__import__"):
            yield from (str(part.value) for part in node.args[:1] if isinstance(part, ast.Constant))


def dotted(node: ast.expr) -> str:
    """`a.b.c` as text; nothing for any other expression."""
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""
