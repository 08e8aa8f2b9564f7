"""The Ollama that answers with the deck's own model: the one that runs, or one of our own with a model folder of its own."""

import tempfile
from dataclasses import replace
from pathlib import Path

from pipeline.lab import LoadedModel
from pipeline.model.gguf_file import write_gguf
from pipeline.model.load import Say
from pipeline.serving.choice import ServerChoice, silent
from pipeline.serving.dialects import Ollama
from pipeline.serving.own_model import OwnModel, plain_name
from pipeline.serving.process import Process
from pipeline.serving.server import Server, describe
from pipeline.serving.start import begin_ollama, weights_sha256


class OwnServer(Server):
    """An Ollama asked for the deck's own model; closing it takes the model out, and ends an Ollama that we started."""

    def __init__(self, held: OwnModel, choice: ServerChoice, loaded: LoadedModel, digest: str, process: Process | None):
        version = choice.version or held.wire.version()
        wire = Ollama(held.wire.url, held.name)
        known = describe("ollama", "Ollama", version, loaded.provenance["name"], digest)
        super().__init__("ollama", wire, {**known, "sha256": weights_sha256(loaded.path), "dtype": "float16"}, process)
        self._held, self._choice, self._loaded = held, replace(choice, url=held.wire.url), loaded

    def spoiled(self) -> Server:
        return put_in(self._choice, self._loaded, silent, spoiled=True)

    def close(self) -> None:
        try:
            self._held.close()
        finally:
            super().close()


def begin(choice: ServerChoice) -> Server:
    """A line to the chosen Ollama; started with an empty model folder of its own, that goes with it, where none runs."""
    if choice.url is None:
        return begin_ollama(choice.program or "ollama", "", must_hold=False, own_folder=True).ready()
    return Server("ollama", Ollama(choice.url, ""), describe("ollama", "Ollama", choice.version, "", None))


def put_in(choice: ServerChoice, loaded: LoadedModel, say: Say, *, keep: bool = False, spoiled: bool = False) -> OwnServer:
    """Put the model into the chosen Ollama and hand over the server. Raises NotWritable for a shape that cannot be.

    An Ollama that we start for this goes, and the model with it, so that there is nothing to keep. `spoiled`: see write_gguf.
    """
    with tempfile.TemporaryDirectory(prefix="one-call-gguf-") as folder:
        gguf = Path(folder) / "model.gguf"
        digest = write_gguf(loaded, gguf, spoiled=spoiled)
        server = begin(choice)
        try:
            assert isinstance(server.wire, Ollama)
            say(f"putting {loaded.provenance['name']} into {choice.name} ({gguf.stat().st_size / 1e6:.0f} MB, float16)")
            plain = plain_name(loaded.provenance["name"]) if keep and choice.url else None
            held = OwnModel(server.wire, gguf, digest, say, plain)
            return OwnServer(held, choice, loaded, digest, server.process)
        except BaseException:
            server.close()
            raise
