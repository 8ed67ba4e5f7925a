"""Connections that make no progress are ended: uvicorn's protocols with a clock.

uvicorn waits for ever for the rest of a request, a handshake or a message, and for a client to read
its answers; it reads a request of any size; and it takes as many connections as there are
descriptors. Its own settings carry the bounds to where protocols are made, in worker processes too:
`timeout_keep_alive` is how long each of these waits may take, `limit_concurrency` how many
connections there may be, `ws_max_size` how much is read of one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from uvicorn._types import ASGI3Application, ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

MOST_HEAD_BYTES = 32 * 1024
MOST_IN_A_ROW = 100  # requests sent before the first is answered


class Deadline:
    """A timer that can be started, stopped and started again."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, ring: Callable[[], None]
    ) -> None:
        self._loop, self._seconds, self._ring = loop, seconds, ring
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin, unless it is running already."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._now)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def _now(self) -> None:
        self._timer = None
        self._ring()


class HttpConnection(HttpToolsProtocol):
    """A connection from which whole requests come, one after the other, in good time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        seconds = self.config.timeout_keep_alive
        # Runs whenever the client has something to send and no answer to wait for.
        self._sending = Deadline(self.loop, seconds, self._too_slow)
        # Runs while answers pile up that the client does not read.
        self._reading = Deadline(self.loop, seconds, transport.abort)
        self._in_head, self._size = True, 0
        self._answering: RequestResponseCycle | None = None
        limit = self.config.limit_concurrency
        if limit is not None and len(self.connections) > limit:
            self._refuse("503 Service Unavailable", "too many connections: try again later")
        else:
            self._sending.start()

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            self._sending.start()
        elif self._in_head and self._size > MOST_HEAD_BYTES:
            self._refuse("431 Request Header Fields Too Large", "the headers are too long")
        elif self._size > self.config.ws_max_size:
            self._refuse("413 Content Too Large", "the body is too large")

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()
        if len(self.pipeline) > MOST_IN_A_ROW:
            self.transport.abort()

    def on_message_complete(self) -> None:
        self._in_head, self._size = True, 0
        super().on_message_complete()
        if self.cycle is None or self.cycle.response_complete:
            self._sending.restart()  # it was answered before it was read to its end
        else:
            self._sending.stop()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() or self.cycle.response_complete or self.cycle.more_body:
            self._sending.start()
        else:
            self._sending.stop()  # the next request is here already

    def handle_websocket_upgrade(self) -> None:
        self._stop()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reading.stop()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        if self._answering:
            self._answering.disconnected = True  # uvicorn tells the last in a row of requests only
        super().connection_lost(exc)

    def _stop(self) -> None:
        self._sending.stop()
        self._reading.stop()

    def _too_slow(self) -> None:
        if self.transport.is_closing():
            self.transport.abort()  # the client does not even take the end of it
        else:
            self._refuse("408 Request Timeout", "the request did not arrive in time")

    def _refuse(self, status: str, detail: str) -> None:
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = f'{{"detail":"{detail}"}}'
            head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n"
            self.transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        self.transport.close()
        self._sending.restart()


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket on which a message that has begun is sent to its end, and answers are read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        seconds = self.config.timeout_keep_alive
        self._message = Deadline(self.loop, seconds, self.transport.abort)
        self._reading = Deadline(self.loop, seconds, self.transport.abort)
        self._message.start()

    def handle_events(self) -> None:
        ended = bool(self.conn.events)
        super().handle_events()
        if ended and not self.frames:
            self._message.stop()
        if not ended or self.frames or self.conn.reader.buffer:
            self._message.start()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # or uvicorn logs each refusal as a fault of ours

    def pause_writing(self) -> None:
        super().pause_writing()
        self.transport.pause_reading()  # or each of its pings would add a pong to what it must read
        self._reading.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reading.stop()
        if not self.read_paused:
            self.transport.resume_reading()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()  # who answers no ping takes no farewell either

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        if not self.disconnected:
            self._message.restart()

    def connection_lost(self, exc: Exception | None) -> None:
        self._message.stop()
        self._reading.stop()
        super().connection_lost(exc)
