"""Episodes played through verifiers itself, in a virtual environment of its own.

It needs mcp 2, and OpenEnv's server mcp 1, so the two are never installed side by side.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def bin_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the project and its `verifiers` extra."""
    folder = tmp_path_factory.mktemp("verifiers") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [folder / "bin" / "pip", "install", "-q", f"{CHECKOUT}[verifiers]"]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"packages cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    return folder / "bin"


def vf_eval(
    bin_dir: Path, out: Path, server: str, *options: str
) -> subprocess.CompletedProcess[str]:
    command = [bin_dir / "vf-eval", "sql-env-v1", "-m", "caller", "--no-push", "--no-rich"]
    runtime = ["--env.player.runtime.type", "subprocess", "--env.player.harness.id", "null"]
    client = ["--client.base-url", f"{server}/v1", "--client.api-key-var", "OPENAI_API_KEY"]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PATH": f"{bin_dir}{os.pathsep}{os.environ['PATH']}",
        "OPENAI_API_KEY": "none",
    }
    return subprocess.run(
        [*command, *runtime, *client, "-o", out, *options],
        cwd=out.parent,
        env=environment,
        capture_output=True,
        text=True,
    )


def traces(out: Path) -> dict[str, Any]:
    """The trace of every question."""
    (file,) = out.glob("*/traces.jsonl")
    episodes = [json.loads(line) for line in file.read_text().splitlines()]
    found = [trace for episode in episodes for trace in episode["traces"]]
    return {trace["task"]["data"]["id"]: trace for trace in found}


def test_episodes_are_played_and_judged_by_the_environment(
    bin_dir: Path, music_dir: Path, chat_server: str, tmp_path: Path
) -> None:
    done = vf_eval(
        bin_dir,
        tmp_path / "out",
        chat_server,
        *("--env.taskset.dataset", str(music_dir), "--env.taskset.split", "train"),
    )
    assert done.returncode == 0, done.stderr
    page = (CHECKOUT / "docs" / "integrations.md").read_text(encoding="utf-8")
    (shown,) = [line.strip("`.") for line in page.splitlines() if "rollout done" in line]
    assert all(part in done.stderr for part in shown.split("…")), "the page shows what is printed"
    played = traces(tmp_path / "out")
    assert set(played) == {"music_count", "music_french", "music_join"}
    assert {name: trace["rewards"]["correct"]["score"] for name, trace in played.items()} == {
        "music_count": 1.0,  # what the model counts is what only one of them asks for
        "music_french": 0.0,
        "music_join": 0.0,
    }
    count = played["music_count"]
    assert count["stop_condition"] == "episode_is_over"
    assert count["metrics"]["steps"] == 3
    assert (count["metrics"]["answered"], count["metrics"]["terminal"]) == (1, 1)
    assert played["music_join"]["metrics"]["difficulty"] == 3

    (file,) = (tmp_path / "out").glob("*/traces.jsonl")
    questions = json.loads((music_dir / "questions" / "questions_train.json").read_text())
    golds = {q["question_id"]: q["gold_sql"] for q in questions}
    for name in ("music_french", "music_join"):
        assert json.dumps(golds[name]).strip('"') not in file.read_text()


def test_the_budget_ends_an_episode(
    bin_dir: Path, music_dir: Path, chat_server: str, tmp_path: Path
) -> None:
    options = ("--env.taskset.dataset", str(music_dir), "--env.taskset.split", "train")
    vf_eval(
        bin_dir,
        tmp_path / "out",
        chat_server,
        *options,
        "--env.taskset.step-budget",
        "2",
        "-n",
        "1",
    )
    (trace,) = traces(tmp_path / "out").values()
    assert trace["stop_condition"] == "episode_is_over"
    assert (trace["metrics"]["steps"], trace["metrics"]["answered"]) == (2, 0)
    assert trace["rewards"]["correct"]["score"] == 0


def test_an_unknown_split_is_explained(bin_dir: Path, chat_server: str, tmp_path: Path) -> None:
    done = vf_eval(bin_dir, tmp_path / "out", chat_server, "--env.taskset.split", "nope")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "there is no split 'nope'" in " ".join(f"{done.stdout} {done.stderr}".split())
