"""Draws JSON as it was sent: a panel of monospaced lines, keys in grey, values in ink, the accented ones in blue."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.drawing.canvas import Canvas
from pipeline.drawing.fonts import literal
from pipeline.drawing.layout import BODY, LABEL, LEADING, Box
from pipeline.drawing.palette import BLUE, FAINT, GREY, INK
from pipeline.serving.messages import VARIES

ORDER = (
    "model", "id", "object", "created", "created_at", "prompt", "messages", "message", "role", "content", "response", "choices",
    "index", "text", "finish_reason", "done", "done_reason", "usage", "prompt_tokens", "completion_tokens", "total_tokens",
    "prompt_eval_count", "eval_count", "max_tokens", "num_predict", "temperature",
    "repeat_penalty", "num_ctx", "seed", "raw", "stream", "truncate", "shift", "options",
)  # a capture's keys come back sorted; a reader expects them in this order  # fmt: skip
PAD, INDENT = 18, 2


@dataclass(frozen=True)
class Line:
    """One line of the panel: what comes before the value, the value, what comes after; `path` names the value."""

    path: str
    depth: int
    key: str
    value: str
    after: str


def spelled(value: Any) -> str:
    """A leaf as JSON spells it, for reading: characters beyond ASCII as themselves, undrawable ones escaped."""
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{literal(quoted)}"' if value != VARIES else VARIES
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)


def in_order(message: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(message.items(), key=lambda item: (ORDER.index(item[0]) if item[0] in ORDER else len(ORDER), item[0]))


def inline(message: Mapping[str, Any]) -> str | None:
    """A message of numbers and words on one line; None when it holds more than that."""
    leaves = in_order(message)
    if any(isinstance(child, Mapping | list) for _, child in leaves):
        return None
    return "{" + ", ".join(f'"{name}": {spelled(child)}' for name, child in leaves) + "}"


def lines(value: Any, width: int, path: str = "", depth: int = 0, key: str = "", after: str = "") -> Iterator[Line]:
    """The lines of a message, one leaf a line, or a small message as one if it fits twice `width` columns."""
    if depth and isinstance(value, Mapping) and (short := inline(value)) and columns(key + short) < 2 * (width - INDENT * depth):
        yield Line(path, depth, key, short, after)
    elif isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping):
        yield from _block(in_order(value[0]), width, f"{path}[0]", depth, key, "[{", "}]", after)
    elif isinstance(value, Mapping):
        yield from _block(in_order(value), width, path, depth, key, "{", "}", after)
    elif isinstance(value, list):
        yield from _block(enumerate(value), width, path, depth, key, "[", "]", after)
    else:
        yield Line(path, depth, key, spelled(value), after)


def _block(children, width, path, depth, key, opening, closing, after) -> Iterator[Line]:
    children = list(children)
    yield Line(path, depth, key + opening, "", "")
    for number, (name, child) in enumerate(children, 1):
        inner = f"{path}.{name}" if path else str(name)
        label = f'"{name}": ' if isinstance(name, str) else ""
        yield from lines(child, width, inner, depth + 1, label, "," if number < len(children) else "")
    yield Line(path, depth, closing + after, "", "")


def draw_json(canvas: Canvas, value: Any, panel: Box, *, accents: tuple[str, ...] = (), size: float = BODY) -> dict[str, float]:
    """The panel; returns the middle of each value's line by its path. Long texts wrap; the panel shrinks to LABEL to fit."""
    inside = panel.inset(PAD)
    while True:
        step = size * LEADING
        advance = canvas.measure("0" * 20, size, mono=True)[0] / 20
        rows = list(lines(value, int(inside.w / advance)))
        room = {row.path: max(inside.w - (INDENT * row.depth + len(row.key) + 1) * advance, 8 * advance) for row in rows}
        heights = [_wrapped(row.value, int(room[row.path] / advance)) for row in rows]
        if sum(heights) * step <= inside.h or size <= LABEL:
            break
        size -= 1
    fit = int(inside.h / step)
    most = max(1, fit - (sum(heights) - max(heights)))  # the longest text gives way, then the middle of the message
    if over := sum(min(height, most) for height in heights) - fit:
        rows, heights = _elide(rows, heights, over) if over > 0 else (rows, heights)
    canvas.box(panel, fill=FAINT, radius=10)
    places: dict[str, float] = {}
    top = inside.y + step / 2
    for row, height in zip(rows, heights, strict=True):
        left = inside.x + INDENT * row.depth * advance
        color = BLUE if row.path in accents else INK
        canvas.text(left, top, row.key, size=size, mono=True, color=GREY)
        start = left + len(row.key) * advance
        shown = wrap(row.value, int(room[row.path] / advance), min(height, most))
        for number, part in enumerate(shown):
            tail = row.after if number == len(shown) - 1 else ""
            spot = Box(start, top + (number - 0.5) * step, room[row.path] + 2 * advance, step)
            canvas.put(spot, part + tail, size=size, mono=True, color=color)
        if row.value:
            places[row.path] = top + (len(shown) - 1) * step / 2
        top += len(shown) * step
    return places


def _elide(rows: list[Line], heights: list[int], over: int) -> tuple[list[Line], list[int]]:
    """Leave out what says nothing (null), then lines from the end on; one line says how many."""
    gone = [i for i in range(len(rows)) if rows[i].value == "null"][: over + 1]
    # what went in and came out stays: a reader looks for it
    ends = [i for i in range(len(rows) - 2, 0, -1) if i not in gone and not rows[i].path.startswith("usage")]
    gone += ends[: max(0, over + 1 - len(gone))]
    kept = [(row, height) for i, (row, height) in enumerate(zip(rows, heights, strict=True)) if i not in gone]
    kept.insert(len(kept) - 1, (Line("", 1, f"⋯ {len(gone)} more lines ⋯", "", ""), 1))
    return [row for row, _ in kept], [height for _, height in kept]


def columns(text: str) -> int:
    """How many monospaced columns a text takes: wide characters take two."""
    return sum(2 if ord(character) > 0x2E7F else 1 for character in text)


def wrap(text: str, width: int, most: int) -> list[str]:
    """A text in at most `most` lines of `width` columns, broken at spaces where it can be; an ellipsis when cut."""
    parts: list[str] = []
    rest = text
    while columns(rest) > width:
        cut = len(rest)
        while columns(rest[:cut]) > width:
            cut -= 1
        cut = max(cut, 1)
        space = rest.rfind(" ", cut // 2, cut)
        cut = space + 1 if space > 0 else cut
        parts.append(rest[:cut])
        rest = rest[cut:]
    parts.append(rest)
    if len(parts) > most:
        parts = [*parts[: most - 1], parts[most - 1][: max(width - 2, 1)] + "…"]
    return parts


def _wrapped(text: str, width: int) -> int:
    return len(wrap(text, width, 99)) if text else 1
