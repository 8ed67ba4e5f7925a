"""`sql-env warmup` and `sql-env train`: teach a model to play, first by example, then by reward."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from sql_env.training.config import GRPOConfig

Preset = Annotated[str | None, typer.Option(help="colab, cpu or gpu.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A TOML, YAML or JSON file of settings.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="field=value, over the preset and the file; repeatable."),
]
DatasetFolder = Annotated[
    Path | None, typer.Option(help="A dataset folder; default: the embedded data.")
]
Out = Annotated[Path | None, typer.Option(help="The run's folder.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command("train")(train_command)
    app.command("warmup")(warmup_command)
    app.command("trajectories")(trajectories_command)


def train_command(
    preset: Preset = None,
    config: ConfigFile = None,
    settings: Settings = None,
    dataset: DatasetFolder = None,
    out: Out = None,
    resume: Annotated[
        Path | None, typer.Option(help="A run to go on with, from its last checkpoint.")
    ] = None,
) -> None:
    """Train a model with GRPO on whole episodes.

    The run's folder keeps config.json, metrics.jsonl, transcripts.jsonl, checkpoints, plots and,
    at the end, the model.
    """
    console = command_console()
    with user_errors(console):
        from sql_env.training.run_log import ResumeError, RunLog

        if resume is None:
            run_config = _config(preset, config, settings, dataset, out)
        elif preset or config or dataset or out:
            raise ResumeError("--resume takes everything but --set from the run: leave it out")
        else:
            run_config = RunLog(resume).config(settings or (), output_dir=str(resume))
        _train(run_config, console, resuming=resume is not None)


def warmup_command(
    preset: Preset = None,
    config: ConfigFile = None,
    settings: Settings = None,
    dataset: DatasetFolder = None,
    out: Out = None,
) -> None:
    """Show a model whole episodes to imitate, before it learns from reward.

    `sql-env train --set model_name=RUN/model` goes on from there.
    """
    console = command_console()
    with user_errors(console):
        _warm_up(_config(preset, config, settings, dataset, out), console)


def trajectories_command(
    out: Annotated[Path, typer.Argument(help="The JSONL file to write.")],
    preset: Preset = None,
    config: ConfigFile = None,
    settings: Settings = None,
    dataset: DatasetFolder = None,
) -> None:
    """Write the episodes a warm-up would imitate, one JSON line each.

    To read what a model is taught, or to play them once for several runs:
    `sql-env warmup --set warmup.trajectories=FILE`.
    """
    console = command_console()
    with user_errors(console):
        from sql_env.questions import filter_questions, load_questions
        from sql_env.training.warmup import play_trajectories, save_trajectories

        run_config = _config(preset, config, settings, dataset, None)
        loaded = load_questions(run_config.dataset.questions_path)
        questions = filter_questions(loaded, split=run_config.warmup.split)
        with console.status(f"Playing {len(questions)} questions"):
            trajectories = play_trajectories(run_config, questions)
        save_trajectories(trajectories, out)
        console.print(f"{out}: {len(trajectories)} episodes of {len(questions)} questions")


def _train(config: GRPOConfig, console: Console, *, resuming: bool) -> None:
    from sql_env.training.callbacks import GRPO_NEWS, ProgressCallback
    from sql_env.training.data_loading import load_for_training, load_training_questions
    from sql_env.training.pipeline import (
        build_trainer,
        run_training_with_metrics,
        sample_random_baseline,
    )
    from sql_env.training.run_log import MODEL
    from sql_env.training.visualization import LiveVisualizationCallback

    train = load_training_questions(config)
    held_out = load_training_questions(config, config.eval_split)
    groups = config.episodes_per_round // config.num_generations
    console.print(
        f"[bold]{config.model_name}[/] on {len(train)} questions of {config.dataset.questions_path}"
        f": {groups} x {config.num_generations} episodes a round, run folder {config.output_dir}"
    )
    baseline = sample_random_baseline(config)
    console.print(
        f"random play: reward {baseline.avg_reward:.3f}, success {baseline.summary.success}"
    )
    model, tokenizer = load_for_training(config)
    progress = ProgressCallback(console, "GRPO", GRPO_NEWS)
    live = LiveVisualizationCallback(
        config, tokenizer, train, held_out, baseline=baseline.avg_reward, console=console
    )
    trainer = build_trainer(config, model, tokenizer, callbacks=[progress, live])
    try:
        points = run_training_with_metrics(trainer, config, resume=resuming)
    finally:
        progress.stop()
    model_folder = Path(config.output_dir) / MODEL
    console.print(
        f"reward {points[0].reward:.3f} at step {points[0].step}, "
        f"{points[-1].reward:.3f} at step {points[-1].step}"
    )
    console.print(f"the model: {model_folder}")
    source = f" --dataset {config.dataset.db_dir.parent}" if config.db_dir else ""
    console.print(
        f"next: sql-env eval --policy model:{model_folder}{source}"
        f" --step-budget {config.step_budget}"
    )


def _warm_up(config: GRPOConfig, console: Console) -> None:
    from sql_env.evaluation.run_folder import now
    from sql_env.training.callbacks import WARMUP_NEWS, ProgressCallback
    from sql_env.training.data_loading import load_for_training
    from sql_env.training.run_log import MODEL, RunLog
    from sql_env.training.warmup import warm_up

    log = RunLog(config.output_dir)
    started, clock = now(), time.monotonic()
    if _is_main():
        log.begin(config)
    model, tokenizer = load_for_training(config)
    progress = ProgressCallback(console, "warm-up", WARMUP_NEWS)
    try:
        rows = warm_up(config, model, tokenizer, callbacks=[progress])
    finally:
        progress.stop()
    if not _is_main():
        return
    log.add_session("warmup", started=started, seconds=round(time.monotonic() - clock, 1))
    for row in rows:
        if "loss" in row:
            log.add_metrics({"phase": "warmup", **row})
        elif "examples" in row:
            console.print(
                f"{row['stage']}: {row['examples']} episodes, {row['seconds']} s", highlight=False
            )
    folder = log.path / MODEL
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    console.print(f"the model: {folder}")
    console.print(f"next: sql-env train --set model_name={folder} …")


def _config(
    preset: str | None,
    file: Path | None,
    settings: list[str] | None,
    dataset: Path | None,
    out: Path | None,
) -> GRPOConfig:
    from sql_env.questions import Dataset
    from sql_env.training.config import GRPOConfig

    values: dict[str, Any] = {}
    if dataset is not None:
        paths = Dataset.at(dataset)
        values |= {"questions_path": str(paths.questions_path), "db_dir": str(paths.db_dir)}
    if out is not None:
        values["output_dir"] = str(out)
    return GRPOConfig.load(preset, file, settings or (), **values)


@contextmanager
def user_errors(console: Console) -> Iterator[None]:
    """What a user can cause ends the command with a message instead of a traceback."""
    try:
        _hush()
        from sql_env.evaluation.conversation import ChatTemplateError, ContextWindowError
        from sql_env.questions import QuestionLoadError
        from sql_env.training.data_loading import ModelLoadError
        from sql_env.training.pipeline import TrainingMemoryError
        from sql_env.training.run_log import ResumeError
        from sql_env.training.settings import ConfigError

        try:
            yield
        except (
            ChatTemplateError,
            ConfigError,
            ContextWindowError,
            ModelLoadError,
            QuestionLoadError,
            ResumeError,
            TrainingMemoryError,
        ) as error:
            _fail(console, str(error))
        except KeyboardInterrupt:
            console.print("interrupted: --resume RUN goes on from the last checkpoint")
            raise typer.Exit(130) from None
    except ModuleNotFoundError as error:
        _fail(
            console,
            f"training needs the training extra ({error.name} is missing): "
            "pip install 'sql_env[training]'",
        )


def _hush() -> None:
    """Nothing but our own lines and bar: the libraries' bars would be drawn through it."""
    from datasets import disable_progress_bars
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bars()
    disable_progress_bar()
    # A model that writes nonsense is told so by the environment; the share is in the metrics.
    logging.getLogger("sql_env.training.parsing").setLevel(logging.ERROR)


def _fail(console: Console, message: str) -> None:
    Console(stderr=True, quiet=console.quiet).print(
        f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True
    )
    raise typer.Exit(2) from None


def command_console() -> Console:
    """Under `accelerate launch` only the main process speaks."""
    # Paths and commands are copied from the terminal: never break them.
    return Console(quiet=not _is_main(), soft_wrap=True)


def _is_main() -> bool:
    return os.environ.get("RANK", "0") == "0"
