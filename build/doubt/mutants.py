"""Small changes to the oracles themselves: `make mutants`. Every one must show.

A mutant is found out when its verdict on the committed capture is another, when it lets the sabotage pass, or when it lets
pass a damage that the oracle refuses. One that is not fails the run, unless build/doubt/explained.toml gives the reason.
"""

import ast
import copy
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from doubt.damage import DAMAGE, Case, cases
from doubt.falsify import committed, explained, refuses, sabotages, unexplained
from pipeline.slide import Data, Slide, Verdict, first_flaw

USELESS = 1e9  # a bound so many times as wide bounds nothing
FAR = 1000  # a whole number so far off counts nothing that is here
OPPOSITE: dict[type, type] = {
    ast.Eq: ast.NotEq,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.Is: ast.IsNot,
    ast.And: ast.Or,
}
OPPOSITE |= {after: before for before, after in OPPOSITE.items()}
OTHER_CALL = {"all": "any", "any": "all", "min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutant:
    """One slide's oracle with one thing changed in it, or in a function of its topic that it calls."""

    name: str
    oracle: Callable[[Data], Verdict]


def variants(node: ast.AST, module: ModuleType) -> Iterator[ast.AST]:
    """What may stand in a node's place."""
    if isinstance(node, ast.Compare):
        yield ast.Constant(True)  # a condition dropped
        for at, operator in enumerate(node.ops):
            if other := OPPOSITE.get(type(operator)):
                yield ast.Compare(node.left, [*node.ops[:at], other(), *node.ops[at + 1 :]], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(OPPOSITE[type(node.op)](), node.values)
        for at in range(len(node.values)):
            left = [*node.values[:at], *node.values[at + 1 :]]
            yield ast.BoolOp(node.op, left) if len(left) > 1 else left[0]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OTHER_CALL:
        yield ast.Call(ast.Name(OTHER_CALL[node.func.id], ast.Load()), node.args, node.keywords)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant | ast.Name):
        value = node.value if isinstance(node, ast.Constant) else getattr(module, node.id, None) if node.id.isupper() else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            change = (ast.Mult(), USELESS) if isinstance(value, float) else (ast.Add(), FAR)
            yield ast.BinOp(node, change[0], ast.Constant(change[1]))


class Swap(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, before: ast.AST, after: ast.AST):
        self._before, self._after = before, after

    def visit(self, node: ast.AST) -> Any:
        return self._after if node is self._before else super().generic_visit(node)


def judged(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function that decide something: no text that it puts together, no annotation, no docstring."""
    for name, child in ast.iter_fields(node):
        if name in ("annotation", "returns", "args") and not isinstance(node, ast.Call):
            continue
        for one in child if isinstance(child, list) else [child]:
            if isinstance(one, ast.AST) and not isinstance(one, ast.JoinedStr):
                yield one
                yield from judged(one)


def reached(oracle: Callable[..., Any], module: ModuleType) -> dict[str, ast.FunctionDef]:
    """The oracle and the functions of its own topic that it calls, by name."""
    every = {node.name: node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.FunctionDef)}
    found, waiting = dict[str, ast.FunctionDef](), [oracle.__name__]
    while waiting:
        name = waiting.pop()
        if name in every and name not in found:
            found[name] = every[name]
            waiting += [node.id for node in ast.walk(every[name]) if isinstance(node, ast.Name)]
    return found


def mutants(slide: Slide) -> Iterator[Mutant]:
    module = sys.modules[slide.oracle.__module__]
    functions = reached(slide.oracle, module)
    for name, function in functions.items():
        dropped = {id(value) for node in judged(function) if isinstance(node, ast.BoolOp) for value in node.values}
        for node in judged(function):
            for after in variants(node, module):
                if id(node) in dropped and isinstance(after, ast.Constant):
                    continue  # the condition is dropped from its row already
                mutated = Swap(node, after).visit(copy_but(function, node))
                namespace = dict(vars(module))
                tree = ast.Module([*(one for one in functions.values() if one is not function), mutated], [])
                exec(compile(ast.fix_missing_locations(tree), slide.id, "exec"), namespace)
                told = f"{slide.id}: {name}: {ast.unparse(node)} → {ast.unparse(ast.fix_missing_locations(after))}"
                yield Mutant(told, namespace[slide.oracle.__name__])


def copy_but(function: ast.FunctionDef, node: ast.AST) -> ast.FunctionDef:
    """A copy of a function in which one node is still the same object."""
    return copy.deepcopy(function, {id(node): node})


def shows(mutant: Mutant, slide: Slide, data: Data, spoiled: Data, refused: list[Case]) -> bool:
    """Whether anything tells the mutant from the oracle."""

    def passes(tried: Data) -> bool:
        try:
            return bool(mutant.oracle(tried).holds)
        except Exception:
            return False

    try:
        if mutant.oracle(data) != slide.oracle(data):
            return True
    except Exception:
        return True
    return passes(spoiled) or any(case.done_to(data, passes) for case in refused)


def mixed(found: list[Case]) -> list[Case]:
    """One case of each kind of damage after another, so that what is decisive comes early."""
    kinds = [[case for case in found if case.damage == name] for name in DAMAGE]
    return [case for row in itertools.zip_longest(*kinds) for case in row if case]


def main() -> int:
    survived, tried = list[str](), 0
    for slide, spoiled in sabotages():
        data = committed(slide)
        whole = [case for case in cases(data) if not case.done_to(data, first_flaw)]  # the rest is refused before any oracle
        refused = mixed([case for case in whole if case.done_to(data, functools.partial(refuses, slide))])
        for mutant in mutants(slide):
            tried += 1
            if not shows(mutant, slide, data, spoiled, refused):
                survived.append(mutant.name)
    wrong = unexplained(survived, explained("mutants"))
    print("\n".join(wrong), end="\n" if wrong else "")
    print(f"{tried - len(survived):,} of {tried:,} mutants found out, {len(survived)} survived for a reason")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
