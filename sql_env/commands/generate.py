"""`sql-env data generate`: procedural databases with questions."""

from __future__ import annotations

from pathlib import Path

import typer


def generate(
    out: Path = typer.Option(..., "--out", help="The folder to write the dataset to."),
    databases: int = typer.Option(10, "--databases", min=1, help="How many databases."),
    questions: int = typer.Option(676, "--questions", min=1, help="How many questions in all."),
    seed: int = typer.Option(7, "--seed", help="The same seed writes the same bytes."),
    eval_fraction: float = typer.Option(
        0.3, "--eval-fraction", min=0.0, max=0.99, help="The share kept for evaluation."
    ),
    workers: int | None = typer.Option(
        None, "--workers", min=1, help="Processes to use.  [default: one per core for large jobs]"
    ),
    force: bool = typer.Option(False, "--force", help="Replace a dataset that is already there."),
) -> None:
    """Make databases with questions and gold SQL from a seed, offline."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table

    from sql_env.worlds import GenerationError, generate_dataset

    console = Console()
    if (out / "questions").exists() and not force:
        console.print(
            f"[red]{out} already holds a dataset:[/] choose another folder, or replace it with"
            " --force",
            soft_wrap=True,
        )
        raise typer.Exit(1)
    columns = (TextColumn("questions"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("questions", total=questions)
            summary = generate_dataset(
                out,
                databases=databases,
                questions=questions,
                seed=seed,
                eval_fraction=eval_fraction,
                workers=workers,
                progress=lambda made: bar.advance(task, made),
            )
    except GenerationError as error:
        console.print(f"[red]{error}[/]", soft_wrap=True, highlight=False)
        raise typer.Exit(1) from None
    table = Table("what", "count", title=str(out))
    table.add_row("databases", f"{summary.databases:,} ({summary.bytes / 1e6:.1f} MB)")
    for split, count in sorted(summary.questions.items(), reverse=True):
        table.add_row(f"{split} questions", f"{count:,}")
    for level, count in summary.difficulty.items():
        table.add_row(level, f"{count:,}")
    table.add_row("empty or zero", f"{summary.empty:,}")
    console.print(table)
