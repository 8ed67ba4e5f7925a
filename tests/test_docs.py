"""The documentation builds without a warning, its examples run, what it lists is what there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from fenced_blocks import blocks_of, commands_of

CHECKOUT = Path(__file__).resolve().parent.parent
DOCS = CHECKOUT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
WORDS_IN_TEN_MINUTES = 2_000
PROSE = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", CHECKOUT / "CHANGELOG.md", *PAGES]
# What belongs to the workshop, not to the house.
OUT_OF_PLACE = re.compile(r"/(?:root|home/\w+)/|\bissue #?\d|TODO|FIXME|XXX|\b[A-Z]{3,4}[12R] \|")


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=CHECKOUT,
        # The theme announces its successor in words that look like a warning of ours.
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    for page in PAGES:
        name = "" if page.stem == "index" else page.stem
        assert (tmp_path / "site" / name / "index.html").is_file(), f"{page.name} is not built"
    results = (tmp_path / "site" / "results" / "index.html").read_text(encoding="utf-8")
    intervals = re.findall(r"\{[-+\d., ]+\}", (DOCS / "results.md").read_text(encoding="utf-8"))
    assert len(intervals) > 10
    for interval in intervals:  # an extension of Markdown would take them for attributes
        assert interval in results


def test_every_page_is_in_the_navigation() -> None:
    navigation = (CHECKOUT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1]
    for page in PAGES:
        assert re.search(rf"[ :]{re.escape(page.name)}$", navigation, re.MULTILINE), page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_takes_less_than_ten_minutes(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.name == "cli.md":  # a reference is looked up, not read
        text = text.split("\n## ")[0]
    # Tables of numbers and folded-away settings are looked up too.
    read = [line for line in text.splitlines() if not line.startswith(("| ", "<"))]
    assert len(" ".join(read).split()) <= WORDS_IN_TEN_MINUTES


def test_the_command_line_reference_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/write_cli_reference.py", "--check"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def _commands() -> list[tuple[str, str]]:
    """Every `sql-env …` in a console or bash block of the documentation, with its page."""
    found = []
    for page in [*PAGES, CHECKOUT / "CONTRIBUTING.md", CHECKOUT / "data" / "README.md"]:
        for block in blocks_of(page):
            if block.language == "console":
                lines = [command.line for command in commands_of(block)]
            elif block.language in ("bash", "sh"):
                lines = block.text.replace("\\\n", " ").splitlines()
            else:
                continue
            found += [
                (page.name, line.split(" #")[0]) for line in lines if line.startswith("sql-env ")
            ]
    return found


def test_commands_in_the_pages_have_the_options_they_name() -> None:
    """The pages' commands are not all run here, but none may name what does not exist."""
    help_of = _help_by_command()
    checked = 0
    for page, line in _commands():
        words = line.split()[1:]
        starts = [" ".join(words[:count]) for count in (3, 2, 1)]
        name = next((start for start in starts if start in help_of), None)
        assert name, f"{page}: there is no command in {line!r}"
        for option in re.findall(r"(?<=\s)--?[a-z][\w-]*", line):
            assert re.search(rf"[\s`]{option}\b", help_of[name]), f"{page}: {option} in {line!r}"
            checked += 1
    assert checked > 30


def _help_by_command() -> dict[str, str]:
    sections = re.split(r"^## ", (DOCS / "cli.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        section.split("\n")[0].removeprefix("sql-env ").strip(): section for section in sections[1:]
    }


def test_every_dependency_has_a_reason() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    required = [*project["dependencies"], *(item for extra in extras for item in extra)]
    page = (DOCS / "architecture.md").read_text(encoding="utf-8").split("## Every dependency")[1]
    for requirement in required:
        name = re.match(r"[\w-]+", requirement)
        assert name and re.search(rf"\b{re.escape(name[0])}\b", page, re.IGNORECASE), requirement


def test_the_rooms_of_the_architecture_page_are_those_of_the_import_rule() -> None:
    contracts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    layers = [layer.replace("sql_env.", "") for layer in contracts[0]["layers"]]
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    drawn = re.search(r"```text\n(cli →.*?)```", text, re.DOTALL)
    assert drawn is not None
    assert [room.strip() for room in drawn[1].split("→")] == layers


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.name)
def test_no_page_speaks_of_the_workshop(page: Path) -> None:
    assert not OUT_OF_PLACE.findall(page.read_text(encoding="utf-8"))


def test_make_help_names_every_target_that_people_use() -> None:
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    described = set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))
    steps = set(re.findall(r"^test: (.*?)  ##", makefile, re.MULTILINE)[0].split())
    assert set(phony.split()) == described | steps


def test_shell_completion_knows_the_commands() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "sql-env"],
        env={"_SQL_ENV_COMPLETE": "complete_bash", "COMP_WORDS": "sql-env da", "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["data"]


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.name)
def test_the_paths_that_a_page_names_exist(page: Path) -> None:
    # Inspect's tasks are named as if they were files.
    text = re.sub(r"inspect\s+eval\s+\S+", "", page.read_text(encoding="utf-8"))
    rooms = r"(?:sql_env|tests|docs|benchmarks|scripts|notebooks|tools)"
    for path in re.findall(rf"(?<![\w/.]){rooms}/[\w/.-]*\w", text):
        assert (CHECKOUT / path).exists(), f"{page.name}: there is no {path}"
    for name in re.findall(r"`((?:sql_env|agent|core|training|server)(?:\.[a-z_]+)+)`", text):
        parts = (name if name.startswith("sql_env.") else f"sql_env.{name}").split(".")
        folders = [CHECKOUT.joinpath(*parts[:count]) for count in (len(parts), len(parts) - 1)]
        assert any(f.is_dir() or f.with_suffix(".py").is_file() for f in folders), (
            f"{page.name}: there is no {name}"
        )
