"""`sql-env serve` and `sql-env mcp`: the environment for other programs, and a page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from sql_env.commands.errors import needs_extra
from sql_env.questions import Dataset

console = Console(stderr=True)


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", help="Port to listen on.", min=1, max=65535)
    ] = 8000,
    workers: Annotated[
        int, typer.Option(help="Server processes; a session stays in the one it began in.", min=1)
    ] = 1,
    dataset: Annotated[
        Path | None, typer.Option(help="A dataset folder; default: the embedded data.")
    ] = None,
    max_sessions: Annotated[
        int, typer.Option(help="Sessions at the same time, in each worker.", min=1)
    ] = 256,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SQL_ENV_TOKEN",
            help="The token that clients send. The variable keeps it out of process lists.",
            show_envvar=True,
        ),
    ] = None,
    allow_unauthenticated: Annotated[
        bool,
        typer.Option(
            "--allow-unauthenticated", help="Need no token where other machines can connect."
        ),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Another name of this server: box.example.org, *.example.org; repeatable.",
        ),
    ] = None,
    idle_seconds: Annotated[
        float, typer.Option(help="Close a session after this long without a message.")
    ] = 900.0,
    hide_gold: Annotated[
        bool,
        typer.Option("--hide-gold", help="Never show the gold answer, not even after an episode."),
    ] = False,
    rewards: Annotated[
        Literal["dense", "end"],
        typer.Option(
            help="Rewards after every step, or all at the end: then none hints at the answer."
        ),
    ] = "dense",
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="POLICY",
            help="To watch on the page, besides random and oracle: model:PATH, "
            "endpoint:MODEL@URL, constant:TEXT; repeatable.",
        ),
    ] = None,
) -> None:
    """Serve the environment over WebSocket, and a page to play on at /web."""
    from sql_env.server.settings import ServerSettings

    settings = ServerSettings(
        host=host,
        port=port,
        workers=workers,
        dataset=str(dataset) if dataset else None,
        token=token,
        allow_unauthenticated=allow_unauthenticated,
        allow_hosts=tuple(allow_host or ()),
        max_sessions=max_sessions,
        idle_seconds=idle_seconds,
        hide_gold=hide_gold,
        rewards=rewards,
        policies=tuple(policy or ()),
    )
    questions = Dataset.at(dataset).load()
    listener = settings.listen()
    try:
        from sql_env.server.app import run
    except ModuleNotFoundError as error:
        needs_extra("server", error)

    databases = len({record.database_name for record in questions})
    address = f"http://[{host.strip('[]')}]:{port}" if ":" in host else f"http://{host}:{port}"
    each = f" in each of {workers} workers" if workers > 1 else ""

    def greet() -> None:
        console.print(
            f"[bold]SQLEnv[/] with {len(questions):,} questions on {databases} databases\n"
            f"  play    {address}/web\n"
            f"  agents  SQLEnvClient('{address}'{', token=…' if token else ''})\n"
            f"  up to {max_sessions} sessions{each}; Ctrl-C to stop",
            highlight=False,
        )

    if policy:
        console.print(f"loading {', '.join(policy)} …", highlight=False, markup=False)
    with listener:
        run(settings, listener, greet)


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
