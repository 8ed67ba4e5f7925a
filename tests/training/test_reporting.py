"""A run's metrics in a logger of the user's choice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_for_training
from sql_env.training.pipeline import build_trainer, run_training_with_metrics
from sql_env.training.run_log import RunLog


def test_tensorboard_gets_the_metrics_of_the_run_folder(
    tiny_config: Callable[..., GRPOConfig], warm_model_dir: Path
) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = tiny_config(
        model_name=str(warm_model_dir),
        max_steps=2,
        trl={"report_to": "tensorboard"},
    )
    trainer = build_trainer(config, *load_for_training(config))
    run_training_with_metrics(trainer, config)
    written = list(Path(config.output_dir).rglob("events.out.tfevents.*"))
    assert len(written) == 1
    events = accumulator.EventAccumulator(str(written[0].parent))
    events.Reload()
    for name in ("reward", "entropy", "rewards/reward_correctness/mean"):
        seen = [(event.step, event.value) for event in events.Scalars(f"train/{name}")]
        kept = [(row["step"], row[name]) for row in RunLog(config.output_dir).metrics()]
        assert [step for step, _ in seen] == [1, 2]
        assert [value for _, value in seen] == pytest.approx([value for _, value in kept])
