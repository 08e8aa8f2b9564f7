"""Requests and answers as a capture keeps them: what differs from call to call replaced, every leaf with its path.

Also the one call that the concept cards draw, and the fields in which two such calls differ. Knows no figure and opens no
socket.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

VARIES = "(varies)"  # in a capture, in place of what differs from call to call
VARYING = {
    "id", "created", "created_at", "total_duration", "load_duration", "prompt_eval_duration", "eval_duration", "x_groq",
    "timings", "queue_time", "cached_tokens", "created_cache_tokens", "prompt_eval_cached_count",
}  # fmt: skip


def settle(value: Any, *, drop_unset: bool = False) -> Any:
    """A message as a capture keeps it: ids, times and long id lists replaced by what they are; an empty list said to be.

    drop_unset leaves out what is None or empty: litellm's answers carry every field that any provider might set.
    """
    if isinstance(value, Mapping):
        return {
            key: settled(key, child, drop_unset) for key, child in value.items() if not (drop_unset and child in (None, {}, []))
        }
    if isinstance(value, list):
        return [settle(child, drop_unset=drop_unset) for child in value] or "(none)"
    return value


def settled(key: str, child: Any, drop_unset: bool) -> Any:
    """One field as a capture keeps it."""
    if key in VARYING and child is not None:
        return VARIES
    if key == "context" and isinstance(child, list):
        return f"({len(child)} ids)"
    return model_shown(child) if key == "model" and isinstance(child, str) else settle(child, drop_unset=drop_unset)


def model_shown(name: str) -> str:
    """A model's name as it is shown: of a folder on somebody's machine only the last part."""
    prefix, _, rest = name.partition("/")
    if rest.startswith("/") and prefix:  # a gateway's prefix before a path
        return f"{prefix}/{model_shown(rest)}"
    a_path = name.startswith(("/", "~", "./", "../", "\\\\")) or (name[1:3] in (":\\", ":/"))
    return "…/" + name.replace("\\", "/").rstrip("/").rpartition("/")[2] if a_path else name


def reported(value: object) -> object:
    """What the server said, or that it did not say it."""
    return "not reported" if value is None else value


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a message with its path: `choices[0].text`."""
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from flat(child, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from flat(child, f"{path}[{index}]")
    else:
        yield path, value


# --- the call of the concept cards ---


def chat_call(sentence: str) -> dict[str, Any]:
    """What is the same wherever the call goes: its path and what it asks."""
    messages = [{"role": "user", "content": sentence}]
    return {"path": "/chat/completions", "messages": messages, "temperature": 0, "max_tokens": 8}


def differing(*calls: Mapping[str, Any]) -> set[str]:
    """The fields that the calls do not all have, or do not all fill alike."""
    first, fields = calls[0], set().union(*calls)
    return {name for name in fields if not all(name in call and name in first and call[name] == first[name] for call in calls)}


def spelled_out(value: Any) -> str:
    """A field's value for reading: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
