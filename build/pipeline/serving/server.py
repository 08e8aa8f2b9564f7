"""A model server that answers, whichever it is: its line, and what it says of itself. Finds and starts none."""

from pathlib import Path
from typing import Any

from pipeline.serving.address import base_url, key_in
from pipeline.serving.client import Exchange, Wire
from pipeline.serving.counts import in_template
from pipeline.serving.dialects import Ollama, OpenAI
from pipeline.serving.identify import SHAPED, identify
from pipeline.serving.line import WireError
from pipeline.serving.messages import model_shown
from pipeline.serving.process import Process
from pipeline.serving.providers import Route

KEY_VARIABLE = "DECK_SERVER_KEY"  # for a server given by URL that wants a key; never sent anywhere else


class Server:
    """A server that answers. `provenance` holds nothing that changes from run to run; None: not reported."""

    def __init__(
        self,
        kind: str,
        wire: Wire,
        provenance: dict[str, Any],
        process: Process | None = None,
        route: Route | None = None,
        tokenizer: Path | None = None,
    ):
        self.kind, self.wire, self.provenance = kind, wire, provenance
        self.tokenizer = tokenizer  # the folder of the served tokenizer, where we have it
        self.route = route  # of a provider that `--ask` named
        self.process = process

    @property
    def base_url(self) -> str:
        return self.wire.url

    @property
    def model(self) -> str:
        return self.wire.model

    @property
    def label(self) -> str:
        """Name and version, for a picture: `Ollama 0.32.0`."""
        return " ".join(filter(None, (self.provenance["name"], self.provenance["version"])))

    def complete(self, prompt: str, *, stream: bool = False, **options) -> Exchange:
        return self.wire.complete(prompt, stream=stream, **options)

    def chat(self, messages: list[dict[str, str]], *, stream: bool = False, **options) -> Exchange:
        return self.wire.chat(messages, stream=stream, **options)

    def template(self, messages: list[dict[str, str]]) -> dict[str, str] | None:
        """What a conversation becomes before the model reads it: `system` and `template`, or the `read` text; None: unknown."""
        if isinstance(self.wire, Ollama):
            shown = self.wire.show()
            known = {name: shown[name] for name in ("system", "template") if isinstance(shown.get(name), str) and shown[name]}
            return known or None
        return {"read": in_template(self.tokenizer, messages)} if self.tokenizer else None

    def spoiled(self) -> "Server | None":
        """For sabotage: the same with a model that is nearly the right one; None where no model of ours can be put in."""
        return None

    def close(self) -> None:
        self.wire.close()
        if self.process:
            self.process.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def connect(
    kind: str, url: str, model: str, name: str, version: str | None, digest: str | None, also: frozenset[str] = frozenset()
) -> Server:
    wire: Wire = (
        Ollama(url, model) if kind == "ollama" else OpenAI(url, model, key=key_in(KEY_VARIABLE), key_variable=KEY_VARIABLE)
    )
    wire.also = also
    return Server(kind, wire, describe(kind, name, version, model, digest))


def describe(kind: str, name: str, version: str | None, model: str, digest: str | None) -> dict[str, Any]:
    return {"kind": kind, "name": name, "version": version, "model": model_shown(model), "digest": digest, "sha256": None}


def server_at(route: Route) -> Server:
    """A provider to be asked directly, in its own shape."""
    model = route.model.partition("/")[2]
    if route.model.startswith("ollama"):
        ollama = Ollama(base_url(route.api_base), model, key=route.key, key_variable=route.key_variable)
        return Server("ollama", ollama, describe("ollama", route.name, ollama.version(), model, ollama.digest()), route=route)
    prefix = "/v1" if route.api_base.rstrip("/").endswith("/v1") else ""
    wire = OpenAI(base_url(route.api_base), model, prefix=prefix, key=route.key, key_variable=route.key_variable)
    name, version = route.name, None
    if route.own:  # whatever the string that was typed calls it, it says itself what it is
        try:
            known = identify(wire)
        except WireError:
            name = SHAPED
        else:
            name, version, wire.also = known.name, known.version, known.also(model)
    return Server("openai", wire, describe("openai", name, version, model, None), route=route)
