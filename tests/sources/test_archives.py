"""Folders and ZIP archives as sources."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from dataset_layouts import make_bird, make_spider

from sql_env.sources.archives import opened
from sql_env.sources.bird import read_bird
from sql_env.sources.raw import SourceError
from sql_env.sources.spider import read_spider


def zipped(folder: Path, archive: Path, inside: str = "spider_data") -> Path:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(folder.rglob("*")):
            packed.write(path, f"{inside}/{path.relative_to(folder)}")
        packed.writestr("__MACOSX/spider_data/database/._shop.sqlite", "junk")
    return archive


def test_a_source_may_be_the_folder_or_the_one_around_it(tmp_path: Path) -> None:
    make_spider(tmp_path / "download" / "spider")
    for source in (tmp_path / "download" / "spider", tmp_path / "download"):
        with opened(source, "database*") as folder:
            assert folder == tmp_path / "download" / "spider"


def test_an_archive_is_unpacked_and_then_removed(tmp_path: Path) -> None:
    archive = zipped(make_spider(tmp_path / "spider"), tmp_path / "spider.zip")
    with opened(archive, "database*") as folder:
        assert folder.name == "spider_data"
        assert sorted(read_spider(folder).databases) == ["shop", "store"]
    assert not folder.exists()


def test_only_some_databases_are_unpacked(tmp_path: Path) -> None:
    archive = zipped(make_spider(tmp_path / "spider"), tmp_path / "spider.zip")
    with opened(archive, "database*", ["store"]) as folder:
        source = read_spider(folder)
        assert list(source.databases) == ["store"] and len(source.questions) == 20


def test_an_archive_inside_birds_archive_is_unpacked_too(tmp_path: Path) -> None:
    folder = make_bird(tmp_path / "bird")
    inner = zipped(folder / "dev_databases", tmp_path / "inner.zip", "dev_databases")
    shutil.rmtree(folder / "dev_databases")
    inner.rename(folder / "dev_databases.zip")
    archive = zipped(folder, tmp_path / "dev.zip", "dev_20240627")
    with opened(archive, "*_databases") as unpacked:
        source = read_bird(unpacked)
        assert list(source.databases) == ["shop"] and len(source.questions) == 10


def test_an_archive_cannot_write_elsewhere(tmp_path: Path) -> None:
    archive = zipped(make_spider(tmp_path / "spider"), tmp_path / "spider.zip")
    with zipfile.ZipFile(archive, "a") as packed:
        packed.writestr("../../../../tmp/escaped.json", "[]")
        packed.writestr("/tmp/escaped.json", "[]")
    with opened(archive, "database*"):
        assert not Path("/tmp/escaped.json").exists()


def test_a_source_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(SourceError, match="no such folder or archive"),
        opened(tmp_path / "nowhere", "database*"),
    ):
        pass


def test_a_folder_without_databases_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(SourceError, match=r"there is no folder \*_databases"),
        opened(tmp_path, "*_databases"),
    ):
        pass


@pytest.mark.parametrize("damage", ["not a zip", "cut off", "flipped"])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: str) -> None:
    archive = zipped(make_spider(tmp_path / "spider"), tmp_path / "spider.zip")
    content = bytearray(archive.read_bytes())
    if damage == "not a zip":
        content = bytearray(b"hello")
    elif damage == "cut off":
        del content[len(content) // 2 :]
    else:
        content[200:260] = b"\x00" * 60
    archive.write_bytes(content)
    with (
        pytest.raises(SourceError, match=r"spider.zip: not a ZIP archive, or a damaged one"),
        opened(archive, "database*"),
    ):
        pass
