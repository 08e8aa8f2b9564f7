"""The decks as data: what each is called, its parts, and the topics of each part in their order.

A slide's number is its place here and typed nowhere. An entry is a topic, for all of its slides, or topic/slide for one.
"""

from pipeline.slide import Deck, Part

ONE_CALL = Deck(
    name="one_call",
    title="One call, taken apart",
    subtitle="What a language model does to add one token, photographed step by step.",
    parts=(
        Part("One call, taken apart", ("opening",)),
        Part(
            "Part 1 · The mechanics of one token",
            (
                "tokenization/pieces",
                "tokenization/ids",
                "merges",
                "tokenization/cost",
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
            ),
        ),
        Part(
            "Two ideas, before the code",
            (
                "why_vllm",
                "continuous_batching",
                "quantization",
                "hosted_or_local",
            ),
        ),
        Part(
            "Part 2 · Serving it for real",
            (
                "ollama",
                "one_shape",
                "serving_options",
                "whole_path",
            ),
        ),
    ),
)
