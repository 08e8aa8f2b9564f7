"""The deck's own model in an Ollama: put in over HTTP without a network, and taken out again when the run ends.

In an Ollama that was running the model has a name of this run's own, held by a lock that the system lets go of when we die:
the next run takes out what a killed one left. Knows no slide and no tokens.
"""

import contextlib
import os
import re
from pathlib import Path

from filelock import FileLock, Timeout

from pipeline.model.bundled import cache_folder
from pipeline.model.load import Say
from pipeline.serving.dialects import Ollama

PREFIX = "one-call-"
PLAIN = "{{ .Prompt }}"  # a conversation is then the text as it stands, and chat and completion are one thing
UPLOAD_S, CREATE_S = 600.0, 600.0
THERE, ABSENT, MADE = 200, 404, 201


class OwnModel:
    """The deck's model under one name in one Ollama. Close it, and it is out again unless it is to be kept."""

    def __init__(self, wire: Ollama, gguf: Path, digest: str, say: Say, keep: str | None = None):
        """`digest` is the sha256 of `gguf`; `keep`, a plain name under which the model stays for people to chat with."""
        self.wire, self._digest, self._say, self._keep = wire, digest, say, keep
        self._megabytes = gguf.stat().st_size / 1e6
        take_out_leftovers(wire, say)
        self.name = f"{PREFIX}{digest[:12]}-{run_id()}"
        self._claim = FileLock(claims() / f"{self.name}.lock")
        self._claim.acquire(timeout=0)
        try:
            upload(wire, gguf, digest)
            create(wire, self.name, gguf.name, digest, PLAIN)
            if keep:
                create(wire, keep, gguf.name, digest, None)  # with the chat template that is in the file
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Take the model out; say what stays, and for how long."""
        try:
            delete(self.wire, self.name)
            if self._keep:
                self._say(f"the model stays in {self.wire.url} as {self._keep}: `ollama rm {self._keep}` takes it out")
            elif holds(self.wire, self._digest):
                self._say(
                    f"{self.wire.url} keeps the uploaded file ({self._megabytes:.0f} MB) until it is started again an hour or "
                    "more from now: no call removes it; until then it is not sent again"
                )
        finally:
            self._claim.release()
            Path(self._claim.lock_file).unlink(missing_ok=True)


def run_id() -> int:
    """What tells this run from others of the same model at the same time."""
    return os.getpid()


def plain_name(model: str) -> str:
    """A name that an Ollama takes and that nobody else's model has: `one-call-smollm2-135m-instruct`."""
    return PREFIX + re.sub(r"[^a-z0-9._-]+", "-", model.lower()).strip("-._")


def claims() -> Path:
    """Where the names in use are locked; one folder for all runs of this user."""
    folder = cache_folder() / "in-use"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def take_out_leftovers(wire: Ollama, say: Say) -> None:
    """Delete the models of runs of ours that were killed: a name whose lock nobody holds any more.

    A name without a lock here is another machine's or another user's, and is left alone.
    """
    for name in names(wire):
        path = claims() / f"{name.removesuffix(':latest')}.lock"
        if not (name.startswith(PREFIX) and path.is_file()):
            continue
        claim = FileLock(path)
        with contextlib.suppress(Timeout):
            claim.acquire(timeout=0)
            delete(wire, name)
            claim.release()
            path.unlink(missing_ok=True)
            say(f"took {name.removesuffix(':latest')} out of {wire.url}: a run that was killed had left it there")


# --- the calls ---


def names(wire: Ollama) -> list[str]:
    with wire.of_our_shape("/api/tags"):
        return [str(entry["name"]) for entry in wire.get("/api/tags")["models"]]


def holds(wire: Ollama, digest: str) -> bool:
    """Whether the server has a file already; asked first, for it does not read what it has."""
    return wire.status("HEAD", f"/api/blobs/sha256:{digest}", expected=(THERE, ABSENT)) == THERE


def upload(wire: Ollama, gguf: Path, digest: str) -> None:
    if not holds(wire, digest):
        with gguf.open("rb") as file:
            wire.status("POST", f"/api/blobs/sha256:{digest}", data=file, expected=(THERE, MADE), total_s=UPLOAD_S)


def create(wire: Ollama, name: str, file: str, digest: str, template: str | None) -> None:
    """Make a model from an uploaded file; without a template the file's own, if the server can read it."""
    body = {"model": name, "files": {file: f"sha256:{digest}"}, "parameters": {"repeat_penalty": 1.0}, "stream": True}
    status = None
    for message in wire.messages("/api/create", body | ({"template": template} if template else {}), total_s=CREATE_S):
        status = message.get("status")
    if status != "success":
        raise wire.failed("/api/create", f"did not finish making {name}", "look at the server's own log")


def delete(wire: Ollama, name: str) -> None:
    wire.status("DELETE", "/api/delete", {"model": name}, expected=(THERE, ABSENT))
