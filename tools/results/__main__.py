"""`python -m tools.results page` writes the tables; `… archive RUN` takes a run into results/."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sql_env.evaluation.run_folder import RunError
from tools.results.archive import archive_run
from tools.results.page import PageError, read_plan, write_blocks

CHECKOUT = Path(__file__).resolve().parents[2]
app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False)


@app.command()
def page(
    plan: Annotated[Path, typer.Option(help="Which run stands where (TOML).")] = CHECKOUT
    / "results"
    / "page.toml",
    into: Annotated[list[Path] | None, typer.Option(help="Pages with marked blocks.")] = None,
) -> None:
    """Write the marked blocks of the pages anew from the archived runs."""
    pages = into or [CHECKOUT / "docs" / "results.md", CHECKOUT / "results" / "README.md"]
    try:
        found = read_plan(plan)
        for path in pages:
            typer.echo(f"{path}: {write_blocks(found, path)} blocks")
    except (PageError, RunError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


@app.command()
def archive(
    run: Annotated[Path, typer.Argument(help="A run of `sql-env eval`, or of a training.")],
    name: Annotated[str | None, typer.Option(help="Default: the run's own.")] = None,
    out: Annotated[Path, typer.Option(help="Where it goes.")] = CHECKOUT / "results",
) -> None:
    """Take a run into the archive, small enough for the repository."""
    try:
        target = archive_run(run, out / (name or run.name))
    except RunError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    size = sum(path.stat().st_size for path in target.iterdir())
    typer.echo(f"{target}: {size / 1e3:.0f} kB")


if __name__ == "__main__":
    app()
