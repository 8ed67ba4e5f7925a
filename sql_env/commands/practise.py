"""`sql-env data practise`: questions for the databases of a dataset, beside those it has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sql_env.commands.data_checks import user_errors


def practise(
    dataset: Annotated[Path, typer.Argument(help="A dataset folder.")],
    splits: Annotated[
        str,
        typer.Option(help="Ask about the databases of these splits; all others stay unseen."),
    ] = "train",
    per_database: Annotated[
        int, typer.Option(min=1, help="The most questions for one database.")
    ] = 60,
    name: Annotated[str, typer.Option(help="The split they become.")] = "practice",
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 42,
) -> None:
    """Make more questions for databases that are there, without those of unseen splits."""
    from rich.console import Console
    from rich.markup import escape

    from sql_env.augment.questions import practise as make

    console, errors = Console(), Console(stderr=True)
    with user_errors(), errors.status("Asking") as status:
        made = make(
            dataset,
            splits=tuple(split for split in splits.split(",") if split),
            per_database=per_database,
            name=name,
            seed=seed,
            progress=lambda database: status.update(f"Asking about {escape(database)}"),
        )

    def line(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    line(
        f"[bold]{escape(str(dataset))}[/]: {len(made.records):,} questions on "
        f"{sum(map(bool, made.databases.values()))} databases added as {escape(name)}"
    )
    for database, count in made.databases.items():
        line(f"  {escape(database):<36}{count:>5,}")
    line("left out:")
    fewer = sum(count < per_database for count in made.databases.values())
    line(f"  {made.leaked:>5,}  questions whose gold query another split has")
    line(f"  {len(made.unseen):>5,}  databases that only other splits ask about")
    line(f"  {fewer:>5,}  databases have no more to ask than is listed above")
