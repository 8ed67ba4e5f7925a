"""What `sql-env train` and `sql-env warmup` do once their settings are known."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from sql_env.training.config import GRPOConfig


def run_train(config: GRPOConfig, console: Console, *, resuming: bool) -> None:
    """GRPO, after a warm-up where the settings ask for one."""
    from sql_env.training.callbacks import GRPO_NEWS, ProgressCallback
    from sql_env.training.data_loading import load_for_training, load_training_questions
    from sql_env.training.pipeline import (
        build_trainer,
        run_training_with_metrics,
        sample_random_baseline,
    )
    from sql_env.training.run_log import MODEL, RunLog
    from sql_env.training.visualization import LiveVisualizationCallback

    train = load_training_questions(config)
    held_out = load_training_questions(config, config.eval_split)
    groups = config.episodes_per_round // config.num_generations
    console.print(
        f"[bold]{config.model_name}[/] on {len(train)} questions of {config.dataset.questions_path}"
        f": {groups} x {config.num_generations} episodes a round, run folder {config.output_dir}"
    )
    start = _warm_up_first(config, console, resuming) if config.warmup.first else config.model_name
    baseline = sample_random_baseline(config)
    console.print(
        f"random play: reward {baseline.avg_reward:.3f}, success {baseline.summary.success}"
    )
    model, tokenizer = load_for_training(replace(config, model_name=start))
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
    if config.average_checkpoints > 1:
        averaged = RunLog(config.output_dir).checkpoints()[-config.average_checkpoints :]
        console.print(f"its weights are the mean of {', '.join(path.name for path in averaged)}")
    source = f" --dataset {config.dataset.db_dir.parent}" if config.db_dir else ""
    console.print(
        f"next: sql-env eval --policy model:{model_folder}{source}"
        f" --step-budget {config.step_budget}"
    )


def run_warmup(config: GRPOConfig, console: Console, *, resuming: bool) -> Path:
    """The warm-up in the folder `config.output_dir`; returns where its model lies."""
    from accelerate import PartialState

    from sql_env.training.callbacks import WARMUP_NEWS, ProgressCallback, WarmupLogCallback
    from sql_env.training.data_loading import load_for_training
    from sql_env.training.run_log import MODEL, RunLog
    from sql_env.training.warmup import warm_up

    # It is the warm-up of any GRPO run that starts from its model.
    config = replace(config, warmup=replace(config.warmup, first=False))
    log = RunLog(config.output_dir)
    folder = log.path / MODEL
    if resuming and folder.is_dir():
        return folder
    if is_main():
        if not resuming:
            log.begin(config)
        log.add_session("warmup")
    console.print(
        f"[bold]{config.model_name}[/] imitates episodes of {config.dataset.questions_path}, "
        f"run folder {config.output_dir}"
    )
    model, tokenizer = load_for_training(config)
    progress = ProgressCallback(console, "warm-up", WARMUP_NEWS)
    watching = [WarmupLogCallback(log), progress]
    try:
        rows = warm_up(config, model, tokenizer, callbacks=watching, resume=resuming)
    finally:
        progress.stop()
    for row in rows:
        if "examples" in row:
            console.print(
                f"{row['stage']}: {row['examples']} episodes, {row['seconds']} s", highlight=False
            )
    if is_main():
        _save_whole(folder, model, tokenizer)
    PartialState().wait_for_everyone()
    return folder


def _warm_up_first(config: GRPOConfig, console: Console, resuming: bool) -> str:
    """The model that GRPO starts from; what an earlier process did of the warm-up stays done."""
    import torch

    from sql_env.training.run_log import CONFIG, WARMUP, RunLog
    from sql_env.training.warmup import release_memory

    config.to_trl()  # what GRPO refuses, it refuses before hours of warm-up
    log = RunLog(config.output_dir)
    if is_main() and not resuming:
        log.check_unused(WARMUP)
        log.begin(config)
    folder = log.path / WARMUP
    model = run_warmup(
        replace(config, output_dir=str(folder)),
        console,
        resuming=resuming and (folder / CONFIG).is_file(),
    )
    console.print(f"warmed up: {model}")
    release_memory()
    torch.compiler.reset()  # what was compiled for the warm-up counts against the limit for GRPO
    return str(model)


def _save_whole(folder: Path, model: Any, tokenizer: Any) -> None:
    """The folder appears when everything is in it: a resumed run takes it for the end."""
    unfinished = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def is_main() -> bool:
    """Whether this is the first of the processes that `accelerate launch` starts."""
    return os.environ.get("RANK", "0") == "0"
