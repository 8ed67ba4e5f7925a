"""A server in this process, in a thread, on a port of its own; and a bare client for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from sql_env.server.settings import ServerSettings


@dataclass(frozen=True)
class Running:
    """A server that answers."""

    port: int
    settings: ServerSettings
    stop: Callable[[], None]
    http: httpx.Client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.http.get(path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.http.post(path, **options)

    def session(self, path: str = "/ws", **headers: str) -> Wire:
        address = f"ws://127.0.0.1:{self.port}{path}"
        return Wire(connect(address, additional_headers=headers, proxy=None))


class Wire:
    """A WebSocket session, message by message."""

    def __init__(self, connecting: Any) -> None:
        self._connecting = connecting
        self.ws: ClientConnection = connecting.__enter__()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._connecting.__exit__(None, None, None)

    def send(self, message: dict[str, Any] | str | bytes) -> dict[str, Any]:
        """One message, one answer."""
        self.ws.send(json.dumps(message) if isinstance(message, dict) else message)
        return self.receive()

    def exchange(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Several messages at once; the server answers them in their order."""
        for message in messages:
            self.ws.send(json.dumps(message))
        return [self.receive() for _ in messages]

    def receive(self) -> dict[str, Any]:
        return json.loads(self.ws.recv(timeout=20))

    def reset(self, **options: Any) -> dict[str, Any]:
        return self.send({"type": "reset", "data": options})

    def step(self, kind: str, argument: str = "") -> dict[str, Any]:
        return self.send({"type": "step", "data": {"action_type": kind, "argument": argument}})


def start_server(settings: ServerSettings) -> Running:
    """The application under uvicorn, with the options `sql-env serve` gives it."""
    import uvicorn

    from sql_env.server.app import build_app, uvicorn_options

    listener = replace(settings, port=0).listen()
    settings = replace(settings, port=listener.getsockname()[1])
    server = uvicorn.Server(uvicorn.Config(build_app(settings), **uvicorn_options(settings)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    http = httpx.Client(base_url=f"http://127.0.0.1:{settings.port}", trust_env=False)

    def stop() -> None:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive(), "the server did not stop"
        http.close()

    while not server.started:
        assert thread.is_alive(), "the server did not start"
        thread.join(0.02)
    return Running(settings.port, settings, stop, http)
