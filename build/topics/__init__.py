"""The list of topics, in the order of the deck. Nothing else imports a topic."""

import functools
import importlib

from pipeline.slide import Slide

TOPICS = (
    "opening",
    "tokenization",
    "merges",
    "forward_pass",
    "attention",
    "logits",
    "sampling",
    "decoding",
    "kv_cache",
    "kv_exact",
    "kv_cost",
    "batching",
    "batch_gain",
    "why_vllm",
    "quantization",
    "hosted_or_local",
    "ollama",
    "one_shape",
    "throughput",
    "whole_path",
)


@functools.cache
def slides() -> tuple[Slide, ...]:
    """Every slide of the deck, by number: a topic's slides may stand around another's."""
    found = [slide for topic in TOPICS for slide in importlib.import_module(f"topics.{topic}").SLIDES]
    return tuple(sorted(found, key=lambda slide: slide.number))
