"""Finds the model server for Part 2.

Order: what was asked for; else an Ollama that answers and holds (or can fetch) MODEL; else an `ollama` on PATH, started
for this run; else `transformers serve` with the deck's own model. Choosing imports neither torch nor transformers.
"""

import importlib.metadata
import importlib.util
from dataclasses import replace
from urllib.parse import urlsplit

from pipeline.errors import MissingPart
from pipeline.model.find import EMBEDDED
from pipeline.model.load import Say
from pipeline.serving.address import base_url, key_in
from pipeline.serving.choice import OWN, ServerChoice, silent
from pipeline.serving.dialects import Ollama, OpenAI
from pipeline.serving.line import Unreachable, WireError
from pipeline.serving.ollama import MODEL, ollama_on_path, running_ollama
from pipeline.serving.server import KEY_VARIABLE

CONNECT_URL_S = 5.0


def choose(
    request: str = "auto", *, offline: bool = False, own_identity: str, own_model: str = EMBEDDED, say: Say = silent
) -> ServerChoice:
    """Which server this run asks: `auto`, `ollama`, `embedded`, or the URL of one that runs.

    Without one the deck's own model is served, which is known by `own_model` and `own_identity`.

    An Ollama that lacks MODEL is told to fetch it here, unless offline: only then is its digest known.
    """
    if request == "embedded":
        return embedded(own_model, own_identity, ("embedded server, as requested",))
    if request not in ("auto", "ollama"):
        return at_url(request)
    lines = []
    for look in (running_ollama, ollama_on_path):
        found = look(offline, say)
        if isinstance(found, ServerChoice):
            identity = f"{found.identity} {own_identity}" if found.model == OWN else found.identity
            return replace(found, identity=identity, lines=(*lines, *found.lines))
        lines.append(found)
    if request == "ollama":
        why = "; ".join(lines)
        raise MissingPart(f"no Ollama with {MODEL} ({why}): run `ollama serve` and `ollama pull {MODEL}`, or leave out --server")
    return embedded(own_model, own_identity, tuple(lines))


def embedded(model: str, identity: str, lines: tuple[str, ...]) -> ServerChoice:
    missing = [name for name in ("fastapi", "uvicorn", "openai", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingPart(f"transformers serve lacks {', '.join(missing)}: pip install -r build/requirements.txt")
    version = importlib.metadata.version("transformers")
    line = f"transformers serve {version} with {model}, started once a slide asks it"
    identity = f"transformers serve {version} {identity}"
    return ServerChoice("transformers serve", "transformers serve", identity, (*lines, line), model=model, version=version)


def at_url(given: str) -> ServerChoice:
    """The server at a URL: an Ollama if it says so, else OpenAI-shaped, with the first model that it lists."""
    url = base_url(given, "--server")
    try:
        version = Ollama(url, MODEL, connect_s=CONNECT_URL_S, read_s=10.0, total_s=20.0).version()
    except Unreachable:
        raise
    except WireError:
        pass  # it answers, but not as an Ollama
    else:
        held = Ollama(url, MODEL).tag()
        if held is None:
            raise MissingPart(f"the Ollama at {url} lacks {MODEL}: run `ollama pull {MODEL}`")
        digest = held.get("digest")
        lines = (f"Ollama {version} at {url}, as requested",)
        return ServerChoice(
            "ollama", "Ollama", f"ollama {version} {MODEL} {digest}", lines, url, None, MODEL, digest, version, asked=True
        )
    models = OpenAI(url, "", key=key_in(KEY_VARIABLE), read_s=10.0, total_s=20.0).models()
    if not models:
        raise MissingPart(f"{url} serves no model: load one there and run again")
    name = f"OpenAI-shaped server at {urlsplit(url).hostname}"
    identity = f"openai {urlsplit(url).hostname} {models[0]}"
    return ServerChoice("openai", name, identity, (f"{name} with {models[0]}, as requested",), url, model=models[0])
