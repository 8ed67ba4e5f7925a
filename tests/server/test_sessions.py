"""Sessions: what they survive, who makes room, and that nobody waits for another's SQL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from raw import Raw
from serving import Running
from websockets.exceptions import ConnectionClosed

from sql_env.server.sessions import CLOSED_FOR_IDLENESS


def test_a_message_over_the_limit_is_named_and_the_session_goes_on(
    serve: Callable[..., Running],
) -> None:
    server = serve(max_message_bytes=2000)
    with server.session() as wire:
        wire.reset(question_id="music_count")
        refused = wire.step("QUERY", "SELECT '" + "é" * 1500 + "'")
        assert refused["data"]["code"] == "MESSAGE_TOO_LARGE"
        assert "the limit is 2,000" in refused["data"]["message"]
        assert wire.send({"type": "state"})["data"]["step_count"] == 0
        assert wire.step("QUERY", "SELECT '" + "e" * 1500 + "'")["type"] == "observation"


def test_a_message_far_over_the_limit_ends_the_connection(serve: Callable[..., Running]) -> None:
    with serve(max_message_bytes=2000).session() as wire:
        with pytest.raises(ConnectionClosed) as error:
            wire.send("x" * 100_000)
        assert error.value.rcvd is not None and error.value.rcvd.code == 1009


def test_a_client_that_is_too_fast_is_told_how_long_to_wait(serve: Callable[..., Running]) -> None:
    server = serve(messages_per_second=5)
    with server.session() as wire:
        answers = [wire.send({"type": "state"}) for _ in range(30)]
        refused = [answer for answer in answers if answer["type"] == "error"]
        assert [answer["type"] for answer in answers[:10]] == ["state"] * 10
        assert refused and refused[0]["data"]["code"] == "RATE_LIMITED"
        assert "more than 5 messages a second: wait " in refused[0]["data"]["message"]
        time.sleep(0.5)
        assert wire.send({"type": "state"})["type"] == "state"
    with server.session() as another:
        assert another.send({"type": "state"})["type"] == "state", "each session has its own"


def test_an_idle_session_is_closed_and_its_place_is_free(serve: Callable[..., Running]) -> None:
    server = serve(idle_seconds=0.4, max_sessions=1)
    with server.session() as wire:
        wire.reset(question_id="music_count")
        said = wire.receive()
        assert said["data"]["code"] == "SESSION_IDLE"
        assert "0.4 s without a message" in said["data"]["message"]
        with pytest.raises(ConnectionClosed) as error:
            wire.receive()
        assert error.value.rcvd is not None and error.value.rcvd.code == CLOSED_FOR_IDLENESS
        with server.session() as next_one:
            assert next_one.reset(seed=1)["type"] == "observation"


def test_a_session_that_works_is_not_idle(serve: Callable[..., Running]) -> None:
    """The deadline of a query is longer than the idle time here."""
    server = serve(idle_seconds=0.4)
    endless = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"
    with server.session() as wire:
        wire.reset(question_id="music_count")
        assert wire.step("QUERY", endless)["type"] == "observation"
        for _ in range(4):
            time.sleep(0.2)
            assert wire.send({"type": "state"})["type"] == "state"


def test_one_session_too_many_is_told_so(serve: Callable[..., Running]) -> None:
    server = serve(max_sessions=2)
    with server.session() as one, server.session() as two:
        one.reset(seed=1), two.reset(seed=1)
        with server.session() as third:
            refused = third.receive()
            assert refused["data"]["code"] == "CAPACITY_REACHED"
            assert "2/2 sessions" in refused["data"]["message"]
        assert one.reset(seed=2)["type"] == "observation"
    wait_for_place(server)


def test_a_killed_client_leaves_its_place(serve: Callable[..., Running]) -> None:
    server = serve(max_sessions=1, idle_seconds=20)
    script = (
        "import sys, websockets.sync.client as c; "
        f"ws = c.connect('ws://127.0.0.1:{server.port}/ws', proxy=None).__enter__(); "
        """ws.send('{"type": "reset", "data": {"seed": 1}}'); ws.recv(); """
        "print('playing', flush=True); sys.stdin.read()"
    )
    client = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert client.stdout is not None and client.stdout.readline() == b"playing\n"
        with server.session() as refused:
            assert refused.receive()["data"]["code"] == "CAPACITY_REACHED"
    finally:
        os.kill(client.pid, signal.SIGKILL)
        client.wait(10)
    wait_for_place(server)


def wait_for_place(server: Running) -> None:
    until = time.monotonic() + 10
    while True:
        with server.session() as wire:
            if wire.reset(seed=1)["type"] == "observation":
                return
        assert time.monotonic() < until, "the place was not freed"
        time.sleep(0.05)


@pytest.mark.parametrize("frame", [b"\x00\x01", b'{"type": "state"}'])
def test_a_binary_frame_is_refused(music_server: Running, frame: bytes) -> None:
    with music_server.session() as wire:
        assert wire.send(frame)["data"]["code"] == "NOT_TEXT"
        assert wire.reset(seed=1)["type"] == "observation"


STEP = '{"type": "step", "data": {"action_type": "QUERY", "argument": %s}}'


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("", "INVALID_JSON"),
        ("{", "INVALID_JSON"),
        ("{}{}", "INVALID_JSON"),
        ("NaN", "INVALID_JSON"),
        (STEP % "NaN", "INVALID_JSON"),
        (STEP % "-Infinity", "INVALID_JSON"),
        (STEP % '"\\ud83d"', "INVALID_JSON"),
        (STEP % '"\\udc00\\ud83d"', "INVALID_JSON"),
        (STEP % ("1" * 5000), "INVALID_JSON"),
        (STEP % ("[" * 20000), "INVALID_JSON"),
        (STEP % ("[" * 300 + "]" * 300), "INVALID_JSON"),
        (STEP % ('{"a":' * 300 + "1" + "}" * 300), "INVALID_JSON"),
        ("[]", "VALIDATION_ERROR"),
        ("3", "VALIDATION_ERROR"),
        ("null", "VALIDATION_ERROR"),
        ('"reset"', "VALIDATION_ERROR"),
        ("{}", "UNKNOWN_TYPE"),
        ('{"type": null}', "UNKNOWN_TYPE"),
        ('{"type": ["step"]}', "UNKNOWN_TYPE"),
        ('{"type": "mcp", "data": {"method": "openenv/session/create"}}', "UNKNOWN_TYPE"),
        ('{"type": "step"}', "VALIDATION_ERROR"),
        ('{"type": "step", "data": null}', "VALIDATION_ERROR"),
        ('{"type": "step", "data": []}', "VALIDATION_ERROR"),
        ('{"type": "step", "data": {}}', "VALIDATION_ERROR"),
        ('{"type": "step", "data": {"action_type": 1}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {}, "more": 1}', "VALIDATION_ERROR"),
        (STEP.replace("QUERY", "Q" * 50000) % '"x"', "VALIDATION_ERROR"),
        (STEP % "null", "VALIDATION_ERROR"),
        (STEP % "1e400", "VALIDATION_ERROR"),
        (STEP % '{"a": 1}', "VALIDATION_ERROR"),
        (json.dumps({"type": "step", "data": {f"k{i}": 1 for i in range(3000)}}),
         "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"self": 1}}', "EXECUTION_ERROR"),
        ('{"type": "reset", "data": {"seed": 1e400}}', "EXECUTION_ERROR"),
        ('{"type": "reset", "data": {"seed": {}}}', "EXECUTION_ERROR"),
        ('{"type": "reset", "data": {"index": -1, "split": "train"}}', "EXECUTION_ERROR"),
        ('{"type": "reset", "data": {"index": %s}}' % ("9" * 4000), "EXECUTION_ERROR"),
        ('{"type": "reset", "data": {"question_id": "%s"}}' % ("x" * 50000), "EXECUTION_ERROR"),
        ('{"type": "reset", "data": {"split": "train*400000"}}', "EXECUTION_ERROR"),
        ('{"type": "reset", "data": {"%s": 1}}' % ("x" * 50000), "EXECUTION_ERROR"),
    ],
    ids=lambda value: value[:40] if value.startswith("{") else value[:20],
)  # fmt: skip
def test_a_bad_message_is_answered_shortly_and_the_session_goes_on(
    music_server: Running, message: str, code: str
) -> None:
    with music_server.session() as wire:
        wire.reset(question_id="music_count")
        wire.step("QUERY", "SELECT 1")
        answer = wire.send(message)
        assert (answer["type"], answer["data"]["code"]) == ("error", code)
        assert len(answer["data"]["message"]) < 6000
        assert wire.send({"type": "state"})["data"]["step_count"] == 1
        assert wire.step("ANSWER", "4")["data"]["done"]


def test_what_is_no_message_ends_the_connection_and_nothing_else(music_server: Running) -> None:
    """Broken frames, broken UTF-8, a frame too large to be read at all."""
    frames: list[Callable[[Raw], None]] = [
        lambda raw: raw.send(b"\xff\xff\xff\xff\xff\xff"),
        lambda raw: raw.send(b"\x81\x05hello"),  # without a mask
        lambda raw: raw.frame(b"\xff\xfe"),
        lambda raw: raw.frame(b"x", 0x80),  # goes on with what was never begun
        lambda raw: raw.frame(b"", announced=2**40),
        lambda raw: raw.frame(b"", announced=2**63),
        lambda raw: raw.frame(b"x" * 126, 0x89),  # a ping may not be that long
    ]
    for send in frames:
        with Raw(music_server.port) as raw:
            assert raw.upgrade("Host: localhost") == 101
            send(raw)
            raw.read_to_the_end()
    with music_server.session() as wire:
        assert wire.reset(seed=1)["type"] == "observation"


def test_a_message_in_parts_is_one_message(music_server: Running) -> None:
    with Raw(music_server.port) as raw:
        assert raw.upgrade("Host: localhost") == 101
        raw.frame(b'{"type":', 0x01)
        raw.frame(b"are you there", 0x89)
        raw.frame(b' "state"', 0x00)
        raw.frame(b"}", 0x80)
        while (head := raw.read(2)) and head[0] == 0x8A:  # a pong
            raw.read(head[1])
        assert head[0] == 0x81


@pytest.mark.parametrize("path", ["/mcp", "/harness", "/web/ws", "/", "/ws/"])
def test_no_other_websocket_is_open(music_server: Running, path: str) -> None:
    with Raw(music_server.port) as raw:
        assert raw.upgrade("Host: localhost", path=path) in (403, 404)


def test_a_session_belongs_to_one_connection(music_server: Running) -> None:
    """OpenEnv would let a second connection in by the session's id."""
    with music_server.session() as one, music_server.session("/ws?session_id=x") as two:
        one.reset(question_id="music_count")
        assert two.send({"type": "state"})["data"]["question_id"] is None


