"""One sitting: which folder its server serves, and what a run shows while something is fetched."""

import io

import pytest
from rich.console import Console

from decks import ONE_CALL
from pipeline.model import find as find_model
from pipeline.model.find import ModelChoice
from pipeline.run.build import Row
from pipeline.run.console import Screen
from pipeline.run.found import Found
from pipeline.run.session import Session
from pipeline.run.setting import Setting
from pipeline.serving.choice import ServerChoice
from pipeline.slide import Verdict

SERVED = ServerChoice("transformers serve", "transformers serve", "its identity", ())


def nothing(*anything: object) -> None:
    pass


@pytest.mark.parametrize("name", ["gpt2", find_model.EMBEDDED, "somebody/else"])
def test_the_server_that_we_start_serves_the_decks_own_model_whatever_it_is_called(name, loaded_model):
    choice = ModelChoice(name, "identity", False, (), lambda say, progress, dtype: loaded_model)
    with Session(Found(choice, SERVED, Setting("Hi", "", "")), nothing, nothing) as session:
        assert session._served_folder() == loaded_model.path


def test_a_download_has_a_bar_until_the_slide_is_taken():
    screen = Screen()
    screen.console, screen.live = Console(force_terminal=True, file=io.StringIO()), True
    with screen.working():
        screen.fetching("model.safetensors", 5_000_000, 0)  # before there is anything to take: nothing to show it beside
        screen.start(2, 2)
        screen.fetching("model.safetensors", 0, 0)
        screen.fetching("model.safetensors", 125_400_000, 548_000_000)
        (task,) = [task for task in screen._progress.tasks if task.description == "model.safetensors"]
        assert (task.completed, task.total) == (125, 548)
        screen.taken(ONE_CALL.slides[0], Row(ONE_CALL.slides[0], Verdict(True, "", "")))
        assert [task.description for task in screen._progress.tasks] == ["photographing", "drawing"]
