"""Two thoughts in one question, for existing databases: a number over those that lack something,
the first of those that meet a condition, more than what the first has."""

from __future__ import annotations

from typing import NamedTuple

from sql_env.worlds.english import Saying, with_article
from sql_env.worlds.intents.absence import refers_always
from sql_env.worlds.intents.aggregates import aggregate_of, said_aggregate
from sql_env.worlds.intents.base import (
    ORDERABLE,
    Asker,
    Draft,
    NotOffered,
    add_existing,
    existing_intent,
    need,
    superlative,
)
from sql_env.worlds.intents.filtering import COUNT_PHRASINGS
from sql_env.worlds.intents.nested import NAMES_PHRASINGS, of_the_first
from sql_env.worlds.intents.ordering import (
    SUPERLATIVE_PHRASINGS,
    TOP_PHRASINGS,
    superlative_of,
    top_of,
)
from sql_env.worlds.query import Query, at, sort_key
from sql_env.worlds.subjects import display_sql
from sql_env.worlds.world import WorldColumn, WorldTable

_AGGREGATE_PHRASINGS = (
    "What is the {agg} of the {np}?",
    "Find the {agg} of all {np}.",
    "Give the {agg} of {np}.",
    "For {np}, what is the {agg}?",
    "Show me the {agg} of the {np}.",
    "Return the {agg} of all the {np}.",
)


# -- a number over those that have something, or lack it -------------------------------------


class _Aggregate(NamedTuple):
    """One number over a column, in SQL and in words."""

    column: WorldColumn
    sql: str
    words: str


def _aggregate(ask: Asker, table: WorldTable) -> _Aggregate | None:
    column = ask.column(table, "number")
    if column is None:
        return None
    function = aggregate_of(ask, column)
    words = said_aggregate(ask, function, column)
    return _Aggregate(column, f"{function}({at(0, column)})", words)


def _aggregate_over(ask: Asker, having: bool = False, such: bool = False) -> Draft:
    """A number over those that have a target, or have none; perhaps one with a property."""
    relation = need(ask.relation(many=True, hops=1))
    if relation.complete and not such:
        raise NotOffered
    number = _aggregate(ask, relation.source)
    condition = ask.condition(relation.target, share=(0.05, 0.6)) if such else None
    if number is None or (such and condition is None) or not (having or refers_always(relation)):
        raise NotOffered
    query = Query([relation.source], [number.sql])
    differs = [query.sql]
    things = ask.subject(relation.target, *([condition.saying] if condition else []))
    inner = Query([relation.target], [at(0, relation.hops[0].right_column)])
    if condition:
        inner.where = [condition.sql()]
    word = "IN" if having else "NOT IN"
    query.where = [f"{at(0, relation.source.key_name)} {word} ({inner.sql})"]
    whole = ask.subject(relation.source)
    if having:
        saying = Saying("verb", f"{relation.verb.spec} at least one {things.phrase(many=False)}")
        np = whole.narrowed(saying).phrase()
    else:
        lacking = f"{relation.source.who} {relation.verb.negated()} any {things.phrase()}"
        np = f"{whole.plain} {lacking}"
    return ask.draft(query, differs=differs, agg=number.words, np=np)


add_existing("aggregate_with_any", "hard", _AGGREGATE_PHRASINGS, _aggregate_over, having=True)
add_existing(
    "aggregate_with_such", "hard", _AGGREGATE_PHRASINGS, _aggregate_over, having=True, such=True
)
add_existing("aggregate_without_any", "extra", _AGGREGATE_PHRASINGS, _aggregate_over)
add_existing("aggregate_without_such", "extra", _AGGREGATE_PHRASINGS, _aggregate_over, such=True)


@existing_intent(
    "medium",
    "What are the {first} and the {second} of the {np}?",
    "Find the {first} and the {second} of all {np}.",
    "Give the {first} and {second} of {np}.",
    "For {np}, what are the {first} and the {second}?",
    "Show the {first} together with the {second} of the {np}.",
    "Return the {first} and the {second} of the {np}.",
)
def filtered_two_aggregates(ask: Asker) -> Draft:
    table = need(ask.table(kinds=("number",)))
    first = _aggregate(ask, table)
    second = need(_aggregate(ask, table))
    if first is None or first.sql == second.sql:
        raise NotOffered
    condition = need(ask.condition(table, without=(first.column, second.column, *table.display)))
    query = Query([table], [first.sql, second.sql])
    differs = [query.sql]
    query.where = [condition.sql()]
    np = ask.subject(table, condition.saying).phrase()
    return ask.draft(query, differs=differs, first=first.words, second=second.words, np=np)


# -- the first of some -----------------------------------------------------------------------


add_existing(
    "superlative_filtered_columns",
    "hard",
    SUPERLATIVE_PHRASINGS,
    superlative_of,
    conditioned=True,
    extra_column=True,
)
add_existing("top_columns", "medium", TOP_PHRASINGS, top_of, extra_column=True)


@existing_intent("hard", *COUNT_PHRASINGS)
def count_of_the_extreme(ask: Asker) -> Draft:
    """How many have to do with the one that is first in something."""
    table, condition, saying, ties = need(of_the_first(ask))
    query = Query([table], ["count(*)"], where=[condition])
    return Draft(query.sql, ask.subject(table, saying).words, (), ties, 1)


def _more_than(column: WorldColumn, up: bool, other: str) -> Saying:
    """`be older than the cheapest dog`, `have a higher price than the oldest dog`."""
    own = column.spec.over if up else column.spec.under
    if own.startswith("be ") and column.spec.unit == "{}":
        return Saying.parse(own, other)
    if column.spec.counted:
        return Saying("have", f"{'more' if up else 'fewer'} {column.spec.counted} than {other}")
    more = with_article(f"{'higher' if up else 'lower'} {column.spec.words[0]}")
    return Saying("have", f"{more} than {other}")


def _beyond_the_first(ask: Asker, counted: bool = False) -> Draft:
    """Those that have more of something than the one that is first in something else."""
    table = need(ask.table(kinds=("number",)))
    column = need(ask.column(table, "number", full=True))
    key = need(ask.column(table, *ORDERABLE, full=True, without=[column]))
    top, up = ask.rng.random() < 0.65, ask.rng.random() < 0.6
    order = [sort_key(at(0, key), top)]
    inner = Query([table], [at(0, column)], order=order, limit=1)
    query = Query([table], ["count(*)"] if counted else display_sql(table))
    query.where = [f"{at(0, column)} {'>' if up else '<'} ({inner.sql})"]
    saying = _more_than(column, up, f"the {superlative(key, ask.subject(table), top)}")
    words = ask.subject(table, saying).words
    return Draft(query.sql, words, (), ask.draft(inner).ties, 1)


add_existing("count_beyond_the_first", "hard", COUNT_PHRASINGS, _beyond_the_first, counted=True)
add_existing("beyond_the_first", "hard", NAMES_PHRASINGS, _beyond_the_first)
