"""What is asked of a model server and what its answer means, the same in either dialect. Opens no connection itself."""

import contextlib
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from pipeline.errors import BadInput
from pipeline.serving.line import LOG, Line
from pipeline.serving.stream import Message

ANOTHER = "ask another model, by its name behind a #: --server URL#MODEL"
DATE = re.compile(r"-(20\d\d-?\d\d-?\d\d|\d{4})$")
ENDS = {  # the words that servers have for the two ends of an answer
    "stop": {"stop", "eos", "eos_token", "end_turn", "stop_sequence", "stop_token", "complete"},
    "length": {"length", "max_tokens", "max_length", "model_length"},
}


@dataclass(frozen=True)
class Exchange:
    """What was sent and what came back, and what that means in either dialect. None: the server did not report it."""

    path: str
    request: Message
    answer: Message  # of a stream: the message that ended it
    text: str
    model: str | None
    finish: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    chunks: list[tuple[float, str]] = field(default_factory=list)  # of a stream: seconds since sending, text
    cached_tokens: int | None = None  # of the prompt, found in the server's cache
    reading_ms: float | None = None  # the prompt's reading, by the server's own clock

    def __post_init__(self) -> None:
        for name in ("text", "model", "finish"):
            if not isinstance(value := getattr(self, name), str) and (value is not None or name == "text"):
                raise OddShape(f"its {name} is {value!r}, which is no text")
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "reading_ms"):
            if (value := getattr(self, name)) is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise OddShape(f"its {name.replace('_', ' ')} are {value!r}, which is no number")
        if self.text.lstrip().startswith("<think>"):
            raise OddShape("it thinks aloud (<think>) before it answers, and this deck shows answers")


class OddShape(TypeError):
    """A field of an answer holds another thing than it should; the message says which."""


class Wire(Line, ABC):
    """A line to one server, in the dialect that a subclass speaks."""

    options: ClassVar[dict[str, str]]  # our name of an option -> the dialect's
    also: frozenset[str] = frozenset()  # further names that the server has for our model

    # --- questions, the same in both dialects ---

    def complete(self, prompt: str, *, stream: bool = False, **options) -> Exchange:
        """Continue a text as it stands, no chat template applied."""
        return self._ask(*self.completion(prompt, self._named(options, prompt), stream), stream)

    def chat(self, messages: list[Message], *, stream: bool = False, **options) -> Exchange:
        """Answer a conversation."""
        prompt = "\n".join(message["content"] for message in messages)
        return self._ask(*self.conversation(messages, self._named(options, prompt), stream), stream)

    def meant(self, prompt: str, max_tokens: int) -> Message:
        """What must be said besides, so that the call means what it says whatever the server's own defaults are."""
        return {}

    def next_token(self, prompt: str, best: int) -> Exchange:
        """The greedy next token of a text, and the `best` most probable where the server reports them: see best_of."""
        path, body = self.completion(prompt, self._named({"max_tokens": 1, "temperature": 0}, prompt), False)
        return self._ask(path, body | self.asking_best(best), False)

    def _named(self, options: Message, prompt: str) -> Message:
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = ", ".join(sorted(self.options))
            raise BadInput(f"{', '.join(unknown)}: no such option; {self.url} is asked only with {known}")
        named = {self.options[name]: value for name, value in options.items()}
        return named | self.meant(prompt, options.get("max_tokens", 0))

    def _ask(self, path: str, body: Message, stream: bool) -> Exchange:
        with self.turn:
            exchange = self._streamed(path, body) if stream else self._whole(path, body)
            if not exchange.text and exchange.finish == "load":  # it was only loading: nothing was generated, so ask again
                exchange = self._streamed(path, body) if stream else self._whole(path, body)
        if exchange.finish == "load":
            raise self.failed(path, "loaded the model but generated nothing", "wait until it is loaded and run again")
        if exchange.model is not None and not same_model(body["model"], exchange.model, self.also):
            what = f"answered with model {exchange.model!r} instead of {body['model']!r}"
            raise self.failed(path, what, "check what it serves")
        return exchange

    def _whole(self, path: str, body: Message) -> Exchange:
        started = time.perf_counter()
        answer = self.post(path, body)
        with self.of_our_shape(path):
            return self.read(path, body, answer, None, time.perf_counter() - started, [])

    def _streamed(self, path: str, body: Message) -> Exchange:
        started = time.perf_counter()
        chunks, end = [], {}
        with self.of_our_shape(path):
            for message in self.messages(path, body):
                if text := self.chunk_text(message):
                    chunks.append((time.perf_counter() - started, text))
                if self.is_last(message):
                    end = message
                elif end and message.get("usage"):  # some servers count in a message of its own, after the end
                    end = {**end, "usage": message["usage"]}
            seconds = time.perf_counter() - started
            if not end:
                raise self.failed(path, "cut its answer off before the end", LOG)
            return self.read(path, body, end, "".join(text for _, text in chunks), seconds, chunks)

    @contextlib.contextmanager
    def of_our_shape(self, path: str) -> Iterator[None]:
        """Where an answer is taken apart: one that lacks a field, or has another thing there, is a WireError."""
        try:
            yield
        except OddShape as error:
            raise self.failed(path, f"sent an answer that cannot be used: {error}", ANOTHER) from error
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            missing = f"sent an answer without {error}" if isinstance(error, KeyError) else "sent an answer of another shape"
            raise self.failed(path, missing, "check that it is the kind of server you think it is") from error

    # --- what a dialect says ---

    @abstractmethod
    def completion(self, prompt: str, options: Message, stream: bool) -> tuple[str, Message]:
        """The path and the body that ask for a text's continuation."""

    @abstractmethod
    def conversation(self, messages: list[Message], options: Message, stream: bool) -> tuple[str, Message]:
        """The path and the body that ask for an answer."""

    @abstractmethod
    def asking_best(self, best: int) -> Message:
        """What a body says besides to have the most probable tokens reported."""

    @abstractmethod
    def best_of(self, answer: Message) -> list[tuple[str, float]]:
        """The text and log-probability of the first token's most probable; empty where the server reports none."""

    @abstractmethod
    def read(self, path, body, answer, text, seconds, chunks) -> Exchange:
        """What an answer means; `text` is None unless it was streamed."""

    @abstractmethod
    def chunk_text(self, message: Message) -> str:
        """The text in one message of a stream, or nothing."""

    @abstractmethod
    def is_last(self, message: Message) -> bool:
        """Whether a message of a stream ends the answer."""


def same_model(asked: str, answered: str, also: frozenset[str] = frozenset()) -> bool:
    """Whether an answer names the model that was asked for, or one of the names that the server has for it besides.

    An owner before it, `:latest` behind it and a release date behind it are no part of a name.
    """

    def bare(name: str) -> str:
        return DATE.sub("", name.rpartition("/")[2].lower().removesuffix(":latest"))

    return answered != "" and (answered in also or bare(asked) == bare(answered))


def ended(finish: str) -> str:
    """Why an answer ended, `stop` or `length`, whichever of the words in use a server has for it; else its own word."""
    return next((reason for reason, words in ENDS.items() if finish.lower() in words), finish)
