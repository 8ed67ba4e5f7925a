"""Read a folder of one's own: SQLite files, and a JSON or CSV file of questions with gold SQL.

Field names are matched without regard to case, in the spellings people use. Only the question and
the SQL must be there; the database too, where there are several.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sql_env.core.suggestions import name_some
from sql_env.models import DIFFICULTIES, Difficulty
from sql_env.questions import read_json_objects
from sql_env.sources.raw import RawQuestion, Source, SourceError, find_databases, required

QUESTION = ("question", "question_text", "utterance", "nl", "text")
SQL = ("sql", "query", "gold_sql", "gold_query", "gold")
DATABASE = ("database", "database_name", "db_id", "db", "db_name")
IDENTIFIER = ("question_id", "id", "qid")
HINT = ("hint", "evidence")
DIFFICULTY = ("difficulty", "hardness")
_LEVELS: dict[str, Difficulty] = {level: level for level in DIFFICULTIES}


def read_own(folder: Path, questions_file: Path | None = None) -> Source:
    """The questions and databases of a folder.

    Args:
        folder: where the SQLite files lie, at any depth.
        questions_file: the questions; default: questions.csv or questions.json, or the
            one JSON or CSV file in the folder.

    Raises:
        SourceError: a part is missing or not clear; the message says which.
        QuestionLoadError: the question file cannot be read.
    """
    if not folder.is_dir():
        raise SourceError(
            f"{folder}: no such folder: name one with SQLite files and a JSON or CSV of questions"
        )
    databases = find_databases(folder)
    if not databases:
        raise SourceError(
            f"{folder}: no SQLite database in it (*.sqlite, *.sqlite3 or *.db). To make one from "
            "CSV files: pip install sqlite-utils, then for each table sqlite-utils insert "
            "NAME.sqlite TABLE FILE.csv --csv"
        )
    file = questions_file or _only_question_file(folder)
    if file.suffix not in (".csv", ".json"):
        raise SourceError(
            f"{file}: questions come as CSV or as a JSON list: save it as one of them"
        )
    items = _read_csv(file) if file.suffix == ".csv" else read_json_objects(file)
    counts: dict[str, int] = {}
    places: dict[str, str] = {}
    questions = []
    for number, item in enumerate(items):
        place = f"{file}: record {number}"
        fields = {str(name).strip().lower(): value for name, value in item.items()}
        database = _database(fields, databases, place)
        count = counts[database] = counts.get(database, -1) + 1
        identifier = _optional(fields, IDENTIFIER) or f"{database}-{count:03d}"
        if identifier in places:
            raise SourceError(
                f"{place}: the id {identifier!r} is already used by {places[identifier]}"
            )
        places[identifier] = place
        questions.append(
            RawQuestion(
                question_id=identifier,
                database=database,
                text=required(fields, QUESTION, place),
                sql=required(fields, SQL, place),
                part=file.stem,
                difficulty=_difficulty(fields, place),
                hint=_optional(fields, HINT),
            )
        )
    return Source(folder.resolve().name, tuple(questions), databases)


def _only_question_file(folder: Path) -> Path:
    files = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".csv"))
    # The tables may lie beside it, as CSV files too.
    files = [path for path in files if path.stem == "questions"] or files
    if len(files) == 1:
        return files[0]
    found = ", ".join(path.name for path in files) or "none"
    raise SourceError(
        f"{folder}: expected one JSON or CSV file with questions, found {found}: "
        "name it with --questions FILE"
    )


def _read_csv(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            file.seek(0)
            # Spreadsheets of some countries write ; between the cells.
            delimiter = max(",;\t", key=header.count)
            reader = csv.DictReader(file, delimiter=delimiter, strict=True)
            rows = []
            for row in reader:
                if None in row or None in row.values():
                    raise SourceError(
                        f"{path}, line {reader.line_num}: {len(reader.fieldnames or ())} cells "
                        "expected: put cells that hold commas in double quotes"
                    )
                rows.append(row)
    except FileNotFoundError as error:
        raise SourceError(f"{path}: no such file") from error
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{path}: not UTF-8 text (byte {error.start}): save it as UTF-8"
        ) from error
    except csv.Error as error:
        raise SourceError(f"{path}, line {reader.line_num}: malformed CSV: {error}") from error
    if not rows:
        raise SourceError(f"{path}: has no questions: a header line, then one question a line")
    return rows


def _optional(fields: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = fields.get(name)
        if value is not None and str(value).strip():
            return str(value).strip()
    return None


def _database(fields: Mapping[str, Any], databases: Mapping[str, Path], place: str) -> str:
    name = _optional(fields, DATABASE)
    if name is None:
        if len(databases) == 1:
            return next(iter(databases))
        raise SourceError(
            f"{place}: does not say which database it is about (field {' or '.join(DATABASE)}). "
            f"There are: {name_some(databases)}"
        )
    stem = Path(name).stem if Path(name).suffix in (".sqlite", ".sqlite3", ".db") else name
    if stem not in databases:
        raise SourceError(
            f"{place}: unknown database {name!r}. There are: {name_some(databases, stem)}"
        )
    return stem


def _difficulty(fields: Mapping[str, Any], place: str) -> Difficulty | None:
    label = _optional(fields, DIFFICULTY)
    if label is not None and label not in _LEVELS:
        raise SourceError(
            f"{place}: the difficulty is {label!r}, not one of {', '.join(_LEVELS)}: "
            "leave it out to have it computed"
        )
    return _LEVELS[label] if label else None
