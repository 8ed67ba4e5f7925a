"""Who may come in: the first thing that sees a request, before a byte of its body is read.

A client shows its token as `Authorization: Bearer …`. A browser cannot send that header with a
WebSocket, so the page logs in once and gets a cookie, which is derived from the token and opens
nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sql_env.server.settings import ServerSettings, is_loopback

COOKIE = "sql_env_page"
# What a health check and a person without a cookie need; none of it touches an environment.
_OPEN_PATHS = ("/health", "/web/login")
_OPEN_FOLDER = "/web/static/"


class AccessGuard:
    """ASGI middleware that lets in who may come in and answers the others."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app = app
        self._settings = settings
        self._cookie = page_cookie(settings.token) if settings.token else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()  # the handshake, which the refusal answers
            await _send_before_accept(refusal, send)
        else:
            await refusal(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        problem = self._foreign_page(headers) or self._exposed(scope)
        if problem:
            return JSONResponse({"detail": problem}, status_code=403)
        if self._settings.token is None or self._knows_token(headers):
            return None
        path = scope["path"]
        if scope["type"] == "http":
            if path in _OPEN_PATHS or path.startswith(_OPEN_FOLDER):
                return None
            if path in ("/", "/web") and "text/html" in headers.get("accept", ""):
                return RedirectResponse("/web/login", status_code=303)
        return JSONResponse(
            {"detail": "a token is needed: send the header 'Authorization: Bearer <token>'"},
            status_code=401,
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _knows_token(self, headers: Headers) -> bool:
        assert self._settings.token is not None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), self._settings.token):
            return True
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return morsel is not None and _same(morsel.value, self._cookie)

    def _foreign_page(self, headers: Headers) -> str:
        """Another site's page, open in this machine's browser, must not play on this machine."""
        origin, host = headers.get("origin"), headers.get("host", "")
        if not origin or not is_loopback(urlsplit(f"//{host}").hostname or ""):
            return ""
        if urlsplit(origin).netloc == host:
            return ""
        return f"a page of {origin} may not use this server: open http://{host}/web instead"

    def _exposed(self, scope: Scope) -> str:
        """The settings promise loopback only; whoever runs the app may have bound it elsewhere."""
        address = scope.get("server")
        if self._settings.token or self._settings.allow_unauthenticated or not address:
            return ""
        if address[1] is None or is_loopback(address[0]):
            return ""
        return (
            "this server has no token and answers only on its own machine: "
            "start it with --token, or with --allow-unauthenticated to let everybody in"
        )


def page_cookie(token: str) -> str:
    """The cookie that stands for `token` in a browser."""
    return hmac.new(token.encode(), b"sql-env page", hashlib.sha256).hexdigest()


def token_matches(given: str, settings: ServerSettings) -> bool:
    """`given` is the server's token; true for everything on a server without one."""
    return settings.token is None or _same(given, settings.token)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


async def _send_before_accept(response: Response, send: Send) -> None:
    start: dict[str, Any] = {
        "type": "websocket.http.response.start",
        "status": response.status_code,
        "headers": response.raw_headers,
    }
    await send(start)
    await send({"type": "websocket.http.response.body", "body": response.body})
