"""The command: exit codes, one line an error, what is imported when, and what every flag promises."""

import html
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clones import REGEN, copy_project, elsewhere, ran, refused, run
from decks import ONE_CALL
from pipeline.command import for_shell
from pipeline.paths import BUILD, COMMITTED, REPO
from tiers import of_the_slow_tier_but

WITHOUT = """
import sys
for name in {absent!r}:
    sys.modules[name] = None
sys.path.insert(0, {build!r})
import regen_all
code = regen_all.main({flags!r})
heavy = [name for name in ("torch", "transformers", "matplotlib", "litellm") if sys.modules.get(name)]
print("IMPORTED", heavy)
sys.exit(code)
"""


def without(absent: list[str], *flags: str, build: Path = BUILD) -> subprocess.CompletedProcess:
    script = WITHOUT.format(absent=absent, build=str(build), flags=list(flags))
    return ran([sys.executable, "-c", script], timeout=120)


def test_verify_asserts_every_oracle_without_torch_or_matplotlib():
    done = without(["torch", "transformers", "matplotlib", "litellm"], "--verify")
    assert done.returncode == 0, done.stderr
    assert f"{len(ONE_CALL.slides)} slides, {len(ONE_CALL.slides)} oracles hold" in done.stdout
    assert "IMPORTED []" in done.stdout


def test_a_run_after_a_run_that_did_something_finds_nothing_to_do(tmp_path):
    folder = copy_project(tmp_path / "clone")
    run(folder, "--force", "--only", "why_vllm")
    assert json.loads(run(folder, "--json"))["changed"] == []


@pytest.mark.slow
def test_redraw_by_one_worker_needs_no_torch_and_gives_the_committed_bytes(tmp_path):
    folder = copy_project(tmp_path / "clone")
    for slide in ONE_CALL.slides:
        (folder / "figures" / f"{slide.id}.png").unlink()
    done = without(["torch", "transformers", "litellm"], "--redraw", "--jobs", "1", build=folder / "build")
    assert done.returncode == 0, done.stderr
    for slide in ONE_CALL.slides:
        assert (folder / "figures" / f"{slide.id}.png").read_bytes() == COMMITTED.figure(slide.id).read_bytes(), slide.id


def test_a_run_with_nothing_to_do_imports_no_heavy_package_and_changes_nothing(tmp_path):
    folder = copy_project(tmp_path / "clone")
    before = {
        path: path.stat().st_mtime_ns for root in ("figures", "deck") for path in (folder / root).rglob("*") if path.is_file()
    }
    done = without([], build=folder / "build")
    assert done.returncode == 0, done.stderr
    assert "everything is up to date" in done.stdout
    assert "IMPORTED []" in done.stdout
    assert all(path.stat().st_mtime_ns == then for path, then in before.items() if not path.name.startswith("."))


@pytest.mark.parametrize("sentence", ["", "   ", "\n\t", "\u2003\u00a0"])
def test_an_empty_sentence_is_refused(sentence):
    assert "empty" in refused("--sentence", sentence, code=2)


def test_a_sentence_of_five_thousand_tokens_is_refused_with_its_length():
    assert re.search(r"has [\d,]+ (tokens|characters)", refused("--sentence", "a b " * 2500, "--only", "opening", code=2))
    assert re.search(r"has [\d,]+ (tokens|characters)", refused("--sentence", "w " * 20_000, code=2))


def test_a_sentence_that_is_not_text_is_refused():
    assert "not valid text" in refused("--sentence", b"caf\xe9", code=2)


@pytest.mark.slow
def test_a_sentence_of_emoji_makes_a_deck_of_its_own(tmp_path):
    run(REPO, "--sentence", "🤗🎉👩‍👩‍👧", "--only", "opening", "--only", "tokenization", "--out", str(tmp_path))
    assert (tmp_path / "deck" / "index.html").is_file()
    run(REPO, "--verify", "--only", "opening", "--out", str(tmp_path))


