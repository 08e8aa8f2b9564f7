"""Weights on the disk, and the one place that loads them: float32, CPU, eval mode, threads and seed set.

A folder is opened only after its weights' sha256 was checked, and a model that the slides cannot speak of is refused in one
line. safetensors only, no pickle, no code from a model's folder. Knows nothing of where models are found.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pipeline.checksum import file_sha256
from pipeline.errors import BadInput, DeckError, MissingPart
from pipeline.lab import LoadedModel
from pipeline.text import first_line

REASON = 200  # characters shown of an error of somebody else's
TRANSFORMERS = "5.24."  # cache objects and their shapes change between releases; only this one has been tried
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = {".bin", ".pt", ".pth", ".pkl", ".ckpt"}
PROBE = "a  B\n\t12 caf\u00e9 \u6771\u4eac \U0001f917."  # a tokenizer that changes any of this cannot be photographed

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]  # label, done, total (0: not known)


def no_progress(label: str, done: int, total: int) -> None:
    """Show nothing."""


# --- weights on the disk ---


def must_match(path: Path, expected: str, whose: str) -> None:
    """Refuse a file of another sha256, naming what to delete."""
    found = file_sha256(path)
    if found != expected:
        raise MissingPart(
            f"{path.name} is not what it should be (sha256 {found[:12]}…, {whose} is {expected[:12]}…): "
            f"delete {path.resolve()} and run again, or choose another model with --model"
        )


def weight_files(folder: Path) -> list[Path]:
    """The safetensors of a folder: one file, or the shards of its index."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        try:
            names = sorted(set(json.loads((folder / INDEX).read_text())["weight_map"].values()))
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise BadInput(f"--model {folder}: {INDEX} cannot be read") from error
        absent = [name for name in names if not (folder / name).is_file()]
        if absent or not names:
            raise BadInput(f"--model {folder}: {', '.join(absent) or 'every shard'}, named in {INDEX}, is not there")
        return [folder / name for name in names]
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if pickles:
        raise BadInput(f"--model {folder}: {pickles[0]} is a pickle and is not read; save the model as {WEIGHTS} first")
    raise BadInput(f"--model {folder}: there is no {WEIGHTS} in this folder")


def weights_sha256(folder: Path) -> str:
    """The sha256 of the one weights file; of several, the sha256 of the list of theirs."""
    paths = weight_files(folder)
    sums = [(path.name, file_sha256(path)) for path in paths]
    return sums[0][1] if len(sums) == 1 else joint_sha256(sums)


def joint_sha256(sums: list[tuple[str, str]]) -> str:
    """One sha256 over a list of names and theirs."""
    return hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in sums).encode()).hexdigest()


# --- loading ---


def open_folder(
    folder: Path, name: str, revision: str | None, sha256: str, source: str, dtype: str, failure: type[DeckError]
) -> LoadedModel:
    """Load a verified folder, and refuse what cannot be photographed."""
    torch = settled_torch()
    if not any((folder / file).is_file() for file in ("tokenizer.json", "vocab.json")):  # transformers would make an empty one
        raise failure(f"{name} cannot be loaded: there is no tokenizer.json in {folder}")
    with silence():
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

        local: dict[str, Any] = {"pretrained_model_name_or_path": folder, "local_files_only": True, "trust_remote_code": False}
        try:
            config = AutoConfig.from_pretrained(**local)
            if getattr(config, "is_encoder_decoder", False):
                raise failure(f"{name} is an encoder-decoder model; a decoder-only (causal) language model is needed")
            if getattr(config, "quantization_config", None):
                raise failure(f"{name} is a quantized checkpoint; take the same model with float weights")
            tokenizer = AutoTokenizer.from_pretrained(**local)
            opened: Any = AutoModelForCausalLM.from_pretrained(
                **local,
                config=config,
                dtype=getattr(torch, dtype),  # stated: transformers would take the checkpoint's own
                # Attention weights come back empty under SDPA. Eager for everything costs little: SmolLM2 on 2 cores takes
                # 75 ms for 10 tokens and 402 for 256 (SDPA 73 and 380), cached against recomputed logits 5e-05 (5e-05),
                # a left-padded batch against its rows alone 5e-05 (4e-05).
                attn_implementation="eager",
                use_safetensors=True,
                output_loading_info=True,
            )
        except DeckError:
            raise
        except Exception as error:  # a folder can be wrong in more ways than there are exceptions to name
            raise failure(f"{name} cannot be loaded from {folder} ({one_line(error)})") from error
        model, report = opened
        if absent := sorted(report["missing_keys"]):  # transformers would fill them with random numbers
            raise failure(f"{name} cannot be loaded from {folder}: {len(absent)} weights are missing, {absent[0]} among them")
        model.eval()
        provenance = {
            "name": name,
            "revision": revision,
            "sha256": sha256,
            "dtype": str(model.dtype).removeprefix("torch."),
            "device": model.device.type,
            "parameters": model.num_parameters(),
            "source": source,
            "architecture": type(model).__name__,
            "tokenizer_sha256": tokenizer_sha256(tokenizer),
        }
        loaded = LoadedModel(model, tokenizer, provenance, folder)
        if unfit := _unfit(loaded, torch):
            raise failure(f"{name} cannot be photographed: {unfit}")
    return loaded


