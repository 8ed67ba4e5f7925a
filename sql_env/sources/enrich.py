"""From a raw question to a record: run the gold query and note what the environment must know.

Everything goes through the same sandbox and the same limits as in play, so "the gold runs" means
that it runs there too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sql_env.core.database import Database, DatabaseOpenError, QueryResult
from sql_env.core.suggestions import name_some
from sql_env.core.verifier import build_gold
from sql_env.models import QuestionRecord
from sql_env.questions import answer_of
from sql_env.sources.raw import RawQuestion, SourceError
from sql_env.sql.hardness import hardness
from sql_env.sql.parse import NotAQueryError

NO_SPLIT = "all"


class GoldQueryError(ValueError):
    """A gold query that does not run, or whose hardness cannot be told."""


@dataclass(frozen=True)
class LeftOut:
    """A question that cannot be used, and why."""

    question_id: str
    reason: str


def enrich(
    questions: Iterable[RawQuestion], databases: Mapping[str, Path]
) -> tuple[list[QuestionRecord], list[LeftOut]]:
    """Run every gold query; the records, and the questions whose gold does not run.

    Raises:
        SourceError: a question names an unknown database, or a database cannot be opened.
    """
    by_database: dict[str, list[RawQuestion]] = {}
    for question in questions:
        by_database.setdefault(question.database, []).append(question)
    records: list[QuestionRecord] = []
    left_out: list[LeftOut] = []
    for name, asked in by_database.items():
        if name not in databases:
            raise SourceError(
                f"{asked[0].question_id}: unknown database {name!r}. "
                f"There are: {name_some(databases, name)}"
            )
        database = open_checked(databases[name])
        for question in asked:
            try:
                records.append(enrich_one(question, database))
            except GoldQueryError as error:
                left_out.append(LeftOut(question.question_id, str(error)))
    return records, left_out


def enrich_one(question: RawQuestion, database: Database) -> QuestionRecord:
    """One record.

    Raises:
        GoldQueryError: the gold query cannot be used.
    """
    results: list[QueryResult] = []

    def run(sql: str) -> QueryResult:
        results.append(database.query(sql))
        return results[-1]

    try:
        gold = build_gold(question.sql, run)
    except ValueError as error:
        raise GoldQueryError(f"the gold query does not run: {results[0].error}") from error
    try:
        difficulty = question.difficulty or hardness(question.sql)
    except NotAQueryError as error:
        raise GoldQueryError(f"the gold query has no hardness: {error}") from error
    answer, answer_type = answer_of(gold.columns, gold.rows)
    return QuestionRecord(
        question_id=question.question_id,
        question_text=question.text,
        database_name=question.database,
        gold_sql=question.sql,
        gold_answer=answer,
        answer_type=answer_type,
        difficulty=difficulty,
        tables_involved=[name for name in database.table_names if name in results[0].tables],
        split=NO_SPLIT,
        hint=question.hint,
    )


def open_checked(path: Path) -> Database:
    """Open a database file of unknown quality.

    Raises:
        SourceError: it is no SQLite database, damaged, or has changes outside the file.
    """
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise SourceError(
            f"{path}: has changes in {log.name} that are not in the file: close the program that "
            "uses it, or run `PRAGMA wal_checkpoint(TRUNCATE)`"
        )
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise SourceError(
            f"{path}: not a readable SQLite database ({error}): get the file again, or remove it"
        ) from error
    if verdict != "ok":
        raise SourceError(f"{path}: the database is damaged ({verdict}): get the file again")
    try:
        return Database(path)
    except DatabaseOpenError as error:
        raise SourceError(str(error)) from error
