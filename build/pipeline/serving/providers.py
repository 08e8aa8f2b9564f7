"""The providers that one call shape reaches, and the way to each: address, key, and what litellm calls it.

Keys come from the environment and stay in a Route; opens no connection.
"""

import os
from dataclasses import dataclass, field
from typing import Literal

from pipeline.errors import BadInput, MissingPart
from pipeline.serving.address import base_url, is_loopback, key_in, ollama_url


@dataclass(frozen=True)
class Provider:
    """One provider as litellm knows it. Exactly one of `url` (hosted) and `url_variable` (yours) is needed."""

    name: str
    prefix: str  # of litellm's model string
    model: str  # an example
    key_variable: str
    url: str | None = None
    url_variable: str | None = None
    client: Literal["sdk", "http"] = "http"  # what litellm takes as its HTTP client for this prefix
    tried: str = "configured only"


OLLAMA = ("ollama_chat/", "ollama/")  # the Ollama at OLLAMA_HOST
TRIED = "tried, on a CPU"
LLAMA = "meta-llama/Llama-3.3-70B-Instruct"
PROVIDERS = (
    Provider("Together AI", "together_ai/", f"{LLAMA}-Turbo", "TOGETHER_API_KEY", "https://api.together.xyz/v1"),
    Provider(
        "Fireworks",
        "fireworks_ai/",
        "accounts/fireworks/models/llama-v3p3-70b-instruct",
        "FIREWORKS_API_KEY",
        "https://api.fireworks.ai/inference/v1",
    ),
    Provider("Groq", "groq/", "llama-3.3-70b-versatile", "GROQ_API_KEY", "https://api.groq.com/openai/v1"),
    Provider("DeepInfra", "deepinfra/", LLAMA, "DEEPINFRA_API_KEY", "https://api.deepinfra.com/v1/openai", client="sdk"),
    Provider("vLLM", "hosted_vllm/", LLAMA, "HOSTED_VLLM_API_KEY", url_variable="HOSTED_VLLM_API_BASE", tried=TRIED),
    Provider("SGLang", "openai/", LLAMA, "OPENAI_API_KEY", url_variable="OPENAI_BASE_URL", client="sdk"),
    Provider("TGI", "huggingface/", "tgi", "HF_TOKEN", url_variable="HUGGINGFACE_API_BASE"),
    Provider("TensorRT-LLM", "openai/", LLAMA, "OPENAI_API_KEY", url_variable="OPENAI_BASE_URL", client="sdk"),
    Provider("llama.cpp", "openai/", "qwen2.5-0.5b", "OPENAI_API_KEY", url_variable="OPENAI_BASE_URL", client="sdk", tried=TRIED),
    Provider(
        "LM Studio",
        "lm_studio/",
        "qwen2.5-0.5b",
        "LM_STUDIO_API_KEY",
        url_variable="LM_STUDIO_API_BASE",
        client="sdk",
    ),
)


@dataclass(frozen=True)
class Route:
    """How litellm reaches one model."""

    model: str  # litellm's own string
    name: str
    api_base: str
    client: Literal["sdk", "http"]
    key_variable: str | None = None
    own: bool = False  # a server of one's own, which says itself what it is
    key: str | None = field(default=None, repr=False, compare=False)

    @property
    def identity(self) -> str:
        """For staleness: the model and where it is; a loopback port is left out."""
        return f"{self.model} at {'loopback' if is_loopback(self.api_base) else self.api_base}"


def table() -> str:
    """The README's table of providers, in Markdown."""
    rows = ["| Provider | `--ask` | Key | Address | Tried |", "|---|---|---|---|---|"]
    for one in PROVIDERS:
        address = f"`{one.url}`" if one.url else f"yours, in `{one.url_variable}`"
        key = f"`{one.key_variable}`" + ("" if one.url else " (if it wants one)")
        rows.append(f"| {one.name} | `{one.prefix}{one.model}` | {key} | {address} | {one.tried} |")
    return "\n".join(rows)


def ask_route(model: str) -> Route:
    """The route for a `--ask MODEL`: litellm's own string. Raises MissingPart naming the variable that is not set, BadInput."""
    prefix = f"{model.partition('/')[0]}/"
    if prefix in OLLAMA and model.removeprefix(prefix):
        url = ollama_url(os.environ.get("OLLAMA_HOST", ""))
        # litellm's own ollama/ writes a conversation anew; ollama_chat/ asks the same server, and leaves it as it is
        return Route(f"{OLLAMA[0]}{model.removeprefix(prefix)}", "Ollama", url, "http", None, True)
    matching = [provider for provider in PROVIDERS if provider.prefix == prefix]
    if not matching or not model.removeprefix(prefix):
        known = ", ".join(dict.fromkeys([*(provider.prefix for provider in PROVIDERS), *OLLAMA]))
        raise BadInput(f"--ask {model}: give PROVIDER/MODEL as litellm writes it, PROVIDER being one of {known}")
    provider = matching[0]
    key = key_in(provider.key_variable)
    if provider.url is not None:
        if not key:
            raise MissingPart(f"--ask {model} needs a key: set {provider.key_variable} in the environment and run again")
        return Route(model, provider.name, provider.url, provider.client, provider.key_variable, key=key)
    assert provider.url_variable is not None
    given = os.environ.get(provider.url_variable)
    if not given:
        example = f"{provider.url_variable}=http://127.0.0.1:8000/v1"
        raise MissingPart(f"--ask {model} needs the server's address: set it in the environment, for example {example}")
    address = f"{base_url(given, provider.url_variable)}/v1"
    return Route(model, "OpenAI-shaped server", address, provider.client, provider.key_variable, True, key)
