"""`sql-env data disguise`: the questions of a dataset once more, under other names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sql_env.commands.data_checks import user_errors


def disguise(
    dataset: Annotated[Path, typer.Argument(help="A dataset folder.")],
    splits: Annotated[str, typer.Option(help="The splits to ask again.")] = "train",
    copies: Annotated[int, typer.Option(min=1, help="How many times.")] = 1,
    name: Annotated[str, typer.Option(help="The split they become.")] = "disguised",
    seed: Annotated[int, typer.Option(help="Same seed, same names.")] = 42,
) -> None:
    """Ask the same questions of databases whose tables and columns bear other names."""
    from rich.console import Console
    from rich.markup import escape

    from sql_env.augment.rename import disguise as make

    console, errors = Console(), Console(stderr=True)
    with user_errors(), errors.status("Renaming") as status:
        made = make(
            dataset,
            splits=tuple(split for split in splits.split(",") if split),
            copies=copies,
            name=name,
            seed=seed,
            progress=lambda database: status.update(f"Renaming {escape(database)}"),
        )

    def line(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    line(
        f"[bold]{escape(str(dataset))}[/]: {len(made.records):,} questions on {made.databases:,} "
        f"renamed databases added as {escape(name)}"
    )
    line("left out:")
    line(f"  {made.changed:>5,}  questions whose rows depend on a name or an order")
    line(f"  {len(made.uncopied):>5,}  databases that SQLite would not write anew")
