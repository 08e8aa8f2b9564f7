"""litellm: one call shape for every provider, pointed at the server at hand or, with `--ask`, at any of PROVIDERS.

litellm is imported only when it is asked something, with no look-up on the network, no telemetry and no retries of its
own. What it really posted and really received is recorded beside what it hands back. Keys come from the environment and
are sent to their provider; nothing that this module returns, raises or prints holds one.
"""

import contextlib
import functools
import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from pipeline.addresses import base_url, is_loopback, key_in
from pipeline.deadline import within
from pipeline.dialects import OpenAI
from pipeline.errors import BadInput, MissingPart
from pipeline.framing import Message
from pipeline.readable import shortened
from pipeline.servers import Server, describe
from pipeline.wire import CONNECT_S, MAX_BYTES, READ_S, TOTAL_S, WireError


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


HERE = "its shape tried here, against transformers serve"
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
    Provider("vLLM", "hosted_vllm/", LLAMA, "HOSTED_VLLM_API_KEY", url_variable="HOSTED_VLLM_API_BASE", tried=HERE),
    Provider("SGLang", "openai/", LLAMA, "OPENAI_API_KEY", url_variable="OPENAI_BASE_URL", client="sdk", tried=HERE),
    Provider("TGI", "huggingface/", "tgi", "HF_TOKEN", url_variable="HUGGINGFACE_API_BASE"),
    Provider("TensorRT-LLM", "openai/", LLAMA, "OPENAI_API_KEY", url_variable="OPENAI_BASE_URL", client="sdk", tried=HERE),
    Provider("llama.cpp", "openai/", "qwen2.5-0.5b", "OPENAI_API_KEY", url_variable="OPENAI_BASE_URL", client="sdk", tried=HERE),
    Provider(
        "LM Studio",
        "lm_studio/",
        "qwen2.5-0.5b",
        "LM_STUDIO_API_KEY",
        url_variable="LM_STUDIO_API_BASE",
        client="sdk",
        tried=HERE,
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
    key: str | None = field(default=None, repr=False, compare=False)

    @property
    def identity(self) -> str:
        """For staleness: the model and where it is; a loopback port is left out."""
        return f"{self.model} at {'loopback' if is_loopback(self.api_base) else self.api_base}"

    def server(self) -> Server:
        """The same provider to be asked directly, in the OpenAI shape."""
        model = self.model.partition("/")[2]
        url = base_url(self.api_base)
        prefix = "/v1" if self.api_base.rstrip("/").endswith("/v1") else ""
        wire = OpenAI(url, model, prefix=prefix, key=self.key)
        server = Server("openai", wire, describe("openai", self.name, None, model, None))
        server.route = self
        return server


def table() -> str:
    """The README's table of providers, in Markdown."""
    rows = ["| Provider | `--ask` | Key | Address | Tried |", "|---|---|---|---|---|"]
    for one in PROVIDERS:
        address = f"`{one.url}`" if one.url else f"yours, in `{one.url_variable}`"
        key = f"`{one.key_variable}`" + ("" if one.url else " (if it wants one)")
        rows.append(f"| {one.name} | `{one.prefix}{one.model}` | {key} | {address} | {one.tried} |")
    return "\n".join(rows)


@dataclass(frozen=True)
class Normalised:
    """One call through litellm: what it posted, what came back over the wire, what it made of that."""

    path: str
    posted: Message
    native: Message
    answer: Message
    text: str


def ask_route(model: str) -> Route:
    """The route for a `--ask MODEL`: litellm's own string. Raises MissingPart naming the variable that is not set, BadInput."""
    prefix = f"{model.partition('/')[0]}/"
    matching = [provider for provider in PROVIDERS if provider.prefix == prefix]
    if not matching or not model.removeprefix(prefix):
        known = ", ".join(dict.fromkeys(provider.prefix for provider in PROVIDERS))
        raise BadInput(f"--ask {model}: give PROVIDER/MODEL as litellm writes it, PROVIDER being one of {known}")
    provider = matching[0]
    key = key_in(provider.key_variable)
    if provider.url is not None:
        if not key:
            raise MissingPart(f"--ask {model} needs a key: set {provider.key_variable} in the environment and run again")
        return Route(model, provider.name, provider.url, provider.client, provider.key_variable, key)
    assert provider.url_variable is not None
    given = os.environ.get(provider.url_variable)
    if not given:
        example = f"{provider.url_variable}=http://127.0.0.1:8000/v1"
        raise MissingPart(f"--ask {model} needs the server's address: set it in the environment, for example {example}")
    name = provider.name if len(matching) == 1 else "OpenAI-shaped server"
    return Route(model, name, f"{base_url(given, provider.url_variable)}/v1", provider.client, provider.key_variable, key)


def route_to(server: Server) -> Route:
    """litellm's way to a server of this run."""
    if server.route is not None:
        return server.route
    if server.kind == "ollama":
        return Route(f"ollama_chat/{server.model}", server.provenance["name"], server.base_url, "http")
    wire = server.wire
    return Route(f"openai/{server.model}", server.provenance["name"], f"{server.base_url}/v1", "sdk", None, wire.key)


def chat(server: Server, messages: list[Message], **options: Any) -> Normalised:
    """Ask a conversation through litellm; the same options as wire's."""
    return _call(server, lambda litellm, given: litellm.completion(messages=messages, **given), options)


def complete(server: Server, prompt: str, **options: Any) -> Normalised:
    """Continue a text through litellm (OpenAI-shaped servers; on Ollama litellm has no way to leave the template off)."""
    return _call(server, lambda litellm, given: litellm.text_completion(prompt=prompt, **given), options)


def _call(server: Server, call: Callable[[Any, Message], Any], options: Message) -> Normalised:
    route = route_to(server)
    litellm, seen = library(), _Seen()
    try:
        with server.wire.turn, seen.client(route) as client, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it imports more of itself as it goes, with its models' deprecations
            answer = call(
                litellm,
                {
                    "model": route.model,
                    "api_base": route.api_base,
                    "api_key": route.key or "none",  # the OpenAI client insists on one
                    "client": client,
                    "num_retries": 0,
                    **({"max_retries": 0} if route.client == "sdk" else {}),
                    **options,
                },
            )
        choice = answer.model_dump()["choices"][0]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
        return Normalised(seen.path, seen.posted, seen.native, answer.model_dump(), text or "")
    except Exception as error:  # litellm raises its providers' errors and its own, of many classes
        raise failed(route, error) from error


def failed(route: Route, error: Exception) -> WireError:
    """One line for whatever litellm raised, with no key in it."""
    said = str(error)
    said = shortened(said.replace(route.key, "***") if route.key else said, 200)
    todo = "look at the server's own log"
    if getattr(error, "status_code", None) in (401, 403) and route.key_variable:
        todo = f"set the right key in {route.key_variable}"
    elif getattr(error, "status_code", None) == 404:
        todo = "check the model's name"
    elif "refused" in said or "Connection error" in said:
        todo = "start the server there or check the address"
    what = f"{type(error).__name__}: {said}"
    return WireError(f"litellm could not get an answer from {route.model} at {route.api_base} ({what}): {todo}")


class _Seen:
    """Records the body of the one request and of its answer; headers, and with them keys, are not looked at."""

    def __init__(self) -> None:
        self.path = ""
        self.posted: Message = {}
        self.native: Message = {}

    def record(self, path: str, posted: bytes, native: bytes) -> None:
        self.path, self.posted = path, json.loads(posted)
        with contextlib.suppress(ValueError):  # not JSON: litellm says so
            self.native = json.loads(native)

    @contextlib.contextmanager
    def client(self, route: Route) -> Iterator[Any]:
        """The HTTP client in the wrapping that litellm wants for a route; closed at the end."""
        import httpx

        seen, patience = self, httpx.Timeout(READ_S, connect=CONNECT_S)
        inner = httpx.Client(trust_env=not is_loopback(route.api_base), timeout=patience)  # loopback never through a proxy

        class Bounded(httpx.BaseTransport):
            """Sends, and gives up an answer that takes too long or grows too big: httpx limits only the gaps in it."""

            def handle_request(self, request: httpx.Request) -> httpx.Response:
                request.headers["Accept-Encoding"] = "identity"
                request.extensions["timeout"] = patience.as_dict()  # litellm's own are ten minutes
                deadline, body = time.monotonic() + TOTAL_S, b""
                try:
                    response = within(TOTAL_S, lambda: inner.send(request, stream=True))
                except TimeoutError as error:
                    raise httpx.ReadTimeout("the answer does not begin", request=request) from error
                try:
                    for chunk in response.iter_bytes():
                        body += chunk
                        if len(body) > MAX_BYTES or time.monotonic() > deadline:
                            raise httpx.ReadTimeout("the answer does not end", request=request)
                finally:
                    response.close()
                seen.record(request.url.path, request.read(), body)
                kind = response.headers.get("Content-Type", "application/json")
                return httpx.Response(response.status_code, headers={"Content-Type": kind}, content=body, request=request)

        with inner, httpx.Client(transport=Bounded(), timeout=patience) as outer:
            if route.client == "sdk":
                import openai

                key = route.key or "none"
                # openai takes a client of httpx or of httpx2, and says so when given neither; its stubs name only httpx2
                yield openai.OpenAI(api_key=key, base_url=route.api_base, max_retries=0, http_client=outer)  # type: ignore[arg-type]
            else:
                from litellm.llms.custom_httpx.http_handler import HTTPHandler

                yield HTTPHandler(client=outer)


@functools.cache
def library() -> Any:
    """litellm, imported without a look at the network and kept quiet. Takes seconds the first time."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import litellm
    except ImportError as error:
        raise MissingPart("litellm is not installed: pip install -r build/requirements.txt") from error
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.turn_off_message_logging = True
    for name in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return litellm
