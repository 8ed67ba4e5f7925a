"""What the in-process environment and the command line's help import, and what they must not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"openenv", "gradio", "fastapi", "torch", "transformers", "trl", "datasets", "pandas"}


def imported_by(program: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after `program`."""
    program += (
        "\nimport json, sys; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_environment_imports_nothing_heavy() -> None:
    assert not imported_by("import sql_env; sql_env.SQLEnvironment") & HEAVY


def test_playing_an_episode_imports_nothing_heavy() -> None:
    program = """
from sql_env import SQLAction, SQLEnvironment
with SQLEnvironment() as environment:
    observation = environment.reset(seed=1)
    environment.step(SQLAction(action_type="DESCRIBE", argument=observation.table_names[0]))
    environment.step(SQLAction(action_type="ANSWER", argument="1"))
"""
    assert not imported_by(program) & HEAVY


def test_help_imports_nothing_heavy() -> None:
    program = """
import sys
from sql_env.cli import app
sys.argv = ["sql-env", "--help"]
try:
    app()
except SystemExit as end:
    assert end.code == 0
"""
    assert not imported_by(program) & HEAVY


@pytest.mark.parametrize(
    "module", ["database", "sandbox", "schema", "verifier", "reward", "render"]
)
def test_core_needs_the_standard_library_and_apsw_only(module: str) -> None:
    before = imported_by("")
    loaded = imported_by(
        # The package's own __init__ imports models; core alone must not need them.
        "import sys, types, pathlib, importlib.util as u\n"
        "root = pathlib.Path(u.find_spec('sql_env').origin).parent\n"
        "package = types.ModuleType('sql_env'); package.__path__ = [str(root)]\n"
        f"sys.modules['sql_env'] = package\nimport sql_env.core.{module}"
    )
    assert loaded - before <= sys.stdlib_module_names | {"sql_env", "apsw"}
