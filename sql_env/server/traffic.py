"""What one client may cost: message size, message rate, and how long a session may sit idle.

Each bound answers with an error that says what it is. On a WebSocket the offending message is
dropped and the session goes on; an idle session is closed. (The number of sessions is bounded by
OpenEnv's server.)
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from contextlib import suppress
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sql_env.server.settings import ServerSettings

CLOSED_FOR_IDLENESS = 4408
_ADDRESSES_REMEMBERED = 4096


class Refusal(NamedTuple):
    """Why a message is not passed on."""

    code: str
    message: str
    retry_after_s: float | None = None


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


class TrafficLimits:
    """ASGI middleware that keeps every connection within its bounds."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app = app
        self._settings = settings
        self._by_address: OrderedDict[str, Bucket] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "http" and (refusal := self._http_refusal(scope)):
            await refusal(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    # -- WebSocket ---------------------------------------------------------------------------

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        bucket = Bucket(self._settings.messages_per_second, loop.time())
        idle = IdleWatch(self._settings.idle_seconds, send, loop)

        async def limited_receive() -> Message:
            while True:
                idle.waiting_since = loop.time()
                message = await receive()
                idle.waiting_since = None
                if message["type"] != "websocket.receive":
                    return message
                refusal = self._message_refusal(message.get("text"), bucket, loop.time())
                if refusal is None:
                    return message
                await send({"type": "websocket.send", "text": error_frame(refusal)})

        try:
            await self.app(scope, limited_receive, send)
        finally:
            idle.cancel()

    def _message_refusal(self, text: str | None, bucket: Bucket, now: float) -> Refusal | None:
        if text is None:
            return Refusal("NOT_TEXT", "a binary frame: send JSON as a text frame")
        if wait := bucket.take(now):
            return Refusal(
                "RATE_LIMITED",
                f"more than {self._settings.messages_per_second:g} messages a second: "
                f"wait {max(1, round(wait * 1000))} ms and send this one again",
                retry_after_s=wait,
            )
        # A character takes at most four bytes, so most messages need no encoding to be measured.
        bound = self._settings.max_message_bytes
        if len(text) * 4 > bound and (size := len(text.encode("utf-8", "replace"))) > bound:
            return Refusal(
                "MESSAGE_TOO_LARGE", f"the message has {size:,} bytes, the limit is {bound:,}"
            )
        if ("\\ud" in text or "\\uD" in text) and _has_lone_surrogate(text):
            return Refusal("NOT_UNICODE", "half of a surrogate pair cannot be written as UTF-8")
        return None

    # -- plain HTTP --------------------------------------------------------------------------

    def _http_refusal(self, scope: Scope) -> JSONResponse | None:
        if wait := self._bucket_of(scope).take(asyncio.get_running_loop().time()):
            return JSONResponse(
                {"detail": f"more than {self._settings.messages_per_second:g} requests a second"},
                status_code=429,
                headers={"Retry-After": str(max(1, round(wait)))},
            )
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers:
            detail = "a body of unknown length: send a Content-Length"
            return JSONResponse({"detail": detail}, status_code=411)
        bound = self._settings.max_message_bytes
        if int(headers.get("content-length", 0)) > bound:
            detail = f"the body has {headers['content-length']} bytes, the limit is {bound}"
            return JSONResponse({"detail": detail}, status_code=413)
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


class IdleWatch:
    """Closes a session whose client has been silent too long.

    One timer per connection that looks at a clock: a timeout around every `receive` would cost a
    task per message.
    """

    def __init__(self, seconds: float, send: Send, loop: asyncio.AbstractEventLoop) -> None:
        self.waiting_since: float | None = None
        self._seconds = seconds
        self._send = send
        self._loop = loop
        self._closing: asyncio.Task[None] | None = None
        self._timer = loop.call_later(seconds, self._look)

    def cancel(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        silent = 0.0 if self.waiting_since is None else self._loop.time() - self.waiting_since
        if silent >= self._seconds:
            self._closing = self._loop.create_task(self._close())
        else:
            self._timer = self._loop.call_later(self._seconds - silent, self._look)

    async def _close(self) -> None:
        message = f"closed after {self._seconds:g} s without a message: connect again and reset"
        frame = error_frame(Refusal("SESSION_IDLE", message))
        close = {"type": "websocket.close", "code": CLOSED_FOR_IDLENESS, "reason": "session idle"}
        with suppress(OSError):  # the client left in the same moment
            await self._send({"type": "websocket.send", "text": frame})
            await self._send(close)


def error_frame(refusal: Refusal) -> str:
    """An error as OpenEnv's clients read it."""
    data = {name: value for name, value in refusal._asdict().items() if value is not None}
    return json.dumps({"type": "error", "data": data})


def _has_lone_surrogate(text: str) -> bool:
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except ValueError:  # not JSON: the server answers that itself
        return False
    return False
