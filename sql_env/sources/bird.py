"""Read a BIRD folder: questions that come with evidence, the outside knowledge they lean on.

BIRD keeps `dev.json` and `dev_tables.json` beside `dev_databases/<db>/<db>.sqlite` (`train…` in the
training set, `mini_dev_sqlite.json` in the small one). The evidence becomes the hint an agent sees.
"""

from __future__ import annotations

from pathlib import Path

from sql_env.models import Difficulty
from sql_env.questions import read_json_objects
from sql_env.sources.raw import RawQuestion, Source, SourceError, find_databases, required

QUESTION_FILES = ("dev.json", "mini_dev_sqlite.json", "train.json")
# BIRD's three levels on Spider's scale; without a label the hardness is computed from the SQL.
_DIFFICULTY: dict[str, Difficulty] = {"simple": "easy", "moderate": "medium", "challenging": "hard"}


def read_bird(folder: Path) -> Source:
    """The questions and databases of a folder in BIRD's layout.

    Raises:
        SourceError: the layout is another one, or a record lacks a field.
        QuestionLoadError: the question file cannot be read.
    """
    files = [folder / name for name in QUESTION_FILES if (folder / name).exists()]
    database_folders = sorted(path for path in folder.glob("*_databases") if path.is_dir())
    if not files or not database_folders:
        raise SourceError(
            f"{folder}: not BIRD's layout: looked for dev_databases/<name>/<name>.sqlite beside "
            f"{' or '.join(QUESTION_FILES)}"
        )
    counts: dict[str, int] = {}
    questions = []
    for file in files:
        for number, item in enumerate(read_json_objects(file)):
            place = f"{file}: record {number}"
            database = required(item, ("db_id",), place)
            count = counts[database] = counts.get(database, -1) + 1
            label = item.get("difficulty")
            if label is not None and label not in _DIFFICULTY:
                raise SourceError(
                    f"{place}: the difficulty is {label!r}, not one of {', '.join(_DIFFICULTY)}"
                )
            questions.append(
                RawQuestion(
                    question_id=f"{database}-{count:03d}",
                    database=database,
                    text=required(item, ("question",), place),
                    sql=required(item, ("SQL", "query"), place),
                    part=file.stem,
                    difficulty=_DIFFICULTY[label] if label else None,
                    hint=str(item.get("evidence") or "").strip() or None,
                )
            )
    return Source("bird", tuple(questions), find_databases(*database_folders))