def tokenizer_sha256(tokenizer: Any) -> str | None:
    """The sha256 of everything a fast tokenizer does, as it serialises itself; None for one that is not fast."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return hashlib.sha256(backend.to_str().encode()).hexdigest() if backend is not None else None


def _unfit(loaded: LoadedModel, torch: Any) -> str | None:
    """Why a loaded model is not one the slides can speak of: asked of the tokenizer, then of one small call."""
    model, tokenizer = loaded.model, loaded.tokenizer
    if not _is_byte_level_bpe(tokenizer):
        return "its tokenizer is not byte-level BPE"
    ids = tokenizer(PROBE, add_special_tokens=False)["input_ids"]
    if b"".join(map(loaded.piece_bytes, ids)) != PROBE.encode():
        return "its tokenizer changes the text before cutting it up"
    rows = model.get_output_embeddings().weight.shape[0]
    largest = max(tokenizer.get_vocab().values())
    if largest >= rows:
        return f"its tokenizer has ids up to {largest} but the model scores only {rows}"
    pair = torch.tensor([[0, 1], [0, min(2, rows - 1)]])
    with torch.inference_mode():
        out = model(pair, use_cache=False, output_attentions=True)
    if not torch.isfinite(out.logits).all():
        return "its logits are not finite numbers"
    first, other = out.logits[:, 0].float()
    if not torch.allclose(first, other, rtol=1e-2, atol=1e-2 * float(first.abs().max())):  # one is a hundred times rounding
        return "it is not causal: a later token changes an earlier position"
    if not out.get("attentions"):
        return "it gives no attention weights"
    return None


def _is_byte_level_bpe(tokenizer: Any) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return False
    parts = json.loads(backend.to_str())
    return parts["model"]["type"] == "BPE" and all(
        any(step["type"] == "ByteLevel" for step in _steps(parts[stage])) for stage in ("pre_tokenizer", "decoder")
    )


def _steps(stage: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """A stage of a tokenizer, a sequence of stages taken apart."""
    if stage is None:
        return
    if stage["type"] != "Sequence":
        yield stage
    for inner in stage.get("pretokenizers") or stage.get("decoders") or ():
        yield from _steps(inner)


# --- the libraries, kept quiet and steady ---


def check_transformers() -> None:
    """Refuse a release of transformers that has not been tried, before it is imported."""
    try:
        version = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingPart("transformers is not installed: pip install -r build/requirements.txt") from error
    if not version.startswith(TRANSFORMERS):
        raise MissingPart(
            f"transformers {version} has not been tried, {TRANSFORMERS}x has: pip install -r build/requirements.txt"
        )


def quiet_libraries() -> None:
    """No bars, warnings or telemetry of theirs. They read these when first imported, so this comes before."""
    for name, value in {
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_VERBOSITY": "error",
        "TRANSFORMERS_VERBOSITY": "error",
        "TOKENIZERS_PARALLELISM": "false",
        "TQDM_DISABLE": "1",
        "OMP_WAIT_POLICY": "PASSIVE",  # a busy machine: threads that spin at a barrier made one call five times slower
    }.items():
        os.environ.setdefault(name, value)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """transformers, its bars and its warnings kept off our screen."""
    try:
        from transformers.utils import logging
    except ImportError as error:
        raise MissingPart(f"{one_line(error)}: pip install -r build/requirements.txt") from error
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def settled_torch() -> Any:
    """torch with threads, seed and gradients set, and only repeatable kernels (no slower here: 81 ms against 81)."""
    from pipeline.settings import SEED

    try:
        import torch
    except ImportError as error:
        raise MissingPart("torch is not installed: pip install -r build/requirements.txt") from error
    threads = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(int(threads) if threads.isdecimal() and int(threads) else 2)
    torch.set_grad_enabled(False)
    torch.use_deterministic_algorithms(True)
    deterministic: Any = torch.utils.deterministic  # its module class sets what follows; torch's types do not know it
    deterministic.fill_uninitialized_memory = False
    torch.manual_seed(SEED)
    return torch


def one_line(error: BaseException) -> str:
    """An error of somebody else's as one short line."""
    return first_line(str(error), REASON) or type(error).__name__
