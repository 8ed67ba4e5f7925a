"""How a command ends when the user can do something about it."""

from __future__ import annotations

import os
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from sql_env.core.errors import UserError


def fail(message: str) -> NoReturn:
    """One line on stderr, unbroken so that paths can be copied, and exit code 2."""
    first = os.environ.get("RANK", "0") == "0"  # of those that `accelerate launch` starts
    Console(stderr=True, quiet=not first).print(
        f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True
    )
    raise typer.Exit(2) from None


def needs_extra(name: str, error: ModuleNotFoundError) -> NoReturn:
    """What is installed is not enough for this command."""
    fail(f"{error.name} is not installed: pip install '.[{name}]' in the project's folder")


class Commands(TyperGroup):
    """Commands whose users read what they can mend, not a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            fail(str(error))
