"""`sql-env …`: the commands live in `sql_env.commands`, one module per group."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sql_env.commands import data, demo, evaluate, pack, play, train
from sql_env.commands.mcp import mcp
from sql_env.commands.serve import serve
from sql_env.renames import COMMANDS


class _Commands(TyperGroup):
    """Tells what a command is called now that had another name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            ctx.fail(f"sql-env {args[0]} is called sql-env {COMMANDS[args[0]]} now")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Commands,
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
