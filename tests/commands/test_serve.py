"""`sql-env serve` where it must refuse; that it serves is tested with the server."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sql_env.cli import app


def refused(*arguments: object, **environment: str) -> str:
    result = CliRunner().invoke(app, ["serve", *map(str, arguments)], env=environment)
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1"])
def test_other_machines_need_a_token(host: str, music_dir: Path) -> None:
    said = refused("--host", host, "--dataset", music_dir)
    assert host in said
    assert "--token" in said and "--allow-unauthenticated" in said


def test_an_empty_token_in_the_environment_does_not_open_the_door(music_dir: Path) -> None:
    said = refused("--host", "0.0.0.0", "--dataset", music_dir, SQL_ENV_TOKEN=" ")
    assert "the token is empty" in said


def test_a_dataset_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = refused("--dataset", tmp_path / "nothing")
    assert "nothing/questions" in said and "sql-env data" in said


def test_a_port_that_is_taken_is_said_to_be(music_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("--port", port, "--dataset", music_dir)
    assert f"127.0.0.1:{port}" in said and "in use" in said and "another --port" in said


def test_the_help_shows_every_option() -> None:
    shown = CliRunner().invoke(app, ["serve", "--help"], terminal_width=120).output
    for option in ("--host", "--port", "--workers", "--dataset", "--max-sessions", "--token"):
        assert option in shown
