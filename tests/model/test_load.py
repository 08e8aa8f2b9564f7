"""A model's folder: opened only as what it claims to be, and refused in one line when the slides cannot speak of it."""

import json
import os
import shutil
from pathlib import Path

import pytest

from model_fixtures import HOSTILE, edit_json, refused, truncate
from pipeline.checksum import file_sha256
from pipeline.errors import BadInput, MissingPart
from pipeline.model import load
from pipeline.model.find import choose
from small_models import build_gpt2, build_llama

# --- a folder ---


@pytest.mark.parametrize("build", [build_gpt2, build_llama, lambda folder: build_llama(folder, tied=False)])
def test_a_folder_opens_in_float32_whatever_it_is_stored_in(tmp_path, build):
    import torch
    from safetensors.torch import load_file, save_file

    folder = build(tmp_path / "own")
    stored = load_file(folder / "model.safetensors")
    save_file({name: t.bfloat16() for name, t in stored.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    choice = choose(str(folder))
    assert choice.custom and choice.name == "own"
    loaded = choice.load()
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}
    assert loaded.provenance["dtype"] == "float32" and loaded.provenance["device"] == "cpu"
    assert loaded.provenance["sha256"] == file_sha256(folder / "model.safetensors")
    assert loaded.provenance["parameters"] == sum(parameter.numel() for parameter in loaded.model.parameters())
    assert not loaded.model.training and not torch.is_grad_enabled()
    out = loaded.model(torch.tensor([[464, 3290]]), output_attentions=True)
    assert len(out.attentions) == loaded.model.config.num_hidden_layers


@pytest.mark.parametrize("text", HOSTILE)
def test_pieces_joined_are_the_bytes_of_the_text(gpt2_folder, text):
    loaded = choose(str(gpt2_folder)).load()
    ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert b"".join(map(loaded.piece_bytes, ids)) == text.encode()


def test_every_id_has_bytes(gpt2_folder):
    loaded = choose(str(gpt2_folder)).load()
    assert all(loaded.piece_bytes(token_id) for token_id in range(len(loaded.tokenizer)))
    assert loaded.piece_bytes(len(loaded.tokenizer)) == b"<unused 50257>"
    assert {loaded.piece_bytes(token_id) for token_id in range(256)} == {bytes([byte]) for byte in range(256)}


def test_shards_open_and_a_missing_one_is_named(tmp_path, gpt2_folder):
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder = Path(shutil.copytree(gpt2_folder, tmp_path / "shards"))
    (folder / "model.safetensors").unlink()
    AutoModelForCausalLM.from_pretrained(gpt2_folder).save_pretrained(folder, max_shard_size="400KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    assert choose(str(folder)).load().provenance["sha256"] == load.weights_sha256(folder)
    shards[-1].unlink()
    assert shards[-1].name in refused(lambda: choose(str(folder)), BadInput)


def test_identity_follows_weights_and_tokenizer_and_nothing_else(a_copy):
    before = choose(str(a_copy)).identity
    (a_copy / "README.md").write_text("notes")
    os.utime(a_copy / "model.safetensors")
    assert choose(str(a_copy)).identity == before
    (a_copy / "merges.txt").write_text((a_copy / "merges.txt").read_text() + "\n")
    other = choose(str(a_copy)).identity
    assert other != before
    (a_copy / "model.safetensors").write_bytes((a_copy / "model.safetensors").read_bytes() + b"\0")
    assert choose(str(a_copy)).identity not in (before, other)


def test_weights_that_change_after_the_choice_are_refused(a_copy):
    choice = choose(str(a_copy))
    (a_copy / "model.safetensors").write_bytes(b"other")
    assert "changed" in refused(choice.load, BadInput)


def only_a_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def edit_weights(folder: Path, change) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def lose_a_weight(folder: Path) -> None:
    edit_weights(folder, lambda tensors: tensors.pop("transformer.h.1.mlp.c_fc.weight"))


def poison_a_weight(folder: Path) -> None:
    edit_weights(folder, lambda tensors: tensors["transformer.ln_f.weight"].fill_(float("nan")))


def shorten_the_vocabulary(folder: Path) -> None:
    edit_json(folder / "config.json", vocab_size=50_000)
    edit_weights(
        folder, lambda tensors: tensors.update({"transformer.wte.weight": tensors["transformer.wte.weight"][:50_000].clone()})
    )


def make_it_encoder_decoder(folder: Path) -> None:
    edit_json(folder / "config.json", model_type="t5", architectures=["T5ForConditionalGeneration"])


def own_code(folder: Path) -> None:
    edit_json(
        folder / "config.json", model_type="own", auto_map={"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    )
    (folder / "own.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")


def cut_words_not_bytes(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["pre_tokenizer"], tokenizer["decoder"] = {"type": "Whitespace"}, None
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    edit_json(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")


def lower_the_case(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text()) | {"normalizer": {"type": "Lowercase"}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    edit_json(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")


def no_tokenizer(folder: Path) -> None:
    for name in ("vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()


FAULTS = [
    (only_a_pickle, "pytorch_model.bin is a pickle"),
    (truncate, "cannot be loaded"),
    (lambda folder: (folder / "model.safetensors").unlink(), "there is no model.safetensors"),
    (lambda folder: (folder / "config.json").unlink(), "there is no config.json"),
    (lambda folder: (folder / "config.json").write_text("{"), "cannot be loaded"),
    (lambda folder: edit_json(folder / "config.json", n_embd=32), "cannot be loaded"),
    (lambda folder: edit_json(folder / "config.json", quantization_config={"quant_method": "gptq", "bits": 4}), "quantized"),
    (lose_a_weight, "1 weights are missing, transformer.h.1.mlp.c_fc.weight"),
    (poison_a_weight, "not finite"),
    (shorten_the_vocabulary, "ids up to 50256 but the model scores only 50000"),
    (make_it_encoder_decoder, "encoder-decoder"),
    (own_code, "cannot be loaded"),
    (cut_words_not_bytes, "not byte-level BPE"),
    (lower_the_case, "changes the text"),
    (no_tokenizer, "there is no tokenizer.json"),
]


@pytest.mark.parametrize(("fault", "words"), FAULTS)
def test_a_folder_that_cannot_be_photographed_is_refused_in_one_line(a_copy, fault, words):
    fault(a_copy)
    assert words in refused(lambda: choose(str(a_copy)).load(), BadInput)
    assert not (a_copy / "ran").exists()  # no code from a model's folder


def test_a_model_that_reads_ahead_is_refused(tmp_path):
    from transformers import BertConfig, BertLMHeadModel
    from transformers.utils import logging

    from small_models import save_tokenizer

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder = tmp_path / "reads-ahead"
    config = BertConfig(vocab_size=50_257, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    config.initializer_range = 0.5
    BertLMHeadModel(config).save_pretrained(folder)
    save_tokenizer(folder)
    edit_json(folder / "tokenizer_config.json", tokenizer_class="GPT2Tokenizer")
    assert "not causal" in refused(lambda: choose(str(folder)).load(), BadInput)


@pytest.mark.parametrize("request_", ["./nowhere", "/nowhere/at/all", "~/nowhere", "a/b/c"])
def test_a_path_that_is_not_there_is_not_looked_up_on_the_hub(request_):
    assert "no such folder" in refused(lambda: choose(request_), BadInput)


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert "this is a file" in refused(lambda: choose(str(tmp_path / "model.gguf")), BadInput)


@pytest.mark.parametrize("request_", ["", "  ", "two words", "a--b", "x" * 200])
def test_what_is_neither_folder_nor_id_is_refused(request_):
    refused(lambda: choose(request_, offline=True), BadInput)


# --- the guard ---


@pytest.mark.parametrize("version", ["4.57.1", "5.23.9", "5.25.0", "6.0.0"])
def test_another_transformers_is_refused_before_it_is_imported(gpt2_folder, monkeypatch, version):
    monkeypatch.setattr(load.importlib.metadata, "version", lambda name: version)
    message = refused(choose(str(gpt2_folder)).load, MissingPart)
    assert version in message and "5.24." in message and "pip install" in message
