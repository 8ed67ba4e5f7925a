"""`sql-env …`: the commands live in `sql_env.commands`, one module per group."""

from __future__ import annotations

import typer

from sql_env.commands import data, demo, evaluate, play, train
from sql_env.commands.serve import serve

app = typer.Typer(
    name="sql-env",
    help="An environment in which language models learn to explore SQL databases.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


app.add_typer(data.app, name="data")
evaluate.register(app)
play.register(app)
train.register(app)
demo.register(app)
app.command()(serve)


@app.callback()
def _root() -> None:
    """Play, evaluate, serve, train."""


def main() -> None:
    """The console script."""
    app()
