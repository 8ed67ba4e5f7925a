"""Schema renaming: a dataset's questions again, on copies whose tables have other names.

add_renamed_databases(Path("data/spider"), splits=("train", "wide"), copies=2)

Question, rows and answer are the same; only a model that reads the schema can write the query.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sql_env.augment.questions import other_questions
from sql_env.core.database import Database
from sql_env.models import QuestionRecord
from sql_env.questions import Dataset
from sql_env.sources.merge import add_dataset
from sql_env.sources.writing import write_dataset
from sql_env.sql.parse import NotAQueryError
from sql_env.worlds.renaming import NewNames, drawn_names, renamed_copy, renamed_sql


@dataclass(frozen=True)
class Renamed:
    """What was written, and what was not."""

    records: list[QuestionRecord]
    databases: int
    changed: int  # questions whose rows depend on a name or an order
    uncopied: tuple[str, ...]  # databases that could not be written anew


def add_renamed_databases(
    folder: Path | str,
    *,
    splits: Sequence[str] = ("train",),
    copies: int = 1,
    name: str = "renamed",
    seed: int = 42,
    progress: Callable[[str], None] | None = None,
) -> Renamed:
    """Add the questions of `splits` as the split `name`, on renamed copies of their databases.

    Args:
        folder: the dataset.
        splits: the questions to ask again; databases of no other split are copied.
        copies: how many times, under other names each time.
        name: the split they become; an earlier one of that name is replaced.
        seed: the same seed gives the same names.
        progress: called with the name of each database when it is done.

    Raises:
        QuestionLoadError: the dataset cannot be read.
        SourceError: a split is not there, or the name cannot be used.
        DatabaseOpenError: a database is not there or damaged.
        DatasetWriteError: the disk is full or the place cannot be written.
    """
    dataset = Dataset.at(folder)
    others = other_questions(dataset, splits, name)
    asked: dict[str, list[QuestionRecord]] = {}
    for record in others:
        if record.split in splits:
            asked.setdefault(record.database_name, []).append(record)
    records: list[QuestionRecord] = []
    written: dict[str, Path] = {}
    changed, uncopied = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        for database in sorted(asked):
            for number in range(1, copies + 1):
                alias = f"{database}_{name}{number}"
                target = Path(scratch) / f"{alias}.sqlite"
                draw = random.Random(f"{seed}/{number}/{database}")
                try:
                    found = _rename(dataset.database_path(database), target, asked[database], draw)
                except sqlite3.Error:  # a schema that SQLite took once and would not take again
                    uncopied.append(database)
                    break
                written[alias] = target
                changed += len(asked[database]) - len(found)
                about = {"database_name": alias, "split": name}
                records += [
                    QuestionRecord.model_validate(
                        record.model_dump()
                        | about
                        | changes
                        | {"question_id": f"{record.question_id}-{name}-{number}"}
                    )
                    for record, changes in found
                ]
            if progress is not None:
                progress(database)
        together = Path(scratch) / name
        write_dataset(together, records, written, {})
        add_dataset(together, Path(folder), name)
    return Renamed(records, len(written), changed, tuple(uncopied))


def _rename(
    source: Path, target: Path, records: Sequence[QuestionRecord], draw: random.Random
) -> list[tuple[QuestionRecord, dict[str, object]]]:
    """The questions that have the same rows under new names, and what changes in them."""
    database = Database(source)
    names = drawn_names(database, draw)
    renamed_copy(database, source, target, names)
    return list(_same_rows(records, database, Database(target), names))


def _same_rows(
    records: Sequence[QuestionRecord], database: Database, copy: Database, names: NewNames
) -> Iterator[tuple[QuestionRecord, dict[str, object]]]:
    for record in records:
        try:
            sql = renamed_sql(record.gold_sql, database, names)
        except NotAQueryError:
            continue
        before, after = database.query(record.gold_sql), copy.query(sql)
        if after.ok and before.rows == after.rows:
            tables = [names.tables[table.lower()] for table in record.tables_involved]
            yield record, {"gold_sql": sql, "tables_involved": tables}
