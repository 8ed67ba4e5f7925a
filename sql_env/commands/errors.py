"""How a command ends when the user can do something about it."""

from __future__ import annotations

from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape


def fail(message: str, *, quiet: bool = False) -> NoReturn:
    """One line on stderr, unbroken so that paths can be copied, and exit code 2."""
    Console(stderr=True, quiet=quiet).print(
        f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True
    )
    raise typer.Exit(2) from None
