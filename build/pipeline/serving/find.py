"""Finds the model server for Part 2, or starts one and stops it again.

Order: what was asked for; else an Ollama that answers and holds (or can fetch) MODEL; else an `ollama` on PATH, started
for this run; else `transformers serve` with the embedded model. A server that we start listens on loopback only and is
held by a keeper process, so that it ends when we end, of whatever cause. Choosing imports neither torch nor transformers.

`transformers serve` with continuous batching keeps the sampling of the first request that it ever gets: a later
temperature is ignored. Our first request, the warm-up, is greedy; so are all the others.
"""

import functools
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipeline.checksum import file_sha256
from pipeline.errors import MissingPart
from pipeline.model import load
from pipeline.model.find import EMBEDDED, GGUF_SHA256
from pipeline.model.load import Say
from pipeline.serving.address import base_url, key_in, ollama_url
from pipeline.serving.client import Unreachable, WireError
from pipeline.serving.dialects import Ollama, OpenAI
from pipeline.serving.process import Process, Starting
from pipeline.serving.server import KEY_VARIABLE, Server, connect, describe

MODEL = "qwen2.5:0.5b"  # what is asked of an Ollama
CONNECT_URL_S = 5.0
PROBE_S = 1.0  # loopback answers in a millisecond; a remote OLLAMA_HOST gets a second
# Without these two `transformers serve` reserves most of the machine's memory for its cache: 8 pages of 256 tokens hold
# the longest sentence, its chat template and its answer several times over, and 512 tokens go into one step.
CACHE_PAGES, STEP_TOKENS = 8, 512


def silent(line: str) -> None:
    """Says nothing."""


@dataclass(frozen=True)
class ServerChoice:
    """A server that was found, or can be started. `identity` names its model and version, never its port."""

    kind: str  # "ollama" | "transformers serve" | "openai"
    name: str
    identity: str
    lines: tuple[str, ...]
    url: str | None = None  # None: it must be started
    program: str | None = None  # the `ollama` to start
    model: str = EMBEDDED
    digest: str | None = None
    version: str | None = None

    def begin(self, model_path: Path | None = None) -> Starting[Server] | None:
        """Spawn the server and return at once; None when it runs already."""
        if self.url is not None:
            return None
        if self.kind == "ollama":
            return begin_ollama(self.program or "ollama", self.model)
        if model_path is None:
            raise MissingPart("transformers serve needs the folder of the embedded model: run with --model smollm2 once")
        return begin_transformers(model_path)

    def start(self, model_path: Path | None = None, say: Say = silent, begun: Starting[Server] | None = None) -> Server:
        """The server, ready to be asked. `begun` is what an earlier begin() returned."""
        if self.url is not None:
            return connect(self.kind, self.url, self.model, self.name, self.version, self.digest)
        say(f"starting {self.name} on loopback")
        begun = begun or self.begin(model_path)
        assert begun is not None
        return begun.ready()


def choose(request: str = "auto", *, offline: bool = False, embedded_identity: str, say: Say = silent) -> ServerChoice:
    """Which server this run asks: `auto`, `ollama`, `embedded`, or the URL of one that runs.

    An Ollama that lacks MODEL is told to fetch it here, unless offline: only then is its digest known.
    """
    if request == "embedded":
        return embedded(embedded_identity, ("embedded server as asked",))
    if request not in ("auto", "ollama"):
        return at_url(request)
    found = running_ollama(offline, say)
    if isinstance(found, ServerChoice):
        return found
    lines = [found]
    found = ollama_on_path(offline, say)
    if isinstance(found, ServerChoice):
        return replace(found, lines=(*lines, *found.lines))
    lines.append(found)
    if request == "ollama":
        why = "; ".join(lines)
        raise MissingPart(f"no Ollama with {MODEL} ({why}): run `ollama serve` and `ollama pull {MODEL}`, or leave out --server")
    return embedded(embedded_identity, tuple(lines))


