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
from dataclasses import dataclass
from typing import Any

from pipeline.deadline import within
from pipeline.errors import MissingPart
from pipeline.serving.address import is_loopback
from pipeline.serving.line import CONNECT_S, MAX_BYTES, READ_S, TOTAL_S, Unreachable, WireError
from pipeline.serving.providers import Route
from pipeline.serving.server import Server
from pipeline.serving.stream import Message
from pipeline.text import shortened


@dataclass(frozen=True)
class Normalised:
    """One call through litellm: what it posted, what came back over the wire, what it made of that."""

    path: str
    posted: Message
    native: Message
    answer: Message
    text: str
    prompt_tokens: int | None  # as the server counted it; litellm would estimate where it did not
    lookups: tuple[str, ...] = ()  # what litellm asked besides, or would have: none of it is let through


def route_to(server: Server) -> Route:
    """litellm's way to a server of this run."""
    if server.route is not None:
        return server.route
    if server.kind == "ollama":
        return Route(f"ollama_chat/{server.model}", server.provenance["name"], server.base_url, "http")
    wire = server.wire
    return Route(
        f"openai/{server.model}", server.provenance["name"], f"{server.base_url}/v1", "sdk", wire.key_variable, key=wire.key
    )


def chat(server: Server, messages: list[Message], **options: Any) -> Normalised:
    """Ask a conversation through litellm; the same options as wire's."""
    prompt = "\n".join(message["content"] for message in messages)
    options |= server.wire.meant(prompt, options.get("max_tokens", 0))
    return _call(server, lambda litellm, given: litellm.completion(messages=messages, **given), options)


def complete(server: Server, prompt: str, **options: Any) -> Normalised:
    """Continue a text through litellm (OpenAI-shaped servers; on Ollama litellm has no way to leave the template off)."""
    options |= server.wire.meant(prompt, options.get("max_tokens", 0))
    return _call(server, lambda litellm, given: litellm.text_completion(prompt=prompt, **given), options)


def _call(server: Server, call: Callable[[Any, Message], Any], options: Message) -> Normalised:
    route = route_to(server)
    litellm, seen = library(), _Seen()
    known_already(litellm, route.model)
    LOOKUPS.clear()
    try:
        with server.wire.turn, seen.client(route) as client, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it imports more of itself as it goes, with its models' deprecations
            given = {
                "model": route.model,
                "api_base": route.api_base,
                "api_key": route.key or "none",  # the OpenAI client insists on one
                "client": client,
                "num_retries": 0,
                **({"max_retries": 0} if route.client == "sdk" else {}),
                **options,
            }
            answer = within(CONNECT_S + TOTAL_S, lambda: call(litellm, given))  # whatever it does besides asking
        choice = answer.model_dump()["choices"][0]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
        return Normalised(
            seen.path, seen.posted, seen.native, answer.model_dump(), text or "", counted(seen.native), tuple(LOOKUPS)
        )
    except Exception as error:  # litellm raises its providers' errors and its own, of many classes
        raise failed(route, error) from error


def counted(native: Message) -> int | None:
    """The prompt's tokens in an answer of either dialect; None: not reported."""
    count = native.get("prompt_eval_count", (native.get("usage") or {}).get("prompt_tokens"))
    return count if isinstance(count, int) else None


def known_already(litellm: Any, model: str) -> None:
    """Enter a model of an Ollama into litellm's own list: it asks `/api/show` for each one that it does not know."""
    if model.startswith("ollama"):
        free = {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0}
        litellm.model_cost.setdefault(model, {"litellm_provider": model.partition("/")[0], "mode": "chat", **free})


def failed(route: Route, error: Exception) -> WireError:
    """One line for whatever litellm raised, with no key in it."""
    said = str(error)
    said = shortened(said.replace(route.key, "***") if route.key else said, 200)
    todo = "look at the server's own log"
    kind: type[WireError] = WireError
    if getattr(error, "status_code", None) in (401, 403) and route.key_variable:
        todo = f"set the right key in {route.key_variable}"
    elif getattr(error, "status_code", None) == 404:
        todo = "check the model's name"
    elif never_connected(error):
        todo, kind = "start the server there or check the address", Unreachable
    what = f"{type(error).__name__}: {said}"
    return kind(f"litellm could not get an answer from {route.model} at {route.api_base} ({what}): {todo}")


def never_connected(error: BaseException | None) -> bool:
    """Whether no connection came about, said by the HTTP client somewhere behind an error of litellm's."""
    import httpx

    while error is not None and not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        error = error.__cause__ or error.__context__
    return error is not None


LOOKUPS: list[str] = []  # of the call under way


def refuse_lookups(litellm: Any) -> None:
    """Take the client of its own from litellm: what it would look up beside the call it was given, it must not."""
    import httpx
    from litellm.llms.custom_httpx.http_handler import HTTPHandler

    class Refusing(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            LOOKUPS.append(f"{request.method} {request.url.path}")
            raise httpx.ConnectError("only the named server is asked", request=request)

    litellm.module_level_client = HTTPHandler(client=httpx.Client(transport=Refusing()))


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

                client: Any = outer  # openai takes a client of httpx or of httpx2; its types name httpx2 only
                yield openai.OpenAI(api_key=route.key or "none", base_url=route.api_base, max_retries=0, http_client=client)
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
    refuse_lookups(litellm)
    for name in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return litellm
