"""Databases as SQLite files, the same bytes wherever they are written; questions as records."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sql_env.core.database import QueryResult
from sql_env.core.sql_text import normalize_sql
from sql_env.models import Difficulty, QuestionRecord
from sql_env.questions import answer_of
from sql_env.worlds.intents import Candidate
from sql_env.worlds.world import World, WorldColumn, WorldTable

# SQLite stamps its own version into the header; one number keeps the bytes the same everywhere.
_VERSION_OFFSET = 96
_VERSION = 3_040_001


def write_database(world: World, path: Path) -> None:
    """Write the SQLite file; the same world gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA page_size = 4096")
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("BEGIN")
        for table in world.tables.values():
            connection.execute(create_statement(table))
            cells: list[Sequence[object]] = [item.values for item in table.order]
            if table.has_key:
                cells.insert(0, table.keys)
            marks = ", ".join("?" * len(cells))
            rows = zip(*cells, strict=True)
            connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)
        connection.execute("COMMIT")
    finally:
        connection.close()
    with path.open("r+b") as file:
        file.seek(_VERSION_OFFSET)
        file.write(_VERSION.to_bytes(4, "big"))


def create_statement(table: WorldTable) -> str:
    """The table's DDL, laid out for reading."""
    lines = [f"{table.key_name} INTEGER PRIMARY KEY"] if table.has_key else []
    lines += [
        f"{item.name} {item.sqlite_type if isinstance(item, WorldColumn) else 'INTEGER'}"
        for item in table.order
    ]
    if not table.has_key:
        lines.append(f"PRIMARY KEY ({', '.join(ref.name for ref in table.references)})")
    lines += [
        f"FOREIGN KEY ({ref.name}) REFERENCES {ref.target.name} ({ref.target.key_name})"
        for ref in table.references
    ]
    return f"CREATE TABLE {table.name} (\n  " + ",\n  ".join(lines) + "\n)"


Record = dict[str, Any]


def make_record(
    candidate: Candidate,
    level: Difficulty,
    result: QueryResult,
    tables: tuple[str, ...],
    database: str,
) -> Record:
    answer, answer_type = answer_of(result.columns, result.rows)
    return {
        "question_id": "",
        "question_text": candidate.question,
        "database_name": database,
        "gold_sql": candidate.sql,
        "gold_answer": answer,
        "answer_type": answer_type,
        "difficulty": level,
        "tables_involved": [table for table in tables if table in result.tables],
        "split": "",
    }


def split_records(records: list[Record], eval_fraction: float, seed: int) -> None:
    """Set each record's split, balanced by database and hardness, no gold SQL on both sides."""
    rng = random.Random(f"{seed}/split")
    seen = Counter(normalize_sql(record["gold_sql"]) for record in records)
    strata: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        record["split"] = "train"
        strata.setdefault((record["difficulty"], record["database_name"]), []).append(record)
    upto, chosen = 0, 0
    for _, members in sorted(strata.items()):
        upto += len(members)
        wanted = round(upto * eval_fraction) - chosen
        # A query that two databases share stays in train as a whole.
        free = [record for record in members if seen[normalize_sql(record["gold_sql"])] == 1]
        for record in rng.sample(free, min(max(0, wanted), len(free))):
            record["split"] = "eval"
            chosen += 1


def write_questions(path: Path, records: list[Record]) -> None:
    """A JSON list, one field per line and one record per few lines, so that it can be diffed."""
    for record in records:
        QuestionRecord.model_validate(record)
    blocks = []
    for record in records:
        lines = [
            f"    {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in record.items()
        ]
        blocks.append("  {\n" + ",\n".join(lines) + "\n  }")
    path.write_text("[\n" + ",\n".join(blocks) + "\n]\n", encoding="utf-8")
