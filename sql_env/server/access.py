"""Who may come in: the first thing that sees a request, before a byte of its body is read.

Three questions, in this order. **Is it meant for this server?** `Host` must be an address or a
name that the server is known by. A page of evil.example whose name suddenly leads to 127.0.0.1 (DNS
rebinding) still says evil.example there. **Does another site's page send it?** `Origin`, where
there is one, must be the server itself, port included. **Does it know the token?** A client shows
it as `Authorization: Bearer …`. A browser cannot send that header with a WebSocket, so the page
logs in once and gets a cookie, which is derived from the token and opens nothing else.

`X-Forwarded-…` headers are not read: anybody can send them.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from typing import Any, NamedTuple

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sql_env.server.settings import ServerSettings, is_loopback
from sql_env.server.traffic import error_answer

COOKIE = "sql_env_page"
# What a health check and a person without a cookie need; none of it touches an environment.
_OPEN_PATHS = ("/health", "/web/login")
_OPEN_FOLDER = "/web/static/"
_AUTHORITY = re.compile(r"(?P<name>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}


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
        hosts = headers.getlist("host")
        host = Authority.parse(hosts[0]) if len(hosts) == 1 else None
        if host is None:
            return error_answer(
                400, "one Host header is needed, with the name or address of the server"
            )
        problem = (
            self._exposed(scope) or self._stranger(host) or _foreign_page(headers, host, hosts[0])
        )
        if problem:
            return error_answer(403, problem)
        if self._settings.token is None or self._knows_token(headers):
            return None
        path = scope["path"]
        if scope["type"] == "http":
            if path in _OPEN_PATHS or path.startswith(_OPEN_FOLDER):
                return None
            if path in ("/", "/web") and "text/html" in headers.get("accept", ""):
                return RedirectResponse("/web/login", status_code=303)
        refusal = error_answer(
            401, "a token is needed: send the header 'Authorization: Bearer <token>'"
        )
        refusal.headers["WWW-Authenticate"] = "Bearer"
        return refusal

    def _knows_token(self, headers: Headers) -> bool:
        assert self._settings.token is not None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), self._settings.token):
            return True
        cookies = (part.partition("=") for part in headers.get("cookie", "").split(";"))
        return any(
            name.strip() == COOKIE and _same(value, self._cookie) for name, _, value in cookies
        )

    def _stranger(self, host: Authority) -> str:
        """The request was meant for another server, or for a name that leads here by a trick."""
        name, own = host.name, self._settings.host.lower().strip("[]")
        if name in ("localhost", own) or (host.address and host.address.is_loopback):
            return ""
        if host.address and not is_loopback(own):
            return ""  # no one can make an address lead elsewhere
        for allowed in map(str.lower, self._settings.allow_hosts):
            if name == allowed or (allowed[0] == "*" and name.endswith(allowed[1:])):
                return ""
        return f"this server does not go by the name of {name}: start it with --allow-host {name}"

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


class Authority(NamedTuple):
    """A host and, where it is given, a port: what `Host` holds, and `Origin` after its scheme."""

    name: str
    port: int | None
    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None

    @classmethod
    def parse(cls, text: str) -> Authority | None:
        """None for what is no authority."""
        found = _AUTHORITY.fullmatch(text)
        if found is None:
            return None
        name = found["name"].lower().removesuffix(".").strip("[]")
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            if found["name"][0] == "[":
                return None
            address = None
        return cls(str(address or name), int(found["port"]) if found["port"] else None, address)


def _foreign_page(headers: Headers, host: Authority, shown: str) -> str:
    origins = headers.getlist("origin")
    if not origins:
        return ""
    scheme, _, rest = origins[0].partition("://")
    origin, default = Authority.parse(rest), _PORTS.get(scheme)
    if (
        len(origins) == 1
        and default
        and origin
        and origin.name == host.name
        and (origin.port or default) == (host.port or default)
    ):
        return ""
    return f"pages of other sites may not use this server: open http://{shown}/web instead"


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
