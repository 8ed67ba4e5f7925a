"""Settings that must not start a server, and their way to worker processes."""

from __future__ import annotations

import pytest

from sql_env.server.settings import ServerSettings, ServerSettingsError, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"])
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    ServerSettings(host=host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_any_other_address_without_a_token_is_refused_with_the_ways_out(host: str) -> None:
    with pytest.raises(ServerSettingsError) as error:
        ServerSettings(host=host)
    for way_out in ("--token", "SQL_ENV_TOKEN", "--allow-unauthenticated", "127.0.0.1"):
        assert way_out in str(error.value)


def test_a_token_or_an_explicit_word_opens_other_addresses() -> None:
    ServerSettings(host="0.0.0.0", token="secret")
    ServerSettings(host="0.0.0.0", allow_unauthenticated=True)


def test_an_empty_token_is_no_token() -> None:
    with pytest.raises(ServerSettingsError, match="empty"):
        ServerSettings(token=" ")


@pytest.mark.parametrize(
    "bad", [{"max_sessions": 0}, {"workers": 0}, {"idle_seconds": -1}, {"messages_per_second": 0}]
)
def test_bounds_must_leave_room_to_play(bad: dict[str, float]) -> None:
    with pytest.raises(ServerSettingsError, match=next(iter(bad))):
        ServerSettings(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "*", "http://x", "x:80", "*x", "a b", "x.*", "x/"])
def test_a_name_to_answer_to_is_a_bare_name(name: str) -> None:
    with pytest.raises(ServerSettingsError, match="without a port"):
        ServerSettings(allow_hosts=(name,))


def test_workers_get_the_same_settings() -> None:
    settings = ServerSettings(
        dataset="somewhere", token="secret", max_sessions=3, allow_hosts=("a", "*.b.c")
    )
    assert ServerSettings.from_json(settings.to_json()) == settings


def test_the_token_is_not_shown() -> None:
    assert "secret" not in repr(ServerSettings(token="secret"))
