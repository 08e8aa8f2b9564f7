"""Which model is found: in what order, from the cache, from the hub or embedded, and that gpt2 is the published one."""

import json
import os

import pytest

from fake_hub import FakeHub, closed_address
from model_fixtures import CHOOSE_AND_REPORT, choose_apart, put_in_cache, refused, run_apart, sums_of
from pipeline.checksum import file_sha256
from pipeline.errors import MissingPart
from pipeline.model import find as find_model
from pipeline.model.find import choose
from small_models import vocabulary_files

# --- the order, and three seconds for the hub ---


def test_auto_takes_the_embedded_model_when_the_hub_refuses_and_says_why(tmp_path):
    found = choose_apart(tmp_path, HF_ENDPOINT=closed_address())
    assert found["name"] == "SmolLM2-135M-Instruct"
    assert found["lines"][1] == "gpt2 is not in the local Hugging Face cache"
    assert "the hub at http://127.0.0.1" in found["lines"][2] and "refused" in found["lines"][2]
    assert found["imported"] == []


@pytest.mark.slow
def test_a_hub_that_hangs_is_given_up_within_three_seconds(tmp_path):
    with FakeHub(fault="hang") as hub:
        found = choose_apart(tmp_path, HF_ENDPOINT=hub.address)
    assert found["name"] == "SmolLM2-135M-Instruct"
    assert "no answer within 3 s" in found["lines"][2]


@pytest.mark.slow
def test_a_name_lookup_that_hangs_is_given_up_within_three_seconds(tmp_path):
    hang = "import socket, time\nsocket.getaddrinfo = lambda *_, **__: time.sleep(9999)\n"
    code = hang + CHOOSE_AND_REPORT.format(request="auto", offline=False)
    done = run_apart(code, tmp_path, HF_ENDPOINT="http://hub.invalid")  # ends, though the thread still hangs
    found = json.loads(done.stdout)
    assert found["name"] == "SmolLM2-135M-Instruct"
    assert "no answer within 3 s" in found["lines"][2]


def test_a_hub_that_answers_500_is_passed_over(tmp_path):
    with FakeHub(fault="500") as hub:
        found = choose_apart(tmp_path, HF_ENDPOINT=hub.address)
    assert found["name"] == "SmolLM2-135M-Instruct" and "500" in found["lines"][2]


@pytest.mark.parametrize(("offline", "variable"), [(True, {}), (False, {"HF_HUB_OFFLINE": "1"})])
def test_offline_asks_the_hub_nothing(tmp_path, offline, variable):
    with FakeHub() as hub:
        found = choose_apart(tmp_path, offline=offline, HF_ENDPOINT=hub.address, **variable)
    assert hub.requests == []
    assert found["name"] == "SmolLM2-135M-Instruct"
    assert ("--offline" if offline else "HF_HUB_OFFLINE") in found["lines"][2]


def test_gpt2_asked_for_by_name_and_nowhere_to_be_had_says_how_to_go_on(tmp_path):
    found = choose_apart(tmp_path, request="gpt2", HF_ENDPOINT=closed_address())
    assert found["exit_code"] == 3 and "--model smollm2" in found["error"]


def test_no_home_still_chooses(tmp_path):
    found = choose_apart(tmp_path, offline=True, HOME="", DECK_CACHE="")
    assert found["name"] == "SmolLM2-135M-Instruct"


# --- gpt2 ---


def test_gpt2_vocabulary_of_the_tests_is_the_published_one():
    vocabulary, merges = vocabulary_files()
    assert file_sha256(vocabulary) == find_model.GPT2_SHA256["vocab.json"]
    assert file_sha256(merges) == find_model.GPT2_SHA256["merges.txt"]


@pytest.mark.parametrize("repo", find_model.GPT2_REPOS)
def test_gpt2_in_the_local_cache_comes_first(hub_cache, gpt2_folder, monkeypatch, repo):
    put_in_cache(hub_cache, repo, find_model.GPT2_REVISION, gpt2_folder)
    choice = choose("auto")
    assert (choice.name, choice.custom) == ("gpt2", False)
    assert choice.identity == "gpt2@607a30d783df"
    assert "local Hugging Face cache" in choice.lines[0]
    monkeypatch.setattr(find_model, "GPT2_SHA256", sums_of(gpt2_folder))
    loaded = choice.load()
    assert loaded.provenance["revision"] == find_model.GPT2_REVISION
    assert loaded.provenance["sha256"] == file_sha256(gpt2_folder / "model.safetensors")
    assert loaded.provenance["architecture"] == "GPT2LMHeadModel"
    assert loaded.tokenizer("The dog")["input_ids"] == [464, 3290]


def test_gpt2_of_other_weights_is_refused(hub_cache, gpt2_folder):
    put_in_cache(hub_cache, find_model.GPT2_REPOS[0], find_model.GPT2_REVISION, gpt2_folder)
    message = refused(choose("gpt2").load, MissingPart)
    blob = file_sha256(gpt2_folder / "model.safetensors")
    assert "248dfc391186" in message and f"delete {hub_cache}" in message and blob in message  # the file, not the link to it


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
def test_gpt2_of_another_vocabulary_is_refused(hub_cache, a_copy, monkeypatch, name):
    monkeypatch.setitem(find_model.GPT2_SHA256, "model.safetensors", file_sha256(a_copy / "model.safetensors"))
    (a_copy / name).write_text((a_copy / name).read_text() + "\n")
    put_in_cache(hub_cache, find_model.GPT2_REPOS[0], find_model.GPT2_REVISION, a_copy)
    assert name in refused(choose("gpt2").load, MissingPart)


