"""An environment over the music dataset, and episodes made by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from handmade import handmade_episode

from sql_env.agent.episodes import EpisodeResult
from sql_env.environment import SQLEnvironment
from sql_env.questions import Dataset


@pytest.fixture
def music(music_dir: Path) -> Iterator[SQLEnvironment]:
    dataset = Dataset.at(music_dir)
    with SQLEnvironment(db_dir=dataset.db_dir, questions=dataset.load()) as env:
        yield env


@pytest.fixture(scope="session")
def make_episode() -> Callable[..., EpisodeResult]:
    return handmade_episode
