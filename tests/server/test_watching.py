"""A policy plays for who watches: over the wire, and the line of those who wait for it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from serving import Running, Wire
from typer.testing import CliRunner
from websockets.exceptions import ConnectionClosed, InvalidStatus

from sql_env.agent.chat_client import EndpointSettings
from sql_env.agent.choice import ModelOptions, build_policy
from sql_env.agent.endpoint import EndpointPolicy
from sql_env.agent.playing import OneByOne
from sql_env.agent.policies import BatchPolicy, ConstantPolicy
from sql_env.cli import app
from sql_env.environment import SQLEnvironment
from sql_env.models import SQLAction, SQLObservation
from sql_env.questions import Dataset
from sql_env.server import watching
from sql_env.server.players import LONGEST_LINE, TOGETHER, BusyError, Player, PolicyFailedError
from sql_env.server.settings import ServerSettings, ServerSettingsError


def watch(server: Running, policy: str, question: str, **headers: str) -> Wire:
    asked = urlencode({"policy": policy, "question": question})
    return server.session(f"/web/watch?{asked}", **headers)


def next_step(wire: Wire) -> tuple[dict[str, Any], list[str]]:
    """The next step, and what was to be read of it while it was written."""
    wire.ws.send("next")
    written = []
    while (frame := wire.receive())["type"] == "writing":
        written.append(frame["data"]["text"])
    assert frame["type"] == "step", frame
    return frame["data"], written


def test_the_oracle_plays_a_step_when_it_is_asked(music_server: Running) -> None:
    with watch(music_server, "oracle", "music_count") as wire:
        opening = wire.receive()["data"]["observation"]
        assert opening["question"] == "How many singers are there?"
        with pytest.raises(TimeoutError):
            wire.ws.recv(timeout=0.3)
        steps = [next_step(wire)[0] for _ in range(3)]
        assert [step["action"]["action_type"] for step in steps] == ["DESCRIBE", "QUERY", "ANSWER"]
        assert [step["done"] for step in steps] == [False, False, True]
        assert steps[1]["observation"]["metadata"]["details"]["grid"]["rows"] == [[4]]
        assert steps[2]["observation"]["metadata"]["correct"] is True
        with pytest.raises(ConnectionClosed):
            wire.ws.recv(timeout=5)


def test_a_model_is_read_while_it_writes_and_its_folder_is_not_named(
    serve: Callable[..., Running], model_dir: Path
) -> None:
    server = serve(policies=(f"model:{model_dir}",))
    offered = server.get("/web/catalogue").json()
    assert offered["policies"] == [model_dir.name, "random", "oracle"]
    assert offered["more_policies"] == ""
    assert str(model_dir.parent) not in json.dumps(offered)
    with watch(server, model_dir.name, "music_count") as wire:
        wire.receive()
        step, written = next_step(wire)
        assert len(written) > 1, "an untrained model rambles"
        assert all(later.startswith(sooner[:-2]) for sooner, later in pairwise(written))
        assert step["said"].startswith(written[-1][:-2])


def test_what_one_visitor_sees_does_not_depend_on_the_others(
    serve: Callable[..., Running], sft_model_dir: Path
) -> None:
    server = serve(policies=(f"model:{sft_model_dir}",))
    (name, *_) = server.get("/web/catalogue").json()["policies"]
    with watch(server, name, "music_count") as alone:
        alone.receive()
        expected = [next_step(alone)[0]["said"] for _ in range(3)]
    with watch(server, name, "music_count") as one, watch(server, name, "music_join") as other:
        one.receive(), other.receive()
        first = next_step(one)[0]["said"]
        next_step(other)  # while the first pauses
        one.ws.send("next")
        next_step(other)  # while the first is written
        while (frame := one.receive())["type"] != "step":
            pass
        assert [first, frame["data"]["said"], next_step(one)[0]["said"]] == expected


@pytest.mark.parametrize(
    ("policy", "question", "part"),
    [
        ("model:/etc", "music_count", "policy must be one of random, oracle"),
        ("oracle", "nobody", "no question 'nobody'"),
        ("oracle", "x" * 300, "question_id"),
    ],
)
def test_what_cannot_be_watched_is_refused(
    music_server: Running, policy: str, question: str, part: str
) -> None:
    with watch(music_server, policy, question) as wire:
        frame = wire.receive()
        assert frame["type"] == "error" and part in frame["data"]["message"]
        with pytest.raises(ConnectionClosed):
            wire.ws.recv(timeout=5)


def test_only_so_many_episodes_are_watched(
    serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MOST_WATCHED", 2)
    server = serve()
    with (
        watch(server, "oracle", "music_count") as one,
        watch(server, "random", "music_count") as two,
    ):
        assert {one.receive()["type"], two.receive()["type"]} == {"observation"}
        with watch(server, "oracle", "music_count") as third:
            assert third.receive()["data"]["code"] == "CAPACITY_REACHED"
    with watch(server, "oracle", "music_count") as wire:
        assert wire.receive()["type"] == "observation", "who left has made room"


def test_a_watcher_who_asks_for_nothing_is_closed(serve: Callable[..., Running]) -> None:
    with watch(serve(idle_seconds=0.3), "oracle", "music_count") as wire:
        wire.receive()
        assert wire.receive()["data"]["code"] == "SESSION_IDLE"


def test_the_guards_stand_before_it(serve: Callable[..., Running]) -> None:
    with pytest.raises(InvalidStatus):
        watch(serve(), "oracle", "music_count", Origin="https://evil.example")
    with pytest.raises(InvalidStatus):
        watch(serve(token="open sesame"), "oracle", "music_count")


def test_where_the_gold_answer_is_hidden_no_oracle_plays(serve: Callable[..., Running]) -> None:
    server = serve(hide_gold=True)
    assert server.get("/web/catalogue").json()["policies"] == ["random"]
    with watch(server, "oracle", "music_count") as wire:
        assert wire.receive()["type"] == "error"
    with pytest.raises(ServerSettingsError, match="shows the gold query"):
        ServerSettings(hide_gold=True, policies=("oracle",))


def test_policies_need_a_server_of_one_worker(serve: Callable[..., Running]) -> None:
    server = serve(policies=("random", "constant:7"))
    offered = server.get("/web/catalogue").json()
    assert offered["policies"] == ["random", "constant:7", "oracle"]
    assert "--policy model:PATH" in offered["more_policies"]
    with pytest.raises(ServerSettingsError, match="--workers"):
        ServerSettings(workers=2, policies=("random",))


def test_a_policy_that_cannot_be_had_is_told_in_one_line(music_dir: Path) -> None:
    command = ["serve", "--port", "8499", "--dataset", str(music_dir), "--policy", "model:/nowhere"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert "cannot load '/nowhere'" in result.stderr
    assert "/web" not in result.stderr, "nothing is promised that is not served"


def test_without_the_training_extra_the_choice_says_what_to_install(
    serve: Callable[..., Running], music_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "pip install '.[training]'" in serve().get("/web/catalogue").json()["more_policies"]
    command = ["serve", "--port", "8499", "--dataset", str(music_dir), "--policy", "model:a/b"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert "a model needs the training extra" in result.stderr


# -- the line --------------------------------------------------------------------------------


def opening(music_dir: Path) -> SQLObservation:
    dataset = Dataset.at(music_dir)
    with SQLEnvironment(questions=dataset.load(), db_dir=dataset.db_dir) as env:
        return env.reset(question_id="music_count")


def test_a_few_are_served_the_others_wait_and_the_line_has_an_end(music_dir: Path) -> None:
    async def crowd() -> None:
        player, seen = Player(OneByOne(ConstantPolicy("4"))), opening(music_dir)
        news = [player.ask(number, seen) for number in range(TOGETHER + LONGEST_LINE)]
        with pytest.raises(BusyError, match="try again later"):
            player.ask(999, seen)
        assert isinstance(await news[0].get(), SQLAction)
        assert (await news[TOGETHER].get()).ahead == 1  # type: ignore[union-attr]
        for waiting in news[1:]:
            while not isinstance(heard := await waiting.get(), SQLAction):
                pass
            assert heard.argument == "4"

    asyncio.run(crowd())


def test_who_leaves_in_the_middle_of_a_turn_has_stopped_it(
    music_dir: Path, model_dir: Path
) -> None:
    options = ModelOptions(at_once=2, max_new_tokens=2000)
    policy = build_policy(f"model:{model_dir}", [], options)
    assert isinstance(policy, BatchPolicy)

    async def visit() -> None:
        player, seen = Player(policy), opening(music_dir)
        news = player.ask(0, seen)
        first = await news.get()
        other = player.ask(1, seen)
        player.leave(0)
        await other.get()
        assert policy.written(1) and not policy.written(0)  # type: ignore[attr-defined]
        player.leave(1)
        while not news.empty():
            assert not isinstance(news.get_nowait(), SQLAction)
        assert not isinstance(first, SQLAction)

    asyncio.run(visit())


def test_a_policy_that_fails_ends_the_episode_and_names_no_address(music_dir: Path) -> None:
    settings = EndpointSettings("http://127.0.0.1:9/v1", "none", retries=0)

    async def visit() -> PolicyFailedError:
        player = Player(EndpointPolicy(settings))
        return await player.ask(0, opening(music_dir)).get()  # type: ignore[return-value]

    failure = asyncio.run(visit())
    assert isinstance(failure, PolicyFailedError)
    assert "server's log" in str(failure) and "127.0.0.1" not in str(failure)
