"""`sql-env …`: the commands live in `sql_env.commands`, one module per group."""

from __future__ import annotations

from typing import Annotated

import typer

from sql_env.commands import data, demo, evaluate, old_names, pack, play, train
from sql_env.commands.errors import Commands
from sql_env.commands.serve import mcp, serve

app = typer.Typer(
    cls=Commands,
    name="sql-env",
    help="An environment in which language models learn to explore SQL databases.",
    epilog="Begin with: sql-env play",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


# In the order in which one comes to need them; help lists them so.
play.register(app)
demo.register(app)
evaluate.register(app)
train.register(app)
pack.register(app)
app.command()(serve)
app.command()(mcp)
app.add_typer(data.app, name="data")
old_names.register(app, data.app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from sql_env import __version__

        typer.echo(f"sql-env {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """An environment in which language models learn to explore SQL databases."""


def main() -> None:
    """The console script."""
    app()
