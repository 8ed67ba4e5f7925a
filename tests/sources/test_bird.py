"""BIRD's layout: evidence becomes a hint, its three levels three of ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dataset_layouts import make_bird, write_json

from sql_env.environment import SQLEnvironment
from sql_env.sources.bird import read_bird
from sql_env.sources.prepare import only_databases, prepare_all
from sql_env.sources.raw import SourceError


def test_evidence_becomes_the_hint_and_levels_are_translated(tmp_path: Path) -> None:
    records = prepare_all(read_bird(make_bird(tmp_path)), split_by="none").records
    assert [record.hint for record in records[:3]] == [None, "evidence 1", None]
    assert [record.difficulty for record in records[:4]] == ["easy", "medium", "hard", "easy"]
    assert {record.split for record in records} == {"eval"}
    assert records[4].question_id == "shop-004"


def test_an_agent_sees_the_evidence(tmp_path: Path) -> None:
    make_bird(tmp_path)
    records = prepare_all(read_bird(tmp_path), split_by="none").records
    with SQLEnvironment(questions=records, db_dir=tmp_path / "dev_databases") as environment:
        assert environment.reset(question_id="shop-001").metadata["hint"] == "evidence 1"
        assert "hint" not in environment.reset(question_id="shop-000").metadata


def test_without_a_label_the_difficulty_is_computed(tmp_path: Path) -> None:
    make_bird(tmp_path)
    records = json.loads((tmp_path / "dev.json").read_text())
    for record in records:
        del record["difficulty"]
    write_json(tmp_path / "train.json", records)
    (tmp_path / "dev.json").unlink()
    (tmp_path / "dev_databases").rename(tmp_path / "train_databases")
    prepared = prepare_all(read_bird(tmp_path))
    assert prepared.counts() == {"train": 7, "eval": 3}
    by_id = {record.question_id: record.difficulty for record in prepared.records}
    assert by_id["shop-006"] == "hard"


def test_an_unknown_difficulty_is_refused(tmp_path: Path) -> None:
    make_bird(tmp_path)
    records = json.loads((tmp_path / "dev.json").read_text())
    records[2]["difficulty"] = "devilish"
    write_json(tmp_path / "dev.json", records)
    with pytest.raises(SourceError, match="record 2: the difficulty is 'devilish'"):
        read_bird(tmp_path)


def test_gold_that_does_not_run_is_left_out(tmp_path: Path) -> None:
    make_bird(tmp_path)
    records = json.loads((tmp_path / "dev.json").read_text())
    records[2]["SQL"] = "SELECT weight FROM product"
    write_json(tmp_path / "dev.json", records)
    prepared = prepare_all(read_bird(tmp_path))
    assert len(prepared.records) == 9
    assert [item.question_id for item in prepared.left_out] == ["shop-002"]


def test_another_layout_is_refused_with_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not BIRD's layout: looked for dev_databases/"):
        read_bird(tmp_path)


def test_a_database_that_is_not_there_is_refused(tmp_path: Path) -> None:
    source = read_bird(make_bird(tmp_path))
    assert only_databases(source, None) == source
    with pytest.raises(SourceError, match=r"no file of the database 'shpo'.* It has: shop"):
        only_databases(source, ["shpo"])
