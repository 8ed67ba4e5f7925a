"""`sql-env mcp`: the environment for an agent that speaks MCP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sql_env.commands.errors import needs_extra
from sql_env.questions import Dataset


def mcp(
    dataset: Annotated[
        Path | None, typer.Option(help="A dataset folder; default: the embedded data.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Draw questions from this split.")] = "eval",
    step_budget: Annotated[int, typer.Option(min=1, help="Steps in an episode.")] = 15,
) -> None:
    """Serve the environment over MCP, on standard input and output."""
    data = Dataset.at(dataset)
    questions = data.load_split(split)
    try:
        from sql_env.server.mcp import build_server
    except ModuleNotFoundError as error:
        needs_extra("server", error)
    build_server(questions, data.db_dir, step_budget=step_budget).run(show_banner=False)
