"""`SQLEnvClient` against a real server: typed results, clear errors, a server that dies."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from serving import Running

from sql_env.client import ServerError, SQLEnvClient
from sql_env.models import SQLAction, SQLObservation, SQLState


def query(sql: str) -> SQLAction:
    return SQLAction(action_type="QUERY", argument=sql)


LAST = SQLAction(action_type="ANSWER", argument="@last")


def test_an_episode_is_played_without_async(music_server: Running) -> None:
    with SQLEnvClient(music_server.url).sync() as env:
        first = env.reset(question_id="music_count")
        assert isinstance(first.observation, SQLObservation) and first.reward is None
        second = env.step(query("SELECT count(*) FROM Singer"))
        assert second.observation.step_count == 1
        assert second.observation.reward == second.reward != 0
        assert isinstance(env.state(), SQLState) and env.state().question_id == "music_count"
        last = env.step(LAST)
        assert last.done and last.observation.done and last.metadata["correct"] is True


def test_an_episode_can_begin_where_another_stood(music_server: Running) -> None:
    with SQLEnvClient(music_server.url).sync() as env:
        played = query("SELECT count(*) FROM Singer")
        seen = env.reset(question_id="music_count", actions=[played]).observation
        assert seen.step_count == 1 and "4" in seen.result
        assert env.step(LAST).metadata["correct"] is True


def test_many_episodes_at_once_stay_apart(music_server: Running) -> None:
    async def play(question_id: str) -> None:
        async with SQLEnvClient(music_server.url) as env:
            first = await env.reset(question_id=question_id)
            for number in range(8):
                result = await env.step(query(f"SELECT {number}"))
                assert result.observation.question == first.observation.question
            history = [f"QUERY: SELECT {number}" for number in range(8)]
            assert result.observation.action_history == history
            assert (await env.state()).question_id == question_id

    async def all_of_them() -> None:
        names = ["music_count", "music_french", "music_join", "music_nobody"]
        await asyncio.gather(*(play(name) for name in names * 8))

    asyncio.run(all_of_them())


def test_tasks_are_listed_over_the_same_client(music_server: Running) -> None:
    with SQLEnvClient(music_server.url).sync() as env:
        assert env.list_splits() == ["eval", "train"]
        assert env.num_tasks("train") == len(env.list_tasks("train")) == 3
        assert env.list_tasks("eval")[0]["id"] == "music_nobody"
        with pytest.raises(ServerError, match="no split 'dev'") as error:
            env.num_tasks("dev")
        assert error.value.code == "HTTP 404"


def test_what_the_server_refuses_keeps_its_code(music_server: Running) -> None:
    with SQLEnvClient(music_server.url).sync() as env:
        with pytest.raises(ServerError, match=r"call reset\(\) before step\(\)") as error:
            env.step(LAST)
        assert error.value.code == "EXECUTION_ERROR"


def test_a_token_opens_the_door_and_a_missing_one_is_explained(
    serve: Callable[..., Running],
) -> None:
    server = serve(token="secret")
    with SQLEnvClient(server.url, token="secret").sync() as env:
        assert env.reset(seed=1).observation.question
        assert env.list_splits()
        assert env.new_session().reset(seed=1).observation.question
    for token in (None, "wrong"):
        with pytest.raises(ConnectionError, match="wants its token"):
            SQLEnvClient(server.url, token=token).sync().connect()


def test_a_server_that_is_not_there_is_named(music_server: Running) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    client = SQLEnvClient(f"http://127.0.0.1:{port}").sync()
    with pytest.raises(ConnectionError, match=str(port)):
        client.reset()
    with pytest.raises(ConnectionError, match="does not answer"):
        client.list_splits()


def test_an_idle_session_says_so_when_the_client_comes_back(serve: Callable[..., Running]) -> None:
    with SQLEnvClient(serve(idle_seconds=0.3).url).sync() as env:
        env.reset(question_id="music_count")
        time.sleep(0.8)
        with pytest.raises(ConnectionError, match=r"0\.3 s without a message.*reset\(\)"):
            env.step(LAST)
        assert env.reset(question_id="music_join").observation.step_count == 0


ENDLESS = query(
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"
)


def test_after_a_timeout_the_next_step_says_what_happened(music_server: Running) -> None:
    with SQLEnvClient(music_server.url, message_timeout_s=0.5).sync() as env:
        env.reset(question_id="music_count")
        with pytest.raises(TimeoutError, match=r"did not answer the last step within 0\.5 s"):
            env.step(ENDLESS)
        for ask in (lambda: env.step(LAST), env.state, lambda: env.step(LAST)):
            with pytest.raises(ConnectionError, match=r"within 0\.5 s.*call reset\(\)"):
                ask()
        assert env.reset(question_id="music_join").observation.step_count == 0
        assert env.step(query("SELECT 7")).observation.action_history == ["QUERY: SELECT 7"]


def test_after_a_cancelled_step_the_next_one_says_so(music_server: Running) -> None:
    async def play() -> None:
        async with SQLEnvClient(music_server.url) as env:
            await env.reset(question_id="music_count")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(env.step(ENDLESS), 0.3)
            with pytest.raises(ConnectionError, match=r"step was cancelled.*call reset\(\)"):
                await env.step(LAST)
            assert (await env.reset(question_id="music_count")).observation.step_count == 0

    asyncio.run(play())


def test_a_client_that_is_too_fast_waits(serve: Callable[..., Running]) -> None:
    with SQLEnvClient(serve(messages_per_second=20).url).sync() as env:
        env.reset(question_id="music_count")
        for _ in range(50):
            assert env.state().question_id == "music_count"


class ServerProcess:
    """`sql-env serve` in a process that can be killed."""

    def __init__(self, dataset: Path, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.dataset, self.options = dataset, options
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", "from sql_env.cli import main; main()", "serve"]
        command += ["--port", str(self.port), "--dataset", str(self.dataset), *self.options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE)
        until = time.monotonic() + 120
        while True:
            try:
                urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1).close()
                return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < until
                time.sleep(0.1)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


@pytest.fixture
def killable(music_dir: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(music_dir)
    yield server
    server.kill()


def test_a_killed_server_is_a_connection_error_and_after_a_restart_play_goes_on(
    killable: ServerProcess,
) -> None:
    assert killable.process.stderr is not None
    with SQLEnvClient(f"http://127.0.0.1:{killable.port}").sync() as env:
        env.reset(question_id="music_count")
        env.step(query("SELECT count(*) FROM Singer"))
        killable.kill()
        with pytest.raises(ConnectionError, match=r"is gone.*call reset\(\)"):
            env.step(LAST)
        with pytest.raises(ConnectionError):
            env.reset(question_id="music_count")
        assert b"4 questions on 1 databases" in killable.process.stderr.read()
        killable.start()
        fresh = env.reset(question_id="music_count").observation
        assert fresh.step_count == 0
        env.step(query("SELECT count(*) FROM Singer"))
        assert env.step(LAST).observation.metadata["correct"] is True


@pytest.mark.slow
def test_two_workers_share_a_port_and_each_keeps_its_sessions(music_dir: Path) -> None:
    server = ServerProcess(music_dir, "--workers", "2", "--max-sessions", "40")
    try:
        url = f"http://127.0.0.1:{server.port}"
        clients = [SQLEnvClient(url).sync() for _ in range(24)]
        for client in clients:
            client.reset(question_id="music_count")
        for number in range(3):
            for index, client in enumerate(clients):
                result = client.step(query(f"SELECT {index}, {number}"))
                assert len(result.observation.action_history) == number + 1
                assert f"SELECT {index}, {number}" in result.observation.action_history[-1]
        for client in clients:
            client.close()
        workers = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        if workers.is_file():
            assert len(workers.read_text().split()) >= 2
    finally:
        server.process.terminate()
        assert server.process.wait(30) in (0, -signal.SIGTERM)
