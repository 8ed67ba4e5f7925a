"""`sql-env demo`: see a model learn from random weights, on two CPU cores in minutes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from sql_env.commands.train import Settings, command_console, user_errors


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
    with user_errors(console):
        from sql_env.training.config import GRPOConfig
        from sql_env.training.demo import run_demo
        from sql_env.training.settings import ConfigError

        config = GRPOConfig.load("demo", None, settings or (), output_dir=str(out))
        if out.exists() and any(out.iterdir()) and not (out / "report.html").is_file():
            raise ConfigError(
                f"{out} holds something else than a demonstration: choose another folder with --out"
            )
        shutil.rmtree(out, ignore_errors=True)
        result = run_demo(config, console)
        first, last = result.reward_before_and_after
        console.print(
            f"\n[bold]held-out success[/] {result.untrained.summary.success} untrained, "
            f"{result.warmed.summary.success} after the warm-up, "
            f"{result.trained.summary.success} after GRPO"
        )
        console.print(
            f"[bold]GRPO alone[/] raised the mean training reward from {first:.3f} to {last:.3f}, "
            f"held-out success by "
            f"{result.trained.success_rate - result.warmed.success_rate:+.1%}"
        )
        spent = ", ".join(f"{name} {value:.0f} s" for name, value in result.seconds.items())
        console.print(f"time: {sum(result.seconds.values()) / 60:.1f} min ({spent})")
        console.print(f"open {result.report} in a browser")
