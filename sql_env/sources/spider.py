"""Read a Spider folder, and the folders of datasets that follow its format.

Spider keeps `train_spider.json`, `dev.json` and `tables.json` beside `database/<db>/<db>.sqlite`.
KaggleDBQA, among others, keeps one `examples/<db>.json` per database and calls the folder
`databases/`. A `hardness.json` ({"dev": ["easy", …], …}, aligned with the question files) is used
where there is one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sql_env.models import DIFFICULTIES
from sql_env.questions import read_json_objects
from sql_env.sources.raw import RawQuestion, Source, SourceError, find_databases, required

# The ten databases of the core set: nine of Spider's development set and one of its training set.
CORE_DATABASES = (
    "student_assessment",
    "concert_singer",
    "world_1",
    "car_1",
    "employee_hire_evaluation",
    "pets_1",
    "cre_Doc_Template_Mgt",
    "dog_kennels",
    "flight_2",
    "poker_player",
)
TRAINING_PARTS = ("train_spider",)


def read_spider(folder: Path) -> Source:
    """The questions and databases of a folder in Spider's layout.

    Raises:
        SourceError: the layout is another one; the message says what was looked for.
        QuestionLoadError: a question file cannot be read.
    """
    database_folders = [folder / name for name in ("database", "databases")]
    database_folders = [path for path in database_folders if path.is_dir()]
    files = _question_files(folder)
    if not database_folders or not files:
        raise SourceError(
            f"{folder}: not Spider's layout: looked for database/<name>/<name>.sqlite beside "
            "train_spider.json, dev.json or examples/*.json"
        )
    labels = _labels(folder / "hardness.json")
    counts: dict[str, int] = {}
    questions = []
    for file in files:
        items = read_json_objects(file)
        known = labels.get(file.stem, [None] * len(items))
        if len(known) != len(items):
            raise SourceError(
                f"{folder / 'hardness.json'}: {len(known)} labels for the {len(items)} questions "
                f"of {file.name}: remove the file to have the hardness computed"
            )
        for number, (item, label) in enumerate(zip(items, known, strict=True)):
            place = f"{file}: record {number}"
            database = required(item, ("db_id",), place)
            # Numbered within its database, so that a partial copy of Spider gives the same names.
            count = counts[database] = counts.get(database, -1) + 1
            questions.append(
                RawQuestion(
                    question_id=f"{database}-{count:03d}",
                    database=database,
                    text=required(item, ("question",), place),
                    sql=required(item, ("query", "SQL"), place),
                    part=file.stem,
                    difficulty=label,
                )
            )
    return Source("spider", tuple(questions), find_databases(*database_folders))


def _question_files(folder: Path) -> list[Path]:
    """Spider's own files; or one file per database, without those that repeat its questions."""
    own = [folder / f"{name}.json" for name in ("train_spider", "train_others", "dev")]
    own = [path for path in own if path.exists()]
    per_database = sorted((folder / "examples").glob("*.json"))
    stems = {path.stem for path in per_database}
    return own or [
        path
        for path in per_database
        if path.stem.removesuffix("_test").removesuffix("_fewshot") == path.stem
        or path.stem.removesuffix("_test").removesuffix("_fewshot") not in stems
    ]


def _labels(path: Path) -> dict[str, list[Any]]:
    if not path.exists():
        return {}
    try:
        labels = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise SourceError(f"{path}, line {error.lineno}: malformed JSON: {error.msg}") from error
    allowed = {None, *DIFFICULTIES}
    if not isinstance(labels, dict) or any({*part} - allowed for part in labels.values()):
        raise SourceError(f"{path}: not of the form {{'dev': ['easy', 'medium', …], …}}")
    return labels
