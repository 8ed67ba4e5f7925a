"""`sql-env data generate`: procedural databases with questions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sql_env.commands.data_checks import OnOption


def generate(
    out: Annotated[Path, typer.Option(help="Where to write the dataset.")],
    databases: Annotated[int, typer.Option(min=1, help="How many databases.")] = 10,
    questions: Annotated[int, typer.Option(min=1, help="How many questions in all.")] = 676,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 4,
    domain: Annotated[
        list[Path] | None,
        typer.Option(
            help="Your own domain, a TOML file; repeatable.",
            show_default="those of the package",
        ),
    ] = None,
    eval_fraction: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="The share kept for evaluation.")
    ] = 0.3,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes.", show_default="one per core for large jobs"),
    ] = None,
    on: OnOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a dataset there.")] = False,
) -> None:
    """Make databases with questions and gold SQL from a seed, offline."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from sql_env.evaluation.ray_pool import connect, map_on_ray
    from sql_env.worlds import GenerationError, generate_dataset

    console, errors = Console(), Console(stderr=True)
    columns = (TextColumn("questions"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    if (out / "questions").exists() and not force:
        raise GenerationError(
            f"{out} already holds a dataset: choose another folder, or replace it with --force"
        )
    if on is not None:
        connect(on)
        out, domain = out.resolve(), [path.resolve() for path in domain or ()]
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("questions", total=questions)
        summary = generate_dataset(
            out,
            databases=databases,
            questions=questions,
            seed=seed,
            eval_fraction=eval_fraction,
            domains=domain or (),
            workers=workers,
            map_elsewhere=None if on is None else partial(map_on_ray, workers=workers),
            progress=lambda made: bar.advance(task, made),
        )
    console.print(
        f"[bold]{escape(str(out))}[/]: {questions:,} questions on {summary.databases:,} databases"
        f" ({summary.bytes / 1e6:.1f} MB)",
        highlight=False,
        soft_wrap=True,
    )
    for counts in (summary.questions, summary.difficulty):
        for name, number in counts.items():
            share = f"{number / questions:>7.1%}"
            console.print(f"  {name:<8}{number:>7,}{share}", highlight=False)
    console.print(f"  {'empty':<8}{summary.empty:>7,}{summary.empty / questions:>7.1%}")