def test_calls_over_http_take_no_places(serve: Callable[..., Running]) -> None:
    server = serve(max_sessions=2)
    create = {"jsonrpc": "2.0", "method": "openenv/session/create", "id": 1, "params": {}}
    for _ in range(20):
        answer = server.post("/mcp", json=create)
        assert answer.json()["error"]["code"] == -32601 and "/ws" in answer.text
        server.post("/reset", json={"seed": 1})
        server.get("/state")
    with server.session() as one, server.session() as two:
        assert one.reset(seed=1)["type"] == two.reset(seed=1)["type"] == "observation"


def test_a_session_that_plays_nothing_makes_room_for_one_that_wants_to(
    serve: Callable[..., Running],
) -> None:
    server = serve(max_sessions=3, request_seconds=0.3)
    with server.session() as playing, server.session() as empty, server.session() as over:
        playing.reset(question_id="music_count")
        empty.send({"type": "state"})
        over.reset(question_id="music_count"), over.step("ANSWER", "4")
        with server.session() as early:
            assert early.receive()["data"]["code"] == "CAPACITY_REACHED"
        time.sleep(0.5)
        with server.session() as one, server.session() as two, server.session() as three:
            assert one.reset(seed=1)["type"] == two.reset(seed=1)["type"] == "observation"
            assert three.receive()["data"]["code"] == "CAPACITY_REACHED"
            assert playing.step("ANSWER", "4")["data"]["done"], "who plays, stays"
        for gone in (empty, over):
            assert "to make room" in gone.receive()["data"]["message"]


ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"


