"""Small copies of the layouts that the readers know, with real databases in them."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

SHOP = """
CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT, price REAL, kind TEXT);
CREATE TABLE sale (id INTEGER PRIMARY KEY, product_id INTEGER REFERENCES product(id), day TEXT);
INSERT INTO product VALUES (1, 'pen', 1.5, 'paper'), (2, 'ink', 4.0, 'paper');
INSERT INTO product VALUES (3, 'mug', 7.25, NULL);
INSERT INTO sale VALUES (1, 1, '2024-01-01'), (2, 1, '2024-01-02'), (3, 3, '2024-01-02');
"""
SHOP_QUESTIONS = [
    ("How many products are there?", "SELECT count(*) FROM product"),
    ("What is the number of products?", "SELECT  COUNT(*)  FROM product"),
    ("What is the most expensive product?", "SELECT name FROM product ORDER BY price DESC LIMIT 1"),
    ("What does the average product cost?", "SELECT avg(price) FROM product"),
    ("Which products are there?", "SELECT name FROM product"),
    (
        "Which products were sold, and when?",
        "SELECT T1.name, T2.day FROM product AS T1 JOIN sale AS T2 ON T1.id = T2.product_id",
    ),
    (
        "Which products were never sold?",
        "SELECT name FROM product WHERE id NOT IN (SELECT product_id FROM sale)",
    ),
    ("Which products cost over 100?", "SELECT name FROM product WHERE price > 100"),
    ("List every sale.", "SELECT * FROM sale"),
    ("On which days was something sold?", "SELECT DISTINCT day FROM sale ORDER BY day"),
]


def make_database(path: Path, script: str = SHOP) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    return path


def write_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path


def make_spider(folder: Path, databases: tuple[str, ...] = ("shop", "store")) -> Path:
    """Spider's layout: the second half of the databases is the development set's."""
    for name in databases:
        make_database(folder / "database" / name / f"{name}.sqlite")
    half = (len(databases) + 1) // 2
    for file, names in (("train_spider", databases[:half]), ("dev", databases[half:])):
        records = [
            {"db_id": name, "question": question, "query": sql}
            for name in names
            for question, sql in SHOP_QUESTIONS
        ]
        write_json(folder / f"{file}.json", records)
    write_json(folder / "tables.json", [])
    return folder


def make_shops(folder: Path, shops: int = 36) -> Path:
    """Spider's layout: shops that share no gold query, and `core` in the development set."""
    records = []
    for number in range(shops):
        name = f"shop_{number}"
        make_database(folder / "database" / name / f"{name}.sqlite", SHOP.replace("product", name))
        records += [
            {"db_id": name, "question": question, "query": sql.replace("product", name)}
            for question, sql in SHOP_QUESTIONS[: 5 + number % 3]
        ]
    write_json(folder / "train_spider.json", records)
    make_database(folder / "database" / "core" / "core.sqlite")
    core = [{"db_id": "core", "question": text, "query": sql} for text, sql in SHOP_QUESTIONS]
    write_json(folder / "dev.json", core)
    write_json(folder / "tables.json", [])
    return folder


def make_bird(folder: Path) -> Path:
    make_database(folder / "dev_databases" / "shop" / "shop.sqlite")
    levels = ("simple", "moderate", "challenging")
    records = [
        {
            "question_id": number,
            "db_id": "shop",
            "question": question,
            "evidence": f"evidence {number}" if number % 2 else "",
            "SQL": sql,
            "difficulty": levels[number % 3],
        }
        for number, (question, sql) in enumerate(SHOP_QUESTIONS)
    ]
    write_json(folder / "dev.json", records)
    write_json(folder / "dev_tables.json", [])
    return folder


def make_kaggle(folder: Path) -> Path:
    """KaggleDBQA: one file per database, and two more that repeat its questions."""
    for name in ("Shop", "Store"):
        make_database(folder / "databases" / name / f"{name}.sqlite")
        records = [
            {"db_id": name, "question": question, "query": sql, "sql": {"select": []}}
            for question, sql in SHOP_QUESTIONS
        ]
        write_json(folder / "examples" / f"{name}.json", records)
        write_json(folder / "examples" / f"{name}_fewshot.json", records[:3])
        write_json(folder / "examples" / f"{name}_test.json", records[3:])
    write_json(folder / "KaggleDBQA_tables.json", [])
    return folder


def spider_copy() -> Path:
    """The Spider copy on this machine; without one the test is skipped."""
    checkout = Path(__file__).resolve().parent.parent
    folder = Path(os.environ.get("SQL_ENV_SPIDER", checkout.parent / "shared" / "spider"))
    if not (folder / "tables.json").is_file():
        pytest.skip(f"no Spider copy at {folder}: set SQL_ENV_SPIDER to one")
    return folder
