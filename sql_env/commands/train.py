"""`sql-env sft` and `sql-env train`: teach a model to play, first by example, then by reward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from sql_env.commands.errors import needs_extra
from sql_env.commands.training_run import run_sft, run_train

if TYPE_CHECKING:
    from sql_env.training.config import GRPOConfig

Preset = Annotated[
    str | None, typer.Option(help="colab, cpu, gpu or qwen; without one, Qwen3-1.7B.")
]
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
Resume = Annotated[Path | None, typer.Option(help="A run to go on with, from its last checkpoint.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command("train")(train_command)
    app.command("sft")(sft_command)
    app.command("demonstrations")(demonstrations_command)


def train_command(
    preset: Preset = None,
    config: ConfigFile = None,
    settings: Settings = None,
    dataset: DatasetFolder = None,
    out: Out = None,
    resume: Resume = None,
) -> None:
    """Train a model with GRPO on whole episodes.

    With `sft.first` (the presets gpu and qwen set it) SFT comes before, in RUN/sft. The run's
    folder keeps config.json, metrics.jsonl, transcripts.jsonl, checkpoints, plots and, at the end,
    the model.
    """
    console = command_console()
    with training(console):
        from sql_env.training.run_log import CONFIG, SFT, ResumeError

        if resume is None:
            run_config = _config(preset, config, settings, dataset, out)
        else:
            run_config = _resumed(resume, settings, (preset, config, dataset, out))
            if _phases(resume) == {"sft"}:
                part = resume.name == SFT and (resume.parent / CONFIG).is_file()
                whole = f"train --resume {resume.parent}" if part else f"sft --resume {resume}"
                raise ResumeError(f"{resume} is an SFT run: `sql-env {whole}` goes on with it")
        run_train(run_config, console, resuming=resume is not None)


def sft_command(
    preset: Preset = None,
    config: ConfigFile = None,
    settings: Settings = None,
    dataset: DatasetFolder = None,
    out: Out = None,
    resume: Resume = None,
) -> None:
    """Fine-tune a model on demonstrations (SFT), before it learns from reward.

    `sql-env train --set model_name=RUN/model` goes on from there.
    """
    console = command_console()
    with training(console):
        from sql_env.training.run_log import ResumeError

        if resume is None:
            run_config = _config(preset, config, settings, dataset, out)
        else:
            run_config = _resumed(resume, settings, (preset, config, dataset, out))
            if run_config.sft.first or "grpo" in _phases(resume):
                raise ResumeError(
                    f"{resume} is a GRPO run: `sql-env train --resume {resume}` goes on with it"
                )
        folder = run_sft(run_config, console, resuming=resume is not None)
        console.print(f"the model: {folder}")
        console.print(f"next: sql-env train --set model_name={folder} --set sft.first=false …")


def demonstrations_command(
    out: Annotated[Path, typer.Argument(help="The JSONL file to write.")],
    preset: Preset = None,
    config: ConfigFile = None,
    settings: Settings = None,
    dataset: DatasetFolder = None,
) -> None:
    """Write the demonstrations that SFT would show, one JSON line each.

    To read what a model is taught, or to play them once for several runs:
    `sql-env sft --set sft.demonstrations=FILE`.
    """
    console = command_console()
    with training(console):
        from sql_env.training.data_loading import load_splits
        from sql_env.training.sft import play_demonstrations, save_demonstrations

        run_config = _config(preset, config, settings, dataset, None)
        questions = load_splits(run_config, run_config.sft.split)
        with console.status(f"Playing {len(questions)} questions"):
            demonstrations = play_demonstrations(run_config, questions)
        save_demonstrations(demonstrations, out)
        console.print(f"{out}: {len(demonstrations)} episodes of {len(questions)} questions")


def _resumed(run: Path, settings: list[str] | None, others: Sequence[object]) -> GRPOConfig:
    """The configuration of a run to go on with."""
    from sql_env.training.run_log import ResumeError, RunLog

    if any(others):
        raise ResumeError("--resume takes everything but --set from the run: leave it out")
    return RunLog(run).config(settings or (), output_dir=str(run))


def _phases(run: Path) -> set[str]:
    from sql_env.training.run_log import RunLog

    return {session["phase"] for session in RunLog(run).sessions()}


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
def training(console: Console) -> Iterator[None]:
    """What may be missing or come in between is told with what to do about it."""
    try:
        _hush()
        yield
    except ModuleNotFoundError as error:
        needs_extra("training", error)
    except KeyboardInterrupt:
        console.print("interrupted: --resume RUN goes on from the last checkpoint")
        raise typer.Exit(130) from None


def _hush() -> None:
    """Nothing but our own lines and bar: the libraries' bars would be drawn through it."""
    from datasets import disable_progress_bars
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bars()
    disable_progress_bar()


def command_console() -> Console:
    """Under `accelerate launch` only the main process speaks."""
    from sql_env.training.config import is_main

    # Paths and commands are copied from the terminal: never break them.
    return Console(quiet=not is_main(), soft_wrap=True)
