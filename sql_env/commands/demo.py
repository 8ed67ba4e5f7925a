"""`sql-env demo`: see a model learn from random weights, on two CPU cores in minutes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from sql_env.commands.train import Settings, command_console, training


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command("demo")(demo_command)


def demo_command(
    out: Annotated[
        Path, typer.Option(help="Where to keep the runs; an earlier demonstration is replaced.")
    ] = Path("runs/demo"),
    settings: Settings = None,
) -> None:
    """Train a tiny model from nothing, and write a report of before and after."""
    console = command_console()
    with training(console):
        from sql_env.training.config import GRPOConfig
        from sql_env.training.demo import run_demo
        from sql_env.training.settings import ConfigError

        config = GRPOConfig.load("demo", None, settings or (), output_dir=str(out))
        # An earlier demonstration, perhaps broken off, may go; anything else may not.
        if out.is_dir() and any(out.iterdir()) and not (out / "untrained").is_dir():
            raise ConfigError(
                f"{out} holds something else than a demonstration: choose another folder with --out"
            )
        shutil.rmtree(out, ignore_errors=True)
        result = run_demo(config, console)
        minutes = sum(result.seconds.values()) / 60
        pairs = result.added_by_reward
        console.print(f"\n[bold]before[/]  SFT alone     {result.after_sft.summary.success}")
        console.print(
            f"[bold]after[/]   SFT and GRPO  {result.trained.summary.success}: "
            f"{len(pairs.won)} won, {len(pairs.lost)} lost of {pairs.n_questions}, "
            f"p = {pairs.p_value:.2g}"
        )
        console.print(f"[bold]report[/]  {result.report} ({minutes:.1f} min)")
