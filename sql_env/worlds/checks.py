"""What a question must pass before it is kept.

The gold query runs in the sandbox; its result says something; nothing ties at a LIMIT; nobody asked
nearly the same before; and an agent can read the whole answer and have it accepted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sql_env.core.database import Database, QueryResult
from sql_env.core.render import ROWS_SHOWN, render_row
from sql_env.core.verifier import AnswerError, build_gold, verify_rows, verify_text
from sql_env.worlds.intents import Candidate

_LITERAL = re.compile(r"'(?:[^']|'')*'|\b\d+(?:\.\d+)?\b")
_WORD = re.compile(r"[a-z]+")


def normalised(sql: str) -> str:
    """Gold SQL without the differences that do not matter: case outside literals, spaces."""
    pieces = re.split(r"('(?:[^']|'')*')", " ".join(sql.split()))
    return "".join(piece if i % 2 else piece.lower() for i, piece in enumerate(pieces))


def skeleton(sql: str) -> str:
    """Normalised SQL with every literal blanked out."""
    return _LITERAL.sub("?", normalised(sql))


@dataclass
class Judge:
    """Decides for one database, remembering what it has let through."""

    database: Database
    empty_allowed: int
    copies: int = 1  # how often the same query with other literals may come
    _queries: set[str] = field(default_factory=set)
    _skeletons: dict[str, int] = field(default_factory=dict)
    _questions: dict[str, list[frozenset[str]]] = field(default_factory=dict)

    def accept(self, candidate: Candidate) -> QueryResult | None:
        """The gold result of a question worth keeping, else None."""
        query, bare = normalised(candidate.sql), skeleton(candidate.sql)
        if query in self._queries or self._skeletons.get(bare, 0) >= self.copies:
            return None
        words = frozenset(_WORD.findall(candidate.question.lower()))
        # Questions of one intent and one length are the only ones that can be alike.
        same_kind = self._questions.setdefault(candidate.intent.name, [])
        if self.copies == 1 and any(_alike(words, other) for other in same_kind):
            return None
        result = self.database.query(candidate.sql)
        if not result.ok:
            raise AssertionError(f"a generated query does not run: {candidate.sql}\n{result.error}")
        empty = _says_nothing(result)
        if empty and not (candidate.intent.may_be_empty and self.empty_allowed > 0):
            return None
        if not empty and not self._is_good(candidate, result):
            return None
        if not self._is_readable(candidate.sql, result):
            return None
        self.empty_allowed -= empty
        self._queries.add(query)
        self._skeletons[bare] = self._skeletons.get(bare, 0) + 1
        same_kind.append(words)
        return result

    def _is_good(self, candidate: Candidate, result: QueryResult) -> bool:
        if len(result.rows) > ROWS_SHOWN or _mostly_missing(result):
            return False
        draft = candidate.draft
        if any(
            sorted(map(repr, self.database.query(sql).rows)) == sorted(map(repr, result.rows))
            for sql in draft.differs
        ):
            return False
        if draft.ties:
            keys = self.database.query(draft.ties).rows
            if len(keys) < draft.limit or None in keys[0]:
                return False
            if len(keys) > draft.limit and keys[draft.limit - 1] == keys[draft.limit]:
                return False
        return True

    def _is_readable(self, sql: str, result: QueryResult) -> bool:
        """The verifier takes the result itself and its text as shown to an agent."""
        gold = build_gold(sql, self.database.query)
        if not verify_rows(result.rows, gold).correct:
            return False
        text = "\n".join(map(render_row, result.rows)) or "[]"
        try:
            return verify_text(text, gold).correct
        except AnswerError:
            return False


def _says_nothing(result: QueryResult) -> bool:
    return not result.rows or (len(result.rows) == 1 and set(result.rows[0]) <= {0, None})


def _mostly_missing(result: QueryResult) -> bool:
    cells = [cell for row in result.rows for cell in row]
    missing = sum(cell is None for cell in cells)
    return missing > 0 and (len(result.rows) == 1 or 3 * missing > len(cells))


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Nearly the same words."""
    return len(one & other) > 0.9 * len(one | other)
