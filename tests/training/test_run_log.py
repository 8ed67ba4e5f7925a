"""The folder of a training run: what is written, what survives a kill."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sql_env.training.config import GRPOConfig
from sql_env.training.run_log import COMPLETE, METRICS, ResumeError, RunLog, checkpoint_step
from sql_env.training.settings import ConfigError

MakeConfig = Callable[..., GRPOConfig]


def checkpoint(log: RunLog, step: int, *, whole: bool) -> Path:
    folder = log.path / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()
    if whole:
        (folder / COMPLETE).touch()
    return folder


def test_a_run_remembers_its_configuration(tmp_path: Path, tiny_config: MakeConfig) -> None:
    config = tiny_config(seed=7)
    RunLog(tmp_path / "run").begin(config)
    assert RunLog(tmp_path / "run").config() == config


def test_settings_may_be_changed_on_the_way(tmp_path: Path, tiny_config: MakeConfig) -> None:
    log = RunLog(tmp_path / "run")
    log.begin(tiny_config())
    config = log.config(["max_steps=9"], output_dir="elsewhere")
    assert (config.max_steps, config.output_dir) == (9, "elsewhere")


def test_a_second_run_does_not_overwrite_the_first(tmp_path: Path, tiny_config: MakeConfig) -> None:
    log = RunLog(tmp_path)
    log.begin(tiny_config())
    log.add_metrics({"step": 1})
    with pytest.raises(ConfigError, match=f"output_dir is '{tmp_path}'.*--resume"):
        log.begin(tiny_config())


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResumeError, match=str(tmp_path)):
        RunLog(tmp_path).config()


def test_a_session_says_where_and_with_what_it_ran(tmp_path: Path) -> None:
    import torch  # noqa: F401  # versions are told of what is loaded

    log = RunLog(tmp_path)
    log.add_session("sft", seconds=1.5)
    log.add_session("grpo", step=3)
    first, second = log.sessions()
    assert (first["phase"], first["seconds"], second["step"]) == ("sft", 1.5, 3)
    assert {"python", "sqlite", "torch"} <= set(first["versions"])
    assert first["started"] and first["machine"]


def test_a_row_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.add_metrics({"step": 1, "reward": 0.5})
    with (tmp_path / METRICS).open("a") as file:
        file.write('{"step": 2, "rew')
    assert log.metrics() == [{"step": 1, "reward": 0.5}]


def test_a_checkpoint_counts_only_when_it_is_whole(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    assert log.last_checkpoint() is None
    checkpoint(log, 8, whole=True)
    expected = checkpoint(log, 10, whole=True)
    checkpoint(log, 12, whole=False)
    assert log.last_checkpoint() == expected


def test_steps_that_will_be_taken_again_are_forgotten(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    for step in (1, 2, 3):
        log.add_metrics({"step": step})
        log.add_success({"step": step})
        log.add_transcripts([{"step": step, "n": 0}, {"step": step, "n": 1}])
    log.forget_after(2)
    assert [row["step"] for row in log.metrics()] == [1, 2]
    assert [row["step"] for row in log.success()] == [1, 2]
    assert [row["step"] for row in log.transcripts()] == [1, 1, 2, 2]


def test_the_stages_of_sft_are_forgotten_one_by_one(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    steps = [("demonstrations", 1), ("demonstrations", 2), ("dagger", 1), ("dagger", 2)]
    for stage, step in steps:
        log.add_metrics({"stage": stage, "step": step})
    log.forget_after(1, "dagger")
    assert [(row["stage"], row["step"]) for row in log.metrics()] == steps[:3]


def test_the_step_of_something_else_is_refused() -> None:
    with pytest.raises(ResumeError, match="checkpoint-<step>"):
        checkpoint_step(Path("runs/model"))
