"""Who answers at an address and which models it has: asked of the server itself, never read off a name that was typed."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.errors import MissingPart
from pipeline.serving.dialects import OpenAI
from pipeline.serving.line import WireError
from pipeline.serving.messages import model_shown
from pipeline.serving.stream import Message

SHAPED = "OpenAI-shaped server"  # one that does not say what it is
OWNERS = {"vllm": "vLLM", "llamacpp": "llama.cpp", "sglang": "SGLang"}  # `owned_by` in the list of models
TRIED_AT_MOST = 5


@dataclass(frozen=True)
class Identity:
    """What a server says of itself: its name, its version (None: not said), and its list of models."""

    name: str
    version: str | None
    models: tuple[Mapping[str, Any], ...]

    @property
    def names(self) -> list[str]:
        return [str(model["id"]) for model in self.models]

    def also(self, model: str) -> frozenset[str]:
        """The further names of one model: an engine lists each alias, and answers with the first."""
        entry = next((one for one in self.models if one["id"] == model), {})
        root = entry.get("root")
        same = {str(one["id"]) for one in self.models if root and one.get("root") == root}
        same |= {str(one["id"]) for one in self.models if model in (one.get("aliases") or [])}
        return frozenset((same | set(entry.get("aliases") or [])) - {model})


def identify(wire: OpenAI) -> Identity:
    """Ask a server for its models and for what it is. Raises WireError when it does not list its models."""
    path = f"{wire.prefix}/models"
    listing, headers = wire.look(path)
    with wire.of_our_shape(path):
        models = tuple(entry for entry in listing["data"] if entry["id"] is not None)
        owners = {str(entry.get("owned_by")).lower() for entry in models}
    if version := headers.get("x-litellm-version"):
        return Identity("litellm's proxy", version, models)
    if "vllm" in owners:
        return Identity("vLLM", asked_for(wire, "/version", "version"), models)
    if "llamacpp" in owners or headers.get("server", "").lower().startswith("llama.cpp"):
        return Identity("llama.cpp", asked_for(wire, "/props", "build_info"), models)
    named = next((OWNERS[owner] for owner in sorted(owners) if owner in OWNERS), SHAPED)
    return Identity(named, None, models)


def asked_for(wire: OpenAI, path: str, field: str) -> str | None:
    """One thing that a server says of itself, or None."""
    said: Message = {}
    with contextlib.suppress(WireError):
        said = wire.get(path)
    return str(said[field]) if said.get(field) else None


def completing(wire: OpenAI, identity: Identity, wanted: str) -> str:
    """The model to ask: the one wanted, else the first of the list that completes a text. Raises MissingPart."""
    names = identity.names
    if wanted:
        if wanted in names:
            return wanted
        held = ", ".join(model_shown(name) for name in names[:8]) or "none"
        raise MissingPart(f"{wire.url} does not serve {wanted!r}: name one that it does behind the #; it serves {held}")
    if not names:
        raise MissingPart(f"{wire.url} serves no model: load one there and run again")
    if len(names) == 1:
        return names[0]
    for name in names[:TRIED_AT_MOST]:
        wire.model = name
        with contextlib.suppress(WireError):
            wire.chat([{"role": "user", "content": "Hello"}], max_tokens=1, temperature=0)
            return name
    tried = ", ".join(model_shown(name) for name in names[:TRIED_AT_MOST])
    raise MissingPart(f"no model at {wire.url} can complete a text (tried {tried}): name one with --server {wire.url}#NAME")
