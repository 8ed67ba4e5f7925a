"""What `sql-env train` and `sql-env sft` do once their settings are known."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from sql_env.agent.prompts import Prompt
    from sql_env.training.config import GRPOConfig


def run_train(config: GRPOConfig, console: Console, *, resuming: bool) -> None:
    """GRPO, after SFT where the settings ask for it."""
    from sql_env.training.callbacks import GRPO_NEWS, ProgressCallback
    from sql_env.training.config import is_main
    from sql_env.training.data_loading import load_for_training, load_training_questions
    from sql_env.training.pipeline import (
        build_trainer,
        run_training_with_metrics,
        sample_random_baseline,
    )
    from sql_env.training.resuming import change_settings
    from sql_env.training.run_log import MODEL, RunLog
    from sql_env.training.visualization import LiveVisualizationCallback

    config.to_trl()  # what TRL refuses, it refuses before anything is loaded
    if resuming and is_main():
        for name, values in change_settings(RunLog(config.output_dir), config).items():
            console.print(f"{name}: {values['was']} -> {values['is']}", highlight=False)
    train = load_training_questions(config)
    held_out = load_training_questions(config, config.eval_split)
    groups = config.episodes_per_round // config.num_generations
    console.print(
        f"[bold]{config.model_name}[/] on {len(train)} questions of {config.dataset.questions_path}"
        f": {groups} x {config.num_generations} episodes a round, run folder {config.output_dir}"
    )
    start = _sft_first(config, console, resuming) if config.sft.first else config.model_name
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
    source = f" --dataset {config.dataset.db_dir.parent}" if config.db_dir else ""
    console.print(
        f"next: sql-env eval --policy model:{model_folder}{source}"
        f" --step-budget {config.step_budget}"
    )


def run_sft(config: GRPOConfig, console: Console, *, resuming: bool) -> Path:
    """SFT in the folder `config.output_dir`; returns where its model lies."""
    from accelerate import PartialState

    from sql_env.training.callbacks import SFT_NEWS, ProgressCallback, SFTLogCallback
    from sql_env.training.config import is_main, is_sharded
    from sql_env.training.data_loading import load_for_training
    from sql_env.training.resuming import change_settings
    from sql_env.training.run_log import MODEL, RunLog
    from sql_env.training.settings import ConfigError
    from sql_env.training.sft import train_sft

    if is_sharded():
        raise ConfigError(
            "SFT needs whole weights, and this launch shards them (FSDP or DeepSpeed): run "
            "`sql-env sft` under another launch, then train with --set model_name=RUN/model"
        )
    config.to_trl_sft("")  # what TRL refuses, it refuses before anything is loaded
    # It is the SFT of any GRPO run that starts from its model.
    config = replace(config, sft=replace(config.sft, first=False))
    log = RunLog(config.output_dir)
    folder = log.path / MODEL
    if resuming and folder.is_dir():
        return folder
    if is_main():
        if resuming:
            change_settings(log, config)
        else:
            log.begin(config)
        log.add_session("sft")
    console.print(
        f"[bold]{config.model_name}[/] learns from demonstrations of "
        f"{config.dataset.questions_path}, run folder {config.output_dir}"
    )
    model, tokenizer = load_for_training(config)
    progress = ProgressCallback(console, "SFT", SFT_NEWS)
    watching = [SFTLogCallback(log), progress]
    try:
        rows = train_sft(config, model, tokenizer, callbacks=watching, resume=resuming)
    finally:
        progress.stop()
    for row in rows:
        if "examples" in row:
            console.print(
                f"{row['stage']}: {row['examples']} episodes, {row['seconds']} s", highlight=False
            )
    if is_main():
        _save_whole(folder, model, tokenizer, config.prompt_of_run)
    PartialState().wait_for_everyone()
    return folder


def _sft_first(config: GRPOConfig, console: Console, resuming: bool) -> str:
    """The model that GRPO starts from; what an earlier process did of SFT stays done."""
    import torch

    from sql_env.training.config import is_main
    from sql_env.training.run_log import CONFIG, SFT, RunLog
    from sql_env.training.sft import release_memory

    log = RunLog(config.output_dir)
    if is_main() and not resuming:
        log.check_unused(SFT)
        log.begin(config)
    folder = log.path / SFT
    model = run_sft(
        replace(config, output_dir=str(folder)),
        console,
        resuming=resuming and (folder / CONFIG).is_file(),
    )
    console.print(f"SFT is over: {model}")
    release_memory()
    torch.compiler.reset()  # what was compiled for SFT counts against the limit for GRPO
    return str(model)


def _save_whole(folder: Path, model: Any, tokenizer: Any, prompt: Prompt) -> None:
    """The folder appears when everything is in it: a resumed run takes it for the end."""
    unfinished = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    prompt.save(unfinished)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
