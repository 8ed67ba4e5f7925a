"""The live view of a run, in a terminal and in a notebook."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sql_env.agent.episodes import EpisodeResult
from sql_env.evaluation.statistics import wilson
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_for_training, load_training_questions
from sql_env.training.display import as_html, episode_panel, side_by_side
from sql_env.training.pipeline import (
    build_trainer,
    evaluate_model,
    run_training_with_metrics,
    sample_random_baseline,
)
from sql_env.training.plots import (
    RewardPoint,
    SuccessPoint,
    reward_figure,
    save_figure,
    success_figure,
    success_points,
    trend,
)
from sql_env.training.run_log import RunLog
from sql_env.training.visualization import LiveVisualizationCallback

MakeConfig = Callable[..., GRPOConfig]


class Recorder:
    """A display that remembers what it was shown."""

    def __init__(self) -> None:
        self.figures: list[str] = []
        self.episodes: list[tuple[str, EpisodeResult]] = []

    def figure(self, name: str, figure: Any) -> None:
        self.figures.append(name)

    def episode(self, title: str, episode: EpisodeResult) -> None:
        self.episodes.append((title, episode))


def test_everything_comes_when_it_should(tiny_config: MakeConfig, sft_model_dir: Path) -> None:
    config = tiny_config(
        model_name=str(sft_model_dir),
        max_steps=4,
        evaluate_every=2,
        evaluate_episodes=3,
    )
    model, tokenizer = load_for_training(config)
    shown = Recorder()
    live = LiveVisualizationCallback(
        config,
        tokenizer,
        load_training_questions(config),
        load_training_questions(config, "eval"),
        baseline=0.1,
        display=shown,
    )
    points = run_training_with_metrics(
        build_trainer(config, model, tokenizer, callbacks=[live]), config
    )
    # Before the first step and every second; the reward at the end of a run so short.
    assert shown.figures == ["success", "success", "success", "reward"]
    assert [title.split(",")[0] for title, _ in shown.episodes] == ["step 2", "step 4"]
    first, second = (episode for _, episode in shown.episodes)
    assert first.question_id != second.question_id
    assert first.question_id.startswith("eval_")
    assert live.rewards == points
    assert [(point.step, point.train.n, point.eval.n) for point in live.success] == [
        (0, 3, 3),
        (2, 3, 3),
        (4, 3, 3),
    ]
    log = RunLog(config.output_dir)
    assert success_points(log.success()) == live.success, "kept for later pictures"
    assert len(log.sessions()) == 1
    assert all(row["seconds/run"] >= row["step_time"] > 0 for row in log.metrics())
    for name in ("reward", "success"):
        picture = Path(config.output_dir) / "plots" / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_watching_does_not_change_the_training(
    tiny_config: MakeConfig, sft_model_dir: Path, tmp_path: Path
) -> None:
    rewards = []
    for name in ("watched", "alone"):
        config = tiny_config(
            model_name=str(sft_model_dir),
            output_dir=str(tmp_path / name),
            max_steps=3,
            evaluate_every=1,
        )
        model, tokenizer = load_for_training(config)
        questions = load_training_questions(config)
        live = LiveVisualizationCallback(
            config, tokenizer, questions, questions, display=Recorder()
        )
        callbacks = [live] if name == "watched" else []
        trainer = build_trainer(config, model, tokenizer, callbacks=callbacks)
        rewards.append(run_training_with_metrics(trainer, config))
    assert rewards[0] == rewards[1]


def test_an_episode_shows_question_actions_and_title_in_80_columns(tiny_config: MakeConfig) -> None:
    episode = sample_random_baseline(tiny_config(seed=3)).episodes[0]
    console = Console(file=io.StringIO(), width=80)
    console.print(episode_panel("step 50", episode))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "step 50" in text
    assert episode.question in text
    for step in episode.steps:
        assert f"{step.action_type}: {step.argument}"[:60] in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_was_learned_comes_first(tiny_config: MakeConfig, sft_model_dir: Path) -> None:
    import dataclasses

    config = tiny_config(model_name=str(sft_model_dir))
    model, tokenizer = load_for_training(config)
    questions = load_training_questions(config, "eval")
    before = evaluate_model(config, model, tokenizer, questions).episodes
    before = tuple(dataclasses.replace(item, correct=False) for item in before)
    after = (*before[:-1], dataclasses.replace(before[-1], correct=True))
    html = as_html(side_by_side(before, after, count=1))
    assert before[-1].question.split("?")[0].split()[-1] in html
    assert "before" in html
    assert "after" in html
    assert "right" in html


def test_the_trend_follows_and_smooths() -> None:
    assert trend([]) == []
    assert trend([1.0, 3.0]) == [1.0, 2.0]
    noisy = [float(value % 2) for value in range(100)]
    assert max(trend(noisy)[50:]) - min(trend(noisy)[50:]) < 0.3


@pytest.mark.parametrize("points", [1, 2, 50])
def test_pictures_can_be_drawn_from_the_first_point_on(points: int, tmp_path: Path) -> None:
    rewards = [RewardPoint(step, step / 10) for step in range(points)]
    success = [SuccessPoint(step, wilson(1, 3), wilson(0, 3)) for step in range(points)]
    for name, figure in (("r", reward_figure(rewards, 0.2)), ("s", success_figure(success))):
        path = save_figure(figure, tmp_path / "plots" / f"{name}.png")
        assert path.stat().st_size > 5_000
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["r.png", "s.png"]
