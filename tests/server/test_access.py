"""Who may come in: the token, the cookie, loopback."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from raw import Raw
from serving import Running
from starlette.testclient import TestClient
from websockets.exceptions import InvalidStatus

from sql_env.server.access import COOKIE, page_cookie
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
        raw.sendall(b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
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
    bearer = {"Authorization": f"Bearer {page_cookie(TOKEN)}"}
    assert guarded.get("/state", headers=bearer).status_code == 401


def statuses(server: Running, *headers: str) -> set[int]:
    """What plain HTTP and a WebSocket answer to the same headers."""
    filled = [header.format(port=server.port) for header in headers]
    with Raw(server.port) as http, Raw(server.port) as socket:
        plain, upgraded = http.request("/state", *filled), socket.upgrade(*filled)
    return {plain, 200 if upgraded == 101 else upgraded}


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LocalHost", "localhost.", "localhost:{port}", "127.0.0.1", "127.0.0.1:{port}",
        "127.1.2.3:{port}", "[::1]", "[::1]:{port}", "[0:0:0:0:0:0:0:1]", "localhost:9000",
    ],
)  # fmt: skip
def test_this_machine_goes_by_these_names(music_server: Running, host: str) -> None:
    assert statuses(music_server, f"Host: {host}") == {200}
    assert statuses(music_server, f"Host: {host}", f"Origin: http://{host}") == {200}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:{port}", "EVIL.EXAMPLE.", "localhost.evil.example",
        "127.0.0.1.evil.example", "evil-localhost", "xlocalhost", "localhost..",
        "192.168.1.5:{port}", "0.0.0.0:{port}", "[::]", "[fe80::1]", "[::ffff:7f00:1]",
        "2130706433", "0x7f.1", "127.1", "0177.0.0.1", "foo.localhost",
    ],
)  # fmt: skip
def test_a_name_that_suddenly_leads_here_is_refused(music_server: Running, host: str) -> None:
    """DNS rebinding: the browser believes it is talking to evil.example all the time."""
    for origin in ([], [f"Origin: http://{host}"], ["Origin: http://127.0.0.1:{port}"]):
        assert statuses(music_server, f"Host: {host}", *origin) == {403}
    forwarded = ["X-Forwarded-Host: localhost", "Forwarded: host=localhost;for=127.0.0.1"]
    assert statuses(music_server, f"Host: {host}", *forwarded) == {403}


@pytest.mark.parametrize(
    "hosts",
    [
        [], [""], ["[::1"], ["::1"], ["[::1]x"], ["[evil]"], ["localhost:"], ["localhost:x"],
        ["localhost:1:2"], ["localhost/"], ["a@localhost"], ["local host"], ["localhost,localhost"],
        ["localhost", "localhost"], ["localhost", "evil.example"], ["lócalhost"], ["localhost:٣"],
    ],
)  # fmt: skip
def test_what_is_no_host_is_a_bad_request(music_server: Running, hosts: list[str]) -> None:
    encoded = [host.encode().decode("latin-1") for host in hosts]
    assert statuses(music_server, *(f"Host: {host}" for host in encoded)) == {400}


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "http://evil.example:{port}", "http://127.0.0.1:9000",
        "http://127.0.0.1", "http://localhost:{port}", "null", "",
        "https://127.0.0.1", "file://", "ftp://127.0.0.1:{port}", "127.0.0.1:{port}", "http://[::1",
        "http://127.0.0.1:{port}/", "http://127.0.0.1:{port}@evil.example", "chrome-extension://x",
    ],
)  # fmt: skip
def test_pages_of_other_origins_are_refused(music_server: Running, origin: str) -> None:
    headers = ("Host: 127.0.0.1:{port}", f"Origin: {origin}")
    assert statuses(music_server, *headers) == {403}


def test_of_two_origins_none_is_right(music_server: Running) -> None:
    own = "Origin: http://127.0.0.1:{port}"
    host = "Host: 127.0.0.1:{port}"
    assert statuses(music_server, host, own) == {200}
    assert statuses(music_server, host, own, own) <= {400, 403}


def test_the_pages_cookie_does_not_help_another_page(guarded: Running) -> None:
    cookie = f"Cookie: {COOKIE}={page_cookie(TOKEN)}"
    host = "Host: 127.0.0.1:{port}"
    assert statuses(guarded, host, cookie, "Origin: http://127.0.0.1:{port}") == {200}
    assert statuses(guarded, host, cookie, "Origin: http://127.0.0.1:9000") == {403}
    assert statuses(guarded, "Host: evil.example:{port}", cookie) == {403}
    evil = ("Host: evil.example:9000", "Origin: http://evil.example:9000")
    assert statuses(guarded, *evil, cookie) == {403}
    assert statuses(guarded, *evil, f"Authorization: Bearer {TOKEN}") == {403}


def test_other_names_are_allowed_one_by_one_or_by_their_end(serve: Callable[..., Running]) -> None:
    server = serve(allow_hosts=("Box.example.org", "*.hf.space"))
    for name in ("box.example.org", "BOX.example.org.", "me-sql.hf.space", "a.b.hf.space:443"):
        assert statuses(server, f"Host: {name}") == {200}
        origin = f"Origin: https://{name.removesuffix(':443')}"
        assert statuses(server, f"Host: {name}", origin) == {200}
    for name in ("example.org", "x.box.example.org", "hf.space", "evilhf.space", "hf.space.evil"):
        assert statuses(server, f"Host: {name}") == {403}
    foreign = "Origin: https://other.hf.space"
    assert statuses(server, "Host: me-sql.hf.space", foreign) == {403}


def test_a_server_for_others_answers_to_every_address_and_to_no_strange_name(
    serve: Callable[..., Running],
) -> None:
    """Nobody can make an address lead elsewhere; a port may be forwarded under any of them."""
    server = serve(host="0.0.0.0", allow_unauthenticated=True)
    for host in ("localhost", "192.168.1.5:{port}", "0.0.0.0:{port}", "[fe80::1]:9000", "10.0.0.1"):
        assert statuses(server, f"Host: {host}") == {200}
        assert statuses(server, f"Host: {host}", "Origin: http://evil.example") == {403}
    assert statuses(server, "Host: evil.example") == {403}


def test_a_refused_name_is_told_what_to_do(music_server: Running) -> None:
    answer = music_server.get("/state", headers={"Host": "box.example.org"})
    assert "--allow-host box.example.org" in answer.json()["detail"]


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
