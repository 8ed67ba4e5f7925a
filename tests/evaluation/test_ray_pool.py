"""Episodes and datasets on a Ray cluster of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sql_env.agent.choice import ModelOptions, build_policy
from sql_env.cli import app
from sql_env.environment import SQLEnvironment
from sql_env.evaluation.green_agent import evaluate
from sql_env.evaluation.ray_pool import ClusterError, Job, connect, play_on_ray
from sql_env.evaluation.validation import validate, validate_on_ray
from sql_env.questions import Dataset

ray = pytest.importorskip("ray", reason="needs the ray extra")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Two workers; whatever is played in this module plays there."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def digest(folder: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def timeless(line: str) -> dict[str, Any]:
    """An episode without its times, which are never the same."""
    return {k: v for k, v in json.loads(line).items() if not k.endswith("_seconds")}


def test_the_same_episodes_with_any_number_of_workers(music: SQLEnvironment) -> None:
    options = ModelOptions()
    here = evaluate(music, build_policy("random", music.questions, options), samples=7)
    expected = [timeless(episode.to_json()) for episode in here.episodes]
    make_policy = partial(build_policy, "random", music.questions, options)
    for workers in (1, 2):
        there = evaluate(
            music,
            None,
            samples=7,
            play_elsewhere=partial(
                play_on_ray, Job(music.another(), make_policy, 0), workers=workers
            ),
        )
        assert [timeless(episode.to_json()) for episode in there.episodes] == expected


KILLING = """
import os, signal, sys
from pathlib import Path
from sql_env.agent.policies import ConstantPolicy
from sql_env.environment import SQLEnvironment
from sql_env.evaluation.green_agent import plan_episodes
from sql_env.evaluation.ray_pool import Job, connect, play_on_ray

data, marker = map(Path, sys.argv[1:])

def make_policy():
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return ConstantPolicy("4")

connect("ray")
with SQLEnvironment(data / "questions", data / "databases") as env:
    plan = plan_episodes(env.questions, None, seed=0, samples=4)
    played = list(play_on_ray(Job(env.another(), make_policy, 0), plan))
assert sorted(e.key for e in played) == sorted(item.key for item in plan)
print(len(played), sum(bool(e.error) for e in played))
"""


def test_a_killed_worker_is_replaced_without_a_word(music_dir: Path, tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, "-c", KILLING, music_dir, marker], capture_output=True, text=True
    )
    assert marker.exists(), done.stderr
    assert done.stdout == "16 0\n", done.stdout + done.stderr


def test_generated_data_has_the_same_bytes(tmp_path: Path) -> None:
    command = ["data", "generate", "--databases", "3", "--questions", "60", "--out"]
    assert CliRunner().invoke(app, [*command, str(tmp_path / "here")]).exit_code == 0
    for workers in (1, 2):
        there = tmp_path / f"there-{workers}"
        on = [str(there), "--on", "ray", "--workers", str(workers)]
        assert CliRunner().invoke(app, [*command, *on]).exit_code == 0
        assert digest(there) == digest(tmp_path / "here")


def test_the_same_findings_in_the_same_order(music_dir: Path) -> None:
    good = Dataset.at(music_dir).load()
    records = [*good, *(record.model_copy(update={"gold_answer": "no"}) for record in good)] * 60
    here = list(validate(records, music_dir / "databases"))
    assert len({finding.failed for finding in here}) == 2
    for workers in (1, 2):
        assert list(validate_on_ray(records, music_dir / "databases", workers)) == here


def test_the_command_plays_there_and_goes_on_there(music_dir: Path, tmp_path: Path) -> None:
    data = ["--dataset", str(music_dir), "--split", "train", "--out", str(tmp_path)]
    command = ["eval", "--policy", "oracle", "--on", "ray", "--name", "all", *data, "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    (summary,) = json.loads(done.stdout)
    assert summary["success"]["rate"] == 1.0
    file = tmp_path / "all" / "episodes.jsonl"
    whole = file.read_text().splitlines()
    file.write_text(whole[0] + "\n")
    resumed = ["eval", "--resume", str(tmp_path / "all"), "--on", "ray", "--json"]
    assert CliRunner().invoke(app, resumed).exit_code == 0
    again = file.read_text().splitlines()
    assert list(map(timeless, again)) == list(map(timeless, whole))


def test_what_a_worker_cannot_make_is_told_in_one_line(music_dir: Path, tmp_path: Path) -> None:
    data = ["--dataset", str(music_dir), "--split", "train", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, ["eval", "--policy", "model:/nowhere", "--on", "ray", *data])
    assert done.exit_code == 2
    assert "there is no such folder" in " ".join(done.stderr.split())
    assert "Traceback" not in done.output


def test_an_address_where_nothing_answers_is_told_at_once() -> None:
    ray.shutdown()
    with pytest.raises(ClusterError, match=r"no Ray cluster answers at ray://127.0.0.1:9 .*start"):
        connect("ray://127.0.0.1:9")


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match=r"needs the ray extra: pip install '.\[ray\]'"):
        connect("ray")
