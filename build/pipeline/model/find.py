"""Finds and verifies the model: gpt2 from the cache or the hub, else the embedded one, else what is asked for.

`choose` is quick and imports neither torch nor transformers; fetching, converting and loading wait for `ModelChoice.load`,
which checks the weights' sha256 every time. Knows no slide.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.checksum import file_sha256
from pipeline.deadline import connect_to, within
from pipeline.errors import BadInput, MissingPart
from pipeline.model import bundled
from pipeline.model.bundled import EMBEDDED, GGUF_SHA256
from pipeline.model.hub import fetch, hub_name
from pipeline.model.load import (
    INDEX,
    WEIGHTS,
    LoadedModel,
    Progress,
    Say,
    check_transformers,
    joint_sha256,
    must_match,
    no_progress,
    one_line,
    open_folder,
    quiet_libraries,
    weight_files,
    weights_sha256,
)

GPT2_REPOS = ("openai-community/gpt2", "gpt2")  # its name on the hub, and the old one that many caches hold it under
GPT2_REVISION = "607a30d783dfa663caf39e06633721c8d4cfcd7e"
GPT2_SHA256 = {
    "model.safetensors": "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
    "vocab.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "merges.txt": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
GPT2_NEEDED = ("config.json", "tokenizer.json", *GPT2_SHA256)
GPT2_FILES = (*GPT2_NEEDED, "tokenizer_config.json", "generation_config.json")
GPT2_SIZE = "548 MB"

HUB_SECONDS = 3.0  # the hub is given up after this, name look-up included
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja",
)  # fmt: skip


def _tell(line: str) -> None:
    print(line, file=sys.stderr)


@dataclass(frozen=True)
class ModelChoice:
    """A model that was found, and the reasons why others were not. Nothing is fetched or loaded yet."""

    name: str
    identity: str  # decides staleness
    custom: bool
    lines: tuple[str, ...]
    opener: Callable[[Say, Progress, str], LoadedModel] = field(repr=False, compare=False)

    def load(self, say: Say = _tell, progress: Progress = no_progress, dtype: str = "float32") -> LoadedModel:
        """Fetch what is missing, verify the weights, load them. Another `dtype` is for tests that need a wrong one."""
        check_transformers()
        return self.opener(say, progress, dtype)


def choose(request: str = "auto", *, offline: bool = False) -> ModelChoice:
    """Say which model will be photographed: auto, gpt2, smollm2, a folder, or a model's id on the hub."""
    quiet_libraries()
    if request in ("auto", "gpt2"):
        return _choose_gpt2(offline, fallback=request == "auto")
    if request == "smollm2":
        return _choose_embedded(offline)
    if not request.strip():
        raise BadInput("--model is empty: give auto, gpt2, smollm2, a folder, or a model's id on the hub")
    folder = Path(request).expanduser()
    if folder.exists():
        return _choose_folder(folder)
    if request.startswith((".", "/", "~")) or request.count(os.sep) > 1:
        raise BadInput(f"--model {request}: there is no such folder")
    return _choose_hub_id(request, offline)


# --- gpt2 ---


def _choose_gpt2(offline: bool, fallback: bool) -> ModelChoice:
    cached, not_cached = _gpt2_in_cache()
    if cached:
        return _gpt2(cached, f"model: gpt2, revision {GPT2_REVISION[:8]}, from the local Hugging Face cache")
    no_hub = _why_no_hub(offline)
    if no_hub is None:
        return _gpt2(None, f"model: gpt2, revision {GPT2_REVISION[:8]}, from {hub_name()} ({GPT2_SIZE}, once)", not_cached)
    if not fallback:
        raise MissingPart(
            f"{not_cached}, and {no_hub}: run again with a network, or take the embedded model with --model smollm2"
        )
    return _choose_embedded(offline, not_cached, no_hub)


