"""Where the questions come from: find a dataset, load its records, filter them.

A dataset is a folder with `questions/*.json` (one file per split, `questions_<split>.json`) and
`databases/<name>/<name>.sqlite`. Whatever is wrong with a file comes back as one
`QuestionLoadError` that names the file, the place in it and what to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sql_env.core.errors import UserError
from sql_env.core.query_result import Cell, Row
from sql_env.core.suggestions import name_some
from sql_env.models import AnswerType, QuestionRecord

_HOW_TO_GET_DATA = (
    "make a dataset with `sql-env data generate`, `sql-env data spider` or `sql-env data import`"
)


class QuestionLoadError(UserError, ValueError):
    """A question file that cannot be used; the message names the path and what to do."""


@dataclass(frozen=True)
class Dataset:
    """The two paths the environment needs."""

    questions_path: Path
    db_dir: Path

    @classmethod
    def at(cls, folder: Path | str | None) -> Dataset:
        """The dataset in `folder` (`questions/` and `databases/`); None is the embedded one."""
        if folder is None:
            return cls.embedded()
        return cls(Path(folder) / "questions", Path(folder) / "databases")

    @classmethod
    def embedded(cls) -> Dataset:
        """The default data: in the checkout under `data/`, in a wheel inside the package."""
        package = Path(__file__).parent
        installed = package / "_data"
        return cls.at(installed if installed.is_dir() else package.parent / "data")

    def database_path(self, name: str) -> Path:
        """Where the file of one database lies."""
        return database_path(self.db_dir, name)

    def load(self) -> list[QuestionRecord]:
        """Every record, each with its database in place."""
        return load_questions(self.questions_path, db_dir=self.db_dir)

    def load_split(self, split: str | None) -> list[QuestionRecord]:
        """The records of one split; of all splits where it is None.

        Raises:
            QuestionLoadError: as in `load`, or there is no such split.
        """
        records = self.load()
        chosen = filter_questions(records, split=split)
        if not chosen and split is not None:
            splits = {record.split for record in records}
            check_split_name(split, sorted(splits))
            raise QuestionLoadError(
                f"{self.questions_path}: there is no split {split!r}; choose from "
                f"{name_some(splits, split)}"
            )
        return chosen


def database_path(db_dir: Path | str, name: str) -> Path:
    """The file of one database in a dataset's `databases/` folder."""
    return Path(db_dir) / name / f"{name}.sqlite"


def load_questions(path: Path | str, *, db_dir: Path | str | None = None) -> list[QuestionRecord]:
    """Read the records of one JSON file, or of every `questions_*.json` in a folder.

    Args:
        path: a question file or a folder of them.
        db_dir: check that every record's database lies in this folder.

    Raises:
        QuestionLoadError: a file is missing, empty or malformed, a record lacks a field, two
            records share an id, or a database is not there.
    """
    seen: dict[str, str] = {}
    records: list[QuestionRecord] = []
    for file in _question_files(Path(path)):
        for number, item in enumerate(read_json_objects(file)):
            place = f"{file}: record {number}"
            record = _validate(item, place)
            first = seen.setdefault(record.question_id, place)
            if first is not place:
                raise QuestionLoadError(
                    f"{place}: the question_id {record.question_id!r} is already used by {first}: "
                    "every record needs its own"
                )
            records.append(record)
    if db_dir is not None:
        _check_databases(records, Path(db_dir), seen)
    return records


def filter_questions(
    questions: Iterable[QuestionRecord],
    *,
    split: str | None = None,
    difficulties: Sequence[str] | None = None,
    databases: Sequence[str] | None = None,
) -> list[QuestionRecord]:
    """The records that match everything given, in their order."""
    return [
        record
        for record in questions
        if (split is None or record.split == split)
        and (difficulties is None or record.difficulty in difficulties)
        and (databases is None or record.database_name in databases)
    ]


def choose_questions(
    questions: Sequence[QuestionRecord],
    *,
    ids: Sequence[str] | None = None,
    databases: Sequence[str] | None = None,
    difficulties: Sequence[str] | None = None,
) -> list[QuestionRecord]:
    """Those that match every filter that is given, in their order.

    Raises:
        QuestionLoadError: a filter names what no question has, or no question matches all.
    """
    for names, field, complaint in (
        (ids, "question_id", "there is no question"),
        (databases, "database_name", "there are no questions about database"),
        (difficulties, "difficulty", "there are no questions of difficulty"),
    ):
        known = {getattr(record, field) for record in questions}
        for name in names or ():
            if name not in known:
                raise QuestionLoadError(f"{complaint} {name!r}; there are {name_some(known, name)}")
    chosen = [
        record
        for record in filter_questions(questions, databases=databases, difficulties=difficulties)
        if ids is None or record.question_id in ids
    ]
    if not chosen:
        raise QuestionLoadError(
            f"none of {len(questions)} questions matches all of --id, --database, --difficulty: "
            "leave one out"
        )
    return chosen


