"""Questions that join two to four tables."""

from __future__ import annotations

from sql_env.worlds.english import Saying, with_article
from sql_env.worlds.intents.aggregates import said_aggregate
from sql_env.worlds.intents.base import Asker, Draft, NotOffered, add_intent, intent, need
from sql_env.worlds.intents.filtering import COUNT_PHRASINGS
from sql_env.worlds.query import Query, at
from sql_env.worlds.subjects import Subject, called, display_sql, is_row, names_of, partners
from sql_env.worlds.world import Relation


def related(
    ask: Asker, relation: Relation, query: Query, position: int, by_name: float = 0.5
) -> Saying | None:
    """Narrow a query through the table at `position`, by one named row or by a property.

    Returns what the sources do: `work|works in the Cardiology department`.
    """
    target = relation.target
    # A child has one parent: to ask which parents have that child would be odd.
    several = len(relation.hops) == 2 or not relation.many
    if target.display and several and ask.rng.random() < by_name:
        row = ask.linked_row(relation)
        if row is None:
            return None
        query.where += is_row(target, row, position)
        return Saying("verb", f"{relation.verb.spec} {called(target, row, ask.rng)}")
    condition = ask.condition(target, share=(0.05, 0.6))
    if condition is None:
        return None
    query.where.append(condition.sql(position))
    subject = ask.subject(target, condition.saying)
    some = subject.phrase() if relation.many else with_article(subject.phrase(many=False))
    return Saying("verb", f"{relation.verb.spec} {some}")


JOIN_LIST_PHRASINGS = (
    "What are the {names} of the {np}?",
    "List the {names} of all {np}.",
    "Which {plain} {vp}? Give their {names}.",
    "Find the {names} of {np}.",
    "Show me the {names} of the {np}.",
    "Return the {names} of all {plain} {who} {vp}.",
    "I am looking for the {names} of {np}.",
)


def _join_list(ask: Asker, hops: int, own_condition: bool = False) -> Draft:
    relation = need(ask.relation(hops=hops))
    table = relation.source
    query = Query([table], display_sql(table), distinct=relation.many)
    position = query.join(relation)
    bare = query.sql
    saying = need(related(ask, relation, query, position))
    differs = [bare]
    subject = ask.subject(table, saying)
    if own_condition:
        condition = need(ask.condition(table, share=(0.1, 0.7)))
        differs.append(query.sql)
        query.where.append(condition.sql())
        subject = ask.subject(table, condition.saying, saying)
    return ask.draft(query, subject, differs=differs)


add_intent("join_list", "medium", JOIN_LIST_PHRASINGS, _join_list, hops=1)
add_intent("join_list_two", "medium", JOIN_LIST_PHRASINGS, _join_list, hops=1, own_condition=True)
add_intent("link_list", "hard", JOIN_LIST_PHRASINGS, _join_list, hops=2)
add_intent("link_list_two", "extra", JOIN_LIST_PHRASINGS, _join_list, hops=2, own_condition=True)


def _join_count(ask: Asker, hops: int) -> Draft:
    relation = need(ask.relation(hops=hops))
    table = relation.source
    count = f"count(DISTINCT {at(0, table.key_name)})" if relation.many else "count(*)"
    query = Query([table], [count])
    position = query.join(relation)
    saying = need(related(ask, relation, query, position, by_name=0.6))
    # Each source meets one named target once, so there is nothing to make distinct.
    if len(query.where) == len(relation.target.display) and relation.distinct_pairs:
        named = relation.target.display and query.where[0].startswith(
            at(position, relation.target.display[0])
        )
        if named:
            query.select = ["count(*)"]
    subject = ask.subject(table, saying)
    return ask.draft(query, subject)


add_intent("join_count", "medium", COUNT_PHRASINGS, _join_count, hops=1)
add_intent("link_count", "hard", COUNT_PHRASINGS, _join_count, hops=2)


@intent(
    "easy",
    "Which {np} {verb} at least one {thing}? Give their {names}.",
    "What are the {names} of the {np} {who} {verb} at least one {thing}?",
    "List the different {names} of {np} {who} {verb} any {things}.",
    "Find the {names} of all {np} {who} {verb} one or more {things}, each once.",
    "Show the {names} of those {np} {who} {verb} some {thing}, without repeats.",
    "Give the {name} of every {one} {who} {verbs} at least one {thing}.",
)
def with_any(ask: Asker) -> Draft:
    relation = need(ask.relation(many=True))
    if relation.complete:
        raise NotOffered
    table = relation.source
    query = Query([table], display_sql(table), distinct=True)
    query.follow(relation.hops[:1])
    subject, things = ask.subject(table), ask.subject(relation.target)
    return ask.draft(
        query,
        subject,
        verb=relation.verb.form(),
        verbs=relation.verb.form(many=False),
        thing=things.noun,
        things=things.plain,
    )


@intent(
    "hard",
    "Show the {names} of {np} together with the {others} of {their}.",
    "For each {one}, list the {name} and the {others} of {its}.",
    "What are the {names} of the {np} and the {others} of {their}?",
    "Match every {one} with {its}; give the {name} and the {other} of each pair.",
    "List the {name} of each {one} with the {others} of {its}, one row per pair.",
    "Return the {name} of every {one} next to the {others} of {its}.",
)
def link_pairs(ask: Asker) -> Draft:
    relation = need(ask.relation(hops=2, named_source=True, named_target=True))
    if not relation.distinct_pairs:
        raise NotOffered
    table, target = relation.source, relation.target
    condition = need(ask.condition(table, share=(0.02, 0.4)))
    query = Query([table], where=[condition.sql()])
    position = query.join(relation)
    query.select = [*display_sql(table), *display_sql(target, position)]
    subject = ask.subject(table, condition.saying)
    things = ask.subject(target).plain
    return ask.draft(
        query,
        subject,
        others=names_of(target),
        other=names_of(target, False),
        its=partners(relation, things, many=False),
        their=partners(relation, things, many=True),
    )


# -- from one table to the next, three or four in a row ----------------------------------------


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
