"""Messages out of a stream of bytes, however it is cut: lines of JSON (Ollama) and server-sent events (OpenAI)."""

import json
from collections.abc import Iterator
from typing import Any

from pipeline.text import shortened

Message = dict[str, Any]
ROOM = 160  # characters of what a server says, in an error
DEEPEST = 40  # levels of an answer; a real one has six


class Broken(Exception):
    """An answer that cannot be read; the reason, without the address."""


def lines(chunks: Iterator[bytes]) -> Iterator[str]:
    """Whole lines out of a byte stream, wherever its chunks are cut: in a character, or between CR and LF."""
    held = b""
    for chunk in chunks:
        held += chunk
        # a CR at the very end may be the first half of CRLF: wait for what follows
        whole, last = (held[:-1], held[-1:]) if held.endswith(b"\r") else (held, b"")
        *complete, rest = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        held = rest + last
        for line in complete:
            yield line.decode("utf-8")
    if held:
        yield held.rstrip(b"\r").decode("utf-8")


def json_lines(chunks: Iterator[bytes]) -> Iterator[Message]:
    """Newline-delimited JSON: Ollama's stream."""
    for line in lines(chunks):
        if line.strip():
            yield parsed(line)


def events(chunks: Iterator[bytes]) -> Iterator[Message]:
    """Server-sent events: OpenAI's stream, with or without its closing `[DONE]`."""
    data: list[str] = []
    for line in lines(chunks):
        name, _, value = line.removeprefix("\ufeff").partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            text, data = "\n".join(data), []
            if text.strip() == "[DONE]":
                return
            if text.strip():  # an event without data says nothing
                yield parsed(text)
        elif line.lstrip().startswith("{"):  # an error sent as bare JSON in place of an event
            yield parsed(line)


def parsed(text: str) -> Message:
    """One message. Raises Broken when it is not a JSON object, or is one that reports an error."""
    try:
        message = whole(json.loads(text, parse_constant=no_number))
    except RecursionError as error:
        raise Broken(f"sent JSON of more than {DEEPEST} levels: {shortened(text, ROOM)}") from error
    except ValueError as error:
        raise Broken(f"sent something that is not JSON: {shortened(text, ROOM)}") from error
    if not isinstance(message, dict):
        raise Broken(f"sent JSON without fields: {shortened(text, ROOM)}")
    if message.get("error"):
        raise Broken(f"reported an error: {error_text(message)}")
    return message


def no_number(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def whole(value: Any, depth: int = 0) -> Any:
    """A message whose texts are all text: half a surrogate, which no file can hold, becomes U+FFFD.

    Raises RecursionError for a message of more than DEEPEST levels.
    """
    if depth > DEEPEST:
        raise RecursionError
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {whole(key): whole(child, depth + 1) for key, child in value.items()}
    return [whole(child, depth + 1) for child in value] if isinstance(value, list) else value


def error_text(message: Message) -> str:
    said = message.get("error") or message.get("detail") or message.get("message") or message
    return shortened(str(said.get("message") or said) if isinstance(said, dict) else str(said), ROOM)
