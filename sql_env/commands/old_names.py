"""What commands and options of version 0.1 are called now. To be deleted after version 0.2."""

from __future__ import annotations

from typing import Any, NoReturn

import typer


def refuse_old_name(old: str, new: str) -> NoReturn:
    """End the command with one line that says the new name."""
    typer.echo(f"error: {old} is called {new} now", err=True)
    raise typer.Exit(2)


def refuse_old_command(app: typer.Typer, name: str, old: str, new: str) -> None:
    """Let the command `name` of `app` answer what it is called now, whatever follows it."""

    @app.command(
        name,
        hidden=True,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def _refuse() -> None:
        refuse_old_name(f"`{old}`", f"`{new}`")


def old_option(old: str, new: str) -> Any:
    """A hidden option that answers what it is called now."""

    def refuse(value: str | None) -> None:
        if value is not None:
            refuse_old_name(old, new)

    return typer.Option(old, hidden=True, callback=refuse)