def test_half_a_gpt2_in_the_cache_is_not_taken(hub_cache, gpt2_folder):
    put_in_cache(hub_cache, "gpt2", find_model.GPT2_REVISION, gpt2_folder, names={"config.json", "vocab.json"})
    choice = choose("auto", offline=True)
    assert choice.name == "SmolLM2-135M-Instruct"
    assert "incomplete" in choice.lines[1] and "model.safetensors" in choice.lines[1]


LOAD_GPT2 = """
import json, sys
from pathlib import Path
from pipeline.model import bundled, load, find as find_model
from pipeline.checksum import file_sha256
from pipeline.errors import DeckError
folder = Path({folder!r})
find_model.GPT2_SHA256 = {{name: file_sha256(folder / name) for name in find_model.GPT2_SHA256}}
seen, said = [], []
choice = find_model.choose("auto")
try:
    loaded = choice.load(said.append, lambda *step: seen.append(step))
    print(json.dumps({{"lines": choice.lines, "said": said, "last": seen[-1:], "provenance": loaded.provenance}}))
except DeckError as error:
    print(json.dumps({{"error": str(error), "exit_code": error.exit_code}}))
"""


def test_gpt2_from_a_hub_is_fetched_once_with_its_progress_and_resumes_after_a_cut(tmp_path, gpt2_folder):
    code = LOAD_GPT2.format(folder=str(gpt2_folder))
    with FakeHub(gpt2_folder, fault="cut") as hub:
        done = run_apart(code, tmp_path, HF_ENDPOINT=hub.address)
        assert not done.stderr
        cut = json.loads(done.stdout)
        assert cut["exit_code"] == 3 and "model.safetensors" in cut["error"] and "--model smollm2" in cut["error"]
        hub.fault = ""
        done = run_apart(code, tmp_path, HF_ENDPOINT=hub.address)
        assert not done.stderr
        whole = json.loads(done.stdout)
        assert whole["provenance"]["name"] == "gpt2" and len(whole["said"]) == 1
        _, so_far, total = whole["last"][0]
        assert so_far == total > 0
        assert not [path for path in hub.requests if path.endswith(".bin")]
        before = len(hub.requests)
        again = json.loads(run_apart(code, tmp_path, HF_ENDPOINT=hub.address).stdout)
        assert again["said"] == [] and len(hub.requests) == before
    assert again["provenance"] == whole["provenance"]  # a capture does not depend on where the file lay


@pytest.mark.slow
def test_published_gpt2_continues_as_published():
    try:
        choice = choose("gpt2")
    except MissingPart as reason:
        pytest.skip(str(reason))
    loaded = choice.load()
    assert loaded.provenance["parameters"] == 124_439_808
    import torch

    ids = [464, 3290]
    published = [373, 1043, 287, 257, 2214, 1474, 262, 16246, 286, 2688, 290, 2688, 27262, 13, 198, 198, 464, 3290]
    with torch.inference_mode():
        for _ in published:
            ids.append(int(loaded.model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    assert ids[2:] == published


# --- a model's id on the hub ---


def test_a_hub_id_is_fetched_by_commit_then_found_in_the_cache(tmp_path, gpt2_folder):
    code = (
        "import json\nfrom pipeline.model.find import choose\nc = choose('someone/small')\nm = c.load(lambda line: None)\n"
        "print(json.dumps([c.name, c.identity, c.custom, c.lines, m.provenance]))"
    )
    with FakeHub(gpt2_folder, revision="0" * 39 + "1") as hub:
        done = run_apart(code, tmp_path, HF_ENDPOINT=hub.address)
        assert done.returncode == 0 and not done.stderr, done.stderr
        first = json.loads(done.stdout)
    done = run_apart(code, tmp_path, HF_ENDPOINT=hub.address)  # closed by now
    again = json.loads(done.stdout)
    assert first[:3] == again[:3] == ["someone/small", "someone/small@000000000000", True]
    assert first[4] == again[4] and first[4]["revision"] == "0" * 39 + "1"
    assert "cache" in again[3][0]


def test_a_hub_id_with_damaged_weights_in_the_cache_is_refused(hub_cache, gpt2_folder):
    snapshot = put_in_cache(hub_cache, "someone/small", "1" * 40, gpt2_folder)
    with (snapshot / "model.safetensors").resolve().open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    assert "delete" in refused(lambda: choose("someone/small").load(), MissingPart)


def test_a_hub_id_without_its_tokenizer_in_the_cache_is_fetched_whole(hub_cache, gpt2_folder):
    put_in_cache(hub_cache, "someone/small", "0" * 40, gpt2_folder, names=("config.json", "model.safetensors"))
    assert find_model._snapshot_in_cache("someone/small") is None
    put_in_cache(hub_cache, "someone/small", "0" * 40, gpt2_folder, names=("tokenizer.json",))
    assert find_model._snapshot_in_cache("someone/small") is not None


def test_a_hub_id_with_pickles_only_or_unknown_is_refused(tmp_path):
    (tmp_path / "pickled").mkdir()
    for name in ("config.json", "pytorch_model.bin"):
        (tmp_path / "pickled" / name).write_text("{}")
    with FakeHub(tmp_path / "pickled") as hub:
        found = choose_apart(tmp_path, request="someone/pickled", HF_ENDPOINT=hub.address)
    assert found["exit_code"] == 2 and "pickle" in found["error"]
    with FakeHub() as hub:
        found = choose_apart(tmp_path, request="someone/unknown", HF_ENDPOINT=hub.address)
    assert found["exit_code"] == 2 and "no such model" in found["error"]
    found = choose_apart(tmp_path, request="someone/unreached", HF_ENDPOINT=hub.address)
    assert found["exit_code"] == 3 and "--model DIR" in found["error"]
    found = choose_apart(tmp_path, request="someone/unreached", offline=True)
    assert found["exit_code"] == 3 and "offline" in found["error"]
