"""Trying out every question of a dataset, with the parts that will judge agents."""

from __future__ import annotations

from pathlib import Path

import pytest
from dataset_layouts import make_spider

from sql_env.evaluation.validation import Check, Finding, validate
from sql_env.models import QuestionRecord
from sql_env.questions import Dataset
from sql_env.sources.prepare import prepare_all
from sql_env.sources.spider import read_spider
from sql_env.sources.writing import write_dataset


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    source = read_spider(make_spider(tmp_path / "source"))
    return Dataset.at(
        write_dataset(tmp_path / "out", prepare_all(source).records, source.databases, {})
    )


def only(record: QuestionRecord, dataset: Dataset, **changes: object) -> Finding:
    (finding,) = validate([record.model_copy(update=changes)], dataset.db_dir)
    return finding


def test_a_good_dataset_has_nothing_to_report(dataset: Dataset) -> None:
    records = dataset.load()
    assert [finding.failed for finding in validate(records, dataset.db_dir)] == [None] * len(
        records
    )


def test_a_gold_query_that_does_not_run(dataset: Dataset) -> None:
    finding = only(dataset.load()[0], dataset, gold_sql="SELECT weight FROM product")
    assert finding.failed is Check.GOLD and "weight" in finding.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gold_answer": 5}, "something else"),
        ({"answer_type": "float"}, "stored as float, the query returns integer"),
        ({"tables_involved": ["product", "customer"]}, "tables that are not there: customer"),
    ],
)
def test_a_stored_answer_that_is_wrong(
    dataset: Dataset, changes: dict[str, object], reason: str
) -> None:
    count = next(record for record in dataset.load() if record.question_id == "shop-000")
    finding = only(count, dataset, **changes)
    assert finding.failed is Check.ANSWER and reason in finding.reason


def test_a_stored_sum_may_differ_in_its_last_digit(dataset: Dataset) -> None:
    record = dataset.load()[0].model_copy(
        update={"gold_sql": "SELECT 0.1 + 0.2", "answer_type": "float", "tables_involved": []}
    )
    assert only(record, dataset, gold_answer=0.3).failed is None
    assert only(record, dataset, gold_answer=0.30001).failed is Check.ANSWER


def test_an_oracle_without_the_steps_it_needs(dataset: Dataset) -> None:
    for finding in validate(dataset.load(), dataset.db_dir, step_budget=1):
        assert finding.failed is Check.ORACLE and "out_of_budget" in finding.reason
