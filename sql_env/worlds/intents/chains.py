"""Questions that go through one table to the next: three or four tables in a row."""

from __future__ import annotations

from sql_env.worlds.english import Saying, with_article
from sql_env.worlds.intents.aggregates import said_aggregate
from sql_env.worlds.intents.base import Asker, Draft, add_intent, intent, need
from sql_env.worlds.intents.filtering import COUNT_PHRASINGS
from sql_env.worlds.intents.joins import JOIN_LIST_PHRASINGS, related
from sql_env.worlds.query import Query, at
from sql_env.worlds.subjects import Subject, display_sql
from sql_env.worlds.world import Relation


def _chain(ask: Asker, tables: int, one_way: bool = False) -> tuple[Relation, Relation] | None:
    """Two relations, one after the other, over so many different tables.

    Args:
        tables: how many tables are joined.
        one_way: only from children to parents, so that no row comes twice.
    """
    relations = [r for r in ask.world.relations if not (one_way and r.many)]
    found = [
        (first, second)
        for first in relations
        for second in relations
        if first.target is second.source
        and len(first.hops) + len(second.hops) == tables - 1
        and len({first.source.name, *(hop.right.name for hop in (*first.hops, *second.hops))})
        == tables
    ]
    return ask.rng.choice(found) if found else None


def _followed(
    ask: Asker, query: Query, first: Relation, second: Relation
) -> tuple[str, Subject] | None:
    """Join the chain and narrow its far end; the query before that, and what is asked about."""
    middle = query.join(first)
    far = query.join(second, middle)
    bare = query.sql
    saying = related(ask, second, query, far)
    if saying is None:
        return None
    between = ask.subject(first.target, saying)
    some = between.phrase() if first.many else with_article(between.phrase(many=False))
    return bare, ask.subject(first.source, Saying("verb", f"{first.verb.spec} {some}"))


def _listed(ask: Asker, tables: int) -> Draft:
    first, second = need(_chain(ask, tables))
    table = first.source
    query = Query([table], display_sql(table), distinct=first.many or second.many)
    bare, subject = need(_followed(ask, query, first, second))
    return ask.draft(query, subject, differs=[bare])


add_intent("chain_of_three", "hard", JOIN_LIST_PHRASINGS, _listed, tables=3)
add_intent("chain_of_four", "extra", JOIN_LIST_PHRASINGS, _listed, tables=4)


@intent("hard", *COUNT_PHRASINGS)
def chain_count(ask: Asker) -> Draft:
    first, second = need(_chain(ask, 3))
    key = at(0, first.source.key_name)
    count = f"count(DISTINCT {key})" if first.many or second.many else "count(*)"
    query = Query([first.source], [count])
    plain, subject = need(_followed(ask, query, first, second))
    return ask.draft(query, subject, differs=[plain])


@intent(
    "hard",
    "What is the {agg} of the {np}?",
    "Find the {agg} of all {np}.",
    "Compute the {agg} of {np}.",
    "Give me the {agg} of the {np}.",
    "Looking only at {np}, what is the {agg}?",
    "Report the {agg} over all {np}.",
)
def chain_aggregate(ask: Asker) -> Draft:
    chain = need(_chain(ask, 3, one_way=True))
    column = need(ask.column(chain[0].source, "number"))
    function = ask.rng.choice(["avg", "max", "min"] + ["sum"] * column.spec.additive)
    query = Query([chain[0].source], [f"{function}({at(0, column)})"])
    bare, subject = need(_followed(ask, query, *chain))
    agg = said_aggregate(ask, function, column)
    return ask.draft(query, subject, differs=[bare], agg=agg)
