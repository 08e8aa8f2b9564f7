"""One session: the lab of a run, with the life of its server around it. A server that it started never outlives it."""

import contextlib
import threading
from pathlib import Path
from types import TracebackType

from pipeline import timings
from pipeline.lab import Lab, LoadedModel
from pipeline.model.gguf_file import NotWritable
from pipeline.model.load import Progress, Say
from pipeline.run.found import Found
from pipeline.serving import gateway
from pipeline.serving.choice import OWN
from pipeline.serving.find import embedded
from pipeline.serving.own_server import put_in
from pipeline.serving.process import Starting
from pipeline.serving.server import Server


def import_litellm() -> None:
    """litellm takes seconds to import: the server comes up meanwhile. A failure is reported where it is used."""
    with contextlib.suppress(Exception):
        gateway.library()


class Session:
    """Makes the lab from what was chosen; loads the model and starts the server only when a capture first needs them."""

    def __init__(self, found: Found, say: Say, progress: Progress, asked: str | None = None, keep_model: bool = False):
        self.setting = found.setting
        self._model, self._choice, self._say, self._progress = found.model, found.server, say, progress
        self._begun: Starting[Server] | None = None
        self._server: Server | None = None
        self._own: Server | None = None
        self._keep_model = keep_model
        self.lab = Lab(found.setting.sentence, self._load_model, self.start_server, own_server=self.start_own_server)
        self.lab.asked = asked

    def begin_server(self) -> None:
        """Spawn the server, if it must be started, and return at once: it comes up while other captures are taken."""
        if self._begun is None:
            self._begun = None if self._choice.model == OWN else self._choice.begin(self._served_folder())
            threading.Thread(target=import_litellm, daemon=True).start()

    def start_server(self) -> Server:
        """The server, ready to be asked."""
        if self._choice.model == OWN:
            return self.lab.own_server
        with timings.stretch("server start", self._choice.name):
            self._server = self._choice.start(self._served_folder(), self._say, self._begun)
        return self._server

    def _load_model(self) -> LoadedModel:
        with timings.stretch("model", self._model.name):
            return self._model.load(self._say, self._progress)

    def start_own_server(self) -> Server:
        """The server that answers with the deck's own model: an Ollama into which it was put, else the server of this run."""
        if self._choice.kind != "ollama" or not self._choice.takes_models:
            return self.lab.server
        try:
            with timings.stretch("server start", self._choice.name):
                self._own = put_in(self._choice, self.lab.loaded, self._say, keep=self._keep_model)
        except NotWritable as reason:
            if self._choice.model != OWN:
                self._say(f"{self._choice.name} answers with another model than this process: {reason}")
                return self.lab.server
            self._say(f"{self._choice.name} is given up for transformers serve: {reason}")
            self._choice = embedded(self._model.name, self._model.identity, ())
            return self.start_server()
        return self._own

    def _served_folder(self) -> Path | None:
        """The folder that `transformers serve` serves: the deck's own model's, whichever it is."""
        return self.lab.loaded.path if self._choice.kind == "transformers serve" else None

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for part in (self._own, self._server, self._begun):
            if part is not None:
                part.close()
