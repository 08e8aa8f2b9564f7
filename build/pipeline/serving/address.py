"""Addresses of model servers as people write them, with or without scheme, port or `/v1`, and keys out of the environment.

Opens no connection.
"""

import ipaddress
import os
import socket
from urllib.parse import urlsplit

from pipeline.errors import BadInput

OLLAMA_PORT = 11434


def base_url(given: str, whose: str = "") -> str:
    """A server's address without path: `http://host:port`. Takes it with or without scheme, `/`, `/v1` or `/v1/`.

    Raises BadInput, which names `whose` it is: the flag or the variable.
    """
    text, prefix = given.strip(), f"{whose} " if whose else ""
    if "@" in text:  # not shown: it may be a key
        raise BadInput(f"{prefix}a server address must not hold a user name or a key: give it as http://host:port")
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise BadInput(f"{prefix}{given!r} is not a server address ({error}): give it as http://host:port") from error
    path = parts.path.rstrip("/").removesuffix("/v1")
    if parts.query or parts.fragment:  # not shown either
        raise BadInput(f"{prefix}a server address has no ? and no # in it: give it as http://host:port")
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in text or not is_name(parts.hostname):
        raise BadInput(f"{prefix}{given!r} is not a server address: give it as http://host:port")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(parts.hostname, parts.hostname)
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{path}"


def is_name(host: str) -> bool:
    """Whether a host can be a name or a number at all: `a..b` is none."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def ollama_url(given: str, whose: str = "OLLAMA_HOST") -> str:
    """The address that an OLLAMA_HOST stands for: any part of it may be missing, 0.0.0.0 means this machine."""
    text = given.strip().strip("\"'") or "127.0.0.1"
    if "://" in text:  # then the scheme's own port is meant, as Ollama itself reads it
        return base_url(text, whose)
    if text.startswith(":") and text[1:].isdigit():
        text = f"127.0.0.1{text}"
    elif text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"
    url = base_url(text, whose)
    return url if urlsplit(url).port else f"{url}:{OLLAMA_PORT}"


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def resolved(url: str) -> str:
    """The addresses a host name stands for, for the reader of an error."""
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    except OSError:
        return "the name does not resolve"
    return "tried " + ", ".join(dict.fromkeys(str(entry[4][0]) for entry in found))


def key_in(variable: str) -> str | None:
    """A key out of the environment, without the white space that a file of variables may leave around it."""
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise BadInput(f"{variable} holds a character that no key has: set it anew")
    return key or None
