"""Bounds: message size, rate, idleness, the number of sessions. Each answers clearly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from serving import Running
from websockets.exceptions import ConnectionClosed

from sql_env.server.traffic import CLOSED_FOR_IDLENESS, Bucket


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


def test_a_body_over_the_limit_or_of_unknown_length_is_refused(
    serve: Callable[..., Running],
) -> None:
    server = serve(max_message_bytes=2000)
    large = server.post("/reset", json={"episode_id": "x" * 3000})
    assert large.status_code == 413 and "the limit is 2000" in large.json()["detail"]
    chunked = server.post("/reset", content=iter([b"{", b"}"]))
    assert chunked.status_code == 411 and "Content-Length" in chunked.json()["detail"]


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


def test_http_has_the_same_rate(serve: Callable[..., Running]) -> None:
    server = serve(messages_per_second=3)
    codes = [server.get("/health").status_code for _ in range(20)]
    assert codes[:6] == [200] * 6 and 429 in codes


def test_a_bucket_fills_at_its_rate_and_no_further() -> None:
    bucket = Bucket(rate=10, now=0.0)
    assert [bucket.take(0.0) for _ in range(20)] == [0.0] * 20
    assert bucket.take(0.0) == pytest.approx(0.1)
    assert bucket.take(0.1) == 0.0
    assert bucket.take(0.1) > 0
    assert [bucket.take(1000.0) for _ in range(20)] == [0.0] * 20
    assert bucket.take(1000.0) > 0


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


def test_half_a_surrogate_pair_does_not_spoil_the_session(music_server: Running) -> None:
    with music_server.session() as wire:
        wire.reset(question_id="music_count")
        bad = '{"type": "step", "data": {"action_type": "QUERY", "argument": "SELECT \'\\ud83d\'"}}'
        assert wire.send(bad)["data"]["code"] == "NOT_UNICODE"
        good = bad.replace("\\ud83d", "\\ud83d\\ude00")
        assert "😀" in wire.send(good)["data"]["observation"]["result"]
