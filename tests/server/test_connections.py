"""Clients that never finish what they begin, on sockets that must not stay for their sake."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path

import pytest
from raw import Raw
from serving import Running, start_server

from sql_env.server.settings import ServerSettings

HEAD = b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
)
TRICKLES = {
    "nothing": (b"", b""),
    "empty lines": (b"", b"\r\n"),
    "a request line": (b"GET /", b"x"),
    "headers": (b"GET /health HTTP/1.1\r\nHost: localhost\r\n", b"X: y\r\n"),
    "a body": (HEAD + b"Content-Length: 1000\r\n\r\n", b" "),
    "a body in chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "a body that was refused": (HEAD + b"Content-Length: 9000000\r\n\r\n", b" "),
    "headers after the body": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
        b"X: y\r\n",
    ),
    "a second request": (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /", b"x"),
    "a handshake": (UPGRADE, b"X: y\r\n"),
    "a message": (UPGRADE + b"\r\n", b"\x81\xfe\x10\0\0\0\0\0", b"{"),
    "a message of many parts": (
        UPGRADE + b"\r\n",
        b"\x01\x81\0\0\0\0{",
        b"\x00\x80\0\0\0\0\x89\x80\0\0\0\0",
    ),
}


@pytest.fixture(scope="module")
def hasty(music_dir: Path) -> object:
    server = start_server(ServerSettings(dataset=str(music_dir), request_seconds=0.5))
    yield server
    server.stop()


@pytest.mark.parametrize("what", TRICKLES)
def test_what_is_begun_and_never_ended_is_cut_off(hasty: Running, what: str) -> None:
    """Byte after byte, so that the connection is never silent."""
    first, *then, drip = TRICKLES[what]
    with Raw(hasty.port, timeout=0.05) as raw:
        raw.send(first)
        for more in then:
            assert raw.status() == 101
            raw.send(more)
        began = time.monotonic()
        for _ in chain([0], repeat(0.05)):
            assert time.monotonic() - began < 4, "still connected"
            try:
                raw.send(drip)
                if raw.read() == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
    assert time.monotonic() - began > 0.3, "cut off before its time"
    assert hasty.get("/health").status_code == 200


def test_who_is_cut_off_is_told_why(hasty: Running) -> None:
    with Raw(hasty.port) as raw:
        raw.send(b"GET /health HTTP/1.1\r\n")
        said = raw.read_to_the_end()
    assert said.startswith(b"HTTP/1.1 408 ") and b"did not arrive in time" in said


@pytest.mark.parametrize(
    ("first", "more", "status"),
    [
        (b"GET /health HTTP/1.1\r\n", b"X: " + b"y" * 996 + b"\r\n", b"431"),
        (b"GET /", b"x" * 1000, b"431"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"3e8\r\n" + b"x" * 1000 + b"\r\n", b"411"),
        (HEAD + b"Content-Length: 100000000\r\n\r\n", b"x" * 1000, b"413"),
    ],
    ids=["headers", "address", "chunks", "body"],
)
def test_a_request_without_end_is_not_read_to_its_end(
    music_server: Running, first: bytes, more: bytes, status: bytes
) -> None:
    sent, ended = 0, False
    with Raw(music_server.port) as raw:
        raw.send(first)
        try:
            while sent < 20_000_000:
                raw.send(more)
                sent += len(more)
        except ConnectionError:
            ended = True
    # The two kernels between them hold some megabytes.
    assert ended and sent < 15_000_000
    with Raw(music_server.port) as raw:
        raw.send(first + more * 40)
        assert raw.read().split(b" ", 2)[1] == status


@pytest.mark.parametrize("how", ["pings", "requests"])
def test_a_client_that_reads_no_answers_is_cut_off(hasty: Running, how: str) -> None:
    before = open_descriptors()
    with Raw(hasty.port) as raw:
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if how == "pings":
            raw.send(UPGRADE + b"\r\n")
            assert raw.status() == 101
            more, together = b"\x89\xfd" + b"\0\0\0\0" + b"x" * 125, 1000
        else:
            more, together = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 50
        raw.socket.settimeout(0.1)
        until = time.monotonic() + 30
        rest = b""
        while open_descriptors() > before + 1:
            assert time.monotonic() < until, "still connected"
            rest = rest or more * together
            try:
                rest = rest[raw.socket.send(rest) :]
                time.sleep(0.001)
            except TimeoutError:
                continue
            except ConnectionError:
                break


def test_requests_in_a_row_are_bounded(music_server: Running) -> None:
    ask = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Raw(music_server.port) as raw:
        raw.send(ask * 1000)
        assert raw.read_to_the_end().count(b"HTTP/1.1 200") <= 100


def open_descriptors() -> int:
    """Of this process, which is client and server."""
    return len(os.listdir("/proc/self/fd"))


def test_a_session_that_is_slow_between_messages_is_not_cut_off(hasty: Running) -> None:
    with hasty.session() as wire:
        for _ in range(3):
            assert wire.send({"type": "state"})["type"] == "state"
            time.sleep(0.7)


def test_a_query_that_takes_longer_than_a_request_may_is_answered(hasty: Running) -> None:
    endless = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"
    with hasty.session() as wire:
        wire.reset(question_id="music_count")
        assert wire.step("QUERY", endless)["type"] == "observation"


def test_many_requests_on_one_connection_are_all_answered(hasty: Running) -> None:
    ask = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Raw(hasty.port) as raw:
        raw.send(ask * 20)
        said = b""
        while said.count(b"HTTP/1.1 200") < 20:
            part = raw.read()
            assert part
            said += part
        for _ in range(4):
            time.sleep(0.3)
            raw.send(ask)
            assert raw.read().startswith(b"HTTP/1.1 200")


def test_connections_are_bounded_and_their_places_come_back(
    serve: Callable[..., Running],
) -> None:
    server = serve(max_sessions=1, request_seconds=0.5)
    most = server.settings.max_connections
    before = open_descriptors()
    held = [Raw(server.port) for _ in range(most)]
    with Raw(server.port) as one_too_many:
        assert b" 503 " in one_too_many.read_to_the_end()
    for raw in held:
        raw.read_to_the_end()
        raw.socket.close()
    until = time.monotonic() + 5
    while open_descriptors() > before + 8:
        assert time.monotonic() < until, "descriptors stay open"
        time.sleep(0.05)
    with server.session() as wire:
        assert wire.reset(seed=1)["type"] == "observation"