def test_statements_of_one_session_keep_the_others_waiting_for_nothing(
    music_server: Running,
) -> None:
    """While twelve are on their way, which is more than begin at once, others play on."""
    heavy = [music_server.session() for _ in range(12)]
    for wire in heavy:
        wire.reset(question_id="music_count")
        wire.ws.send(
            json.dumps({"type": "step", "data": {"action_type": "QUERY", "argument": ENDLESS}})
        )
    played = 0
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.extend(wire.receive() for wire in heavy))
    with music_server.session() as light:
        waiting.start()
        while waiting.is_alive():
            light.reset(question_id="music_join")
            light.step("QUERY", "SELECT count(*) FROM Concert")
            played += 1
    assert played > 10
    kinds = {answer["data"]["observation"]["metadata"]["error_kind"] for answer in answers}
    assert kinds == {"timeout"}
    for wire in heavy:
        wire.ws.close()


def test_nothing_of_an_episode_runs_in_the_event_loop(
    serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sql_env.core.database import Database
    from sql_env.environment import SQLEnvironment

    server = serve()
    seen: set[str] = set()

    def watched(method: Any) -> Any:
        def watching(self: Any, *args: Any, **kwargs: Any) -> Any:
            seen.add(f"{method.__name__} in {threading.current_thread().name}")
            return method(self, *args, **kwargs)

        return watching

    for owner, name in ((Database, "query"), (SQLEnvironment, "reset"), (SQLEnvironment, "step")):
        monkeypatch.setattr(owner, name, watched(getattr(owner, name)))
    with server.session() as wire:
        wire.reset(question_id="music_count", details=True)
        for kind, argument in (("DESCRIBE", "Singer"), ("QUERY", "SELECT 1"), ("ANSWER", "4")):
            wire.step(kind, argument)
    server.post("/reset", json={"question_id": "music_join"})
    server.post("/step", json={"action": {"action_type": "QUERY", "argument": "SELECT 1"}})
    assert {item.split("_")[0] for item in seen} == {
        "query in play", "reset in play", "step in play",
    }  # fmt: skip


def test_more_sessions_than_threads_all_get_their_turn(serve: Callable[..., Running]) -> None:
    server = serve(max_sessions=90)
    sessions = [server.session() for _ in range(80)]
    for wire in sessions:
        wire.ws.send('{"type": "reset", "data": {"question_id": "music_count"}}')
    assert all(wire.receive()["type"] == "observation" for wire in sessions)
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("play")]
    assert len(names) <= 64 * 4, "threads of at most a few servers"
    for wire in sessions:
        wire.ws.close()