def as_bash_reads(command: str) -> list[str]:
    return ran(["bash", "-c", f"printf '%s\\0' {command}"]).stdout.split("\0")[:-1]


def test_the_evidence_of_a_deck_of_its_own_says_how_to_take_its_slides_again(tmp_path):
    out = tmp_path / "it's mine"
    run(REPO, "--sentence", "It's  <b>$5</b>\n`ls` \\ naïve 🐝", "--only", "opening/title", "--out", str(out))
    shown = re.search(
        r"Take this slide again</dt><dd><code>(.*?)</code>", (out / "deck/index.html").read_text("utf-8"), re.DOTALL
    )
    python, script, *flags = as_bash_reads(html.unescape(shown[1]))
    assert (python, script) == (".venv/bin/python", "build/regen_all.py")
    assert json.loads(run(REPO, *flags, "--json"))["changed"] == []  # taken again, and the same to the byte
    (out / "figures/captures/opening/title.json").write_text("{")
    line = refused("--redraw", "--out", str(out), code=2)
    assert as_bash_reads(line.partition("again: .venv/bin/python build/regen_all.py ")[2]) == flags


@pytest.mark.parametrize(
    "flag", [("--sentence", "Another one"), ("--model", "some/model"), ("--server", "localhost:1"), ("--ask", "groq/m")]
)
def test_what_verify_would_ignore_is_refused(flag):
    assert f"leave out {flag[0]}" in refused("--verify", *flag, code=2)
    assert f"leave out {flag[0]}" in refused("--verify", *flag, "--out", "/tmp/none", code=2)


@pytest.mark.parametrize("text", ["a", "two  spaces", "it's", "a\nb\\c'd", "\u2028\x85", "naïve 🐝", "$(ls) `ls`", "\udcff"])
def test_a_flag_is_one_word_of_one_line_for_a_shell(text):
    word = for_shell(text)
    assert word.splitlines() == [word] and word.isprintable()
    assert ran(["bash", "-c", f"printf '%s\\0' {word}"], text=False).stdout == os.fsencode(text) + b"\0"


@pytest.mark.slow
def test_the_command_of_a_deck_elsewhere_names_its_folders_whole(tmp_path):
    run(REPO, "--sentence", "Hi", "--only", "opening/title", "--out", "here", cwd=tmp_path)
    assert f"--out={tmp_path}/here" in json.loads((tmp_path / "here/figures/manifest.json").read_text())["slides"][0]["flags"]


@pytest.mark.slow
def test_part_of_a_deck_is_redrawn_as_far_as_it_goes(tmp_path):
    run(REPO, "--sentence", "Hi", "--only", "opening/title", "--out", str(tmp_path))
    assert "1 oracle holds (1 photograph, 0 concept cards)" in run(REPO, "--redraw", "--out", str(tmp_path))


@pytest.mark.parametrize("absent", ["numpy", "huggingface_hub"])
def test_a_package_that_is_not_installed_is_one_line(absent, tmp_path):
    done = without([absent], "--explain", build=copy_project(tmp_path / "clone") / "build")
    line = done.stderr.strip()
    assert done.returncode == 3 and line.startswith("error: ") and absent in line and "\n" not in line


def test_a_model_that_is_not_there_is_one_line():
    assert "no such folder" in refused("--model", "./nowhere", "--only", "opening", "--out", "/tmp/none", code=2)


def test_an_unknown_topic_is_one_line_naming_the_topics():
    line = refused("--only", "nothing", code=2)
    assert all(topic in line for topic in ONE_CALL.topics)


@pytest.mark.parametrize("flags", [["--jobs", "x"], ["--nothing"], ["--verify", "--redraw"], ["--only"]])
def test_a_wrong_flag_is_one_line(flags):
    assert "--help" in refused(*flags, code=2)


