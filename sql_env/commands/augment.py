"""`sql-env data augment …`: more questions out of a dataset, each kind a split of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

app = typer.Typer(help="Add questions derived from a dataset.", no_args_is_help=True)

DatasetArgument = Annotated[Path, typer.Argument(help="A dataset folder.")]
NAME_HELP = "Name of the new split."


@app.command()
def questions(
    dataset: DatasetArgument,
    splits: Annotated[
        str,
        typer.Option(help="Their databases are used; other splits stay unseen."),
    ] = "train",
    per_database: Annotated[
        int, typer.Option(min=1, help="The most questions for one database.")
    ] = 60,
    name: Annotated[str, typer.Option(help=NAME_HELP)] = "synthetic",
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 42,
) -> None:
    """Generate questions about the databases of some splits."""
    from sql_env.augment.questions import add_synthetic_questions

    with Console(stderr=True).status("Asking") as status:
        made = add_synthetic_questions(
            dataset,
            splits=_names(splits),
            per_database=per_database,
            name=name,
            seed=seed,
            progress=lambda database: status.update(f"Asking about {escape(database)}"),
        )
    _print(
        f"[bold]{escape(str(dataset))}[/]: {len(made.records):,} questions on "
        f"{sum(map(bool, made.databases.values()))} databases added as {escape(name)}"
    )
    for database, count in made.databases.items():
        _print(f"  {escape(database):<36}{count:>5,}")
    _print("left out:")
    fewer = sum(count < per_database for count in made.databases.values())
    _print(f"  {made.leaked:>5,}  questions whose gold query another split has")
    _print(f"  {len(made.unseen):>5,}  databases that only other splits ask about")
    _print(f"  {fewer:>5,}  databases for which fewer questions could be made")


@app.command()
def rename(
    dataset: DatasetArgument,
    splits: Annotated[str, typer.Option(help="The splits to copy.")] = "train",
    copies: Annotated[int, typer.Option(min=1, help="Copies of each database.")] = 1,
    name: Annotated[str, typer.Option(help=NAME_HELP)] = "renamed",
    seed: Annotated[int, typer.Option(help="Same seed, same names.")] = 42,
) -> None:
    """Copy questions and databases, with other table and column names."""
    from sql_env.augment.rename import add_renamed_databases

    with Console(stderr=True).status("Renaming") as status:
        made = add_renamed_databases(
            dataset,
            splits=_names(splits),
            copies=copies,
            name=name,
            seed=seed,
            progress=lambda database: status.update(f"Renaming {escape(database)}"),
        )
    _print(
        f"[bold]{escape(str(dataset))}[/]: {len(made.records):,} questions on {made.databases:,} "
        f"renamed databases added as {escape(name)}"
    )
    _print("left out:")
    _print(f"  {made.changed:>5,}  questions whose rows depend on a name or an order")
    _print(f"  {len(made.uncopied):>5,}  databases that SQLite could not rewrite")


def _names(splits: str) -> tuple[str, ...]:
    return tuple(split for split in splits.split(",") if split)


def _print(text: str) -> None:
    Console().print(text, highlight=False, soft_wrap=True)
