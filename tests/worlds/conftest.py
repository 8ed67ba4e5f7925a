"""One generated dataset for the tests that look at the outcome."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql_env.models import QuestionRecord
from sql_env.questions import Dataset
from sql_env.worlds import generate_dataset, own_domains


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every domain once, with questions enough for the shares to mean something."""
    out = tmp_path_factory.mktemp("worlds")
    count = len(own_domains())
    generate_dataset(out, databases=count, questions=40 * count, seed=11, workers=1)
    return out


@pytest.fixture(scope="session")
def records(generated: Path) -> list[QuestionRecord]:
    return Dataset.at(generated).load()
