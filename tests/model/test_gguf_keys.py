"""What a GGUF file says is followed: fixed ids of the real tokenizer, and every key that is not followed refused."""

import pytest

from model_fixtures import refused
from pipeline.errors import MissingPart
from pipeline.model import gguf_keys
from pipeline.model.bundled import GGUF
from pipeline.model.find import choose

# Every digit is a token of its own: `In  1989 the` has 7 in llama.cpp and in Ollama, and had 8 here while that was dropped.
FIXED = {
    "The beekeeper put on her gloves and opened the": [504, 11426, 21306, 1830, 335, 874, 16539, 284, 6572, 260],
    "In  1989 the": [788, 256, 33, 41, 40, 41, 260],
    "12345 + 67890 =": [33, 34, 35, 36, 37, 1232, 216, 38, 39, 40, 41, 32, 446],
    "x²½ ٣٤ 東京 12": [104, 19133, 16738, 216, 164, 113, 164, 114, 17097, 247, 126, 16736, 122, 216, 33, 34],
}


@pytest.fixture(scope="module")
def loaded():
    try:
        return choose("smollm2").load(lambda line: None)
    except MissingPart as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("text", FIXED)
def test_the_embedded_tokenizer_gives_the_ids_that_its_file_says(loaded, text):
    assert loaded.tokenizer(text, add_special_tokens=False)["input_ids"] == FIXED[text]


def test_every_digit_of_every_script_is_a_token_of_its_own(loaded):
    ids = loaded.tokenizer("1989 ٣٤ x²", add_special_tokens=False)["input_ids"]
    pieces = [loaded.piece_bytes(token_id) for token_id in ids]
    assert [piece for piece in pieces if any(48 <= byte < 58 for byte in piece)] == [b"1", b"9", b"8", b"9"]
    assert gguf_keys.pre_of(loaded.tokenizer) == "smollm"


WRONG = {
    "tokenizer.ggml.pre": "deepseek-coder",
    "llama.rope.freq_base": 10_000.0,
    "llama.attention.layer_norm_rms_epsilon": 1e-6,
    "tokenizer.ggml.eos_token_id": 0,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.chat_template": "{{ messages }}",
    "llama.rope.scaling.factor": 8.0,  # of no meaning to what was read: it would be dropped
    "tokenizer.ggml.remove_extra_whitespaces": True,
}


@pytest.fixture(scope="module")
def said(loaded):
    return gguf_keys.keys_of(loaded.path / GGUF)


def test_the_embedded_models_own_keys_are_followed(loaded, said):
    gguf_keys.honour(said, loaded.model.config, loaded.tokenizer)


@pytest.mark.parametrize("key", WRONG)
def test_a_key_that_is_not_followed_is_refused_in_one_line(loaded, said, key):
    reason = refused(lambda: gguf_keys.honour(said | {key: WRONG[key]}, loaded.model.config, loaded.tokenizer), MissingPart)
    assert key in reason and "--model" in reason


@pytest.mark.parametrize("key", ["tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type"])
def test_a_list_that_differs_in_one_entry_is_refused(loaded, said, key):
    changed = [*said[key][:-1], said[key][0]]
    assert key in refused(lambda: gguf_keys.honour(said | {key: changed}, loaded.model.config, loaded.tokenizer), MissingPart)
