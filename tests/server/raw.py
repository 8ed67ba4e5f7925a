"""A client made of bytes, for requests that no library would send."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
from typing import Any


class Raw:
    """A socket to a server on this machine."""

    def __init__(self, port: int, timeout: float = 10) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self, most: int = 65536) -> bytes:
        """What comes next; nothing when the server has ended the connection."""
        try:
            return self.socket.recv(most)
        except ConnectionError:
            return b""

    def read_to_the_end(self) -> bytes:
        """Everything until the server ends the connection."""
        parts = []
        while part := self.read():
            parts.append(part)
        return b"".join(parts)

    def request(self, path: str, *headers: str, method: str = "GET", body: bytes = b"") -> int:
        """The status of the answer; headers are sent as they are given."""
        lines = [f"{method} {path} HTTP/1.1", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return self.status()

    def upgrade(self, *headers: str, path: str = "/ws") -> int:
        """The status of a WebSocket handshake; 101 is a session."""
        return self.request(
            path,
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            *headers,
        )

    def status(self) -> int:
        answer = b""
        while b"\r\n\r\n" not in answer:
            part = self.read()
            if not part:
                break
            answer += part
        return int(answer.split(b" ", 2)[1]) if answer else 0

    def frame(self, payload: bytes, opcode: int = 0x81, *, announced: int | None = None) -> None:
        """One frame, masked with zeros; `announced` is a length that need not be true."""
        size = len(payload) if announced is None else announced
        if size < 126:
            length = bytes([0x80 | size])
        elif size < 65536:
            length = b"\xfe" + struct.pack("!H", size)
        else:
            length = b"\xff" + struct.pack("!Q", size)
        self.send(bytes([opcode]) + length + b"\0\0\0\0" + payload)

    def message(self, text: str) -> dict[str, Any]:
        """A text message and the answer to it."""
        self.frame(text.encode())
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next text frame."""
        while True:
            head = self._exactly(2)
            size = head[1]
            if size == 126:
                (size,) = struct.unpack("!H", self._exactly(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self._exactly(8))
            payload = self._exactly(size)
            if head[0] == 0x81:
                return json.loads(payload)
            assert head[0] == 0x89, f"frame {head[0]:#x}: {payload!r}"  # a ping

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.read(size - len(data))
            assert part, "the server ended the connection"
            data += part
        return data
