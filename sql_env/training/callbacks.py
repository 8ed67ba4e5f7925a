"""What a trainer tells the run folder and the terminal while it works."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from sql_env.training.run_log import COMPLETE, RunLog

TRANSCRIPTS_PER_ROUND = 8

if TYPE_CHECKING:
    from rich.console import Console
    from transformers import TrainerControl, TrainerState, TrainingArguments

    from sql_env.agent.prompts import Prompt
    from sql_env.training.rollout import Rollout, TRLRollout


class WholeCheckpoints(TrainerCallback):  # type: ignore[misc]  # transformers is untyped
    """Marks checkpoints that are whole, and says how their model is spoken to.

    Args:
        prompt: what the model is trained with.
    """

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        state.compute_steps(args, state.max_steps)  # a checkpoint brings those it was saved with

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        from accelerate import PartialState

        PartialState().wait_for_everyone()  # each rank writes a file of its own
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            self._prompt.save(folder)
            (folder / COMPLETE).touch()


class SFTLogCallback(TrainerCallback):  # type: ignore[misc]
    """Writes the metrics of SFT as they come; a stage is named after its folder.

    Args:
        log: the run's folder.
    """

    def __init__(self, log: RunLog) -> None:
        self.log = log
        self._logged_at = time.monotonic()  # playing its demonstrations is time of a stage

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if state.is_world_process_zero:
            self.log.forget_after(state.global_step, Path(args.output_dir).name)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        if not state.is_world_process_zero or not logs or "loss" not in logs:
            return
        logged_before, self._logged_at = self._logged_at, time.monotonic()
        row = {"phase": "sft", "stage": Path(args.output_dir).name, "step": state.global_step}
        seconds = {"seconds/run": round(self._logged_at - logged_before, 4)}
        self.log.add_metrics(row | logs | seconds)


class RunLogCallback(WholeCheckpoints):
    """Writes metrics and transcripts as they come, and marks checkpoints that are whole.

    Args:
        log: the run's folder.
        prompt: what the model is trained with.
    """

    def __init__(self, log: RunLog, prompt: Prompt) -> None:
        super().__init__(prompt)
        self.log = log
        self.rollout: TRLRollout | None = None  # set where the run plays through one
        self._seconds_before: dict[str, float] = {}
        self._logged_at = time.monotonic()
        self._step = 0
        self._process = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        super().on_train_begin(args, state, control)
        self._logged_at = time.monotonic()
        if state.is_world_process_zero:
            self.log.add_session("grpo", step=state.global_step)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._step, self._process = state.global_step + 1, args.process_index

    def add_transcripts(self, rollouts: Sequence[Rollout]) -> None:
        """Called by the rollout adapter after every round."""
        rows = [
            {"step": self._step, **json.loads(rollout.episode.to_json())}
            for rollout in rollouts[:TRANSCRIPTS_PER_ROUND]
        ]
        self.log.add_transcripts(rows, self._process)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        if state.is_world_process_zero and logs and "reward" in logs:  # the last log has none
            known = {k: v for k, v in logs.items() if k != "epoch"}  # of a list made for the run
            row = {"phase": "grpo", "step": state.global_step, **known}
            self.log.add_metrics(row | self._seconds_since())

    def _seconds_since(self) -> dict[str, float]:
        """Where the time went since the last log; `seconds/run` is all of it, watching included."""
        logged_before, self._logged_at = self._logged_at, time.monotonic()
        seconds = {"seconds/run": round(self._logged_at - logged_before, 4)}
        if self.rollout is None:
            return seconds
        now = dict(self.rollout.seconds)
        passed = {k: round(v - self._seconds_before.get(k, 0.0), 4) for k, v in now.items()}
        self._seconds_before = now
        return seconds | {f"seconds/{name}": value for name, value in passed.items()}


class ProgressCallback(TrainerCallback):  # type: ignore[misc]
    """A progress bar with the newest metrics behind it; elsewhere, a line for every log.

    Args:
        shown: names of metrics, and how the bar calls them.
    """

    def __init__(self, console: Console, what: str, shown: dict[str, str]) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._console = console
        self._what = what
        self._shown = shown
        self._watched = console.is_terminal  # a notebook's kernel prints the bar into itself
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("{task.fields[news]}"),
            console=console,
            disable=not self._watched,
        )
        self._task = self._progress.add_task(what, total=None, news="")

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if state.is_world_process_zero:
            self._progress.update(self._task, total=state.max_steps, completed=state.global_step)
            self._progress.start()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._progress.update(self._task, completed=state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        shown = self._shown.items()
        known = {k: v for k, v in (logs or {}).items() if k in self._shown and v is not None}
        if known:
            news = "  ".join(f"{name} {float(known[k]):.3g}" for k, name in shown if k in known)
            self._progress.update(self._task, news=news)
            if not self._watched and state.is_world_process_zero:
                self._console.print(
                    f"{self._what} {state.global_step}/{state.max_steps}  {news}", highlight=False
                )

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave the terminal in order, whatever ended the run."""
        self._progress.stop()


GRPO_NEWS = {
    "reward": "reward",
    "rewards/reward_correctness/mean": "success",
    "step_time": "s/step",
}
SFT_NEWS = {"loss": "loss", "mean_token_accuracy": "accuracy"}
