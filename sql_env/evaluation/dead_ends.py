"""What leads an episode nowhere: repetition, what is bound to fail, answers given too soon."""

from __future__ import annotations

import re

from sql_env.core.render import NO_ROWS
from sql_env.evaluation import proofreading
from sql_env.evaluation.hindsight import Hindsight
from sql_env.evaluation.known_schema import KnownSchema, missing_names
from sql_env.evaluation.mending import (
    table_called_nearly,
    with_missing_join,
    with_texts_as_asked,
)
from sql_env.evaluation.playing import spelling
from sql_env.models import SQLAction, SQLObservation

QUERIES_TO_BELIEVE = 3  # that there is nothing
_TEXT = re.compile(r"""'[^']*(?:'|$)|"[^"]*(?:"|$)""")  # an opening may end in the middle of one
_SINGLE_QUOTED = re.compile(r"('[^']*')")
_LAST_WORD = re.compile(r"[\w.]*$")
_ANSWER_LAST = spelling(SQLAction(action_type="ANSWER", argument="@last"))


class DeadEnds:
    """Those of one episode, as its policy can know them: by what it played and was told."""

    def __init__(self) -> None:
        self._played: set[tuple[str, str]] = set()
        self._last = SQLAction(action_type="")
        self._known = KnownSchema()
        self._hindsight = Hindsight()
        self._question = ""
        self._missing: list[re.Pattern[str]] = []
        self._faults: set[str] = set()  # parts of the queries that were asked about since a step
        self._seen = ""  # in results
        self._asked = ""  # the query that was asked about last
        self._no_table = ""  # but perhaps used as one by the action that was asked about last
        self._steps_left = 0
        self._has_result = False  # of a query
        self._finds = True  # whether there are rows in it
        self._found_nothing: set[tuple[str, str]] = set()  # the queries that have none

    def add(self, action: SQLAction) -> None:
        """An action is played."""
        self._played.add(spelling(action))
        self._last = action

    def hear(self, observation: SQLObservation) -> None:
        """What the episode begins with, or what came of the last action."""
        self._known.hear(observation)
        self._question = observation.question
        self._steps_left = observation.budget_remaining
        self._seen += observation.result
        self._faults.clear()
        if self._last.action_type == "QUERY" and not observation.error:
            already_in_vain = self._in_vain(self._last)
            if (tree := proofreading.parsed(self._last.argument)) is not None:
                self._hindsight.add(tree, self._known.described, observation.result)
            self._played.discard(_ANSWER_LAST)  # it may be right now
            self._has_result = True
            self._finds = not observation.result.endswith(NO_ROWS)
            if not self._finds and not already_in_vain:
                self._found_nothing.add(spelling(self._last))

    def repeats(self, action: SQLAction) -> bool:
        """Whether an action was played before, or asks for what was not there before."""
        return spelling(action) in self._played or self._in_vain(action)

    def leads_to(self, action: SQLAction) -> bool:
        """Whether an action was played before, is bound to fail or to miss, or answers too soon."""
        self._no_table = self._asked = ""
        if self.repeats(action):
            return True
        if action.action_type == "ANSWER":
            return self._steps_left > 1 and self._too_soon(action.argument)
        if action.action_type in ("DESCRIBE", "SAMPLE"):
            self._no_table = action.argument.strip()
            return self._known.lacks(action.argument)
        if action.action_type != "QUERY":
            return False
        self._asked = action.argument
        return self._fails(action.argument) or self._is_doubtful(action.argument)

    def lie_ahead(self, opening: str) -> bool:
        """Whether a turn that begins so has a wrong name or a fault in it, or answers too soon.

        Also an answer that `leads_to` would let pass: this one is a second thought only. The last
        word of an opening may go on.
        """
        if self._in_doubt and self._steps_left > 1 and opening.lstrip().startswith("ANSWER"):
            return True
        words = _LAST_WORD.sub("", opening)
        if any(fault in words for fault in self._faults):
            return True
        return any(pattern.search(_TEXT.sub("''", words)) for pattern in self._missing)

    def mended(self, turn: str) -> str:
        """A turn with a slip of the pen put right; itself where there is none.

        A turn that was found to lead nowhere just now. Wrong columns are not respelt: they are
        mostly looked for in the wrong table.
        """
        near = table_called_nearly(self._no_table, self._known.tables)
        if near and self._known.lacks(self._no_table):
            return _with_name(turn, self._no_table, near)
        if not self._asked:
            return turn
        joined = with_missing_join(self._asked, self._known.described)
        return turn.replace(self._asked, self._as_asked(joined))

    @property
    def _in_doubt(self) -> bool:
        """Whether the last query found nothing, and that is not to be believed yet.

        One that compares with a value nobody stored finds nothing. So nothing is an answer only
        when some different queries agree on it.
        """
        return not self._finds and len(self._found_nothing) < QUERIES_TO_BELIEVE

    def _too_soon(self, answer: str) -> bool:
        """Whether there is no result to answer with, or one that is not to be believed yet."""
        if answer.startswith("@"):
            # Another turn may only be spelt otherwise ("@ last"), and answer nothing at all.
            return answer.lower() != "@last" or not self._has_result or self._in_doubt
        return self._in_doubt and self._last.action_type == "QUERY"

    def _fails(self, query: str) -> bool:
        complaint = self._known.complaint(query)
        self._no_table, _ = missing_names(complaint)
        self._missing += self._learned_from(complaint)
        return bool(complaint)

    def _is_doubtful(self, query: str) -> bool:
        """Whether a query that can run cannot be meant, or was answered already."""
        tree, tables = proofreading.parsed(query), self._known.described
        if tree is None:
            return False
        found = [
            *proofreading.faults(tree, tables, self._seen),
            *self._hindsight.wrong_values(tree, tables),
        ]
        self._faults |= {part.sql("sqlite") for part in found}
        return (
            bool(found)
            or proofreading.forgets(tree, query, self._question)
            or self._as_asked(query) != query
        )

    def _in_vain(self, action: SQLAction) -> bool:
        tree = proofreading.parsed(action.argument) if action.action_type == "QUERY" else None
        return tree is not None and self._hindsight.in_vain(tree, self._known.described)

    def _as_asked(self, query: str) -> str:
        return with_texts_as_asked(query, self._question, self._seen)

    def _learned_from(self, complaint: str) -> list[re.Pattern[str]]:
        """How other turns begin about which the same can be said."""
        table, column = missing_names(complaint)
        if not (table.isidentifier() and (column or "x").isidentifier()):
            return []
        if not column:
            # A query may make what the database lacks, but says so first.
            unmade = rf"^(?!.*\bWITH\b.*\b{table}\b).*\b(?:FROM|JOIN)\s+{table}(?![\w.])"
            return [re.compile(unmade, re.IGNORECASE | re.DOTALL)]
        # A column that exists may be one of a table that this query only forgot to read.
        if self._known.has(table, column) is not False:
            return []
        return [re.compile(rf"(?<![\w.]){table}\.{column}(?!\w)", re.IGNORECASE)]


def _with_name(turn: str, wrong: str, right: str) -> str:
    """A turn with one name for another, except in texts."""
    name = rf"""(?<![\w"`\[])["`\[]?{re.escape(wrong)}["`\]]?(?![\w"`\]])"""
    parts = _SINGLE_QUOTED.split(turn)
    parts[::2] = [re.sub(name, lambda _: right, part, flags=re.IGNORECASE) for part in parts[::2]]
    return "".join(parts)
