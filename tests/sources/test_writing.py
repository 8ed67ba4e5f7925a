"""A dataset is written as a whole or not at all; a full disk is a real one here."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from dataset_layouts import make_spider

from sql_env.questions import Dataset
from sql_env.sources.prepare import Prepared, prepare_all
from sql_env.sources.raw import Source, SourceError
from sql_env.sources.spider import read_spider
from sql_env.sources.writing import DatasetWriteError, write_dataset


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return read_spider(make_spider(tmp_path / "source"))


@pytest.fixture
def prepared(source: Source) -> Prepared:
    return prepare_all(source)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_is_written_can_be_loaded(tmp_path: Path, source: Source, prepared: Prepared) -> None:
    out = write_dataset(tmp_path / "a" / "out", prepared.records, source.databases, {"seed": 42})
    assert sorted(item.name for item in out.iterdir()) == [
        "databases",
        "manifest.json",
        "questions",
    ]
    assert Dataset.at(out).load() == sorted(prepared.records, key=lambda item: item.split)
    copied = out / "databases" / "shop" / "shop.sqlite"
    assert copied.read_bytes() == source.databases["shop"].read_bytes()
    assert json.loads((out / "manifest.json").read_text()) == {"seed": 42}


def test_the_same_input_gives_the_same_bytes(
    tmp_path: Path, source: Source, prepared: Prepared
) -> None:
    one = write_dataset(tmp_path / "one", prepared.records, source.databases, {})
    two = write_dataset(tmp_path / "two", prepare_all(source).records, source.databases, {})
    assert snapshot(one) == snapshot(two)


def test_a_dataset_is_replaced_completely(
    tmp_path: Path, source: Source, prepared: Prepared
) -> None:
    out = write_dataset(tmp_path / "out", prepared.records, source.databases, {})
    only_train = [record for record in prepared.records if record.split == "train"]
    write_dataset(out, only_train, source.databases, {})
    assert [path.name for path in (out / "questions").iterdir()] == ["questions_train.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source"]


def test_a_folder_of_something_else_is_left_alone(
    tmp_path: Path, source: Source, prepared: Prepared
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    with pytest.raises(SourceError, match="was not made by this command"):
        write_dataset(out, prepared.records, source.databases, {})
    assert snapshot(out) == {"thesis.tex": b"years of work"}


def test_an_empty_folder_may_be_used(tmp_path: Path, source: Source, prepared: Prepared) -> None:
    (tmp_path / "out").mkdir()
    out = write_dataset(tmp_path / "out", prepared.records, source.databases, {})
    assert Dataset.at(out).load()


def test_a_place_that_cannot_be_a_folder_is_refused(
    tmp_path: Path, source: Source, prepared: Prepared
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetWriteError, match="Nothing was changed"):
        write_dataset(tmp_path / "file" / "out", prepared.records, source.databases, {})


FILL_THE_DISK = """
import sys
from pathlib import Path
from sql_env.sources.prepare import prepare_all
from sql_env.sources.spider import read_spider
from sql_env.sources.writing import DatasetWriteError, write_dataset

source = read_spider(Path(sys.argv[1]))
try:
    write_dataset(Path(sys.argv[2]), prepare_all(source).records, source.databases, {})
except DatasetWriteError as error:
    print(error)
    raise SystemExit(3)
"""


def write_elsewhere(source: Path, out: Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, str(source), str(out)],
        capture_output=True,
        text=True,
        **options,
    )


def test_where_a_file_may_not_grow_nothing_is_changed(
    tmp_path: Path, source: Source, prepared: Prepared
) -> None:
    out = write_dataset(tmp_path / "out", prepared.records, source.databases, {})
    before = snapshot(tmp_path)

    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    run = write_elsewhere(tmp_path / "source", out, preexec_fn=small_files_only)
    assert run.returncode == 3, run.stderr
    assert "File too large" in run.stdout and str(out) in run.stdout
    assert snapshot(tmp_path) == before


def test_on_a_full_disk_nothing_is_changed(tmp_path: Path, source: Source) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=24k", "tmpfs", str(disk)], capture_output=True
        ).returncode
    ):
        pytest.skip("mounting a small disk needs root")
    try:
        run = write_elsewhere(tmp_path / "source", disk / "out")
        left = list(disk.iterdir())
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert run.returncode == 3, run.stderr
    assert "No space left on device" in run.stdout and "make room" in run.stdout
    assert left == []
