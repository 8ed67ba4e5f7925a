"""Watch a model learn: the reward curve, an episode of the current model, success on both splits.

In a notebook the pictures are redrawn in place; in a terminal the episodes are printed and the
pictures written as PNG files into the run folder, where they are also kept by a notebook.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from transformers import TrainerCallback

from sql_env.models import QuestionRecord
from sql_env.training.config import GRPOConfig, is_sharded
from sql_env.training.display import Display, NotebookDisplay, TerminalDisplay, in_notebook
from sql_env.training.pipeline import evaluate_model, reward_points
from sql_env.training.plots import (
    RewardPoint,
    SuccessPoint,
    reward_figure,
    save_figure,
    success_figure,
    success_points,
)
from sql_env.training.run_log import PLOTS, RunLog

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

PLOT_EVERY = 10  # steps


class LiveVisualizationCallback(TrainerCallback):  # type: ignore[misc]  # transformers is untyped
    """Plots the reward, shows what the model does now, and compares both splits.

    `config` says how often the splits are compared: `evaluate_every`, with the same
    `evaluate_episodes` questions of each (also before the first step).

    Args:
        config: the run's configuration.
        tokenizer: of the model that is trained.
        train_questions: the split to train on; eval_questions the one to watch.
        baseline: the mean reward of random play, drawn into the reward plot.
        display: where to show things; default: the notebook this runs in, else the terminal.
        console: for the terminal; the one that also shows a progress bar.

    Attributes:
        rewards: the points of the reward plot so far.
        success: those of the success plot.
    """

    def __init__(
        self,
        config: GRPOConfig,
        tokenizer: Any,
        train_questions: Sequence[QuestionRecord],
        eval_questions: Sequence[QuestionRecord],
        *,
        baseline: float | None = None,
        display: Display | None = None,
        console: Console | None = None,
    ) -> None:
        self._config = config
        self._tokenizer = tokenizer
        count = config.evaluate_episodes
        self._questions = {
            "train": evenly(train_questions, count),
            "eval": evenly(eval_questions, count),
        }
        self._baseline = baseline
        self._log = RunLog(config.output_dir)
        self._folder = self._log.path / PLOTS
        self._display = display or (
            NotebookDisplay()
            if in_notebook()
            else TerminalDisplay(console or Console(), self._folder)
        )
        self._plotted_at = 0
        self.rewards: list[RewardPoint] = []
        self.success: list[SuccessPoint] = []

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **_: Any,
    ) -> None:
        # A run that is resumed brings the rewards of the steps it has behind it.
        self.rewards = reward_points(state.log_history)
        if state.is_world_process_zero or is_sharded():
            self.success = success_points(self._log.success())
            if not self.success:
                self._compare_splits(state, model)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        if not state.is_world_process_zero or not logs or "reward" not in logs:
            return
        self.rewards.append(RewardPoint(state.global_step, logs["reward"]))
        if state.global_step - self._plotted_at >= PLOT_EVERY:
            self._plot_rewards()

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **_: Any,
    ) -> None:
        # Weights that are cut up are used by all ranks at once: each plays the same, one tells.
        plays = state.is_world_process_zero or is_sharded()
        if plays and state.global_step % self._config.evaluate_every == 0:
            self._compare_splits(state, model)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if state.is_world_process_zero and self.rewards:
            self._plot_rewards()

    def _plot_rewards(self) -> None:
        self._plotted_at = self.rewards[-1].step
        self._show("reward", reward_figure(self.rewards, self._baseline))

    def _compare_splits(self, state: TrainerState, model: Any) -> None:
        step = state.global_step
        played = {
            split: evaluate_model(self._config, model, self._tokenizer, questions)
            for split, questions in self._questions.items()
        }
        rates = {split: result.summary.success for split, result in played.items()}
        looks = len(self.success)
        self.success.append(SuccessPoint(step, **rates))
        if not state.is_world_process_zero:
            return
        kept = {split: rate._asdict() for split, rate in rates.items()}
        self._log.add_success({"step": step, **kept})
        self._show("success", success_figure(self.success))
        if step:
            episodes = played["eval"].episodes
            episode = episodes[looks % len(episodes)]
            self._display.episode(f"step {step}, a question of the eval split", episode)

    def _show(self, name: str, figure: Any) -> None:
        save_figure(figure, self._folder / f"{name}.png")
        self._display.figure(name, figure)


def evenly(questions: Sequence[QuestionRecord], count: int) -> list[QuestionRecord]:
    """At most `count` questions, from every part of the list."""
    count = min(count, len(questions))
    return [questions[i * len(questions) // count] for i in range(count)]
