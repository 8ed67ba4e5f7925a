"""What every reader hands over, whatever the layout on disk: raw questions and their databases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sql_env.core.errors import UserError
from sql_env.models import Difficulty

SplitBy = Literal["question", "database", "none"]
"""What train and eval do not share."""


class SourceError(UserError, ValueError):
    """A source that cannot be used; the message has the path and the next thing to try."""


@dataclass(frozen=True)
class RawQuestion:
    """A question as its source states it, before anything was run or computed."""

    question_id: str
    database: str
    text: str
    sql: str
    part: str  # which of the source's files it is from: train_spider, dev, …
    difficulty: Difficulty | None = None
    hint: str | None = None


@dataclass(frozen=True)
class Source:
    """The questions of one source, and the database files they are asked about."""

    name: str
    questions: tuple[RawQuestion, ...]
    databases: Mapping[str, Path]


def required(item: Mapping[str, Any], names: Iterable[str], place: str) -> str:
    """The first of several spellings of a field that a record has.

    Raises:
        SourceError: it has none of them, or no text there.
    """
    names = tuple(names)
    for name in names:
        if name in item:
            value = item[name]
            if not isinstance(value, str) or not value.strip():
                raise SourceError(f"{place}: the field {name!r} is {value!r}, not a text")
            return value.strip()
    raise SourceError(f"{place}: has no field {' or '.join(map(repr, names))}: it has {[*item]}")


def find_databases(*folders: Path) -> dict[str, Path]:
    """Every SQLite file under the folders, by its name without the ending."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".sqlite", ".sqlite3", ".db") and path.is_file():
                other = found.setdefault(path.stem, path)
                if other != path:
                    raise SourceError(
                        f"{path}: a second database called {path.stem!r} (the first is {other}): "
                        "rename one of them"
                    )
    return found