def _gpt2(cached: Path | None, *lines: str) -> ModelChoice:
    def load(say: Say, progress: Progress, dtype: str) -> LoadedModel:
        folder = cached or fetch(GPT2_REPOS[0], GPT2_REVISION, GPT2_FILES, say, progress)
        for name, expected in GPT2_SHA256.items():
            must_match(folder / name, expected, "the published")
        return open_folder(
            folder, "gpt2", GPT2_REVISION, GPT2_SHA256[WEIGHTS], "published weights, safetensors", dtype, failure=MissingPart
        )

    return ModelChoice("gpt2", f"gpt2@{GPT2_REVISION[:12]}", False, lines, load)


def _gpt2_in_cache() -> tuple[Path | None, str]:
    """The snapshot folder of the pinned revision, or None and why not."""
    why_not = "gpt2 is not in the local Hugging Face cache"
    kept = [repo for repo in GPT2_REPOS if (_hub_cache() / f"models--{repo.replace('/', '--')}").is_dir()]
    if not kept:
        return None, why_not
    from huggingface_hub import try_to_load_from_cache  # takes as long as all the rest of a run with nothing to do

    for repo in kept:
        found = {name: try_to_load_from_cache(repo, name, revision=GPT2_REVISION) for name in GPT2_NEEDED}
        absent = [name for name, path in found.items() if not isinstance(path, str)]
        if not absent:
            return Path(str(found[WEIGHTS])).parent, ""
        if len(absent) < len(found):
            why_not = f"gpt2 in the local Hugging Face cache is incomplete ({', '.join(absent)} missing)"
    return None, why_not


def _hub_cache() -> Path:
    """The folder of the local Hugging Face cache."""
    from huggingface_hub import constants

    return Path(os.environ.get("HF_HUB_CACHE") or constants.HF_HUB_CACHE).expanduser()


def _why_no_hub(offline: bool) -> str | None:
    """Why gpt2 cannot be had from the hub; None when it can. Takes HUB_SECONDS at most, name look-up included."""
    from huggingface_hub import constants

    if offline:
        return "the hub was not asked (--offline)"
    if constants.is_offline_mode():
        return "the hub was not asked (HF_HUB_OFFLINE is set)"
    behind_a_proxy = any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in os.environ)
    try:
        if not behind_a_proxy:  # a quick look, for most of what follows is the time that the import takes
            connect_to(constants.ENDPOINT, HUB_SECONDS)
    except OSError as error:
        return f"{hub_name()} cannot be used ({one_line(error)})"
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    address = hf_hub_url(GPT2_REPOS[0], WEIGHTS, revision=GPT2_REVISION)
    try:
        within(HUB_SECONDS, lambda: get_hf_file_metadata(address, timeout=HUB_SECONDS))
    except Exception as error:  # whatever stands between us and the hub: the reason is reported, the next model is taken
        return f"{hub_name()} cannot be used ({one_line(error)})"
    return None


# --- the embedded model ---


def _choose_embedded(offline: bool, *why_not: str) -> ModelChoice:
    def load(say: Say, progress: Progress, dtype: str) -> LoadedModel:
        folder = bundled.ready_folder(offline, say, progress)
        source = f"{bundled.FORMAT} of {bundled.PACKAGE} {bundled.PACKAGE_VERSION}, read into {dtype}"
        return open_folder(folder, EMBEDDED, None, GGUF_SHA256, source, dtype, failure=MissingPart)

    lines = (f"model: {EMBEDDED}, embedded, {bundled.origin()}", *why_not)
    return ModelChoice(EMBEDDED, f"{EMBEDDED}@sha256:{GGUF_SHA256[:12]}", False, lines, load)


def embedded_folder(say: Say = _tell, progress: Progress = no_progress) -> Path:
    """The embedded model's folder for a server to serve, fetched and read first if need be; nothing is loaded.

    The hub's own switch decides whether we are offline; --offline sets it for the whole run.
    """
    from huggingface_hub import constants

    check_transformers()
    return bundled.ready_folder(constants.is_offline_mode(), say, progress)


# --- a folder, or a model's id on the hub ---