# What version 0.1 called the splits that data commands make. To be deleted after version 0.2.
_OLD_SPLITS = {
    "fresh": "rl",
    "trial": "dagger",
    "reserve": "rl_core",
    "practice": "synthetic",
    "practice_wide": "synthetic_wide",
    "disguised": "renamed",
    "fresh_disguised": "rl_renamed",
    "trial_disguised": "dagger_renamed",
}


def check_split_name(name: str, there: Iterable[str] = ()) -> None:
    """See that a split that is not there is not missing for its name alone.

    Args:
        name: what was asked for.
        there: the splits of the dataset.

    Raises:
        QuestionLoadError: the name, or the dataset, is of version 0.1.
    """
    if name in _OLD_SPLITS:
        raise QuestionLoadError(f"the split {name!r} is called {_OLD_SPLITS[name]!r} now")
    for old in there:
        if _OLD_SPLITS.get(old) == name:
            raise QuestionLoadError(
                f"the dataset was made by version 0.1, which called the split {name!r} {old!r}: "
                "prepare it again (docs/training.md, The data of the recipe)"
            )


def answer_of(columns: Sequence[str], rows: Sequence[Row]) -> tuple[Any, AnswerType]:
    """A gold result as JSON, and its type: one value, one column, or a table."""
    if len(columns) == 1 and len(rows) == 1:
        value = rows[0][0]
        if isinstance(value, int):
            return value, "integer"
        if isinstance(value, float):
            return value, "float"
        return _json_cell(value), "string"
    if len(columns) == 1:
        return [_json_cell(row[0]) for row in rows], "list"
    return [[_json_cell(cell) for cell in row] for row in rows], "table"


def _json_cell(value: Cell) -> int | float | str | None:
    """Bytes have no place in JSON: they become SQLite's own literal, x'0a0b'."""
    return f"x'{value.hex()}'" if isinstance(value, bytes) else value


def read_json_objects(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON file that holds a non-empty list of them.

    Raises:
        QuestionLoadError: the message has the file and, where the JSON is broken, the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise QuestionLoadError(f"{path}: no such file: {_HOW_TO_GET_DATA}") from error
    except UnicodeDecodeError as error:
        raise QuestionLoadError(
            f"{path}: not UTF-8 text (byte {error.start}): save it as UTF-8"
        ) from error
    except OSError as error:
        raise QuestionLoadError(f"{path}: cannot be read: {error.strerror}") from error
    if not text.strip():
        raise QuestionLoadError(f"{path}: the file is empty: {_HOW_TO_GET_DATA}")
    try:
        items = json.loads(text)
    except json.JSONDecodeError as error:
        raise QuestionLoadError(
            f"{path}, line {error.lineno}, column {error.colno}: malformed JSON: {error.msg}"
        ) from error
    if not isinstance(items, list):
        raise QuestionLoadError(
            f"{path}: holds a JSON {type(items).__name__}, not a list of records: put [ ] around it"
        )
    if not items:
        raise QuestionLoadError(f"{path}: the list of questions is empty: {_HOW_TO_GET_DATA}")
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise QuestionLoadError(f"{path}: record {number} is {item!r}, not an object")
    return items


def _question_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("questions_*.json"))
    if not files:
        raise QuestionLoadError(f"{path}: no questions_*.json in this folder: {_HOW_TO_GET_DATA}")
    return files


def _validate(item: dict[str, Any], place: str) -> QuestionRecord:
    try:
        return QuestionRecord.model_validate(item)
    except ValidationError as error:
        name = item.get("question_id")
        place = f"{place} ({name})" if name else place
        raise QuestionLoadError(f"{place}: {'; '.join(map(_explain, error.errors()))}") from error


def _explain(problem: Any) -> str:
    field = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing":
        return f"the field {field!r} is missing"
    if problem["type"] == "extra_forbidden":
        return f"the field {field!r} is not known"
    return f"the field {field!r} is {problem['input']!r}: {problem['msg']}"


def _check_databases(records: list[QuestionRecord], db_dir: Path, places: dict[str, str]) -> None:
    checked: set[str] = set()
    for record in records:
        name = record.database_name
        if name in checked:
            continue
        checked.add(name)
        if not database_path(db_dir, name).is_file():
            there = sorted(item.name for item in db_dir.iterdir()) if db_dir.is_dir() else []
            raise QuestionLoadError(
                f"{places[record.question_id]} ({record.question_id}): unknown database {name!r}: "
                f"{database_path(db_dir, name)} is not there. "
                f"Databases in {db_dir}: {', '.join(there) or 'none'}"
            )
