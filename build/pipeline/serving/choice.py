"""A model server that was found, or can be started: what it is, before anything is asked of it."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import MissingPart
from pipeline.model.find import EMBEDDED
from pipeline.model.load import Say
from pipeline.serving.address import is_loopback
from pipeline.serving.process import Starting
from pipeline.serving.server import Server, connect
from pipeline.serving.start import begin_ollama, begin_transformers

OWN = ""  # instead of a model's name: the deck's own is asked for, under whatever name it has there


def silent(line: str) -> None:
    """Says nothing."""


@dataclass(frozen=True)
class ServerChoice:
    """A server that was found, or can be started. `identity` names its model and version, never its port."""

    kind: str  # "ollama" | "transformers serve" | "openai"
    name: str
    identity: str
    lines: tuple[str, ...]
    url: str | None = None  # None: it must be started
    program: str | None = None  # the `ollama` to start
    model: str = EMBEDDED
    digest: str | None = None
    version: str | None = None
    asked: bool = False  # named by --server, not found
    also: frozenset[str] = frozenset()  # further names of the model

    @property
    def takes_models(self) -> bool:
        """Whether it may be given a model: one of this machine; another's only when it was asked for."""
        return self.url is None or self.asked or is_loopback(self.url)

    def own(self, model_identity: str) -> str:
        """The identity of this server with the deck's own model in it; empty where that is no other than its own."""
        return f"ollama {self.version} {model_identity}" if self.kind == "ollama" and self.takes_models else ""

    def begin(self, model_path: Path | None = None) -> Starting[Server] | None:
        """Spawn the server and return at once; None when it runs already."""
        if self.url is not None:
            return None
        if self.kind == "ollama":
            return begin_ollama(self.program or "ollama", self.model)
        if model_path is None:
            raise MissingPart("transformers serve needs the folder of a model: run with --model smollm2 once")
        return begin_transformers(model_path, self.model)

    def start(self, model_path: Path | None = None, say: Say = silent, begun: Starting[Server] | None = None) -> Server:
        """The server, ready to be asked. `begun` is what an earlier begin() returned."""
        if self.url is not None:
            return connect(self.kind, self.url, self.model, self.name, self.version, self.digest, self.also)
        say(f"starting {self.name} on loopback")
        begun = begun or self.begin(model_path)
        assert begun is not None
        return begun.ready()
