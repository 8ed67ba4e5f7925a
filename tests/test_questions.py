"""Loading questions: what is read, and one clear message for each way a file can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sql_env.questions import (
    Dataset,
    QuestionLoadError,
    check_split_name,
    filter_questions,
    load_questions,
)


def record(identifier: str = "a-1", **changes: Any) -> dict[str, Any]:
    return {
        "question_id": identifier,
        "question_text": "How many singers are there?",
        "database_name": "music",
        "gold_sql": "SELECT count(*) FROM singer",
        "gold_answer": 4,
        "answer_type": "integer",
        "difficulty": "easy",
        "tables_involved": ["singer"],
        "split": "train",
    } | changes


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def message(path: Path, **options: Any) -> str:
    with pytest.raises(QuestionLoadError) as caught:
        load_questions(path, **options)
    return str(caught.value)


def test_a_file_is_read_in_its_order(tmp_path: Path) -> None:
    path = write(tmp_path / "q.json", [record("a"), record("b", hint="look closely")])
    first, second = load_questions(path)
    assert (first.question_id, first.gold_answer, first.hint) == ("a", 4, None)
    assert second.hint == "look closely"


def test_a_folder_is_read_split_by_split(tmp_path: Path) -> None:
    write(tmp_path / "questions_train.json", [record("a")])
    write(tmp_path / "questions_eval.json", [record("b", split="eval")])
    write(tmp_path / "notes.json", [{"not": "a question"}])
    assert {item.question_id for item in load_questions(tmp_path)} == {"a", "b"}


def test_the_embedded_data_has_train_and_eval() -> None:
    questions = Dataset.embedded().load()
    assert {item.split for item in questions} >= {"train", "eval"}


def test_a_missing_file_is_named_with_how_to_get_data(tmp_path: Path) -> None:
    path = tmp_path / "questions_train.json"
    assert str(path) in message(path)
    assert "no such file" in message(path) and "sql-env data" in message(path)


def test_a_folder_without_question_files_is_refused(tmp_path: Path) -> None:
    assert "no questions_*.json" in message(tmp_path) and str(tmp_path) in message(tmp_path)


@pytest.mark.parametrize("content", ["", "  \n"])
def test_an_empty_file_is_refused(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "q.json", content)
    assert "the file is empty" in message(path) and str(path) in message(path)


def test_an_empty_list_is_refused(tmp_path: Path) -> None:
    assert "the list of questions is empty" in message(write(tmp_path / "q.json", "[]"))


def test_malformed_json_names_the_line(tmp_path: Path) -> None:
    path = write(tmp_path / "q.json", '[\n {"question_id": "a"},\n {"question_id": }\n]')
    assert f"{path}, line 3, column 18" in message(path)


def test_something_else_than_a_list_is_refused(tmp_path: Path) -> None:
    assert "not a list" in message(write(tmp_path / "q.json", {"questions": []}))


def test_something_else_than_an_object_is_refused(tmp_path: Path) -> None:
    assert "record 1 is 7" in message(write(tmp_path / "q.json", [record(), 7]))


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_bytes(b'["\xff\xfe"]')
    assert "not UTF-8 text (byte 2)" in message(path)


def test_a_folder_where_a_file_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "questions_train.json").mkdir()
    assert "cannot be read" in message(tmp_path)


def test_a_record_without_a_field_is_refused(tmp_path: Path) -> None:
    incomplete = record("b")
    del incomplete["gold_sql"]
    path = write(tmp_path / "q.json", [record("a"), incomplete])
    assert f"{path}: record 1 (b): the field 'gold_sql' is missing" in message(path)


def test_a_field_of_another_kind_is_refused_with_what_is_allowed(tmp_path: Path) -> None:
    text = message(write(tmp_path / "q.json", [record(difficulty="tricky")]))
    assert "the field 'difficulty' is 'tricky'" in text and "'easy'" in text


def test_an_unknown_field_is_refused(tmp_path: Path) -> None:
    assert "'gold_sqll' is not known" in message(
        write(tmp_path / "q.json", [record(gold_sqll="x")])
    )


def test_an_id_used_twice_is_refused_with_both_places(tmp_path: Path) -> None:
    first = write(tmp_path / "questions_a.json", [record("x"), record("same")])
    second = write(tmp_path / "questions_b.json", [record("same")])
    text = message(tmp_path)
    assert f"{second}: record 0" in text and f"{first}: record 1" in text and "'same'" in text


def test_a_question_about_no_database_there_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "questions" / "questions_train.json", [record()])
    (tmp_path / "databases" / "musicals").mkdir(parents=True)
    text = message(path, db_dir=tmp_path / "databases")
    assert "unknown database 'music'" in text and "musicals" in text and "(a-1)" in text
    with pytest.raises(QuestionLoadError):
        Dataset.at(tmp_path).load()
    assert len(load_questions(path)) == 1


def test_filters_are_all_to_be_met(tmp_path: Path) -> None:
    questions = load_questions(
        write(
            tmp_path / "q.json",
            [
                record("a"),
                record("b", split="eval", difficulty="hard"),
                record("c", split="eval"),
                record("d", split="eval", database_name="other"),
            ],
        )
    )
    found = filter_questions(questions, split="eval", difficulties=["easy"], databases=["music"])
    assert [item.question_id for item in found] == ["c"]
    assert filter_questions(questions) == questions
    assert filter_questions(questions, split="train*4+eval") == [], "the grammar is training's"


@pytest.mark.parametrize(
    ("old", "new"),
    [("fresh", "rl"), ("trial_disguised", "dagger_renamed"), ("practice_wide", "synthetic_wide")],
)
def test_an_old_name_of_a_split_is_answered_by_the_new_one(old: str, new: str) -> None:
    with pytest.raises(QuestionLoadError, match=rf"^the split '{old}' is called '{new}' now$"):
        check_split_name(old)


def test_a_dataset_with_old_names_of_splits_is_to_be_made_anew() -> None:
    check_split_name("rl", ["train", "trial"])
    with pytest.raises(
        QuestionLoadError, match=r"version 0\.1, which called the split 'rl' 'fresh'"
    ):
        check_split_name("rl", ["train", "fresh"])
