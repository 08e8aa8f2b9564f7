"""One session: the lab of a run, with the life of its server around it. A server that it started never outlives it."""

import contextlib
import threading
from pathlib import Path
from types import TracebackType

from pipeline import timings
from pipeline.lab import Lab, LoadedModel
from pipeline.model import find as find_model
from pipeline.model.load import Progress, Say
from pipeline.run.found import Found
from pipeline.serving import gateway
from pipeline.serving.process import Starting
from pipeline.serving.server import Server


def import_litellm() -> None:
    """litellm takes seconds to import: the server comes up meanwhile. A failure is reported where it is used."""
    with contextlib.suppress(Exception):
        gateway.library()


class Session:
    """Makes the lab from what was chosen; loads the model and starts the server only when a capture first needs them."""

    def __init__(self, found: Found, say: Say, progress: Progress, asked: str | None = None):
        self.setting = found.setting
        self._model, self._choice, self._say, self._progress = found.model, found.server, say, progress
        self._begun: Starting[Server] | None = None
        self._server: Server | None = None
        self.lab = Lab(found.setting.sentence, self._load_model, self.start_server)
        self.lab.asked = asked

    def begin_server(self) -> None:
        """Spawn the server, if it must be started, and return at once: it comes up while other captures are taken."""
        if self._begun is None:
            self._begun = self._choice.begin(self._served_folder())
            threading.Thread(target=import_litellm, daemon=True).start()

    def start_server(self) -> Server:
        """The server, ready to be asked."""
        with timings.stretch("server start", self._choice.name):
            self._server = self._choice.start(self._served_folder(), self._say, self._begun)
        return self._server

    def _load_model(self) -> LoadedModel:
        with timings.stretch("model", self._model.name):
            return self._model.load(self._say, self._progress)

    def _served_folder(self) -> Path | None:
        """The folder that `transformers serve` serves: the embedded model's, whatever model Part 1 photographs."""
        if self._choice.kind != "transformers serve":
            return None
        if self._model.name == find_model.EMBEDDED and not self._model.custom:
            return self.lab.loaded.path
        return find_model.embedded_folder(self._say, self._progress)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for part in (self._server, self._begun):
            if part is not None:
                part.close()
