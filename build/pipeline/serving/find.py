"""Finds the model server for Part 2.

Order: what was asked for; else an Ollama that answers and holds (or can fetch) MODEL; else an `ollama` on PATH, started
for this run; else `transformers serve` with the deck's own model. Choosing imports neither torch nor transformers.
"""

import importlib.metadata
import importlib.util
from dataclasses import replace
from urllib.parse import urlsplit

from pipeline.errors import BadInput, MissingPart
from pipeline.model.find import EMBEDDED
from pipeline.model.load import Say
from pipeline.serving.address import base_url, is_loopback, key_in
from pipeline.serving.choice import OWN, ServerChoice, silent
from pipeline.serving.dialects import Ollama, OpenAI
from pipeline.serving.identify import SHAPED, completing, identify
from pipeline.serving.line import Unreachable, WireError
from pipeline.serving.messages import model_shown
from pipeline.serving.ollama import MODEL, ollama_on_path, running_ollama, without_model
from pipeline.serving.server import KEY_VARIABLE

CONNECT_URL_S = 5.0
NOT_ASKED = ServerChoice("none", "no server", "", ())  # of a run in which no chosen slide asks one


def choose(
    request: str = "auto", *, offline: bool = False, own_identity: str, own_model: str = EMBEDDED, say: Say = silent
) -> ServerChoice:
    """Which server this run asks: `auto`, `ollama`, `embedded`, or the URL of one that runs;
    behind a # the name of its model.

    Without one the deck's own model is served, which is known by `own_model` and `own_identity`.

    An Ollama that lacks the model is told to fetch it here, unless offline: only then is its digest known.
    """
    if request == "embedded":
        return embedded(own_model, own_identity, ("embedded server, as requested",))
    where, _, wanted = request.partition("#")
    if where not in ("auto", "ollama"):
        return with_own(at_url(where, wanted, offline), own_identity)
    model = wanted or MODEL
    lines: list[str] = []
    for look in (running_ollama, ollama_on_path):
        found = look(offline, say, model)
        if isinstance(found, ServerChoice):
            return replace(with_own(found, own_identity), lines=(*lines, *found.lines))
        lines.append(found)
    if request != "auto":
        why = "; ".join(lines)
        raise MissingPart(f"no Ollama with {model} ({why}): run `ollama serve` and `ollama pull {model}`, or leave out --server")
    return embedded(own_model, own_identity, tuple(lines))


def with_own(choice: ServerChoice, own_identity: str) -> ServerChoice:
    """The choice under an identity that names the deck's own model where that is what it is asked for."""
    return replace(choice, identity=f"{choice.identity} {own_identity}") if choice.model == OWN else choice


def embedded(model: str, identity: str, lines: tuple[str, ...]) -> ServerChoice:
    missing = [name for name in ("fastapi", "uvicorn", "openai", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingPart(f"transformers serve lacks {', '.join(missing)}: pip install -r build/requirements.txt")
    version = importlib.metadata.version("transformers")
    line = f"transformers serve {version} with {model}, started once a slide asks it"
    identity = f"transformers serve {version} {identity}"
    return ServerChoice("transformers serve", "transformers serve", identity, (*lines, line), model=model, version=version)


def at_url(given: str, wanted: str = "", offline: bool = False) -> ServerChoice:
    """The server at a URL: an Ollama if it says so, else OpenAI-shaped; and its model `wanted`, else the first that completes."""
    url = base_url(given, "--server")
    if offline and not is_loopback(url):
        raise BadInput(f"--offline uses no network, and {url} is not this machine: leave out one of the two")
    wire = Ollama(url, wanted or MODEL, connect_s=CONNECT_URL_S, read_s=10.0, total_s=20.0)
    try:
        version = wire.version()
    except Unreachable:
        raise
    except WireError:
        return shaped(url, wanted)  # it answers, but not as an Ollama
    held = wire.tag()
    if held is None and not wanted:
        return replace(without_model(version, f"the Ollama at {url} lacks {MODEL}", url=url), asked=True)
    if held is None:
        raise MissingPart(f"the Ollama at {url} lacks {wire.model}: run `ollama pull {wire.model}`")
    if not wire.completes():
        raise MissingPart(f"{wire.model} at {url} cannot complete a text: name another model behind the #, as ollama#NAME")
    digest, model = held.get("digest"), wire.model
    lines = (f"Ollama {version} at {url} with {model}, as requested",)
    identity = f"ollama {version} {model} {digest}"
    return ServerChoice("ollama", "Ollama", identity, lines, url, None, model, digest, version, asked=True)


def shaped(url: str, wanted: str) -> ServerChoice:
    """An OpenAI-shaped server under the name that it gives itself."""
    wire = OpenAI(url, "", key=key_in(KEY_VARIABLE), key_variable=KEY_VARIABLE, read_s=60.0, total_s=90.0)
    known = identify(wire)
    model = completing(wire, known, wanted)
    host = urlsplit(url).hostname
    name = f"{SHAPED} at {host}" if known.name == SHAPED else known.name
    label = " ".join(filter(None, (name, known.version)))
    identity = f"{label} at {host} {model_shown(model)}"
    others = len(known.names) - 1
    line = f"{label} with {model_shown(model)}, as requested" + (f" (of {others + 1} models)" if others else "")
    return ServerChoice("openai", name, identity, (line,), url, None, model, None, known.version, also=known.also(model))
