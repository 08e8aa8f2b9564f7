"""The workflow that a fork runs: it can read and nothing else, runs only what is pinned, and does what it says."""

import re

import yaml

from pipeline.model.bundled import CACHE_APP
from pipeline.paths import REPO
from pipeline.run.flags import parser

TEXT = (REPO / ".github/workflows/oracles.yml").read_text("utf-8")
WORKFLOW = yaml.safe_load(TEXT)
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
RUN = [step["run"] for step in STEPS if "run" in step]


def test_it_may_read_and_nothing_else():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in WORKFLOW["jobs"].values())
    assert "pull_request_target" not in TEXT and "secrets" not in TEXT
    (checkout,) = (step for step in STEPS if step.get("uses", "").startswith("actions/checkout@"))
    assert checkout["with"]["persist-credentials"] is False


def test_every_action_is_pinned_by_a_commit_with_its_version_beside_it():
    used = [line.strip() for line in TEXT.splitlines() if "uses:" in line]
    assert len(used) == len([step for step in STEPS if "uses" in step]) == 4
    for line in used:
        assert re.fullmatch(r"(- )?uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_it_tests_verifies_checks_and_keeps_the_report_of_what_drifted():
    assert RUN[0] == "make test"
    flags = [vars(parser().parse_args(line.split()[2:])) for line in RUN[1:]]
    assert [(one["verify"], one["check"]) for one in flags] == [(True, False), (False, True)]
    last = STEPS[-1]
    assert last["with"]["path"] == str(flags[-1]["report"]) and last["if"].startswith("failure()")
    assert not any("${{" in line for line in RUN)  # nothing that somebody else wrote gets into a shell


def test_packages_and_model_are_kept_between_runs():
    (python,) = (step for step in STEPS if step.get("uses", "").startswith("actions/setup-python@"))
    assert python["with"]["cache"] == "pip"
    (model,) = (step for step in STEPS if step.get("uses", "").startswith("actions/cache@"))
    assert model["with"]["path"].split() == ["~/.cache/huggingface", f"~/.cache/{CACHE_APP}"]
