"""`--timings`: where a run's time went, as lines and as JSON."""

import json
from pathlib import Path

from clones import copy_project, run
from pipeline.paths import Out


def test_a_run_says_where_its_time_went_and_nothing_else_changes(tmp_path: Path):
    folder = copy_project(tmp_path / "clone")
    Out(folder).figure("why_vllm/slab_or_pages").unlink()
    document = json.loads(run(folder, "--only", "why_vllm/slab_or_pages", "--force", "--timings", "--json"))
    stages = {(one["stage"], one["what"]) for one in document["timings"]["stretches"]}
    assert {("capture", "why_vllm/slab_or_pages"), ("drawing", "why_vllm/slab_or_pages"), ("publishing", "")} <= stages
    assert all(0 <= one["seconds"] <= document["timings"]["total"] for one in document["timings"]["stretches"])
    lines = run(folder, "--timings").splitlines()
    assert lines[-1].endswith("beside captures") and any("imports" in line for line in lines)
    assert "in all" not in run(folder)
