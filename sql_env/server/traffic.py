"""What one HTTP request may cost: its size, its rate, the time until it is there, its JSON."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict

from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sql_env.server.settings import ServerSettings

LOGIN = "/web/login"  # sends a form
_ADDRESSES_REMEMBERED = 4096


class Bucket:
    """`rate` tokens a second, up to two seconds' worth at once."""

    __slots__ = ("_filled_at", "_rate", "_tokens")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._tokens = 2 * rate
        self._filled_at = now

    def take(self, now: float) -> float:
        """Take a token; otherwise the seconds until there is one."""
        self._tokens = min(2 * self._rate, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._tokens < 1:
            return (1 - self._tokens) / self._rate
        self._tokens -= 1
        return 0.0


class RequestLimits:
    """ASGI middleware that passes on whole requests of bounded size, with JSON that all read alike.

    A number that is no number, half of a surrogate pair or a tower of brackets is refused here,
    before one of the parsers and writers behind it stumbles.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app = app
        self._settings = settings
        self._by_address: OrderedDict[str, Bucket] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        body = b""
        if refusal is None:
            try:
                async with asyncio.timeout(self._settings.request_seconds):
                    body = await _read(receive)
                if body and scope["method"] == "POST" and scope["path"] != LOGIN:
                    body = _plain_json(body)
            except ConnectionError:
                return
            except TimeoutError:
                refusal = error_answer(408, "the body did not arrive in time")
            except ValueError as error:
                refusal = error_answer(400, f"the body cannot be read: {error}")
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Message:
            return unread.pop() if unread else await receive()

        await self.app(scope, receive_again, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        if wait := self._bucket_of(scope).take(asyncio.get_running_loop().time()):
            refusal = error_answer(
                429, f"more than {self._settings.messages_per_second:g} requests a second"
            )
            refusal.headers["Retry-After"] = str(max(1, round(wait)))
            return refusal
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers:
            return error_answer(411, "a body of unknown length: send a Content-Length")
        bound = self._settings.max_message_bytes
        if int(headers.get("content-length", 0)) > bound:
            return error_answer(
                413, f"the body has {headers['content-length']} bytes, the limit is {bound}"
            )
        return None

    def _bucket_of(self, scope: Scope) -> Bucket:
        address = (scope.get("client") or ("",))[0]
        bucket = self._by_address.get(address)
        if bucket is None:
            now = asyncio.get_running_loop().time()
            bucket = self._by_address[address] = Bucket(self._settings.messages_per_second, now)
            if len(self._by_address) > _ADDRESSES_REMEMBERED:
                self._by_address.popitem(last=False)
        self._by_address.move_to_end(address)
        return bucket


async def _read(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError("the client has gone")
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _plain_json(body: bytes) -> bytes:
    # 1e400 is JSON, and infinite.
    return json.dumps(from_json(body, allow_inf_nan=False), allow_nan=False).encode()


def error_answer(status: int, detail: str) -> JSONResponse:
    """An error as all of the server's are written."""
    return JSONResponse({"detail": detail}, status_code=status)
