from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sql_env import SQLEnvironment
from sql_env.questions import load_questions
from sql_env.sources.merge import add_dataset
from sql_env.sources.raw import SourceError


@pytest.fixture
def target(music_dir: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    shutil.copytree(music_dir, folder)
    (folder / "manifest.json").write_text(json.dumps({"questions": {"train": 3, "eval": 1}}))
    return folder


@pytest.fixture
def source(music_dir: Path, tmp_path: Path) -> Path:
    """The same questions under other names."""
    folder = tmp_path / "source"
    shutil.copytree(music_dir, folder)
    (folder / "databases" / "music").rename(folder / "databases" / "songs")
    (folder / "databases" / "songs" / "music.sqlite").rename(
        folder / "databases" / "songs" / "songs.sqlite"
    )
    for path in (folder / "questions").glob("*.json"):
        path.write_text(path.read_text().replace("music", "songs"))
    return folder


def test_the_added_questions_are_a_split_of_their_own_and_can_be_played(
    source: Path, target: Path
) -> None:
    assert len(add_dataset(source, target, "worlds")) == 4
    with SQLEnvironment(target / "questions", target / "databases") as env:
        assert env.splits == ["eval", "train", "worlds"]
        assert env.reset(split="worlds", index=0).metadata["database_name"] == "songs"
        assert env.reset(split="train", index=0).metadata["database_name"] == "music"
    assert json.loads((target / "manifest.json").read_text())["questions"]["worlds"] == 4


def test_adding_twice_replaces_the_split(source: Path, target: Path) -> None:
    add_dataset(source, target, "worlds")
    add_dataset(source, target, "worlds")
    assert len(load_questions(target / "questions")) == 8


def test_a_name_that_is_taken_is_refused_and_nothing_changes(music_dir: Path, target: Path) -> None:
    before = sorted(path.name for path in target.rglob("*"))
    with pytest.raises(SourceError, match="is taken"):
        add_dataset(music_dir, target, "worlds")
    assert sorted(path.name for path in target.rglob("*")) == before
