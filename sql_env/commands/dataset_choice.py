"""From `--dataset`, `--split` and the filters to questions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    from sql_env.questions import Dataset, check_split_name, filter_questions

    dataset = Dataset.embedded() if folder is None else Dataset.at(folder)
    records = dataset.load()
    if split is not None:
        splits = {record.split for record in records}
        if split not in splits:
            check_split_name(split, sorted(splits))
        _check(f"{dataset.questions_path}: there is no split", split, splits, "choose --split from")
    return filter_questions(records, split=split), dataset.db_dir


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
    from sql_env.questions import QuestionLoadError, filter_questions

    for name in ids or ():
        known = {record.question_id for record in questions}
        _check("there is no question", name, known, "there are")
    for name in databases or ():
        known = {record.database_name for record in questions}
        _check("there are no questions about database", name, known, "there are")
    for name in difficulties or ():
        known = {record.difficulty for record in questions}
        _check("there are no questions of difficulty", name, known, "there are")
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


def _check(complaint: str, name: str, known: Collection[str], there: str) -> None:
    from sql_env.questions import QuestionLoadError
    from sql_env.sources.raw import name_some

    if name not in known:
        raise QuestionLoadError(f"{complaint} {name!r}; {there} {name_some(known, name)}")
