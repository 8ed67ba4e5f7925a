"""Bounds of plain HTTP: size, rate, JSON. Each answers clearly."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from raw import Raw
from serving import Running

from sql_env.server.traffic import Bucket


def test_a_body_over_the_limit_or_of_unknown_length_is_refused(
    serve: Callable[..., Running],
) -> None:
    server = serve(max_message_bytes=2000)
    large = server.post("/reset", json={"episode_id": "x" * 3000})
    assert large.status_code == 413 and "the limit is 2000" in large.json()["detail"]
    chunked = server.post("/reset", content=iter([b"{", b"}"]))
    assert chunked.status_code == 411 and "Content-Length" in chunked.json()["detail"]


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


@pytest.mark.parametrize("path", ["/reset", "/step", "/mcp", "/sql_env/num_tasks", "/sql_env/task"])
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"NaN",
        b'{"seed": NaN}',
        b'{"seed": 1e400}',
        b'{"action": {"action_type": Infinity}}',
        b'{"split": "\\ud800", "index": 0}',
        b'{"split": "\xff", "index": 0}',
        b"[" * 50000,
        b"[" * 500 + b"]" * 500,
        b'{"seed": ' + b"1" * 5000 + b"}",
    ],
    ids=lambda value: value[:24].decode("latin-1"),
)
def test_a_body_that_is_no_plain_json_is_refused(
    music_server: Running, path: str, body: bytes
) -> None:
    answer = music_server.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400 and "cannot be read" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/reset", "/step", "/sql_env/num_tasks", "/sql_env/task"])
@pytest.mark.parametrize("body", ["[]", "3", "null", '"x"', "{}", '{"self": 1, "func": 2}'])
def test_a_body_of_another_shape_is_answered(music_server: Running, path: str, body: str) -> None:
    answer = music_server.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code < 500


def test_only_known_routes_are_served(music_server: Running) -> None:
    served = set(music_server.get("/openapi.json").json()["paths"])
    assert served == {
        "/health", "/metadata", "/schema", "/reset", "/step", "/state", "/list_environments",
        "/{env_name}/splits", "/{env_name}/tasks", "/{env_name}/num_tasks", "/{env_name}/task",
        "/{env_name}/task_range",
    }  # fmt: skip
    for path in ("/docs", "/redoc", "/docs/oauth2-redirect", "/mcp", "/ws"):
        assert music_server.get(path).status_code in (404, 405)


def test_a_header_is_read_as_it_stands(music_server: Running) -> None:
    """Two lengths, a length that is none: one reading, or no answer at all."""
    for extra in (["Content-Length: -1"], ["Content-Length: 2", "Content-Length: 3"]):
        with Raw(music_server.port) as raw:
            assert raw.request("/reset", "Host: localhost", *extra, method="POST") == 400
