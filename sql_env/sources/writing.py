"""Write a dataset so that it is there as a whole, or not at all.

Everything is first written into a temporary folder beside the target; one rename makes it real.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sql_env.core.errors import UserError
from sql_env.models import QuestionRecord
from sql_env.sources.raw import SourceError

MANIFEST = "manifest.json"


class DatasetWriteError(UserError, OSError):
    """The dataset could not be written; what was there before is still there."""


def write_dataset(
    out: Path,
    records: Iterable[QuestionRecord],
    databases: Mapping[str, Path],
    manifest: Mapping[str, Any],
) -> Path:
    """Write records (one file per split), copy their databases, and say how they came about.

    Raises:
        SourceError: `out` exists and is something else than a dataset made by this function.
        DatasetWriteError: the disk is full or the place cannot be written.
    """
    if out.exists() and not _is_ours(out):
        raise SourceError(
            f"{out}: exists and was not made by this command (no {MANIFEST}): "
            "choose another --out, or remove it yourself"
        )
    by_split: dict[str, list[QuestionRecord]] = {}
    for record in records:
        by_split.setdefault(record.split, []).append(record)
    temporary: Path | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
        _fill(temporary / "new", by_split, databases, manifest)
        _swap(temporary, out)
    except OSError as error:
        raise DatasetWriteError(
            f"{out}: cannot be written: {error.strerror or error} ({error.filename or out}). "
            "Nothing was changed; make room or choose another --out"
        ) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return out


def question_file(records: Iterable[QuestionRecord]) -> str:
    """The text of a question file: a JSON list, one record a line."""
    lines = ",\n".join(json.dumps(record.model_dump(), ensure_ascii=False) for record in records)
    return f"[\n{lines}\n]\n"


def _swap(temporary: Path, out: Path) -> None:
    replaces = out.exists()
    if replaces:
        out.rename(temporary / "old")
    try:
        (temporary / "new").rename(out)
    except OSError:
        if replaces:
            (temporary / "old").rename(out)
        raise


def _fill(
    folder: Path,
    by_split: Mapping[str, list[QuestionRecord]],
    databases: Mapping[str, Path],
    manifest: Mapping[str, Any],
) -> None:
    (folder / "questions").mkdir(parents=True)
    for split, records in by_split.items():
        path = folder / "questions" / f"questions_{split}.json"
        path.write_text(question_file(records), encoding="utf-8")
    for name in sorted({record.database_name for part in by_split.values() for record in part}):
        target = folder / "databases" / name / f"{name}.sqlite"
        target.parent.mkdir(parents=True)
        shutil.copyfile(databases[name], target)
    text = json.dumps(manifest, indent=1, ensure_ascii=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _is_ours(out: Path) -> bool:
    """Made by `write_dataset`, or an empty folder."""
    return out.is_dir() and ((out / MANIFEST).is_file() or not any(out.iterdir()))
