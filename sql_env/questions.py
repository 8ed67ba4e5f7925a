"""Where the questions come from: find a dataset, load its records, filter them.

A dataset is a folder with `questions/*.json` (one file per split, `questions_<split>.json`) and
`databases/<name>/<name>.sqlite`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from sql_env.models import QuestionRecord


class QuestionLoadError(ValueError):
    """A question file that cannot be used; the message names the path and what to do."""


@dataclass(frozen=True)
class Dataset:
    """The two paths the environment needs."""

    questions_path: Path
    db_dir: Path

    @classmethod
    def at(cls, folder: Path | str) -> Dataset:
        """The dataset in `folder` (`questions/` and `databases/`)."""
        return cls(Path(folder) / "questions", Path(folder) / "databases")

    @classmethod
    def embedded(cls) -> Dataset:
        """The default data: in the checkout under `data/`, in a wheel inside the package."""
        package = Path(__file__).parent
        installed = package / "_data"
        return cls.at(installed if installed.is_dir() else package.parent / "data")


def load_questions(path: Path | str) -> list[QuestionRecord]:
    """Read the records of one JSON file, or of every `questions_*.json` in a folder."""
    path = Path(path)
    files = sorted(path.glob("questions_*.json")) if path.is_dir() else [path]
    try:
        return [
            QuestionRecord.model_validate(item)
            for file in files
            for item in json.loads(file.read_text(encoding="utf-8"))
        ]
    except (OSError, json.JSONDecodeError, ValidationError) as error:
        raise QuestionLoadError(f"{path}: {error}") from error


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
