"""Servers that we start: an `ollama` from PATH, or `transformers serve` with a model of ours.

Each listens on loopback only and is held by a keeper process, so that it ends when we end, of whatever cause.

`transformers serve` with continuous batching keeps the sampling of the first request that it ever gets: a later
temperature is ignored. Our first request, the warm-up, is greedy; so are all the others.
"""

import functools
import importlib.metadata
import os
import sys
from pathlib import Path

from pipeline.errors import MissingPart
from pipeline.model import load
from pipeline.model.find import EMBEDDED, GGUF_SHA256
from pipeline.serving.dialects import Ollama, OpenAI
from pipeline.serving.process import Process, Starting
from pipeline.serving.server import Server, describe

# Without these two `transformers serve` reserves most of the machine's memory for its cache: 8 pages of 256 tokens hold
# the longest sentence, its chat template and its answer several times over, and 512 tokens go into one step.
CACHE_PAGES, STEP_TOKENS = 8, 512


def begin_ollama(program: str, model: str, *, must_hold: bool = True, own_folder: bool = False) -> Starting[Server]:
    """Spawn an `ollama` from PATH; with `own_folder` its models and keys are in its process's folder, and go with it."""

    def spawn(port: int) -> Process:
        folders = {"OLLAMA_MODELS": "models", "HOME": "home"} if own_folder else {}
        return Process([program, "serve"], {**os.environ, "OLLAMA_HOST": f"127.0.0.1:{port}"}, folders=folders)

    def take(url: str, process: Process) -> Server:
        wire = Ollama(url, model)
        version, held = wire.version(), wire.tag()
        if held is None and must_hold:
            raise MissingPart(f"the ollama we started lacks {model}: run `ollama pull {model}`")
        return Server("ollama", wire, describe("ollama", "Ollama", version, model, (held or {}).get("digest")), process)

    return Starting(spawn, lambda port: f"Listening on 127.0.0.1:{port}", take)


def begin_transformers(model_path: Path, model: str = EMBEDDED, command: list[str] | None = None) -> Starting[Server]:
    """Spawn `transformers serve` on the CPU in float32; the model is a link, so that no local path is in any answer."""
    flags = ["--continuous-batching", "--cb-num-blocks", str(CACHE_PAGES), "--cb-max-batch-tokens", str(STEP_TOKENS)]
    flags += ["--device", "cpu", "--dtype", "float32", "--host", "127.0.0.1"]
    program = command or [sys.executable, "-m", "transformers.cli.transformers"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1", "PYTHONUNBUFFERED": "1"}
    # threads that spin while they wait cost ten times the time as soon as anything else runs on the machine
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for name in ("PYTHONPATH", "PYTHONWARNINGS"):
        environment.pop(name, None)

    link = model.replace("/", "--")  # an owner's name would make it a folder in a folder

    def spawn(port: int) -> Process:
        command_line = [*program, "serve", link, *flags, "--port", str(port)]
        return Process(command_line, environment, {link: model_path})

    def take(url: str, process: Process) -> Server:
        wire = OpenAI(url, link)
        wire.get("/health")
        wire.complete("Hello", max_tokens=1, temperature=0)  # reserves the cache, and settles on greedy for good
        version = importlib.metadata.version("transformers")
        known = describe("transformers serve", "transformers serve", version, model, digest_of(model_path))
        return Server(
            "transformers serve",
            wire,
            {**known, "sha256": weights_sha256(model_path), "dtype": "float32"},
            process,
            None,
            model_path,
        )

    return Starting(spawn, lambda port: f"running on http://127.0.0.1:{port}", take)


weights_sha256 = functools.cache(load.weights_sha256)  # half a gigabyte is read once a run


def digest_of(model_path: Path) -> str:
    """What the embedded model is known by on every slide: the published file that its folder was read from."""
    read_from_gguf = model_path.name.startswith(f"{EMBEDDED}-{GGUF_SHA256[:8]}")
    return GGUF_SHA256 if read_from_gguf else weights_sha256(model_path)
