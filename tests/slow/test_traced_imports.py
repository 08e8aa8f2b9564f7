"""What a slide's process loads of ours is what its fingerprint names: every slide is really taken and really drawn.

The libraries are imported once; for each slide two processes are forked, which hold none of our modules: one takes the
capture (with the real model, of the real server), one judges and draws the committed one. Where an import is said to carry
nothing into a slide (`fingerprint.WITHOUT_CONTENT`), both find an empty module.
"""

from collections.abc import Iterable, Mapping

import pytest

from decks import ONE_CALL
from pipeline.paths import COMMITTED
from pipeline.run import plan, sources
from pipeline.serving.server import Server
from pipeline.settings import DEFAULT_SENTENCE
from tracer import job, trace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TAKING, DRAWING = "taken", "drawn"
Step = tuple[str, str]  # a slide's id, and taken or drawn
STEPS = [(slide.id, step) for slide in ONE_CALL.slides for step in (TAKING, DRAWING)]
SETTING = plan.Setting(DEFAULT_SENTENCE, "a model", "a server")


def named() -> dict[Step, set[str]]:
    """The modules that each step's fingerprint names, as paths below build/."""
    parts = {(slide.id, TAKING): plan.capture_parts(slide, SETTING) for slide in ONE_CALL.slides}
    parts |= {(slide.id, DRAWING): plan.draw_parts(slide) for slide in ONE_CALL.slides}
    return {step: {name for name in found if name.endswith(".py")} for step, found in parts.items()}


@pytest.fixture(scope="module")
def answers(real_server: Server) -> dict[Step, dict]:
    """What the process of each step sent back."""
    address = (real_server.kind, real_server.base_url, real_server.model, real_server.kind, None, None)
    world = {"sentence": DEFAULT_SENTENCE, "server": {"address": address, "provenance": real_server.provenance}}
    jobs = {}
    for slide in ONE_CALL.slides:
        jobs[slide.id, TAKING] = job(slide, ["capture"], **world)
        jobs[slide.id, DRAWING] = job(slide, ["oracle", "draw"], capture=str(COMMITTED.capture(slide.id)))
    return dict(zip(jobs, trace(list(jobs.values())), strict=True))


@pytest.mark.parametrize("step", STEPS, ids=" ".join)
def test_what_a_slide_loads_is_what_its_fingerprint_names(step, answers):
    answer = answers[step]
    assert "error" not in answer, answer["error"]
    assert len(answer["loaded"]) > 3
    assert set(answer["loaded"]) - named()[step] == set()


def hidden(every: Mapping[str, sources.Source], importer: str, imported: str) -> dict[str, sources.Source]:
    """All sources, with one import of one module unseen."""

    def without(names: Iterable[str]) -> list[str]:
        return [name for name in names if name != imported]

    whole = every[importer]
    names = {name: one._replace(imports=without(one.imports)) for name, one in whole.names.items()}
    return {**every, importer: whole._replace(imports=without(whole.imports), names=names)}


def test_no_import_can_be_hidden_from_the_fingerprint_unnoticed(answers, monkeypatch):
    every, whole = sources.every(), named()
    noticed = set()
    for importer, imported in [(name, other) for name, source in every.items() for other in source.imports]:
        monkeypatch.setattr(sources, "every", lambda edge=(importer, imported): hidden(every, *edge))
        left = named()
        shorter = [step for step in STEPS if left[step] < whole[step]]
        unnoticed = [step for step in shorter if set(answers[step]["loaded"]) <= left[step]]
        assert unnoticed == [], (importer, imported)
        noticed |= {(importer, imported)} if shorter else set()
    kinds = {
        "at the top of a topic": ("topics.sampling", "pipeline.drawing.columns"),
        "inside a topic's function": ("topics.whole_path", "pipeline.serving.gateway"),
        "at the top of the pipeline": ("pipeline.drawing.canvas", "pipeline.drawing.fonts"),
    }
    assert set(kinds.values()) <= noticed
