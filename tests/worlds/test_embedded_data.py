"""The committed data is what the generator makes, and what is promised of it."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sql_env.evaluation.validation import validate
from sql_env.models import QuestionRecord
from sql_env.questions import Dataset
from sql_env.sql.leak_key import leak_key
from sql_env.worlds import generate_dataset
from sql_env.worlds.generating import HARDNESS_MIX

DATA = Path(__file__).parents[2] / "data"
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def committed() -> list[QuestionRecord]:
    return Dataset.at(DATA).load()


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same once more, with the defaults."""
    out = tmp_path_factory.mktemp("again")
    generate_dataset(out)
    return out


def dump(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        return list(connection.iterdump())


def alike(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of averages, which newer SQLite versions sum more exactly."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)


@pytest.mark.parametrize("split", ["train", "eval"])
def test_the_questions_are_generated_again_the_same(again: Path, split: str) -> None:
    name = f"questions/questions_{split}.json"
    here, there = (json.loads((folder / name).read_text("utf-8")) for folder in (DATA, again))
    assert [r["question_id"] for r in here] == [r["question_id"] for r in there]
    for one, other in zip(here, there, strict=True):
        assert alike(one.pop("gold_answer"), other.pop("gold_answer")), one["question_id"]
        assert one == other


def test_the_databases_are_generated_again_the_same(again: Path) -> None:
    here, there = (
        {path.parent.name: dump(path) for path in folder.glob("databases/*/*.sqlite")}
        for folder in (DATA, again)
    )
    assert here == there


def test_it_is_the_data_that_was_released() -> None:
    """Results are compared over versions: other data would be another benchmark."""
    files = sorted([*DATA.glob("questions/*.json"), *DATA.glob("databases/*/*.sqlite")])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files))
    assert digest.hexdigest().startswith("8ddc037e9fedb99f")


def test_ten_databases_in_less_than_five_megabytes() -> None:
    sizes = [path.stat().st_size for path in DATA.glob("databases/*/*.sqlite")]
    assert len(sizes) == 10
    assert sum(sizes) < 5 * MEGABYTE


def test_the_split_has_the_promised_sizes(committed: list[QuestionRecord]) -> None:
    assert Counter(r.split for r in committed) == {"train": 473, "eval": 203}


@pytest.mark.parametrize("split", ["train", "eval"])
def test_both_sides_are_mixed_as_spider_is(committed: list[QuestionRecord], split: str) -> None:
    part = [record for record in committed if record.split == split]
    counts = Counter(record.difficulty for record in part)
    for level, percent in HARDNESS_MIX.items():
        assert abs(100 * counts[level] / len(part) - percent) < 2
    per_database = Counter(record.database_name for record in part)
    assert len(per_database) == 10
    assert max(per_database.values()) - min(per_database.values()) < 0.1 * len(part)


def test_no_gold_query_is_on_both_sides(committed: list[QuestionRecord]) -> None:
    sides = [
        {leak_key(record.gold_sql) for record in committed if record.split == split}
        for split in ("train", "eval")
    ]
    assert not sides[0] & sides[1]


def test_the_oracle_succeeds_everywhere(committed: list[QuestionRecord]) -> None:
    assert not [f for f in validate(committed, DATA / "databases") if f.failed is not None]
