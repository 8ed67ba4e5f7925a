"""Question synthesis for the databases of a dataset, as a split of their own.

add_synthetic_questions(Path("data/spider"), splits=("train", "wide"), per_database=60)

A model that is tested on other questions about the same databases may train on these: no gold
query of a split that stays unseen is among them, and no database that only such splits ask about.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from sql_env.models import QuestionRecord
from sql_env.questions import Dataset, check_split_name, load_questions
from sql_env.sources.raw import SourceError
from sql_env.sources.writing import MANIFEST, DatasetWriteError, question_file
from sql_env.sql.leak_key import leak_key
from sql_env.worlds.synthesis import synthetic_questions

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Synthesised:
    """What was written, and what was not."""

    records: list[QuestionRecord]
    databases: dict[str, int]  # questions of each database that was asked about
    unseen: tuple[str, ...]  # databases that only the other splits ask about
    leaked: int  # proposals turned down because another split has their gold query


def add_synthetic_questions(
    folder: Path | str,
    *,
    splits: Sequence[str] = ("train",),
    per_database: int = 60,
    name: str = "synthetic",
    seed: int = 42,
    progress: Callable[[str], None] | None = None,
) -> Synthesised:
    """Write `questions_<name>.json` beside the other splits of a dataset.

    Args:
        folder: the dataset.
        splits: databases of these splits are asked about; golds of all others stay unseen.
        per_database: the most questions for one database.
        name: the split they become; an earlier one of that name is replaced.
        seed: the same seed writes the same bytes.
        progress: called with the name of each database when it is done.

    Raises:
        QuestionLoadError: the dataset cannot be read.
        SourceError: a split is not there, or the name cannot be used.
        DatabaseOpenError: a database is not there or damaged.
        DatasetWriteError: the disk is full or the place cannot be written.
    """
    dataset = Dataset.at(folder)
    others = other_questions(dataset, splits, name)
    named = {record.database_name for record in others if record.split in splits}
    unseen = {record.database_name for record in others} - named
    hidden = [record for record in others if record.split not in splits]
    spelled = {leak_key(record.gold_sql) for record in hidden}
    records: list[QuestionRecord] = []
    counts: dict[str, int] = {}
    leaked = 0
    for database in sorted(named):
        asked = synthetic_questions(
            dataset.database_path(database),
            per_database,
            seed=seed,
            unseen=[r.gold_sql for r in hidden if r.database_name == database],
            is_unseen=lambda sql: leak_key(sql) in spelled,
        )
        for number, record in enumerate(asked.records):
            found = {"question_id": f"{database}-{name}-{number:03d}", "split": name}
            records.append(QuestionRecord.model_validate(record | found))
        counts[database] = len(asked.records)
        leaked += asked.leaked
        if progress is not None:
            progress(database)
    if not records:
        raise SourceError(f"{folder}: none of the {len(named)} databases offers a question")
    _write(Path(folder), name, records)
    return Synthesised(records, counts, tuple(sorted(unseen)), leaked)


def other_questions(dataset: Dataset, splits: Sequence[str], name: str) -> list[QuestionRecord]:
    """All questions but those of the split `name`, which is about to be made from `splits`.

    Raises:
        QuestionLoadError: the dataset cannot be read.
        SourceError: a split is not there, or the name is another split's.
    """
    records = [r for r in load_questions(dataset.questions_path) if r.split != name]
    _check(dataset.questions_path.parent, records, splits, name)
    return records


def _check(
    folder: Path, records: Sequence[QuestionRecord], splits: Sequence[str], name: str
) -> None:
    there = sorted({record.split for record in records})
    for split in splits:
        if split not in there:
            check_split_name(split, there)
            raise SourceError(
                f"{folder}: no split {split!r}. There are: {', '.join(there)}. "
                "Choose with --splits NAME,NAME"
            )
    check_split_name(name)
    if not _NAME.fullmatch(name):
        raise SourceError(f"the name {name!r} cannot be one of a split: use letters and digits")
    written = folder / "questions" / f"questions_{name}.json"
    if name in ("train", "eval") or (written.exists() and not _is_made(written, name)):
        raise SourceError(
            f"{folder}: the split {name!r} holds other questions: choose another --name"
        )


def _is_made(path: Path, name: str) -> bool:
    """Whether a question file was made from another, and may be replaced."""
    return all(f"-{name}-" in record.question_id for record in load_questions(path))


def _write(folder: Path, name: str, records: Sequence[QuestionRecord]) -> None:
    """One file, which is there as a whole or not at all; the manifest counts it."""
    manifest_path = folder / MANIFEST
    try:
        _replace(folder / "questions" / f"questions_{name}.json", question_file(records))
        if manifest_path.is_file():
            manifest = json.loads(manifest_path.read_text("utf-8"))
            manifest["questions"] = {**manifest.get("questions", {}), name: len(records)}
            _replace(manifest_path, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise DatasetWriteError(
            f"{folder}: cannot be written: {error.strerror or error}. "
            "Make room, or work on a copy of the dataset"
        ) from error


def _replace(path: Path, text: str) -> None:
    with NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=".writing-", delete=False
    ) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
