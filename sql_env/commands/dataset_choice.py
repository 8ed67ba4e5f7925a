"""From `--dataset` and `--split` to questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sql_env.models import QuestionRecord


def load_split(folder: Path | None, split: str | None) -> tuple[list[QuestionRecord], Path]:
    """The questions of a dataset and the folder of its databases.

    Args:
        folder: a dataset; None is the embedded one.
        split: only these questions; None is all.

    Raises:
        QuestionLoadError: the dataset cannot be read, or has no such split.
    """
    from sql_env.questions import Dataset, QuestionLoadError, check_split_name, filter_questions

    dataset = Dataset.embedded() if folder is None else Dataset.at(folder)
    records = dataset.load()
    questions = filter_questions(records, split=split)
    if not questions:
        there = sorted({record.split for record in records})
        check_split_name(split or "", there)
        raise QuestionLoadError(
            f"{dataset.questions_path}: there is no split {split!r}; choose --split from "
            f"{', '.join(there)}"
        )
    return questions, dataset.db_dir
