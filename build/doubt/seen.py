"""A capture that notes what an oracle looks at. Knows no slide."""

from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]


class Seen(dict):
    """A dict that notes which of its keys are looked up, here and in every dict inside it."""

    def __init__(self, value: dict[str, Any], log: set[Path], where: Path = ()):
        super().__init__({key: seen(child, log, (*where, key)) for key, child in value.items()})
        self._log, self._where = log, where

    def __getitem__(self, key: str) -> Any:
        self._log.add((*self._where, key))
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._log.add((*self._where, key))
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self._log.add((*self._where, str(key)))
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self._log.update((*self._where, key) for key in self.keys())
        return super().__iter__()

    def items(self) -> Any:
        return [(key, self[key]) for key in self]

    def values(self) -> Any:
        return [self[key] for key in self]

    def __eq__(self, other: object) -> bool:
        return list(self) is not None and super().__eq__(other)


class SeenTexts(list):
    """A list of texts that notes when they are looked at, and not only counted."""

    def __init__(self, value: list[Any], log: set[Path], where: Path):
        super().__init__(value)
        self._log, self._where = log, where

    def __getitem__(self, at: Any) -> Any:
        self._log.add((*self._where, "texts"))
        return super().__getitem__(at)

    def __iter__(self) -> Iterator[str]:
        self._log.add((*self._where, "texts"))
        return super().__iter__()

    def __eq__(self, other: object) -> bool:
        return list(self) == other


def seen(value: Any, log: set[Path], where: Path = ()) -> Any:
    """A JSON value whose look-ups are noted in `log`; a list of numbers counts as read with its key, for NumPy reads unseen."""
    if isinstance(value, dict):
        return Seen(value, log, where)
    if isinstance(value, list) and value and isinstance(value[0], str):
        return SeenTexts(value, log, where)
    return [seen(child, log, (*where, at)) for at, child in enumerate(value)] if isinstance(value, list) else value


def is_read(path: Path, data: dict[str, Any], log: set[Path], damage: str = "") -> bool:
    """Whether the place was looked up: its key, or that of the list of numbers that it is in; of a list of texts any."""
    last: Any = data
    for step in path:
        last = last[step]
    entry = last[0] if isinstance(last, list) and damage == "swapped" else None
    if isinstance(entry, str) or (isinstance(last, str) and isinstance(path[-1], int)):
        return ((*path, "texts") if entry else (*path[:-1], "texts")) in log
    if isinstance(entry, dict) or (isinstance(last, dict) and isinstance(path[-1], int)):
        return any(noted[: len(path)] == path and len(noted) > len(path) + bool(entry) for noted in log)
    while path and isinstance(path[-1], int):
        path = path[:-1]
    return not path or path in log