# --- Ollama ---


def running_ollama(offline: bool, say: Say) -> ServerChoice | str:
    """The Ollama at OLLAMA_HOST with MODEL in it, or why not, in a phrase."""
    url = ollama_url(os.environ.get("OLLAMA_HOST", ""))
    wire = Ollama(url, MODEL, connect_s=PROBE_S, read_s=5.0, total_s=10.0)
    try:
        version = wire.version()
    except Unreachable:
        return f"no Ollama answers at {url}"
    except WireError as error:
        return f"no Ollama at {url}: {error}"
    try:
        held = hold(wire, offline, say)
    except WireError as error:
        return f"the Ollama at {url} does not hold {MODEL} and could not fetch it ({error})"
    finally:
        wire.close()
    if isinstance(held, str):
        return f"the Ollama at {url} {held}"
    digest = held.get("digest")
    line = f"Ollama {version} at {url} with {MODEL}"
    return ServerChoice("ollama", "Ollama", f"ollama {version} {MODEL} {digest}", (line,), url, None, MODEL, digest, version)


def hold(wire: Ollama, offline: bool, say: Say) -> dict[str, Any] | str:
    """What the Ollama says of MODEL, after fetching it when it is missing; or why it has none."""
    held = wire.tag()
    if held is None and offline:
        return f"lacks {MODEL} (this run fetches none; run `ollama pull {MODEL}`)"
    if held is None:
        wire.limits, wire.total_s = (wire.limits[0], 120.0), 120.0
        for line in progress(wire.pull()):
            say(line)
        held = wire.tag()
    return held or f"lacks {MODEL} even after fetching it"


def progress(messages: Iterator[dict[str, Any]]) -> Iterator[str]:
    """A pull's messages as lines of a progress bar, one per five hundredths."""
    shown = None
    for message in messages:
        total, done = message.get("total"), message.get("completed") or 0
        share, line = None, f"fetching {MODEL}: {message.get('status', '')}"
        if total:
            share = int(20 * done / total)
            line = f"fetching {MODEL}  [{'█' * share}{'·' * (20 - share)}] {done / 1e6:.0f} of {total / 1e6:.0f} MB"
        if (key := (share, message.get("digest"), None if share is not None else line)) != shown:
            shown = key
            yield line


def ollama_on_path(offline: bool, say: Say) -> ServerChoice | str:
    """An `ollama` program that we can start, with MODEL on its disk (fetched if need be); or why not."""
    program = shutil.which("ollama")
    if program is None:
        return "no ollama on PATH"
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return f"{program} does not run ({type(error).__name__})"
    version = said.split()[-1] if said.split() else None
    digest = manifest_digest(MODEL)
    if digest is None:
        if offline:
            return f"{program} has no {MODEL} (this run fetches none)"
        try:
            with begin_ollama(program, MODEL, must_hold=False).ready() as server:
                assert isinstance(server.wire, Ollama)
                hold(server.wire, offline, say)
        except MissingPart as error:
            return f"{program} could not fetch {MODEL} ({error})"
        digest = manifest_digest(MODEL)
    line = f"ollama {version} on PATH with {MODEL}"
    return ServerChoice("ollama", "Ollama", f"ollama {version} {MODEL} {digest}", (line,), None, program, MODEL, digest, version)


def manifest_digest(model: str) -> str | None:
    """The digest of a model on Ollama's disk: the SHA-256 of its manifest, which is what `/api/tags` reports."""
    store = Path(os.environ.get("OLLAMA_MODELS") or Path(os.path.expanduser("~")) / ".ollama" / "models")
    name, _, tag = model.partition(":")
    path = next((store / "manifests").glob(f"*/library/{name}/{tag or 'latest'}"), None)
    return file_sha256(path) if path else None


