"""What a run found to photograph: the model, the server, and with them the setting that decides what is stale."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.errors import BadInput
from pipeline.model import find as find_model
from pipeline.model.find import ModelChoice
from pipeline.run.flags import own_flags
from pipeline.run.setting import Setting
from pipeline.serving import find as find_server
from pipeline.serving.address import is_loopback
from pipeline.serving.choice import ServerChoice
from pipeline.serving.providers import ask_route


@dataclass(frozen=True)
class Found:
    """A model and a server, neither loaded nor started yet."""

    model: ModelChoice
    server: ServerChoice
    setting: Setting


def find(asked: argparse.Namespace, say: Callable[[str], None], asks_a_server: bool = True) -> Found:
    """The model and the server that the flags mean; says what was found and why the rest was not.

    No server is looked for that no slide of the run asks.
    """
    model = find_model.choose(asked.model, offline=asked.offline)
    route = ""
    if asked.ask is not None:  # a missing key is reported before anything is taken
        provider = ask_route(asked.ask)
        if asked.offline and not is_loopback(provider.api_base):
            raise BadInput(f"--offline uses no network, and --ask {asked.ask} needs it: leave out one of the two")
        route = provider.identity
    server = find_server.NOT_ASKED
    if asks_a_server:
        own = {"own_identity": model.identity, "own_model": model.name}
        fetch_nothing = asked.offline or asked.explain
        server = find_server.choose(asked.server, offline=fetch_nothing, say=say, **own)
    for line in (*model.lines, *server.lines):
        say(line)
    parts = (asked.sentence, model.identity, server.identity, route, own_flags(asked), server.own(model.identity))
    return Found(model, server, Setting(*parts))
