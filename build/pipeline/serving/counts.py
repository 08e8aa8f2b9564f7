"""How many tokens a prompt is, from a second source: a server's count alone would hide a prompt that was cut.

Exact where the served tokenizer is at hand; elsewhere a lower bound from the bytes. Loads no model.
"""

import functools
from pathlib import Path
from typing import Any, Protocol

from pipeline.serving.stream import Message

LONGEST_TOKEN = 128  # bytes; the longest in gpt2's vocabulary, and in no other that we met is one longer

Expected = dict[str, Any]  # {"tokens": n, "exact": whether it is n or only at least n}


class Tokenized(Protocol):
    """A server, and the folder of its tokenizer where we have that."""

    tokenizer: Path | None


def expected(server: Tokenized, prompt: str | list[Message]) -> Expected:
    """What a server must count for a text that it continues, or for a conversation in its chat template."""
    if server.tokenizer is None:
        text = prompt if isinstance(prompt, str) else "\n".join(message["content"] for message in prompt)
        return {"tokens": at_least(text), "exact": False}
    tokenizer = tokenizer_in(server.tokenizer)
    if isinstance(prompt, str):
        return {"tokens": len(tokenizer(prompt)["input_ids"]), "exact": True}
    text = in_template(server.tokenizer, prompt)
    return {"tokens": len(tokenizer(text, add_special_tokens=False)["input_ids"]), "exact": True}


@functools.cache
def tokenizer_in(folder: Path) -> Any:
    import transformers

    return transformers.AutoTokenizer.from_pretrained(folder)


def in_template(folder: Path, messages: list[Message]) -> str:
    """A conversation as the model reads it: in the chat template that is kept beside its tokenizer."""
    return tokenizer_in(folder).apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def at_least(text: str) -> int:
    """The fewest tokens that a text can have: no vocabulary has tokens that go on over white space into the next word."""
    return sum(-(-len(word.encode("utf-8", "replace")) // LONGEST_TOKEN) for word in text.split())


def agrees(counted: object, expected: Expected) -> bool:
    """Whether a server's count of a prompt can be true; a count that is not reported is no count."""
    if counted == "not reported":
        return True
    if not isinstance(counted, int) or isinstance(counted, bool) or not isinstance(expected["exact"], bool):
        return False
    return counted == expected["tokens"] if expected["exact"] else counted >= max(expected["tokens"], 1)


def expectation(expected: Expected) -> str:
    """The bound in words: `= 10` or `at least 9`."""
    return f"= {expected['tokens']}" if expected["exact"] else f"at least {expected['tokens']}"
