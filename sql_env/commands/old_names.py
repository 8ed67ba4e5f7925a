"""What commands and options of version 0.1 are called now. To be deleted after version 0.2."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sql_env.commands.errors import fail

_COMMANDS = {
    "warmup": "is called `sql-env sft` now",
    "trajectories": "is called `sql-env demonstrations` now",
    "results": "is gone: in a checkout, `make results` writes docs/results.md",
}
_DATA_COMMANDS = {
    "practise": "is called `sql-env data augment questions` now",
    "disguise": "is called `sql-env data augment rename` now",
}


def register(app: typer.Typer, data: typer.Typer) -> None:
    """Let the old commands answer, whatever follows them."""
    for name, news in _COMMANDS.items():
        _refuse(app, name, f"`sql-env {name}` {news}")
    for name, news in _DATA_COMMANDS.items():
        _refuse(data, name, f"`sql-env data {name}` {news}")


def _refuse(app: typer.Typer, name: str, message: str) -> None:
    @app.command(
        name,
        hidden=True,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def refuse() -> None:
        fail(message)


def old_option(old: str, news: str) -> Any:
    """A hidden option that answers what became of it."""

    def refuse(value: str | None) -> None:
        if value is not None:
            fail(f"{old} {news}")

    return typer.Option(old, hidden=True, callback=refuse)


OldRedraws = Annotated[
    str | None,
    old_option("--redraws", "is gone: models are decoded plainly, or with --decoding guided"),
]
