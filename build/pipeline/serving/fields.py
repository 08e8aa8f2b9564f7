"""What a gateway makes of an answer, field by field: as received, renamed, changed and how, or made by itself.

Knows no gateway and no figure; opens no connection.
"""

from typing import Any

from pipeline.serving.client import ended
from pipeline.serving.messages import flat
from pipeline.serving.stream import Message

SHARED = (  # what an answer holds whichever provider it came from
    "model", "id", "object", "created", "choices[0].message.role", "choices[0].message.content", "choices[0].finish_reason",
    "usage.prompt_tokens", "usage.completion_tokens", "usage.total_tokens",
)  # fmt: skip
IN_OLLAMA = {  # where Ollama keeps the same thing; what it lacks a gateway must make
    "model": "model",
    "choices[0].message.role": "message.role",
    "choices[0].message.content": "message.content",
    "choices[0].finish_reason": "done_reason",
    "usage.prompt_tokens": "prompt_eval_count",
    "usage.completion_tokens": "eval_count",
}
RECEIVED, RENAMED, MADE = "as received", "renamed", "made here"
MISSING = "missing"


def compared(native: Message, answer: Message) -> list[dict[str, Any]]:
    """For each shared field: where it came from (None: nowhere) and what was done with it; both messages unsettled."""
    received, handed = dict(flat(native)), dict(flat(answer))
    found = []
    for field in SHARED:
        place: str | None = IN_OLLAMA.get(field) if "done" in native else field
        if place is None or received.get(place) is None:
            place, how = None, MADE if handed.get(field) is not None else MISSING
        else:
            how = done(received[place], handed.get(field), RECEIVED if place == field else RENAMED)
        found.append({"field": field, "place": place, "how": how})
    return found


def done(received: Any, handed: Any, unchanged: str) -> str:
    """What was done with a value on its way."""
    if handed == received and type(handed) is type(received):
        return unchanged
    if isinstance(received, str) and isinstance(handed, str) and received and handed.endswith(f"/{received}"):
        return f"changed: {handed.removesuffix(received)} put before it"
    return "changed: made anew"


def allowed(field: str, how: str, received: Any, handed: Any) -> bool:
    """Whether a gateway may do this: put its prefix before the model's name, and say why an answer ended in its own word."""
    if how in (RECEIVED, RENAMED):
        return received == handed
    if how == MADE:
        return handed is not None
    if field in ("id", "created"):
        return handed is not None
    if field == "model":
        return isinstance(handed, str) and handed.endswith(f"/{received}")
    return field.endswith("finish_reason") and ended(str(received)) == ended(str(handed))
