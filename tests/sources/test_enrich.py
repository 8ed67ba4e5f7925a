"""Records from raw questions: answers, types, tables; and sources that are not fit."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from dataset_layouts import SHOP, make_database

from sql_env.models import QuestionRecord
from sql_env.sources.enrich import enrich, open_checked
from sql_env.sources.raw import RawQuestion, SourceError


def raw(sql: str, database: str = "shop") -> RawQuestion:
    return RawQuestion("q", database, "What?", sql, part="dev")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_database(tmp_path / "shop.sqlite")


def record_of(sql: str, path: Path) -> QuestionRecord:
    records, left_out = enrich([raw(sql)], {"shop": path})
    assert not left_out
    return records[0]


@pytest.mark.parametrize(
    ("sql", "answer", "kind"),
    [
        ("SELECT count(*) FROM product", 3, "integer"),
        ("SELECT max(price) FROM product", 7.25, "float"),
        ("SELECT name FROM product WHERE id = 1", "pen", "string"),
        ("SELECT kind FROM product WHERE id = 3", None, "string"),
        ("SELECT name FROM product ORDER BY id", ["pen", "ink", "mug"], "list"),
        ("SELECT name FROM product WHERE id > 9", [], "list"),
        ("SELECT id, name FROM product WHERE id = 1", [[1, "pen"]], "table"),
        ("SELECT id, name FROM product WHERE id > 9", [], "table"),
        ("SELECT CAST('a' AS BLOB)", "x'61'", "string"),
    ],
)
def test_the_answer_has_the_type_of_its_result(
    shop: Path, sql: str, answer: Any, kind: str
) -> None:
    record = record_of(sql, shop)
    assert (record.gold_answer, record.answer_type) == (answer, kind)
    assert type(record.gold_answer) is type(answer)


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT count(*) FROM SALE", ["sale"]),
        ("SELECT name FROM product WHERE id IN (SELECT product_id FROM sale)", ["product", "sale"]),
        ("WITH x AS (SELECT id FROM product) SELECT count(*) FROM x", ["product"]),
        ("SELECT T1.day FROM sale AS T1 JOIN product AS T2 ON T1.product_id = T2.id",
         ["product", "sale"]),
    ],
)  # fmt: skip
def test_tables_are_those_that_were_read(shop: Path, sql: str, tables: list[str]) -> None:
    assert sorted(record_of(sql, shop).tables_involved) == tables


def test_hardness_is_computed_where_no_label_is_given(shop: Path) -> None:
    assert record_of("SELECT name, price FROM product", shop).difficulty == "medium"


def test_text_that_is_not_utf8_can_be_written(tmp_path: Path) -> None:
    path = make_database(tmp_path / "shop.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE product SET name = CAST(x'636166e9' AS TEXT) WHERE id = 1")
    connection.commit()
    connection.close()
    answer = record_of("SELECT name FROM product WHERE id = 1", path).gold_answer
    assert answer.startswith("caf") and answer.encode()


def test_gold_that_does_not_run_is_named(shop: Path) -> None:
    records, left_out = enrich(
        [raw("SELECT nme FROM product"), raw("DROP TABLE product")], {"shop": shop}
    )
    assert not records
    assert left_out[0].question_id == "q"
    assert "does not run" in left_out[0].reason and "nme" in left_out[0].reason
    assert "does not run" in left_out[1].reason
    assert record_of("SELECT count(*) FROM product", shop).gold_answer == 3


def test_an_unknown_database_is_refused_with_those_there_are(shop: Path) -> None:
    with pytest.raises(SourceError, match=r"unknown database 'shp'\. There are: shop"):
        enrich([raw("SELECT 1", "shp")], {"shop": shop})


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    path.write_text("this is a letter, not a database" * 100)
    with pytest.raises(SourceError, match=r"shop.sqlite: not a readable SQLite database"):
        enrich([raw("SELECT 1")], {"shop": path})


def test_a_database_cut_off_is_refused(tmp_path: Path) -> None:
    rows = ", ".join(f"({n}, 1, 'day {n}')" for n in range(10, 2000))
    path = make_database(tmp_path / "shop.sqlite", f"{SHOP} INSERT INTO sale VALUES {rows};")
    path.write_bytes(path.read_bytes()[: 4096 * 4])
    with pytest.raises(SourceError, match=r"shop.sqlite: (the database is damaged|not a readable)"):
        open_checked(path)


def test_a_database_with_a_page_overwritten_is_refused(tmp_path: Path) -> None:
    path = make_database(tmp_path / "shop.sqlite")
    content = bytearray(path.read_bytes())
    content[4096:8192] = b"\x5a" * 4096
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"shop.sqlite: (the database is damaged|not a readable)"):
        open_checked(path)


def test_a_database_without_tables_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    path.touch()
    with pytest.raises(SourceError, match="no tables"):
        open_checked(path)


def test_a_database_with_unwritten_changes_is_refused(tmp_path: Path) -> None:
    path = make_database(tmp_path / "shop.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("INSERT INTO product VALUES (4, 'cup', 3.0, NULL)")
    connection.commit()
    with pytest.raises(SourceError, match=r"wal_checkpoint"):
        open_checked(path)
    connection.close()
    assert record_of("SELECT count(*) FROM product", path).gold_answer == 4
