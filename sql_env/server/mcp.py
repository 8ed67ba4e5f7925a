"""The environment as an MCP server: any agent that speaks MCP can explore and answer.

    sql-env mcp                          # over standard input and output, for a desktop agent
    sql-env serve                        # and at http://127.0.0.1:8000/mcp

Five tools: `start`, `describe`, `sample`, `query`, `answer`. A session plays one episode at a time;
`start` begins the next. A tool returns the text that a model reads and nothing of the reward.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Any
from weakref import WeakKeyDictionary, finalize

from anyio import Lock, to_thread
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from mcp.server.session import ServerSession
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import METHOD_NOT_FOUND
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from sql_env.agent.prompts import format_observation
from sql_env.environment import EpisodeError, SQLEnvironment, StopReason, UnknownQuestionError
from sql_env.models import QuestionRecord, SQLAction, SQLObservation

INSTRUCTIONS = """\
Answer questions about SQLite databases that you explore. `start` gives a question and the names of
the tables. `describe` shows a table's columns and keys, `sample` some of its rows, `query` runs one
read-only SELECT. `answer` ends the episode: type the answer, or give @last for the whole result of
your last query. Every call but `start` is a step, and steps are limited."""


def build_server(
    questions: Sequence[QuestionRecord], db_dir: Path, *, step_budget: int = 15
) -> FastMCP:
    """An MCP server over these questions; every session has an environment of its own."""
    episodes: WeakKeyDictionary[ServerSession, SQLEnvironment] = WeakKeyDictionary()
    # A client may send calls side by side; an episode is played step by step.
    turns: WeakKeyDictionary[ServerSession, Lock] = WeakKeyDictionary()
    template = SQLEnvironment(db_dir=db_dir, step_budget=step_budget, questions=questions)
    server = FastMCP("sql-env", instructions=INSTRUCTIONS)

    def turn(context: Context) -> Lock:
        return turns.setdefault(context.session, Lock())

    async def play(context: Context, action_type: str, argument: str) -> str:
        action = SQLAction(action_type=action_type, argument=argument)
        try:
            async with turn(context):
                env = episodes.get(context.session)
                if env is None:
                    raise ToolError("no episode is running: call start first")
                # In a thread: a query may take as long as its deadline.
                seen = await to_thread.run_sync(env.step, action)
        except EpisodeError:
            raise ToolError("the episode is over: call start to begin another") from None
        return _outcome(seen)

    @server.tool
    async def start(context: Context, question_id: str = "") -> str:
        """Begin an episode: a question and the names of the tables. Without an id, any question."""
        env = episodes.get(context.session)
        if env is None:
            env = episodes[context.session] = template.another()
            finalize(context.session, env.close)
        chosen = question_id or SystemRandom().choice(questions).question_id
        try:
            async with turn(context):
                seen = await to_thread.run_sync(partial(env.reset, question_id=chosen))
        except UnknownQuestionError as error:
            raise ToolError(str(error)) from None
        return format_observation(seen)

    @server.tool
    async def describe(context: Context, table: str) -> str:
        """Show a table's columns and keys."""
        return await play(context, "DESCRIBE", table)

    @server.tool
    async def sample(context: Context, table: str) -> str:
        """Show some rows of a table."""
        return await play(context, "SAMPLE", table)

    @server.tool
    async def query(context: Context, sql: str) -> str:
        """Run one read-only SELECT statement."""
        return await play(context, "QUERY", sql)

    @server.tool
    async def answer(context: Context, value: str) -> str:
        """Answer and end the episode: the value, [] for no rows, or @last for the last result."""
        return await play(context, "ANSWER", value)

    return server


_NO_SESSION = "no session: begin one with initialize, or play over /ws"


class McpOverHttp:
    """The ASGI application of `/mcp`: MCP's streamable HTTP, with a bound on sessions.

    Whoever is in no session and begins none is answered here and leaves nothing behind; OpenEnv's
    check of a server is such a request. There is no stream to listen on (GET), which would keep a
    session for good: the server says nothing unasked.

    Args:
        server: what `build_server` made.
        max_sessions: how many there may be.
        idle_seconds: how long one lives without a request.
    """

    def __init__(self, server: FastMCP, max_sessions: int, idle_seconds: float) -> None:
        self._server = server
        # FastMCP's own application takes neither of the bounds.
        self._sessions = StreamableHTTPSessionManager(
            server._mcp_server,
            json_response=True,
            session_idle_timeout=idle_seconds,
            max_sessions=max_sessions,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the server runs."""
        async with self._server._lifespan_manager(), self._sessions.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if MCP_SESSION_ID_HEADER in request.headers:
            await self._sessions.handle_request(scope, receive, send)
            return
        body = await request.body()

        async def receive_again() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        if _begins_session(body):
            await self._sessions.handle_request(scope, receive_again, send)
        else:
            error = {"code": METHOD_NOT_FOUND, "message": _NO_SESSION}
            answer = JSONResponse({"jsonrpc": "2.0", "error": error, "id": None})
            await answer(scope, receive, send)


def _begins_session(body: bytes) -> bool:
    try:
        message = json.loads(body)
    except ValueError:
        return False
    return isinstance(message, dict) and message.get("method") == "initialize"


def _outcome(seen: SQLObservation) -> str:
    """What came of a step, as text; what the agent got wrong is a tool's error."""
    text = format_observation(seen)
    if seen.metadata.get("stop_reason") == StopReason.BUDGET:
        text += "\nThe episode is over: no answer was given in time."
    if seen.error:
        raise ToolError(text.removeprefix("Error: "))
    return text
