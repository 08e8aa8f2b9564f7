"""What can be wrong with one place of a capture, at every place: the damages that `make falsify` and `make mutants` do.

Of a list its first, middle and last entry are damaged, for all others. Knows no slide.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from doubt.seen import Path

Data = dict[str, Any]
ELSEWHERE = 1e6  # how far a float is moved: past every bound
ROUNDING = 1e-6  # numbers no further apart are one number
REMOVED = object()


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place of a value: all keys, and of a list its first, middle and last entry."""
    if isinstance(value, dict):
        steps: list[Any] = list(value)
    else:
        steps = sorted({0, len(value) // 2, len(value) - 1}) if isinstance(value, list) and value else []
    for step in steps:
        yield (*path, step)
        yield from places(value[step], (*path, step))


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def not_a_number(value: Any) -> list[Any]:
    return [float("nan")] if is_number(value) else []


def empty(value: Any) -> list[Any]:
    return [type(value)()] if isinstance(value, list | dict | str) and value else []


def moved(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, float):
        return [value + ELSEWHERE, value - ELSEWHERE]
    return [value + "x"] if isinstance(value, str) else []


def swapped(value: Any) -> list[Any]:
    """A list with two entries that differ in each other's place: of numbers the least and the greatest, else the first two."""
    if not isinstance(value, list) or all(entry == value[0] for entry in value):
        return []
    if all(map(is_number, value)):
        one, other = value.index(min(value)), value.index(max(value))
        if abs(value[one] - value[other]) < ROUNDING:
            return []
    else:
        one, other = 0, next(at for at, entry in enumerate(value) if entry != value[0])
    changed = list(value)
    changed[one], changed[other] = value[other], value[one]
    return [changed]


def missing(value: Any, in_a_list: bool) -> list[Any]:
    """A key of a table; of a list an entry that is a table or a list itself."""
    return [REMOVED] if isinstance(value, dict | list) or not in_a_list else []


def of_another_type(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [list(value.values()), "text"]
    if isinstance(value, list):
        return [7, "text"]
    if isinstance(value, str):
        return [7, [value]]
    return [str(value), [value]] if value is not None else ["null"]


DAMAGE: dict[str, Callable[[Any], list[Any]] | None] = {
    "NaN": not_a_number,
    "empty": empty,
    "moved": moved,
    "swapped": swapped,
    "missing": None,
    "other type": of_another_type,
}


@dataclass(frozen=True)
class Case:
    """One damage to one place of a capture."""

    damage: str
    path: Path
    value: Any

    def told(self, slide_id: str) -> str:
        """What was done, as the list of the explained names it."""
        steps = ["*" if isinstance(step, int) or self.path[:at] == ("ranks",) else step for at, step in enumerate(self.path)]
        return f"{slide_id}: {self.damage} at {'.'.join(map(str, steps))}"

    def done_to(self, data: Data, ask: Callable[[Data], Any]) -> Any:
        """What `ask` says of the damaged data; the data is whole again afterwards."""
        *way, last = self.path
        parent: Any = data
        for step in way:
            parent = parent[step]
        kept = parent.copy()
        try:
            if self.value is REMOVED:
                del parent[last]
            else:
                parent[last] = self.value
            return ask(data)
        finally:
            parent.clear()
            (parent.update if isinstance(parent, dict) else parent.extend)(kept)


def cases(data: Data) -> Iterator[Case]:
    for path in places(data):
        value: Any = data
        for step in path:
            value = value[step]
        for name, damage in DAMAGE.items():
            others = missing(value, isinstance(path[-1], int)) if damage is None else damage(value)
            yield from (Case(name, path, other) for other in others)
