"""What a question must pass before it is kept.

The gold query runs in the sandbox; its result says something; nothing ties at a LIMIT; nobody asked
nearly the same before; and an agent can read the whole answer and have it accepted.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from sql_env.core.database import Database, QueryResult
from sql_env.core.render import ROWS_SHOWN, render_row
from sql_env.core.sql_text import Token, normalize_sql, tokenize
from sql_env.core.verifier import AnswerError, Gold, build_gold, verify_rows, verify_text
from sql_env.models import Difficulty
from sql_env.sql.hardness import hardness
from sql_env.sql.parse import NotAQueryError
from sql_env.worlds.intents import Candidate
from sql_env.worlds.words import split_words

_KEYWORDS = frozenset(
    split_words(
        """select distinct from as join on where and or not in like between is null exists group by
        having order desc limit union intersect except count sum avg min max"""
    )
)
_WORD = re.compile(r"[a-z]+")


def skeleton(sql: str) -> str:
    """A query with every literal blanked out, whatever its spelling."""
    return " ".join(_blanked(token) for token in tokenize(sql))


def shape(sql: str) -> str:
    """The skeleton with every name blanked out too: all that hardness depends on."""
    return " ".join(
        "x" if (name := token.identifier) and name not in _KEYWORDS else _blanked(token)
        for token in tokenize(sql)
    )


_HARDNESS: dict[str, Difficulty | None] = {}  # by shape: parsing is the slowest part


def hardness_of(sql: str) -> Difficulty | None:
    """Spider's hardness of a query; None where its rules cannot read it."""
    key = shape(sql)
    if key not in _HARDNESS:
        try:
            _HARDNESS[key] = hardness(sql)
        except NotAQueryError:
            _HARDNESS[key] = None
    return _HARDNESS[key]


def _blanked(token: Token) -> str:
    return "?" if token.kind in ("string", "number") else token.text.lower()


@dataclass
class Judge:
    """Decides for one database, remembering what it has let through."""

    database: Database
    empty_allowed: int
    copies: int = 1  # how often the same query with other literals may come
    _queries: set[str] = field(default_factory=set)
    _skeletons: Counter[str] = field(default_factory=Counter)
    _answers: set[tuple[object, ...]] = field(default_factory=set)
    _questions: dict[str, list[frozenset[str]]] = field(default_factory=dict)

    def accept(self, candidate: Candidate) -> QueryResult | None:
        """The gold result of a question worth keeping, else None."""
        query, bare = normalize_sql(candidate.draft.canonical), skeleton(candidate.draft.canonical)
        if query in self._queries or self._skeletons[bare] >= self.copies:
            return None
        words = frozenset(_WORD.findall(candidate.question.lower()))
        same_intent = self._questions.setdefault(candidate.intent.name, [])
        if self.copies == 1 and any(_alike(words, other) for other in same_intent):
            return None
        result = self.database.query(candidate.sql)
        if not result.ok:
            raise AssertionError(f"a generated query does not run: {candidate.sql}\n{result.error}")
        empty = _says_nothing(result)
        if empty and not (candidate.intent.may_be_empty and self.empty_allowed > 0):
            return None
        if not empty and not self._is_informative(candidate, result):
            return None
        gold = build_gold(candidate.sql, self.database.query)
        # The same columns read and the same rows found: the same question in another form.
        rows = result.rows if gold.ordered else tuple(sorted(map(repr, result.rows)))
        answer = (result.reads, rows)
        if self.copies == 1 and answer in self._answers:
            return None
        if not _is_accepted(result, gold):
            return None
        self.empty_allowed -= empty
        self._queries.add(query)
        self._skeletons[bare] += 1
        self._answers.add(answer)
        same_intent.append(words)
        return result

    def _is_informative(self, candidate: Candidate, result: QueryResult) -> bool:
        """Short enough to read, not mostly NULL, changed by its conditions, without ties."""
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


def _is_accepted(result: QueryResult, gold: Gold) -> bool:
    """The verifier takes the result itself, and its text as shown to an agent."""
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
