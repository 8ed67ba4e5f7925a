"""A folder of one's own: SQLite files, and questions in JSON or CSV in the usual spellings."""

from __future__ import annotations

from pathlib import Path

import pytest
from dataset_layouts import make_database, write_json

from sql_env.questions import QuestionLoadError
from sql_env.sources.own import read_own
from sql_env.sources.prepare import prepare_all
from sql_env.sources.raw import SourceError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_database(tmp_path / "mine" / "shop.db")
    return tmp_path / "mine"


def question(**fields: object) -> dict[str, object]:
    return {"question": "How many?", "sql": "SELECT count(*) FROM product"} | fields


def error_of(folder: Path, *arguments: Path) -> str:
    with pytest.raises(SourceError) as caught:
        read_own(folder, *arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"question": "How many?", "sql": "SELECT 1"},
        {"Question": "How many?", "Query": "SELECT 1", "DB_ID": "shop"},
        {"question_text": "How many?", "gold_sql": "SELECT 1", "database": "shop.db"},
        {"utterance": "How many?", "gold": "SELECT 1", "database_name": "shop"},
    ],
)
def test_fields_may_be_spelt_in_many_ways(folder: Path, fields: dict[str, str]) -> None:
    write_json(folder / "q.json", [fields])
    (found,) = read_own(folder).questions
    assert (found.text, found.sql, found.database) == ("How many?", "SELECT 1", "shop")
    assert found.question_id == "shop-000"


def test_what_a_record_does_not_say_is_computed(folder: Path) -> None:
    write_json(folder / "q.json", [question(), question(id="x", hint="count", difficulty="extra")])
    first, second = sorted(prepare_all(read_own(folder)).records, key=lambda r: r.question_id)
    assert (first.gold_answer, first.answer_type) == (3, "integer")
    assert (first.difficulty, first.tables_involved) == ("easy", ["product"])
    assert (second.question_id, second.hint, second.difficulty) == ("x", "count", "extra")


def test_a_file_called_questions_may_lie_beside_the_tables(folder: Path) -> None:
    write_json(folder / "questions.json", [question()])
    (folder / "product.csv").write_text("id,name\n1,cup\n")
    assert len(read_own(folder).questions) == 1


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_may_use_any_common_separator(folder: Path, separator: str) -> None:
    lines = [
        separator.join(("id", "question", "sql")),
        separator.join(("7", '"Which, and what; price?"', '"SELECT name, price FROM product"')),
    ]
    (folder / "q.csv").write_text("\n".join(lines), encoding="utf-8-sig")
    (found,) = read_own(folder).questions
    assert (found.question_id, found.text) == ("7", "Which, and what; price?")
    assert found.sql == "SELECT name, price FROM product"


def test_a_cell_of_a_csv_may_have_several_lines(folder: Path) -> None:
    (folder / "q.csv").write_text('question,sql\nHow many?,"SELECT count(*)\nFROM product"\n')
    assert prepare_all(read_own(folder)).records[0].gold_answer == 3


def test_a_stray_comma_in_a_csv_is_refused_with_its_line(folder: Path) -> None:
    (folder / "q.csv").write_text("question,sql\nHow many?,SELECT name, price FROM product\n")
    assert "q.csv, line 2: 2 cells expected" in error_of(folder)


def test_a_csv_with_an_open_quote_is_refused(folder: Path) -> None:
    (folder / "q.csv").write_text('question,sql\nHow many?,"SELECT 1\n')
    assert "malformed CSV" in error_of(folder)


def test_a_csv_without_questions_is_refused(folder: Path) -> None:
    (folder / "q.csv").write_text("question,sql\n")
    assert "has no questions" in error_of(folder)


def test_a_csv_that_is_not_utf8_is_refused(folder: Path) -> None:
    (folder / "q.csv").write_bytes(b"question,sql\nCaf\xe9?,SELECT 1\n")
    assert "not UTF-8" in error_of(folder)


def test_with_several_databases_each_record_names_its_own(folder: Path) -> None:
    make_database(folder / "deeper" / "mart.sqlite3")
    write_json(folder / "q.json", [question(db="mart"), question(db="shop")])
    assert [item.database for item in read_own(folder).questions] == ["mart", "shop"]
    write_json(folder / "q.json", [question()])
    assert "does not say which database" in error_of(folder) and "mart, shop" in error_of(folder)


def test_an_unknown_database_is_refused_with_those_there_are(folder: Path) -> None:
    write_json(folder / "q.json", [question(), question(db="shp")])
    assert "q.json: record 1: unknown database 'shp'. There are: shop" in error_of(folder)


def test_two_databases_of_one_name_are_refused(folder: Path) -> None:
    make_database(folder / "old" / "shop.sqlite")
    write_json(folder / "q.json", [question()])
    assert "a second database called 'shop'" in error_of(folder)


def test_a_folder_without_a_database_is_refused(tmp_path: Path) -> None:
    assert "no SQLite database" in error_of(tmp_path)
    assert "no such folder" in error_of(tmp_path / "nowhere")


def test_no_question_file_or_too_many_are_refused(folder: Path) -> None:
    assert "found none" in error_of(folder)
    write_json(folder / "a.json", [question()])
    write_json(folder / "b.json", [question()])
    assert "found a.json, b.json" in error_of(folder) and "--questions" in error_of(folder)
    assert len(read_own(folder, folder / "b.json").questions) == 1


def test_a_question_file_that_is_not_there_is_refused(folder: Path) -> None:
    assert "no such file" in error_of(folder, folder / "nowhere.csv")
    with pytest.raises(QuestionLoadError, match="no such file"):
        read_own(folder, folder / "nowhere.json")


def test_a_question_file_of_another_kind_is_refused(folder: Path) -> None:
    assert "questions come as CSV or as a JSON list" in error_of(folder, folder / "q.xlsx")


def test_a_record_without_question_or_sql_is_refused(folder: Path) -> None:
    write_json(folder / "q.json", [{"question": "How many?"}])
    assert "record 0: has no field 'sql' or 'query'" in error_of(folder)
    write_json(folder / "q.json", [question(question="  ")])
    assert "the field 'question' is '  ', not a text" in error_of(folder)


def test_an_id_used_twice_is_refused(folder: Path) -> None:
    write_json(folder / "q.json", [question(id=1), question(id="1")])
    assert "record 1: the id '1' is already used by" in error_of(folder)


def test_an_unknown_difficulty_is_refused(folder: Path) -> None:
    write_json(folder / "q.json", [question(difficulty="simple")])
    assert "the difficulty is 'simple', not one of easy, medium, hard, extra" in error_of(folder)


def test_gold_that_does_not_run_is_refused_or_left_out(folder: Path) -> None:
    write_json(folder / "q.json", [question(), question(id="typo", sql="SELECT nme FROM product")])
    source = read_own(folder)
    with pytest.raises(SourceError) as caught:
        prepare_all(source, skip_failing=False)
    assert "1 of 2 questions" in str(caught.value) and "typo: the gold query does" in str(
        caught.value
    )
    assert "--skip-failing" in str(caught.value)
    assert [item.question_id for item in prepare_all(source).records] == ["shop-000"]


def test_a_dataset_of_which_no_gold_runs_is_refused(folder: Path) -> None:
    write_json(folder / "q.json", [question(sql="SELECT nme FROM product")])
    with pytest.raises(SourceError, match="no question can be used"):
        prepare_all(read_own(folder))
