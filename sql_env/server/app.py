"""SQLEnv on OpenEnv's server: `/ws` for agents, `/web` for people.

    sql-env serve                                   # or, without the command line:
    uvicorn --factory sql_env.server.app:create

OpenEnv's `create_app` gives the plain HTTP routes that are on a list here; `sessions` is `/ws`, and
`page` what people see. Around all stand two guards (`access`, `traffic`), and below them uvicorn
with a clock (`connections`).
"""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from openenv.core.env_server.http_server import create_app
from starlette.routing import Route, WebSocketRoute
from starlette.types import Lifespan

from sql_env.environment import EpisodeError, UnknownQuestionError
from sql_env.models import SQLAction, SQLObservation, SQLState
from sql_env.questions import Dataset
from sql_env.server.access import AccessGuard
from sql_env.server.connections import HttpConnection, WebSocketConnection
from sql_env.server.mcp import McpOverHttp, build_server
from sql_env.server.page import page_routes
from sql_env.server.players import load_players
from sql_env.server.served_environment import (
    ENV_NAME,
    ResetOptionError,
    ServedEnvironment,
    Threads,
)
from sql_env.server.sessions import Sessions
from sql_env.server.settings import ServerSettings
from sql_env.server.traffic import RequestLimits
from sql_env.server.watching import Watching

# How the settings reach worker processes, which import this module by its name.
_SETTINGS_VARIABLE = "SQL_ENV_SERVER_SETTINGS"
# What OpenEnv serves here. Whatever else it has, or comes to have, stays closed.
_OPENENV_PATHS = (
    *("/health", "/metadata", "/schema", "/openapi.json", "/reset", "/step", "/state"),
    "/list_environments",
    *(f"/{{env_name}}/{name}" for name in ("splits", "tasks", "num_tasks", "task", "task_range")),
)
_STATUS_OF: dict[type[Exception], int] = {
    EpisodeError: 409,
    UnknownQuestionError: 404,
    ResetOptionError: 422,
}


def build_app(settings: ServerSettings) -> FastAPI:
    """The application for these settings.

    Raises:
        QuestionLoadError: the dataset cannot be used.
        PolicyChoiceError: a policy cannot be had here.
    """
    dataset = Dataset.at(settings.dataset)
    questions = dataset.load()
    players = load_players(settings, questions)
    threads = Threads(settings.max_sessions)
    template = ServedEnvironment(
        questions,
        dataset.db_dir,
        threads,
        hide_gold=settings.hide_gold,
        rewards=settings.rewards,
    )
    app: FastAPI = create_app(
        template.another, SQLAction, SQLObservation, env_name=ENV_NAME, state_cls=SQLState
    )
    mcp = McpOverHttp(
        build_server(questions, dataset.db_dir), settings.max_sessions, settings.idle_seconds
    )
    app.router.lifespan_context = _with(mcp, app.router.lifespan_context)
    app.router.routes = [
        *page_routes(settings, questions, list(players)),
        WebSocketRoute("/ws", Sessions(template.another, settings)),
        WebSocketRoute("/web/watch", Watching(template.another, players, settings.idle_seconds)),
        Route("/mcp", mcp, methods=["POST", "DELETE"]),
        *(route for route in app.router.routes if getattr(route, "path", "") in _OPENENV_PATHS),
    ]
    for error, status in _STATUS_OF.items():
        app.add_exception_handler(error, _answer_with(status))
    app.add_middleware(RequestLimits, settings=settings)
    app.add_middleware(AccessGuard, settings=settings)
    return app


def __getattr__(name: str) -> FastAPI:
    """`app`, made when asked for: importing this module must not load a dataset."""
    if name == "app":
        return create()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def create() -> FastAPI:
    """The application for the settings of this process: given by `run`, or the defaults."""
    given = os.environ.get(_SETTINGS_VARIABLE)
    return _settled(ServerSettings.from_json(given) if given else ServerSettings())


def _settled(settings: ServerSettings) -> FastAPI:
    app = build_app(settings)
    # OpenEnv's imports leave half a million objects that live for good. Unless they are set aside,
    # the collector walks through them again and again: a fifth of the time of a step.
    gc.collect()
    gc.freeze()
    return app


def _with(mcp: McpOverHttp, own: Lifespan[FastAPI]) -> Lifespan[FastAPI]:
    """The life of an application, with that of its MCP sessions inside."""

    @asynccontextmanager
    async def both(app: FastAPI) -> AsyncIterator[Any]:
        async with own(app) as state, mcp.running():
            yield state

    return both


def uvicorn_options(settings: ServerSettings) -> dict[str, Any]:
    """How uvicorn is set up for these settings."""
    return {
        "log_level": "warning",
        "http": HttpConnection,
        "ws": WebSocketConnection,
        "timeout_keep_alive": settings.request_seconds,
        "limit_concurrency": settings.max_connections,
        "proxy_headers": False,
        # `sessions` answers a large message; this is for one too large to be read at all.
        "ws_max_size": 8 * settings.max_message_bytes,
        # Messages are small: to compress them costs more time than it saves, and memory.
        "ws_per_message_deflate": False,
    }


def run(
    settings: ServerSettings, listener: socket.socket, greet: Callable[[], None] = lambda: None
) -> None:
    """Serve until interrupted.

    Args:
        listener: what `settings.listen()` opened.
        greet: is called when nothing more can be wrong with the settings.

    Raises:
        PolicyChoiceError: a policy cannot be had here.
    """
    many = settings.workers > 1
    if many:
        os.environ[_SETTINGS_VARIABLE] = settings.to_json()
    app = f"{__name__}:{create.__name__}" if many else _settled(settings)
    greet()
    uvicorn.run(
        app,
        factory=many,
        fd=listener.fileno(),
        workers=settings.workers,
        timeout_worker_healthcheck=60,  # a worker imports for some seconds before it answers
        **uvicorn_options(settings),
    )


def main() -> None:
    """Serve the embedded data on this machine; `sql-env serve` has the options."""
    settings = ServerSettings()
    with settings.listen() as listener:
        run(settings, listener)


def _answer_with(status: int) -> Callable[[Request, Exception], JSONResponse]:
    def handler(_: Request, error: Exception) -> JSONResponse:
        detail = str(error)
        if isinstance(error, EpisodeError):
            detail += " (over HTTP each request stands alone: play an episode over /ws)"
        return JSONResponse({"detail": detail}, status_code=status)

    return handler


if __name__ == "__main__":
    main()