def begin_ollama(program: str, model: str, *, must_hold: bool = True) -> Starting[Server]:
    def spawn(port: int) -> Process:
        return Process([program, "serve"], {**os.environ, "OLLAMA_HOST": f"127.0.0.1:{port}"})

    def take(url: str, process: Process) -> Server:
        wire = Ollama(url, model)
        version, held = wire.version(), wire.tag()
        if held is None and must_hold:
            raise MissingPart(f"the ollama we started lacks {model}: run `ollama pull {model}`")
        return Server("ollama", wire, describe("ollama", "Ollama", version, model, (held or {}).get("digest")), process)

    return Starting(spawn, lambda port: f"Listening on 127.0.0.1:{port}", take)


# --- transformers serve ---


def embedded(identity: str, lines: tuple[str, ...]) -> ServerChoice:
    missing = [name for name in ("fastapi", "uvicorn", "openai", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingPart(f"transformers serve lacks {', '.join(missing)}: pip install -r build/requirements.txt")
    version = importlib.metadata.version("transformers")
    line = f"transformers serve {version} with {EMBEDDED}, started once a slide asks it"
    return ServerChoice(
        "transformers serve", "transformers serve", f"transformers serve {version} {identity}", (*lines, line), version=version
    )


def begin_transformers(model_path: Path, command: list[str] | None = None) -> Starting[Server]:
    """Spawn `transformers serve` on the CPU in float32; the model is a link, so that no local path is in any answer."""
    flags = ["--continuous-batching", "--cb-num-blocks", str(CACHE_PAGES), "--cb-max-batch-tokens", str(STEP_TOKENS)]
    flags += ["--device", "cpu", "--dtype", "float32", "--host", "127.0.0.1"]
    program = command or [sys.executable, "-m", "transformers.cli.transformers"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1", "PYTHONUNBUFFERED": "1"}
    # threads that spin while they wait cost ten times the time as soon as anything else runs on the machine
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for name in ("PYTHONPATH", "PYTHONWARNINGS"):
        environment.pop(name, None)

    def spawn(port: int) -> Process:
        command_line = [*program, "serve", EMBEDDED, *flags, "--port", str(port)]
        return Process(command_line, environment, {EMBEDDED: model_path})

    def take(url: str, process: Process) -> Server:
        wire = OpenAI(url, EMBEDDED)
        wire.get("/health")
        wire.complete("Hello", max_tokens=1, temperature=0)  # reserves the cache, and settles on greedy for good
        version = importlib.metadata.version("transformers")
        known = describe("transformers serve", "transformers serve", version, EMBEDDED, digest_of(model_path))
        return Server("transformers serve", wire, {**known, "sha256": weights_sha256(model_path), "dtype": "float32"}, process)

    return Starting(spawn, lambda port: f"running on http://127.0.0.1:{port}", take)


weights_sha256 = functools.cache(load.weights_sha256)  # half a gigabyte is read once a run


def digest_of(model_path: Path) -> str:
    """What the embedded model is known by on every slide: the published file that its folder was read from."""
    read_from_gguf = model_path.name.startswith(f"{EMBEDDED}-{GGUF_SHA256[:8]}")
    return GGUF_SHA256 if read_from_gguf else weights_sha256(model_path)


# --- by URL ---


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
        lines = (f"Ollama {version} at {url}, as asked",)
        return ServerChoice("ollama", "Ollama", f"ollama {version} {MODEL} {digest}", lines, url, None, MODEL, digest, version)
    models = OpenAI(url, "", key=key_in(KEY_VARIABLE), read_s=10.0, total_s=20.0).models()
    if not models:
        raise MissingPart(f"{url} serves no model: load one there and run again")
    name = f"OpenAI-shaped server at {urlsplit(url).hostname}"
    identity = f"openai {urlsplit(url).hostname} {models[0]}"
    return ServerChoice("openai", name, identity, (f"{name} with {models[0]}, as asked",), url, model=models[0])
