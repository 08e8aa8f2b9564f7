"""Starting a server, and above all: leaving none behind, whatever ends us."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from fake_server import TEXT
from pipeline.errors import MissingPart
from pipeline.model import find as find_model
from pipeline.paths import BUILD
from pipeline.serving import start
from pipeline.serving.process import Starting, free_port
from serving_fixtures import FAKE, ours

KEPT_S = 0.3  # no fake server needs longer to answer
pytestmark = pytest.mark.usefixtures("nothing_there")


def begin(tmp_path: Path) -> Starting:
    (tmp_path / "model").mkdir(exist_ok=True)
    (tmp_path / "model" / "model.safetensors").write_bytes(b"weights")
    return start.begin_transformers(tmp_path / "model", command=FAKE)


def test_a_started_server_answers_and_is_gone_with_its_folder_after_close(tmp_path):
    with begin(tmp_path).ready(10) as server:
        folder = server.process.folder
        assert folder.is_dir() and len(ours()) == 2
        assert server.provenance["model"] == find_model.EMBEDDED and str(tmp_path) not in repr(server.provenance)
    assert not folder.exists()


def test_a_port_taken_in_between_is_given_up_for_another(monkeypatch, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = [taken.getsockname()[1]]
        monkeypatch.setattr("pipeline.serving.process.free_port", lambda: ports.pop() if ports else free_port())
        starting = begin(tmp_path)
        with starting.ready(10) as server:
            assert starting.tries == 2 and str(taken.getsockname()[1]) not in server.base_url


def test_a_server_that_dies_while_starting_tells_its_last_words(monkeypatch, tmp_path):
    monkeypatch.setenv("FAKE_DIES", "1")
    with pytest.raises(
        MissingPart, match=r"^the server on 127\.0\.0\.1:\d+ died while starting \(ValueError: the weights are missing\)"
    ):
        begin(tmp_path).ready(10)


def test_a_server_that_never_comes_up_is_given_up(monkeypatch, tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(MissingPart, match=r"was not up after 0\.3 s"):
        start.begin_transformers(tmp_path / "model", command=[sys.executable, "-c", "import time; time.sleep(60)"]).ready(KEPT_S)


@pytest.mark.slow
def test_a_real_server_of_a_broken_model_tells_why(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(MissingPart, match="died while starting") as caught:
        start.begin_transformers(tmp_path).ready()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


# --- leaving nothing behind ---

PARENT = """
    import sys, time; sys.path.insert(0, {build!r})
    from pathlib import Path
    from pipeline.serving import start
    starting = start.begin_transformers(Path({model!r}), command={command!r})
    if {up!r}:
        server = starting.ready()
    print(starting.process.folder, flush=True)
    {end}
"""


def run_parent(model: Path, command: list[str] | None, *, up: bool, end: str = "time.sleep(600)", **settings) -> subprocess.Popen:
    script = textwrap.dedent(PARENT).format(build=str(BUILD), model=str(model), command=command, up=up, end=end)
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **settings)


def assert_gone(folder: str, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while (ours() or Path(folder).exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ours() == {}
    assert not Path(folder).exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("up", [False, True])
def test_no_server_outlives_a_parent_that_a_signal_ends(tmp_path, number, up):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with run_parent(tmp_path, FAKE, up=up) as parent:
        folder = parent.stdout.readline().strip()
        parent.send_signal(number)
        parent.communicate(timeout=10)
    assert_gone(folder)


def test_no_server_outlives_a_parent_that_began_with_ctrl_c_and_hang_up_ignored(tmp_path):
    def ignoring():
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with run_parent(tmp_path, FAKE, up=True, preexec_fn=ignoring) as parent:
        folder = parent.stdout.readline().strip()
        parent.terminate()
        parent.communicate(timeout=60)
    assert_gone(folder)


@pytest.mark.parametrize("end", ["", "raise AssertionError('an oracle')", "import os; os._exit(3)", "sys.exit(1)"])
def test_no_server_outlives_a_parent_that_ends_by_itself(tmp_path, end):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with run_parent(tmp_path, FAKE, up=True, end=end) as parent:
        folder = parent.stdout.readline().strip()
        parent.communicate(timeout=20)
    assert_gone(folder)


@pytest.mark.slow
def test_the_real_server_does_not_outlive_a_killed_parent():
    with run_parent(find_model.embedded_folder(), None, up=True) as parent:
        folder = parent.stdout.readline().strip()
        assert len(ours()) == 2  # the keeper and the server
        parent.kill()
        parent.communicate(timeout=10)
    assert_gone(folder)


ORPHAN = """
    import os, sys, time; sys.path.insert(0, {build!r})
    from pipeline.serving.watchdog import prepare_child
    ours, theirs = os.pipe()
    parent = os.fork()
    if not parent:
        keeper = os.getpid()
        if os.fork():
            os._exit(0)  # the keeper is gone before its child is prepared
        while os.getppid() == keeper:
            time.sleep(0.01)
        prepare_child(keeper)
        os.write(theirs, b"became the server")
        os._exit(0)
    os.close(theirs)
    print(os.read(ours, 100).decode())
"""


def test_a_server_whose_keeper_dies_first_never_starts():
    script = textwrap.dedent(ORPHAN).format(build=str(BUILD))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


@pytest.mark.slow
def test_the_real_server_goes_even_when_its_keeper_is_killed():
    with run_parent(find_model.embedded_folder(), None, up=False) as parent:
        folder = parent.stdout.readline().strip()
        keeper = next(pid for pid, command in ours().items() if any(part.endswith("watchdog.py") for part in command))
        while not psutil.Process(keeper).children():
            time.sleep(0.02)
        psutil.Process(keeper).kill()
        parent.kill()
        parent.communicate(timeout=10)
    deadline = time.monotonic() + 10
    while ours() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ours() == {}
    subprocess.run(["/bin/rm", "-r", folder], check=False)


@pytest.mark.parametrize("without", ["HOME", "HF_HUB_OFFLINE"])
def test_a_server_starts_without_a_home_and_without_a_hub(monkeypatch, tmp_path, without):
    if without == "HOME":
        monkeypatch.delenv("HOME", raising=False)
    else:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with begin(tmp_path).ready(10) as server:
        assert server.complete("A", max_tokens=7).text == TEXT
    assert os.environ.get("HTTP_PROXY")
