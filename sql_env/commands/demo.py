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
        console.print(
            f"\n[bold]held-out success[/]  untrained {result.untrained.summary.success}, "
            f"SFT {result.after_sft.summary.success}, GRPO {result.trained.summary.success}"
        )
        passes = " -> ".join(f"{reward:.3f}" for reward in result.reward_by_pass)
        console.print(f"[bold]GRPO alone[/]  mean reward of each pass over its questions {passes}")
        spent = ", ".join(f"{name} {value:.0f} s" for name, value in result.seconds.items())
        console.print(f"time: {sum(result.seconds.values()) / 60:.1f} min ({spent})")
        console.print(f"open {result.report} in a browser")
