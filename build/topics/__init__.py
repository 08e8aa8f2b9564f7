"""The list of topics, in the order of the deck. Nothing else imports a topic."""

import functools
import importlib

from pipeline.slide import Slide

TOPICS = (
    "opening",
    "tokenization",
    "forward_pass",
    "attention",
    "logits",
    "sampling",
    "decoding",
    "kv_cache",
    "kv_exact",
    "kv_cost",
    "batching",
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
    """Every slide of the deck, in order."""
    return tuple(slide for topic in TOPICS for slide in importlib.import_module(f"topics.{topic}").SLIDES)
