"""Finds an Ollama: one that runs, or an `ollama` on PATH; and has it fetch the model when that is missing."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.checksum import file_sha256
from pipeline.deadline import connect_to
from pipeline.errors import MissingPart
from pipeline.model.load import Say
from pipeline.serving.address import is_loopback, ollama_url
from pipeline.serving.choice import OWN, ServerChoice
from pipeline.serving.dialects import Ollama
from pipeline.serving.line import Unreachable, WireError
from pipeline.serving.start import begin_ollama

MODEL = "qwen2.5:0.5b"  # what is asked of an Ollama
PROBE_S = 1.0  # loopback answers in a millisecond; a remote OLLAMA_HOST gets a second


def running_ollama(offline: bool, say: Say, model: str = MODEL) -> ServerChoice | str:
    """The Ollama at OLLAMA_HOST, or why not, in a phrase. One of this machine need not hold MODEL: see without_model."""
    url = ollama_url(os.environ.get("OLLAMA_HOST", ""))
    if is_loopback(url):  # a quick look, for most of asking is the time that the import takes
        try:
            connect_to(url, PROBE_S)
        except OSError:
            return f"no Ollama answers at {url}"
    elif offline:
        return f"the Ollama at {url} is not on this machine, and this run uses no network"
    wire = Ollama(url, model, connect_s=PROBE_S, read_s=5.0, total_s=10.0)
    try:
        version = wire.version()
    except Unreachable:
        return f"no Ollama answers at {url}"
    except WireError as error:
        return f"no Ollama at {url}: {error}"
    try:
        held = hold(wire, offline, say)
    except WireError as error:
        held = f"lacks {model} and could not fetch it ({why_no_fetch(error)})"
    finally:
        wire.close()
    if isinstance(held, str):
        why = f"the Ollama at {url} {held}"
        return without_model(version, why, url=url) if is_loopback(url) and model == MODEL else why
    digest = held.get("digest")
    line = f"Ollama {version} at {url} with {model}"
    return ServerChoice("ollama", "Ollama", f"ollama {version} {model} {digest}", (line,), url, None, model, digest, version)


def why_no_fetch(error: WireError) -> str:
    """Why an Ollama could not fetch a model, in a phrase; what its own network library says is too long to be read."""
    said = str(error)
    signs = ("dial tcp", "lookup", "no such host", "network is unreachable", "connection refused", "i/o timeout")
    return "it has no network" if any(sign in said for sign in signs) else said


def without_model(version: str | None, why: str, url: str | None = None, program: str | None = None) -> ServerChoice:
    """An Ollama that lacks MODEL: every slide asks it for the deck's own model, which is put into it."""
    line = f"Ollama {version}, asked for the deck's own model: {why}"
    return ServerChoice("ollama", "Ollama", f"ollama {version}", (line,), url, program, OWN, None, version)


def hold(wire: Ollama, offline: bool, say: Say) -> dict[str, Any] | str:
    """What the Ollama says of the wire's model, after fetching it when it is missing; or why it has none to use."""
    held = wire.tag()
    if held is None and offline:
        return f"lacks {wire.model} (this run fetches none; run `ollama pull {wire.model}`)"
    if held is None:
        wire.limits, wire.total_s = (wire.limits[0], 120.0), 120.0
        for line in progress(wire.pull(), wire.model):
            say(line)
        held = wire.tag()
    if held is not None and not wire.completes():
        return f"cannot complete a text with {wire.model}: name another with --server ollama#NAME"
    return held or f"lacks {wire.model} even after fetching it"


def progress(messages: Iterator[dict[str, Any]], model: str) -> Iterator[str]:
    """A pull's messages as lines of a progress bar, one per five hundredths."""
    shown = None
    for message in messages:
        total, done = message.get("total"), message.get("completed") or 0
        share, line = None, f"fetching {model}: {message.get('status', '')}"
        if total:
            share = int(20 * done / total)
            line = f"fetching {model}  [{'█' * share}{'·' * (20 - share)}] {done / 1e6:.0f} of {total / 1e6:.0f} MB"
        if (key := (share, message.get("digest"), None if share is not None else line)) != shown:
            shown = key
            yield line


def ollama_on_path(offline: bool, say: Say, model: str = MODEL) -> ServerChoice | str:
    """An `ollama` program that we can start, with the model on its disk (fetched if need be); or why not."""
    program = shutil.which("ollama")
    if program is None:
        return "no ollama on PATH"
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return f"{program} does not run ({type(error).__name__})"
    version = said.split()[-1] if said.split() else None
    digest = manifest_digest(model)

    def lacking(why: str) -> ServerChoice | str:
        return without_model(version, why, program=program) if model == MODEL else why

    if digest is None:
        if offline:
            return lacking(f"{program} has no {model} (this run fetches none)")
        try:
            with begin_ollama(program, model, must_hold=False).ready() as server:
                assert isinstance(server.wire, Ollama)
                hold(server.wire, offline, say)
        except WireError as error:
            return lacking(f"{program} lacks {model} and could not fetch it ({why_no_fetch(error)})")
        except MissingPart as error:
            return lacking(f"{program} could not fetch {model} ({error})")
        digest = manifest_digest(model)
    line = f"ollama {version} on PATH with {model}"
    return ServerChoice("ollama", "Ollama", f"ollama {version} {model} {digest}", (line,), None, program, model, digest, version)


def manifest_digest(model: str) -> str | None:
    """The digest of a model on Ollama's disk: the SHA-256 of its manifest, which is what `/api/tags` reports."""
    store = Path(os.environ.get("OLLAMA_MODELS") or Path(os.path.expanduser("~")) / ".ollama" / "models")
    name, _, tag = model.partition(":")
    path = next((store / "manifests").glob(f"*/library/{name}/{tag or 'latest'}"), None)
    return file_sha256(path) if path else None