def test_a_provider_without_its_key_is_refused_before_anything_is_taken():
    assert "GROQ_API_KEY" in refused("--ask", "groq/llama-3.3-70b-versatile", "--out", "/tmp/none", code=3)


def test_no_process_is_too_few():
    assert "--jobs 0" in refused("--jobs", "0", code=2)


def test_json_is_one_document_with_every_slide():
    document = json.loads(run(REPO, "--verify", "--json"))
    assert [row["number"] for row in document["slides"]] == list(range(1, len(ONE_CALL.slides) + 1))
    assert document["exit"] == 0 and document["holding"] == len(ONE_CALL.slides)


def test_an_error_with_json_is_in_the_document():
    done = ran([sys.executable, REGEN, "--json", "--sentence", ""])
    assert done.returncode == 2
    assert "empty" in json.loads(done.stdout)["error"]


def test_quiet_prints_nothing_when_all_is_well():
    assert run(REPO, "--verify", "--quiet") == ""


def test_list_names_every_slide_once():
    listed = run(REPO, "--list").splitlines()
    assert [line.split()[1] for line in listed] == [slide.id for slide in ONE_CALL.slides]


def test_debug_shows_the_traceback_that_is_hidden_otherwise():
    done = ran([sys.executable, REGEN, "--debug", "--sentence", ""])
    assert "Traceback" in done.stderr


@of_the_slow_tier_but("topic", ONE_CALL.topics, ONE_CALL.topics[0])
def test_a_topic_script_runs_alone_from_anywhere(topic, tmp_path):
    done = ran(
        [sys.executable, str(BUILD / "topics" / f"{topic}.py"), "--list"],
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert {line.split()[1].split("/")[0] for line in done.stdout.splitlines()} == {topic}


@of_the_slow_tier_but("wait", [0, 0.05, 0.2, 0.5], 0)  # the drawing processes are just being started
@of_the_slow_tier_but(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], (signal.SIGTERM, 143))
def test_an_interrupted_build_says_so_in_one_line_and_keeps_the_deck(number, code, wait, tmp_path):
    folder = copy_project(tmp_path / "clone")
    before = (folder / "deck/index.html").read_bytes()
    command = [sys.executable, str(folder / "build/regen_all.py"), "--force", "--only", "opening", "--only", "forward_pass"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=elsewhere(), start_new_session=True
    )
    while "taken in" not in process.stdout.readline():  # it has begun to take photographs
        assert process.poll() is None
    time.sleep(wait)
    os.killpg(process.pid, number)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == code, error
    assert len(error.strip().splitlines()) == 1 and "interrupted" in error
    assert (folder / "deck/index.html").read_bytes() == before


def test_a_terminal_without_unicode_gets_every_line_and_json_stays_json():
    done = ran([sys.executable, REGEN, "--verify"], env={**elsewhere(), "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and f"{len(ONE_CALL.slides)} oracles hold" in done.stdout, done.stderr
    done = ran([sys.executable, REGEN, "--verify", "--json"], env={**elsewhere(), "PYTHONIOENCODING": "ascii"})
    assert json.loads(done.stdout)["exit"] == 0


def test_an_error_shows_no_control_character():
    assert "\\x1b" in refused("--only", "\x1b]0;title\x07", code=2)


@pytest.mark.slow
def test_nobodys_own_plotting_settings_change_a_figure(tmp_path):
    folder = copy_project(tmp_path / "clone")
    figure = folder / "figures/merges/one_word.png"
    before = figure.read_bytes()
    (tmp_path / "matplotlibrc").write_text("figure.dpi: 37\nsavefig.dpi: 140\npath.sketch: 3, 30, 5\ntext.usetex: True\n")
    env = {**elsewhere(), "MATPLOTLIBRC": str(tmp_path), "MPLBACKEND": "module://nowhere"}
    done = ran([sys.executable, str(folder / "build/regen_all.py"), "--redraw", "--only", "merges"], env=env)
    assert done.returncode == 0, done.stderr
    assert figure.read_bytes() == before
