"""What a server is told when it starts: one object, the same for the command line and workers."""

from __future__ import annotations

import ipaddress
import json
import re
import socket
from dataclasses import asdict, dataclass, field

from sql_env.core.errors import UserError
from sql_env.environment import Rewards

_HOST_PATTERN = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


class ServerSettingsError(UserError, ValueError):
    """Settings that a server must not start with; the message says what to change."""


@dataclass(frozen=True)
class ServerSettings:
    """Where to listen, what to serve and what a client may cost.

    The bounds on sessions and connections hold in each worker process, the others for one
    connection.

    Args:
        allow_hosts: names under which clients reach the server besides its own address;
            `*.example.org` stands for every name that ends so.
        request_seconds: how long a client may take to send a request it has begun, or to read an
            answer; and how long a session without an episode keeps its place when all are taken.
        policies: what visitors may watch besides random and oracle play, as `--policy` names it.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    dataset: str | None = None
    token: str | None = field(default=None, repr=False)
    allow_unauthenticated: bool = False
    allow_hosts: tuple[str, ...] = ()
    max_sessions: int = 256
    idle_seconds: float = 900.0
    request_seconds: float = 10.0
    max_message_bytes: int = 64 * 1024
    messages_per_second: float = 2000.0
    hide_gold: bool = False
    rewards: Rewards = "dense"
    policies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.token is not None and not self.token.strip():
            raise ServerSettingsError(
                "the token is empty: leave --token out, or make one with "
                "`python -c 'import secrets; print(secrets.token_urlsafe())'`"
            )
        if not (self.token or self.allow_unauthenticated or is_loopback(self.host)):
            raise ServerSettingsError(
                f"{self.host} can be reached from other machines and there is no token. "
                "Give one with --token or in SQL_ENV_TOKEN, let everybody in with "
                "--allow-unauthenticated, or stay on --host 127.0.0.1"
            )
        for name in self.allow_hosts:
            if not _HOST_PATTERN.fullmatch(name):
                raise ServerSettingsError(
                    f"--allow-host {name}: give a name like box.example.org or *.example.org, "
                    "without a port"
                )
        if self.policies and self.workers > 1:
            raise ServerSettingsError(
                "each worker would load the policies again: leave out --workers or --policy"
            )
        if self.hide_gold and "oracle" in self.policies:
            raise ServerSettingsError(
                "--policy oracle shows the gold query: leave it or --hide-gold out"
            )
        for name in (
            "workers",
            "max_sessions",
            "idle_seconds",
            "request_seconds",
            "max_message_bytes",
        ):
            if getattr(self, name) <= 0:
                raise ServerSettingsError(f"{name} is {getattr(self, name)}: it must be positive")
        if self.messages_per_second < 1:
            raise ServerSettingsError(
                f"messages_per_second is {self.messages_per_second}: give 1 or more"
            )

    @property
    def max_connections(self) -> int:
        """A session needs one; the rest are for the page and plain HTTP."""
        return 2 * self.max_sessions + 64

    def listen(self) -> socket.socket:
        """The socket to serve on.

        Raises:
            ServerSettingsError: the address cannot be used.
        """
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            listener = socket.create_server((self.host, self.port), family=family)
        except OSError as error:
            reason = str(error.strerror or error).partition(" (")[0]
            raise ServerSettingsError(
                f"cannot listen on {self.host}:{self.port}: {reason}. "
                "Choose another --port or --host"
            ) from error
        # uvicorn leaves this out for workers, and each of their HTTP answers would wait 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener

    def to_json(self) -> str:
        """The settings as worker processes get them."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ServerSettings:
        """The settings that `to_json` wrote."""
        values = json.loads(text)
        lists = {name: tuple(values[name]) for name in ("allow_hosts", "policies")}
        return cls(**values | lists)


def is_loopback(host: str) -> bool:
    """Only this machine can reach `host`."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
