"""Servers to test against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Running, start_server

from sql_env.server.settings import ServerSettings


@pytest.fixture
def serve(music_dir: Path) -> Iterator[Callable[..., Running]]:
    """Start servers with settings of the test's own; they end with it."""
    running: list[Running] = []

    def start(**settings: Any) -> Running:
        running.append(start_server(ServerSettings(**{"dataset": str(music_dir)} | settings)))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture(scope="session")
def music_server(music_dir: Path) -> Iterator[Running]:
    """One server for all who only play on it."""
    server = start_server(ServerSettings(dataset=str(music_dir)))
    yield server
    server.stop()
