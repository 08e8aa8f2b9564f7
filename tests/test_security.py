"""What the deck's code never does: run what it reads, open a shell, ask another than the named server, write elsewhere."""

import ast
import contextlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from clones import elsewhere
from fake_server import FakeServer
from pipeline.deck import present
from pipeline.paths import BUILD, COMMITTED, REPO

PRODUCT = sorted({*BUILD.rglob("*.py")} - {*BUILD.glob("doubt/*"), BUILD / "bench.py"})
CALLS = [
    (f"{path.relative_to(BUILD)}:{node.lineno}", node)
    for path in PRODUCT
    for node in ast.walk(ast.parse(path.read_bytes()))
    if isinstance(node, ast.Call)
]
RUNS_WHAT_IT_READS = re.compile(
    r"(eval|exec|compile|__import__)|(pickle|marshal|shelve)\..*|torch\.load|yaml\.load|os\.(system|popen)"
)
WATCHED = """
import json, os, sys
seen = {"open": [], "connect": [], "run": []}
def watch(event, details):
    if event == "open" and isinstance(details[0], str) and details[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        seen["open"].append(os.path.abspath(details[0]))
    elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.symlink", "os.link") and details[-1] == -1:
        seen["open"] += [os.path.abspath(os.fspath(one)) for one in details[:2] if isinstance(one, (str, os.PathLike))]
    elif event == "shutil.rmtree":
        seen["open"].append(os.path.abspath(details[0]))
    elif event == "socket.connect":
        seen["connect"].append(details[1])
    elif event == "os.system":
        seen["run"].append(str(details[0]))
sys.addaudithook(watch)
sys.path.insert(0, BUILD)
if __name__ == "__main__":
    import regen_all
    code = regen_all.main(FLAGS)
    print("SEEN", json.dumps([code, seen], default=str))
"""


def test_nothing_runs_what_it_reads():
    assert [where for where, call in CALLS if RUNS_WHAT_IT_READS.fullmatch(ast.unparse(call.func))] == []
    imported = {
        alias.name.partition(".")[0]
        for path in PRODUCT
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in (node.names if isinstance(node, ast.Import) else [ast.alias(node.module or "")])
    }
    assert not imported & {"pickle", "marshal", "shelve", "dill", "joblib"}


SAFE = {"shell": "False", "trust_remote_code": "False", "allow_pickle": "False", "use_safetensors": "True"}


@pytest.mark.parametrize("word", SAFE)
def test_what_would_be_dangerous_is_never_asked_for(word):
    asked = [(where, ast.unparse(one.value)) for where, call in CALLS for one in call.keywords if one.arg == word]
    assert [pair for pair in asked if pair[1] != SAFE[word]] == []


def test_a_models_weights_are_never_unpickled():
    source = ast.parse((BUILD / "pipeline/model/load.py").read_bytes())
    calls = (ast.unparse(node) for node in ast.walk(source) if isinstance(node, ast.Call))
    (loading,) = (call for call in calls if call.startswith("AutoModelForCausalLM.from_pretrained("))
    assert "use_safetensors=True" in loading


def watched(tmp_path, *flags: str) -> tuple[int, dict]:
    """A run in a process of its own: its exit code, and every file it wrote and every address it connected to."""
    script = tmp_path / "watched.py"
    script.write_text(WATCHED.replace("BUILD", repr(str(BUILD))).replace("FLAGS", repr(list(flags))), "utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, env=elsewhere())
    return tuple(json.loads(done.stdout.rpartition("SEEN ")[2]))


def outside(written: list[str], *allowed: object) -> list[str]:
    """What was written elsewhere than it may be; caches of compiled code, of our sources and of fonts are no output."""
    places = tuple(map(str, (*allowed, "/dev/", "/proc/", BUILD / ".sources", Path.home() / ".cache")))
    return sorted({path for path in written if not path.startswith(places) and "__pycache__" not in path})


NO_NETWORK = ["--list"], ["--verify"], ["--explain", "--model=smollm2", "--server=embedded", "--offline"]


@pytest.mark.parametrize("flags", NO_NETWORK, ids=lambda flags: flags[0])
def test_a_run_that_needs_no_network_connects_to_nothing_and_writes_nothing(tmp_path, flags):
    _, seen = watched(tmp_path, *flags)
    assert seen["connect"] == [] and seen["run"] == []
    assert outside(seen["open"]) == []


def test_a_deck_of_its_own_is_written_where_it_was_told_and_asks_the_named_server_alone(tmp_path):
    with FakeServer() as fake:
        chosen = ["--only=one_shape/direct_and_through", "--model=smollm2", f"--server={fake.url}", f"--out={tmp_path / 'deck'}"]
        _, seen = watched(tmp_path, *chosen)
    assert {tuple(address) for address in seen["connect"] if isinstance(address, list)} == {("127.0.0.1", fake.port)}
    assert seen["run"] == [] and (tmp_path / "deck" / "figures").is_dir()
    assert outside(seen["open"], tmp_path / "deck", tempfile.gettempdir()) == []


def test_what_we_serve_is_served_on_loopback_alone():
    serving = present.server(COMMITTED.html)
    with contextlib.closing(serving.socket):
        assert serving.server_address[0] == "127.0.0.1"
    anywhere = re.compile(r"0\.0\.0\.0|\[::\]|INADDR_ANY")
    reads_such_a_host_as_this_machine = {"address.py"}
    assert {path.name for path in PRODUCT if anywhere.search(path.read_text("utf-8"))} <= reads_such_a_host_as_this_machine


def test_no_key_is_in_anything_that_is_kept():
    names = re.compile(r"\b(sk-[A-Za-z0-9_-]{12,}|gsk_\w{12,}|hf_\w{20,}|Bearer \w{12,})")
    files = (path for folder in ("figures", "deck") for path in (REPO / folder).rglob("*"))
    kept = [path for path in files if path.suffix in (".json", ".html", ".md")]
    assert kept and [path.name for path in kept if names.search(path.read_text("utf-8"))] == []
