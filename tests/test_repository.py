"""The repository itself: what README and CONTRIBUTING promise is there, and nothing is there that should not be."""

import ast
import importlib.metadata
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from clones import run
from decks import ONE_CALL
from pipeline.paths import BUILD, REPO, REQUIREMENTS
from pipeline.run.flags import parser

README, CONTRIBUTING = ((REPO / name).read_text("utf-8") for name in ("README.md", "CONTRIBUTING.md"))
TOP = {"build", "figures", "deck", "tests", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml", "Makefile"}
HIDDEN = {".ci", ".gitattributes", ".github", ".gitignore"}
SHORT = 8192  # bytes of a README that is read to its end
CONSTRAINTS, TEST_REQUIREMENTS = BUILD / "constraints.txt", REPO / "tests" / "requirements.txt"
MODULES = sorted(path for path in BUILD.rglob("*.py") if "__pycache__" not in path.parts)


def tracked() -> list[str]:
    """The files of the repository, those that are not yet added among them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=REPO, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return listed.stdout.splitlines()


def test_the_top_level_holds_what_it_should_and_no_more():
    assert {name.split("/")[0] for name in tracked()} - HIDDEN == TOP


def test_the_readme_is_short():
    assert len(README.encode()) <= SHORT


def mapped() -> list[str]:
    """The folders of CONTRIBUTING's map, by their indentation."""
    tree = CONTRIBUTING.partition("## Where things are\n\n```\n")[2].partition("```")[0]
    folders: list[str] = []
    for indent, name in re.findall(r"^( *)(\S+)/ +\S", tree, re.MULTILINE):
        above = next((one for one in reversed(folders) if one.count("/") < len(indent) // 2), "") if indent else ""
        folders.append(f"{above}/{name}".lstrip("/"))
    return folders


def test_the_map_gives_every_folder_of_sources_one_line():
    folders = {name.rpartition("/")[0] for name in tracked() if re.match(r"(build|tests|deck)/.*\.(py|j2|md)$", name)}
    assert len(folders) > 10
    assert sorted(mapped()) == sorted({*folders, "figures", ".ci"})


def test_what_the_readme_and_contributing_name_is_there():
    named = re.findall(r"\b(?:build|tests|deck|figures)/[\w/.]*\w\b", README + CONTRIBUTING)
    built_or_made_up = ("figures/.held_here.json", "deck/deck.pdf", "my-deck", "lengths", "TOPIC")
    names = [name for name in dict.fromkeys(named) if not any(other in name for other in built_or_made_up)]
    assert len(names) > 20
    assert [name for name in names if not (REPO / name).exists()] == []
    targets = set(re.findall(r"\bmake (deck|pdf|[a-z-]*test[a-z-]*|check|lint|present|bench)\b", README + CONTRIBUTING))
    makefile = (REPO / "Makefile").read_text("utf-8")
    assert [target for target in sorted(targets) if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_the_readme_names_every_flag():
    flags = {option for action in parser()._actions for option in action.option_strings if option.startswith("--")} - {"--help"}
    assert [flag for flag in sorted(flags) if flag not in README] == []


def test_the_pictures_of_the_readme_are_there():
    pictures = re.findall(r'src="([^"]+)"', README)
    assert len(pictures) == 3
    assert all((REPO / picture).is_file() for picture in pictures)


def listed(path: Path) -> list[str]:
    return [line for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]


def test_every_requirement_is_pinned_exactly_and_has_its_reason():
    lines = listed(REQUIREMENTS) + listed(TEST_REQUIREMENTS)
    assert all(re.fullmatch(r"[a-z0-9_-]+(\[[a-z]+\])?==[\w.]+ +# .{8,}", line) for line in lines)
    assert len(lines) > 10


def brought_by(requirements: list[str]) -> set[str]:
    """What the requirements bring here, themselves included: `name==version`, by the packages' own metadata."""
    found, waiting = set(), [Requirement(line.split("#")[0]) for line in requirements]
    while waiting:
        wanted = waiting.pop()
        there = importlib.metadata.distribution(wanted.name)
        key = f"{canonicalize_name(wanted.name)}=={there.version.split('+')[0]}", frozenset(wanted.extras)
        if key not in found:
            found.add(key)
            inner = [Requirement(line) for line in there.requires or []]
            extras = {"", *wanted.extras}
            waiting += [one for one in inner if not one.marker or any(one.marker.evaluate({"extra": extra}) for extra in extras)]
    return {name for name, _ in found}


def test_every_package_that_a_requirement_brings_is_pinned_to_what_was_tested():
    def pinned(lines: list[str]) -> set[str]:
        pins = [Requirement(re.sub(r"\[.*?\]", "", line.split("#")[0])) for line in lines]
        return {f"{canonicalize_name(pin.name)}{pin.specifier}" for pin in pins}

    constraints = pinned(listed(CONSTRAINTS))
    assert brought_by(listed(REQUIREMENTS)) - pinned(listed(REQUIREMENTS)) <= constraints
    assert brought_by(listed(TEST_REQUIREMENTS)) - pinned(listed(TEST_REQUIREMENTS)) - pinned(listed(REQUIREMENTS)) <= constraints
    names = [pin.partition("==")[0] for pin in constraints | pinned(listed(REQUIREMENTS)) | pinned(listed(TEST_REQUIREMENTS))]
    assert len(names) == len(set(names))  # no package is pinned to two versions


def test_a_clone_with_windows_line_endings_has_the_same_bytes_and_can_be_verified_and_redrawn(tmp_path):
    """core.autocrlf=true, as Git for Windows sets it: the manifest's sums are of the bytes that were committed."""
    names, source, clone = tracked(), tmp_path / "source", tmp_path / "clone"
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPO / name, source / name)
    who = ["-c", "user.name=Test", "-c", "user.email=test@test.example", "-c", "core.autocrlf=true", "-c", "core.safecrlf=false"]
    for command in (["init", "-q"], ["add", "--force", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run(["git", *who, *command], cwd=source, check=True, capture_output=True)
    subprocess.run(["git", *who, "clone", "-q", "-c", "core.autocrlf=true", source, clone], check=True, capture_output=True)
    assert [name for name in names if (clone / name).read_bytes() != (REPO / name).read_bytes()] == []
    run(clone, "--verify")
    run(clone, "--redraw", "--only", "why_vllm")
    pictures = [name for name in names if name.endswith(".png")]
    assert [name for name in pictures if (clone / name).read_bytes() != (REPO / name).read_bytes()] == []


def test_every_module_says_what_it_is_for():
    assert [path for path in MODULES if not ast.get_docstring(ast.parse(path.read_text("utf-8")))] == []


def test_importing_any_module_prints_nothing_creates_nothing_and_loads_no_model(tmp_path):
    names = [path.relative_to(BUILD).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__") for path in MODULES]
    script = (
        f"import sys; sys.path.insert(0, {str(BUILD)!r})\n"
        f"import importlib\nfor name in {names!r}: importlib.import_module(name)\n"
        "assert not [n for n in ('torch', 'transformers', 'litellm') if n in sys.modules], 'heavy'"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_one_place_saves_figures_and_one_place_loads_models():
    def users(pattern: str) -> set[str]:
        return {path.name for path in MODULES if re.search(pattern, path.read_text("utf-8"))}

    assert users(r"\.savefig\(") == {"canvas.py"}
    assert users(r"set_num_threads") == {"load.py"}
    assert users(r"AutoModelForCausalLM\.from_pretrained") == {"load.py", "bundled.py"}  # bundled reads its GGUF once


def test_topics_import_the_pipeline_and_never_each_other():
    for path in (BUILD / "topics").glob("*.py"):
        if path.name != "__init__.py":
            assert not re.search(r"^\s*(from|import) (\.|topics)", path.read_text("utf-8"), re.MULTILINE), path


def test_no_topic_looks_after_its_own_path():
    for path in (BUILD / "topics").glob("*.py"):
        source = path.read_text("utf-8")
        if path.name not in ("__init__.py", "pipeline.py"):
            assert "sys.path" not in source and source.endswith('if __name__ == "__main__":\n    run_topic(__file__)\n'), path


def test_no_slide_is_named_by_its_number():
    """Order gives the number: a slide put in the middle of the deck would make every typed one wrong."""
    sources = [
        name for name in tracked() if re.search(r"^(build|tests|deck/words)/.*\.(py|md)$|^deck/deck\.(js|html)|\.md$", name)
    ]
    assert len(sources) > 100
    typed = [name for name in sources if re.search(r"\b[Ss]lides? #?\d", (REPO / name).read_text("utf-8"))]
    assert typed == []
    topics = [path for path in (BUILD / "topics").glob("*.py") if re.search(r"number=\d", path.read_text("utf-8"))]
    assert topics == []


def test_no_module_is_named_after_the_standard_library_or_a_dependency():
    pins = re.findall(r"^([a-z0-9_-]+)", REQUIREMENTS.read_text("utf-8"), re.MULTILINE)
    taken = sys.stdlib_module_names | {name.replace("-", "_") for name in pins}
    assert [path for path in MODULES if path.stem in taken] == []


def test_no_two_tests_of_a_file_share_a_name():
    for path in (REPO / "tests").rglob("test_*.py"):
        names = re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
        assert len(names) == len(set(names)), path


def test_every_figure_and_capture_is_a_slides():
    ids = {slide.id for slide in ONE_CALL.slides}
    kept = {re.sub(r"^figures/(captures/)?", "", name).rpartition(".")[0] for name in tracked() if name.startswith("figures/")}
    assert kept - {"manifest"} == ids
