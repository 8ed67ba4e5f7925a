"""A run's metrics in a logger of the user's choice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas
import pytest

from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_for_training
from sql_env.training.pipeline import build_trainer, run_training_with_metrics
from sql_env.training.run_log import RunLog


def test_tensorboard_gets_the_metrics_of_the_run_folder(
    tiny_config: Callable[..., GRPOConfig], sft_model_dir: Path
) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = tiny_config(
        model_name=str(sft_model_dir),
        max_steps=2,
        trl={"report_to": "tensorboard"},
    )
    trainer = build_trainer(config, *load_for_training(config))
    run_training_with_metrics(trainer, config)
    written = list(Path(config.output_dir).rglob("events.out.tfevents.*"))
    assert len(written) == 1
    events = accumulator.EventAccumulator(str(written[0].parent))
    events.Reload()
    names = ("reward", "entropy", "rewards/reward_correctness/mean", "turns")
    for name in (*names, "completions/clipped_ratio"):
        seen = [(event.step, event.value) for event in events.Scalars(f"train/{name}")]
        kept = [(row["step"], row[name]) for row in RunLog(config.output_dir).metrics()]
        assert [step for step, _ in seen] == [1, 2]
        assert [value for _, value in seen] == pytest.approx([value for _, value in kept])


def test_turns_that_are_cut_off_are_counted_wherever_they_stand(
    tiny_config: Callable[..., GRPOConfig], sft_model_dir: Path
) -> None:
    config = tiny_config(
        model_name=str(sft_model_dir),
        max_new_tokens=8,
        max_steps=2,
        trl={"log_completions": True},
    )
    trainer = build_trainer(config, *load_for_training(config))
    run_training_with_metrics(trainer, config)
    log = RunLog(config.output_dir)
    # A table's cells are messages of one form each: wandb refuses others.
    table = pandas.read_parquet(log.path / "completions" / "completions_00002.parquet")
    assert {frozenset(m) for cell in table["prompt"] for m in cell} == {
        frozenset({"role", "content"})
    }
    shares = []
    for row in log.metrics():
        episodes = [episode for episode in log.transcripts() if episode["step"] == row["step"]]
        assert len(episodes) == config.episodes_per_round
        turns = [step["trace"] for episode in episodes for step in episode["steps"]]
        cut = [bool(turn.get("cut_off")) for turn in turns]
        assert row["completions/clipped_ratio"] == pytest.approx(sum(cut) / len(cut))
        assert row["turns"] == len(turns) / len(episodes)
        shares.append(sum(cut) / len(cut))
    assert max(shares) > 0, "no turn was cut off"


@pytest.mark.parametrize("logger", ["wandb", "trackio", ["tensorboard", "wandb"]])
def test_a_logger_with_tables_gets_the_episodes(
    logger: str | list[str],
    tiny_config: Callable[..., GRPOConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sql_env.training.passthrough._check_logger", lambda *_: None)
    assert tiny_config(trl={"report_to": logger}).to_trl().log_completions
    assert not tiny_config(trl={"report_to": "tensorboard"}).to_trl().log_completions