def _choose_folder(folder: Path) -> ModelChoice:
    if not folder.is_dir():
        raise BadInput(f"--model {folder}: this is a file; give the folder with config.json, tokenizer.json and {WEIGHTS}")
    folder = folder.resolve()
    if not (folder / "config.json").is_file():
        raise BadInput(f"--model {folder}: there is no config.json in this folder")
    weights = weights_sha256(folder)
    beside = sorted(path for path in folder.glob("*") if path.name in TOKENIZER_FILES or path.name == "config.json")
    everything = joint_sha256([*((path.name, file_sha256(path)) for path in beside), ("weights", weights)])

    def load(say: Say, progress: Progress, dtype: str) -> LoadedModel:
        if weights_sha256(folder) != weights:
            raise BadInput(f"--model {folder}: the weights changed while we ran; run again")
        return open_folder(folder, folder.name, None, weights, "a local folder", dtype, failure=BadInput)

    line = f"model: {folder.name}, from the folder {folder}, sha256 {weights[:8]}"
    return ModelChoice(folder.name, f"{folder.name}@sha256:{everything[:12]}", True, (line,), load)


def _choose_hub_id(repo: str, offline: bool) -> ModelChoice:
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise BadInput(f"--model {repo}: neither a folder nor a model's id on the hub (OWNER/NAME)") from error
    if cached := _snapshot_in_cache(repo):
        line = f"model: {repo}, revision {cached.name[:8]}, from the local Hugging Face cache"
        return _hub_model(repo, cached.name, cached, (), line)
    if offline or constants.is_offline_mode():
        raise MissingPart(f"{repo} is not in the local Hugging Face cache and we are offline: run once with a network")
    try:
        info = within(HUB_SECONDS, lambda: HfApi().model_info(repo, timeout=HUB_SECONDS))
    except GatedRepoError as error:
        raise BadInput(f"--model {repo}: its owner lets only known users in; put your access token into HF_TOKEN") from error
    except RepositoryNotFoundError as error:
        raise BadInput(
            f"--model {repo}: there is no such folder, and {hub_name()} has no such model (or only for an HF_TOKEN)"
        ) from error
    except Exception as error:  # whatever stands between us and the hub
        raise MissingPart(
            f"{repo} is not in the local Hugging Face cache and {hub_name()} cannot be used ({one_line(error)}): "
            "run again with a network, or give a folder with --model DIR"
        ) from error
    there = [sibling.rfilename for sibling in info.siblings or []]
    weights = [name for name in there if name == WEIGHTS]
    weights = weights or [
        name for name in there if name == INDEX or (name.startswith("model-") and name.endswith(".safetensors"))
    ]
    if not weights:
        raise BadInput(f"--model {repo}: it has no {WEIGHTS}, and pickle weights are not read; take a model that has")
    names = tuple(name for name in there if name in (*TOKENIZER_FILES, "config.json", "generation_config.json")) + tuple(weights)
    revision = str(info.sha)
    return _hub_model(repo, revision, None, names, f"model: {repo}, revision {revision[:8]}, from {hub_name()} (once)")


def _snapshot_in_cache(repo: str) -> Path | None:
    """The folder of what the cache last knew as the main revision, when it holds config, tokenizer and whole safetensors."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repo, "config.json")
    if not isinstance(config, str):
        return None
    folder = Path(config).parent
    try:
        weight_files(folder)
    except BadInput:
        return None
    return folder if (folder / "tokenizer.json").is_file() or (folder / "vocab.json").is_file() else None


def _hub_model(repo: str, revision: str, cached: Path | None, names: tuple[str, ...], line: str) -> ModelChoice:
    def load(say: Say, progress: Progress, dtype: str) -> LoadedModel:
        # Asked for as main, for only then does the cache note it as main, and the next run finds it without a network.
        folder = cached or fetch(repo, "main", names, say, progress)
        if folder.name != revision:
            raise MissingPart(f"{repo} changed on the hub while it was being fetched: run again")
        for path in weight_files(folder):
            blob = path.resolve().name  # the cache names a large file by the sha256 that the hub gave for it
            if len(blob) == 64:
                must_match(path, blob, "the hub's")
        return open_folder(folder, repo, revision, weights_sha256(folder), "hub, safetensors", dtype, failure=BadInput)

    return ModelChoice(repo, f"{repo}@{revision[:12]}", True, (line,), load)
