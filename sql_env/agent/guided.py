"""Guided decoding: turns that are bound to fail are drawn again before they cost a step.

Off unless asked for. A turn is objected to where it repeats an action of the episode, or where
SQLite itself says that a query cannot work: an empty database with the tables that DESCRIBE has
shown compiles it with EXPLAIN and reads nothing, within the sandbox's limits and a deadline. Of
tables that were not described nothing is claimed. The model is then sampled again, a few times at
most; the first turn without an objection is played, and the record keeps the original, the reason
and the extra tokens. Where there is none, the original is played, and what was spent is kept.
"""

from __future__ import annotations

import re
from contextlib import closing
from time import monotonic
from typing import NamedTuple

import apsw

from sql_env.core.actions import PlayedActions
from sql_env.core.sandbox import limit_heap, limit_statements
from sql_env.core.schema import TableSchema, quote_identifier, table_name
from sql_env.core.sql_errors import missing_column
from sql_env.models import SQLAction, SQLObservation

TRIES = 4
TEMPERATURE = 1.0
# Whatever the tables are: SQLite does not get as far as looking for them.
_NO_SQL = re.compile(
    'near ".*": syntax error|incomplete input|unrecognized token|no such function', re.DOTALL
)
_UNKNOWN = ("?",)  # the columns of a table that was not described
_SECONDS = 0.5  # for compiling a query; of one that takes longer nothing is claimed
_OPCODES = 1_000  # between two looks at the clock
_READING = frozenset(
    (apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE)
)


class Replaced(NamedTuple):
    """What is recorded of a turn that was drawn again."""

    original: str
    reason: str
    extra_tokens: int


class Guide:
    """What one episode has played and was told."""

    def __init__(self) -> None:
        self._played = PlayedActions()
        self._tables: list[str] = []
        self._described: dict[str, TableSchema] = {}

    def hear(self, observation: SQLObservation) -> None:
        """Take over what an observation says."""
        self._tables = observation.table_names
        self._described = {schema.name.lower(): schema for schema in observation.described}

    def add(self, action: SQLAction) -> None:
        """An action is played."""
        if self._played.add(action.action_type, action.argument) and action.action_type == "QUERY":
            self._played.forget_answers()

    def objection(self, action: SQLAction) -> str:
        """Why an action should not be played, or nothing."""
        if (action.action_type, action.argument) in self._played:
            return "repeated"
        if action.action_type in ("DESCRIBE", "SAMPLE"):
            known = table_name(action.argument.strip()).lower()
            return "" if known in map(str.lower, self._tables) else "no such table"
        return self._complaint(action.argument) if action.action_type == "QUERY" else ""

    def _complaint(self, query: str) -> str:
        """What is wrong with a query or the names in it, in SQLite's words, or nothing."""
        words = self._said_of(query)
        undescribed = [name for name in self._tables if name.lower() not in self._described]
        if missing := missing_column(words):
            # Perhaps a table has it that was not described. Then this is not said again.
            sure = not undescribed or self._said_of(query, (missing[1],)) == words
        else:
            sure = words.startswith("no such table") or bool(_NO_SQL.match(words))
        return words if sure else ""

    def _said_of(self, query: str, undescribed: tuple[str, ...] = _UNKNOWN) -> str:
        """SQLite's error. `undescribed` are the columns that tables may have, for all we know."""
        deadline = monotonic() + _SECONDS
        limit_heap()
        try:
            with closing(apsw.Connection(":memory:")) as database:
                widest = 0
                for table in self._tables:
                    schema = self._described.get(table.lower())
                    columns = [c.name for c in schema.columns] if schema else undescribed
                    names = ", ".join(map(quote_identifier, columns))
                    database.execute(f"CREATE TABLE {quote_identifier(table)} ({names})")
                    widest = max(widest, len(columns))
                limit_statements(database, widest)
                database.set_progress_handler(lambda: monotonic() > deadline, _OPCODES)
                # EXPLAIN runs nothing, but a PRAGMA acts while it is compiled.
                database.authorizer = _only_reading
                database.execute(f"EXPLAIN {query.strip()}").close(True)
        except (apsw.Error, ValueError, MemoryError) as error:  # values: NUL, lone surrogates
            return str(error)
        return ""


def _only_reading(action: int, *_: str | None) -> int:
    return apsw.SQLITE_OK if action in _READING else apsw.SQLITE_DENY
