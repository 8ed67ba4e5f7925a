"""Who may come in: the token, the cookie, loopback."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from serving import Running
from starlette.testclient import TestClient
from websockets.exceptions import InvalidStatus

from sql_env.server.access import COOKIE
from sql_env.server.settings import ServerSettings

TOKEN = "a-token-that-nobody-guesses"
PATHS = ["/state", "/schema", "/metadata", "/sql_env/splits", "/web/catalogue", "/openapi.json"]


@pytest.fixture(scope="module")
def guarded(music_dir: object) -> object:
    from serving import start_server

    server = start_server(ServerSettings(dataset=str(music_dir), token=TOKEN))
    yield server
    server.stop()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("header", [None, "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
def test_http_without_the_token_is_refused(guarded: Running, path: str, header: str | None) -> None:
    answer = guarded.get(path, headers={"Authorization": header} if header else {})
    assert answer.status_code == 401
    assert "Authorization: Bearer" in answer.json()["detail"]


@pytest.mark.parametrize("path", PATHS)
def test_http_with_the_token_is_let_in(guarded: Running, path: str) -> None:
    assert guarded.get(path, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("path", ["/ws", "/mcp"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
def test_a_websocket_without_the_token_gets_no_session(
    guarded: Running, path: str, headers: dict[str, str]
) -> None:
    with pytest.raises(InvalidStatus) as error:
        guarded.session(path, **headers)
    assert error.value.response.status_code == 401


def test_a_websocket_with_the_token_plays(guarded: Running) -> None:
    with guarded.session(Authorization=f"Bearer {TOKEN}") as wire:
        assert wire.reset(seed=1)["type"] == "observation"


def test_a_refusal_comes_before_the_body_is_read(guarded: Running) -> None:
    """The length is announced and nothing is sent: an answer can only come from the headers."""
    import socket

    with socket.create_connection(("127.0.0.1", guarded.port), timeout=10) as raw:
        raw.sendall(b"POST /reset HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 401")


def test_health_is_open_to_all(guarded: Running) -> None:
    assert guarded.get("/health").json() == {"status": "healthy"}


def test_the_page_asks_for_the_token_and_remembers_it(guarded: Running) -> None:
    with httpx.Client(base_url=guarded.url, headers={"Accept": "text/html"}) as browser:
        asked = browser.get("/web")
        assert asked.status_code == 303 and asked.headers["location"] == "/web/login"
        assert browser.get("/").headers["location"] == "/web/login"
        assert "its token" in browser.get("/web/login").text
        assert browser.get("/web/static/page.css").status_code == 200
        wrong = browser.post("/web/login", data={"token": "guess"})
        assert wrong.status_code == 401 and "not the token" in wrong.text
        assert COOKIE not in browser.cookies
        right = browser.post("/web/login", data={"token": TOKEN})
        assert right.status_code == 303
        header = right.headers["set-cookie"].lower()
        assert "httponly" in header and "samesite=strict" in header
        assert TOKEN not in right.headers["set-cookie"]
        assert "page.js" in browser.get("/web").text
        cookie = browser.cookies[COOKIE]
    with guarded.session(Cookie=f"{COOKIE}={cookie}") as wire:
        assert wire.reset(seed=1)["type"] == "observation"
    with pytest.raises(InvalidStatus):
        guarded.session(Cookie=f"{COOKIE}={cookie[:-1]}0")


def test_the_cookie_is_no_token(guarded: Running) -> None:
    from sql_env.server.access import page_cookie

    bearer = {"Authorization": f"Bearer {page_cookie(TOKEN)}"}
    assert guarded.get("/state", headers=bearer).status_code == 401


def test_a_page_of_another_site_cannot_play_on_this_machine(music_server: Running) -> None:
    with pytest.raises(InvalidStatus) as error:
        music_server.session(Origin="https://evil.example")
    assert error.value.response.status_code == 403
    own = f"http://127.0.0.1:{music_server.port}"
    with music_server.session(Origin=own) as wire:
        assert wire.reset(seed=1)["type"] == "observation"


def test_an_application_bound_elsewhere_still_refuses_strangers(
    serve: Callable[..., Running], music_dir: object
) -> None:
    """Whoever runs the app under another server may bind it to any address."""
    from sql_env.server.app import build_app

    settings = ServerSettings(dataset=str(music_dir))
    outside = TestClient(build_app(settings), base_url="http://192.0.2.7:8000")
    answer = outside.get("/state")
    assert answer.status_code == 403 and "--allow-unauthenticated" in answer.json()["detail"]
    inside = TestClient(build_app(settings), base_url="http://127.0.0.1:8000")
    assert inside.get("/state").status_code == 200
