"""What leads an episode nowhere: repetition, names that do not exist, answers given too soon."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sql_env.core.render import NO_ROWS
from sql_env.evaluation.known_schema import KnownSchema, missing_names
from sql_env.evaluation.playing import spelling
from sql_env.models import SQLAction, SQLObservation

QUERIES_TO_BELIEVE = 3  # that there is nothing
_NO_TABLE = re.compile(r"^no such table: (?P<table>\w+)\. ")
_NO_COLUMN = re.compile(r"^no such column: (?P<table>\w+)\.(?P<column>\w+)\. (?P<hint>.*)")
_TEXT = re.compile(r"'[^']*'")
_LAST_WORD = re.compile(r"[\w.]*$")
_ANSWER_LAST = spelling(SQLAction(action_type="ANSWER", argument="@last"))


class DeadEnds:
    """Those of one episode, as its policy can know them: by what it played and was told."""

    def __init__(self) -> None:
        self._played: set[tuple[str, str]] = set()
        self._last = SQLAction(action_type="")
        self._known = KnownSchema()
        self._missing: list[re.Pattern[str]] = []
        self._results = 0  # of queries
        self._found_nothing = 0  # how many of them are empty
        self._finds = True  # whether the last of them is not

    def add(self, action: SQLAction) -> None:
        """An action is played."""
        self._played.add(spelling(action))
        self._last = action

    def hear(self, observation: SQLObservation) -> None:
        """What the episode begins with, or what came of the last action."""
        self._known.hear(observation)
        if observation.error:
            self._missing += _missing(
                observation.error, self._last.argument, observation.table_names
            )
        elif self._last.action_type == "QUERY":
            self._played.discard(_ANSWER_LAST)  # it may be right now
            self._results += 1
            self._finds = not observation.result.endswith(NO_ROWS)
            self._found_nothing += not self._finds

    def leads_to(self, action: SQLAction) -> bool:
        """Whether an action was played before, reads what does not exist, or answers too soon."""
        if spelling(action) in self._played:
            return True
        if action.action_type == "ANSWER":
            return self._too_soon(action.argument)
        return action.action_type == "QUERY" and self._reads_missing(action.argument)

    def lie_ahead(self, opening: str) -> bool:
        """Whether a turn that begins so reads what does not exist. Its last word may go on."""
        return self._uses_missing(_LAST_WORD.sub("", opening))

    def _too_soon(self, answer: str) -> bool:
        """Whether there is no result to answer with, or one that is not to be believed yet.

        A query that compares with a value nobody stored finds nothing. So nothing is an answer only
        when some different queries agree on it.
        """
        in_doubt = not self._finds and self._found_nothing < QUERIES_TO_BELIEVE
        if answer.strip().lower() == "@last":
            return not self._results or in_doubt
        return in_doubt and self._last.action_type == "QUERY"

    def _reads_missing(self, query: str) -> bool:
        if self._uses_missing(query):
            return True
        complaint = self._known.complaint(query)
        self._missing += self._learned_from(complaint)
        return bool(complaint)

    def _uses_missing(self, query: str) -> bool:
        words = _TEXT.sub("''", query)
        return any(pattern.search(words) for pattern in self._missing)

    def _learned_from(self, complaint: str) -> list[re.Pattern[str]]:
        """How other queries look about which the same can be said."""
        table, column = missing_names(complaint) or ("", "")
        if not (table.isidentifier() and (column or "x").isidentifier()):
            return []
        if not column:
            return _reading(table)
        # A column that exists may be one of a table that this query only forgot to read.
        return [_column(table, column)] if self._known.has(table, column) is False else []


def _missing(error: str, query: str, tables: Iterable[str]) -> list[re.Pattern[str]]:
    """How queries look that read what an error says there is none of.

    A column is only known to be missing from a table that was described, which the hint shows, or
    from one that does not exist. Of an alias nothing is known: the next query may give it anew.
    """
    if found := _NO_TABLE.match(error):
        return _reading(found["table"])
    found = _NO_COLUMN.match(error)
    if not found:
        return []
    table, column = found["table"], found["column"]
    if table.lower() in {name.lower() for name in tables}:
        if re.search(rf"(?:^| ){table}(?: has |\.)", found["hint"], re.IGNORECASE):
            return [_column(table, column)]
        return []
    if re.search(rf"\b{table}\b(?!\.)", query, re.IGNORECASE):
        return []
    return _reading(table)


def _column(table: str, column: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){table}\.{column}(?!\w)", re.IGNORECASE)


def _reading(table: str) -> list[re.Pattern[str]]:
    """`FROM x`, `JOIN x` and `x.column`, unless the query itself makes an x."""
    makes = rf"(?!.*\b{table}\s+AS\s*\()(?!.*\bAS\s+{table}\b)"
    reads = rf"(?:\b(?:FROM|JOIN)\s+{table}(?![\w.])|(?<![\w.]){table}\.)"
    return [re.compile(rf"^{makes}.*{reads}", re.IGNORECASE | re.DOTALL)]
