"""The environment over MCP, played with a real client: in memory, and over a process's pipes."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from serving import Running

from sql_env.questions import Dataset
from sql_env.server.mcp import build_server


@pytest.fixture
def server(music_dir: Path) -> Iterator[FastMCP]:
    dataset = Dataset.at(music_dir)
    yield build_server(dataset.load(), dataset.db_dir, step_budget=5)


async def said(client: Client[Any], tool: str, **arguments: str) -> str:
    result = await client.call_tool(tool, arguments)
    return "\n".join(item.text for item in result.content)


async def refused(client: Client[Any], tool: str, **arguments: str) -> str:
    with pytest.raises(ToolError) as caught:
        await client.call_tool(tool, arguments)
    return str(caught.value)


def test_an_episode_is_played_with_five_tools(server: FastMCP) -> None:
    async def episode() -> list[str]:
        async with Client(server) as client:
            names = {tool.name for tool in await client.list_tools()}
            assert names == {"start", "describe", "sample", "query", "answer"}
            return [
                await said(client, "start", question_id="music_count"),
                await said(client, "describe", table="singer"),
                await said(client, "query", sql="SELECT count(*) FROM singer"),
                await said(client, "answer", value="@last"),
            ]

    begun, described, counted, judged = asyncio.run(episode())
    assert begun.startswith("Question: How many singers are there?\nTables: ")
    assert "singer.name text" in described.lower()
    assert "4" in counted
    assert judged.startswith("Correct.")


def test_nothing_of_the_reward_is_shown(server: FastMCP) -> None:
    async def episode() -> str:
        async with Client(server) as client:
            texts = [await said(client, "start", question_id="music_count")]
            results = [
                await client.call_tool("query", {"sql": "SELECT count(*) FROM singer"}),
                await client.call_tool("sample", {"table": "singer"}),
                await client.call_tool("answer", {"value": "5"}),
            ]
            return "\n".join([*texts, *map(repr, results)])

    shown = asyncio.run(episode())
    assert "Not correct." in shown
    assert "reward" not in shown.lower()
    assert "0.0" not in shown


def test_what_the_agent_gets_wrong_is_a_tools_error(server: FastMCP) -> None:
    async def episode() -> list[str]:
        async with Client(server) as client:
            errors = [await refused(client, "query", sql="SELECT 1")]
            errors.append(await refused(client, "start", question_id="nobody"))
            await said(client, "start", question_id="music_count")
            errors.append(await refused(client, "describe", table="singers"))
            await said(client, "answer", value="4")
            errors.append(await refused(client, "answer", value="4"))
            return errors

    before, unknown, table, after = asyncio.run(episode())
    assert "call start first" in before
    assert "no question 'nobody'" in unknown
    assert "singer" in table.lower()
    assert "Steps left: 4" in table
    assert "call start to begin another" in after


def test_the_last_step_says_that_the_episode_is_over(server: FastMCP) -> None:
    async def episode() -> list[str]:
        async with Client(server) as client:
            await said(client, "start", question_id="music_count")
            return [await said(client, "query", sql=f"SELECT {number}") for number in range(5)]

    assert "over" not in (texts := asyncio.run(episode()))[3]
    assert texts[4].endswith("The episode is over: no answer was given in time.")


def test_calls_that_come_side_by_side_are_played_one_by_one(server: FastMCP) -> None:
    slow = "WITH RECURSIVE n(i) AS (SELECT {} UNION ALL SELECT i + 1 FROM n WHERE i < 99999) "

    async def episode() -> list[str | BaseException]:
        async with Client(server) as client:
            await said(client, "start", question_id="music_count")
            calls = (
                said(client, "query", sql=slow.format(i) + "SELECT max(i) FROM n")
                for i in range(12)
            )
            return await asyncio.gather(*calls, return_exceptions=True)

    came = asyncio.run(episode())
    played = [text for text in came if isinstance(text, str)]
    assert sorted(text.partition("Steps left: ")[2][:1] for text in played) == list("01234")
    assert all("episode is over" in str(error) for error in came if isinstance(error, ToolError))


def test_sessions_play_their_own_episodes(server: FastMCP) -> None:
    async def episodes() -> tuple[str, str]:
        async with Client(server) as one, Client(server) as other:
            await said(one, "start", question_id="music_count")
            await said(other, "start", question_id="music_french")
            await said(one, "query", sql="SELECT count(*) FROM singer")
            await said(other, "query", sql="SELECT name FROM singer WHERE country = 'France'")
            return await said(one, "answer", value="@last"), await said(
                other, "answer", value="@last"
            )

    assert all(text.startswith("Correct.") for text in asyncio.run(episodes()))


@pytest.mark.slow
def test_the_command_serves_over_its_pipes(music_dir: Path) -> None:
    arguments = ["-m", "sql_env", "mcp", "--dataset", str(music_dir), "--split", "train"]

    async def episode() -> str:
        async with Client(StdioTransport(sys.executable, arguments)) as client:
            await said(client, "start", question_id="music_count")
            return await said(client, "answer", value="4")

    assert asyncio.run(episode()).startswith("Correct.")


# -- over HTTP -------------------------------------------------------------------------------

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
JSON = {"Accept": "application/json, text/event-stream"}


def begin(server: Running) -> httpx.Response:
    return server.post("/mcp", json=INITIALIZE, headers=JSON)


def test_two_agents_play_over_http(music_server: Running) -> None:
    async def episodes() -> tuple[str, str]:
        url = f"{music_server.url}/mcp"
        async with Client(url) as one, Client(url) as other:
            await said(one, "start", question_id="music_count")
            await said(other, "start", question_id="music_french")
            await said(one, "query", sql="SELECT count(*) FROM singer")
            assert "no such column" in await refused(other, "query", sql="SELECT nope FROM singer")
            return await said(one, "answer", value="@last"), await said(other, "answer", value="x")

    right, wrong = asyncio.run(episodes())
    assert right.startswith("Correct.") and wrong.startswith("Not correct.")


def test_requests_without_a_session_leave_nothing_behind(serve: Callable[..., Running]) -> None:
    server = serve(max_sessions=2)
    for body in [{}, [], {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}] * 10:
        answer = server.post("/mcp", json=body)
        assert answer.status_code == 200
        assert "begin one with initialize" in answer.json()["error"]["message"]
    assert begin(server).status_code == 200


def test_sessions_are_bounded_and_an_ended_one_makes_room(serve: Callable[..., Running]) -> None:
    server = serve(max_sessions=2)
    begun = [begin(server), begin(server)]
    assert [answer.status_code for answer in begun] == [200, 200]
    assert begin(server).status_code == 503
    left = {**JSON, "mcp-session-id": begun[0].headers["mcp-session-id"]}
    assert server.http.delete("/mcp", headers=left).status_code == 200
    assert begin(server).status_code == 200


def test_an_idle_session_is_ended(serve: Callable[..., Running]) -> None:
    server = serve(max_sessions=1, idle_seconds=0.3)
    assert begin(server).status_code == 200
    assert begin(server).status_code == 503
    time.sleep(0.8)
    assert begin(server).status_code == 200


def test_nobody_listens_and_the_guards_stand_before_it(serve: Callable[..., Running]) -> None:
    server = serve()
    assert server.get("/mcp", headers=JSON).status_code == 405
    foreign = {**JSON, "Origin": "https://evil.example"}
    assert server.post("/mcp", json=INITIALIZE, headers=foreign).status_code == 403
    assert begin(serve(token="open sesame")).status_code == 401
