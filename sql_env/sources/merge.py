"""Put one dataset's questions and databases beside another's, as a split of their own.

Training can then draw on both: `train_split="train+wide+worlds"`.
"""

from __future__ import annotations

import json
from pathlib import Path

from sql_env.models import QuestionRecord
from sql_env.questions import Dataset, load_questions
from sql_env.sources.raw import SourceError
from sql_env.sources.writing import MANIFEST, write_dataset


def add_dataset(source: Path, target: Path, split: str) -> list[QuestionRecord]:
    """Add all questions of `source` to `target` as `split`; an earlier such split is replaced.

    Raises:
        QuestionLoadError: one of the two cannot be read.
        SourceError: a question id or a database name stands for something else in `target`.
        DatasetWriteError: the disk is full or the place cannot be written.
    """
    kept = [
        record
        for record in load_questions(Dataset.at(target).questions_path)
        if record.split != split
    ]
    added = [
        record.model_copy(update={"split": split})
        for record in load_questions(Dataset.at(source).questions_path)
    ]
    for what, names in (
        ("question id", {record.question_id for record in kept}),
        ("database", {record.database_name for record in kept}),
    ):
        own = {r.question_id if what == "question id" else r.database_name for r in added}
        if own & names:
            raise SourceError(
                f"{source}: the {what} {min(own & names)!r} is taken in {target}: generate or "
                "import it under another name"
            )
    databases = {
        name: folder / "databases" / name / f"{name}.sqlite"
        for folder, records in ((target, kept), (source, added))
        for name in {record.database_name for record in records}
    }
    manifest_path = target / MANIFEST
    manifest = json.loads(manifest_path.read_text("utf-8")) if manifest_path.is_file() else {}
    manifest["questions"] = {**manifest.get("questions", {}), split: len(added)}
    write_dataset(target, [*kept, *added], databases, manifest)
    return added
