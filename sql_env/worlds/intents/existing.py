"""Questions that only existing databases are asked: several columns at once, bare keys."""

from __future__ import annotations

from sql_env.worlds.english import listing, plural
from sql_env.worlds.intents.base import (
    ORDERABLE,
    Asker,
    Draft,
    NotOffered,
    direction_words,
    existing_intent,
    need,
)
from sql_env.worlds.intents.grouping import bound_on_count
from sql_env.worlds.query import Query, at, sort_key
from sql_env.worlds.world import Relation, WorldColumn


def _several(ask: Asker) -> tuple[Query, list[WorldColumn], str, str] | None:
    """A table with its names and two or three columns: their words for many and for one."""
    table = ask.table(named=True, kinds=(*ORDERABLE, "category"))
    if table is None or len(table.display) != 1:
        return None
    columns: list[WorldColumn] = []
    for _ in range(ask.rng.choice((1, 2, 2))):
        column = ask.column(table, *ORDERABLE, "category", "text", without=columns, full=True)
        if column is None:
            return None
        columns.append(column)
    shown = [*table.display, *columns]
    words = [column.spec.words[0] for column in shown]
    query = Query([table], [at(0, column) for column in shown])
    return query, columns, listing([plural(word) for word in words]), listing(words)


@existing_intent(
    "medium",
    "List the {columns} of all {np} {how}.",
    "What are the {columns} of all {np}, {sorted} {how}?",
    "Show the {columns} of the {np} {how}.",
    "Return the {columns} of all {np}, {sorted} {how}.",
    "Sort all the {np} {how} and give the {column} of each.",
    "Show the {column} of every {one} {how}.",
)
def several_ordered(ask: Asker) -> Draft:
    query, _, columns, column = need(_several(ask))
    table = query.tables[0]
    key = need(ask.column(table, *ORDERABLE, full=True))
    down = ask.rng.random() < 0.5
    query.order = [sort_key(at(0, key), down)]
    subject = ask.subject(table)
    return ask.draft(
        query,
        subject,
        columns=columns,
        column=column,
        how=direction_words(key, down),
        sorted=ask.one_of("sorted", "ordered"),
    )


@existing_intent(
    "medium",
    "What are the {columns} of the {np}?",
    "List the {columns} of all {np}.",
    "Show the {column} of each {one}.",
    "Give the {columns} of {np}.",
    "Find the {columns} of all {np}.",
    "Return the {column} of every {one}.",
)
def several_filtered(ask: Asker) -> Draft:
    query, shown, columns, column = need(_several(ask))
    table = query.tables[0]
    condition = need(ask.condition(table, without=(*shown, *table.display)))
    bare = query.sql
    query.where.append(condition.sql())
    subject = ask.subject(table, condition.saying)
    return ask.draft(query, subject, differs=[bare], columns=columns, column=column)


def _referred(ask: Asker) -> tuple[Relation, Query] | None:
    """The keys of one table as another one has them, one group for each."""
    relation = ask.relation(many=True, hops=1)
    if relation is None:
        return None
    key = at(0, relation.hops[0].right_column)
    return relation, Query([relation.target], [key], group=[key])


@existing_intent(
    "hard",
    "What is the {id} of the {one} with the most {things}?",
    "Find the {id} of the {one} that has the most {things}.",
    "Return the {id} of the {one} with the most {things}.",
    "Which {one} has the most {things}? Give the {id}.",
    "Show the {id} of the {one} with the largest number of {things}.",
    "Give the {id} of the {one} with the greatest number of {things}.",
)
def key_with_most(ask: Asker) -> Draft:
    relation, query = need(_referred(ask))
    query.order, query.limit = ["count(*) DESC"], 1
    return ask.draft(query, **_key_words(ask, relation))


@existing_intent(
    "easy",
    "What are the {ids} of the {np} with {bound} {things}?",
    "Find the {ids} of {np} that have {bound} {things}.",
    "List the {ids} of all {np} with {bound} {things}.",
    "Show the {ids} of the {np} that have {bound} {things}.",
    "Give the {ids} of {np} with {bound} {things}.",
    "Return the {ids} of the {np} that have {bound} {things}.",
)
def keys_with_bound(ask: Asker) -> Draft:
    relation, query = need(_referred(ask))
    counts: dict[object, int] = {}
    for source, _ in relation.pairs:
        counts[source] = counts.get(source, 0) + 1
    bound = need(bound_on_count(ask, list(counts.values())))
    if bound[0][0] == "<" and not relation.complete:
        raise NotOffered
    query.having = [f"count(*) {bound[0]}"]
    return ask.draft(query, bound=bound[1], **_key_words(ask, relation))


@existing_intent(
    "medium",
    "Show the {id} of each {one} and the number of {things} it has.",
    "What are the {ids} of the {np} and the number of {things} of each?",
    "List the {ids} of all {np} with their number of {things}.",
    "For each {one}, return the {id} and the number of {things}.",
    "Show all {one} {ids} and the number of {things} in each {one}.",
    "Return the {ids} of the {np} along with the number of {things} corresponding to each.",
)
def keys_with_count(ask: Asker) -> Draft:
    relation, query = need(_referred(ask))
    if not relation.complete:
        raise NotOffered
    query.select.append("count(*)")
    return ask.draft(query, **_key_words(ask, relation))


def _key_words(ask: Asker, relation: Relation) -> dict[str, str]:
    subject = ask.subject(relation.source)
    return {
        "id": relation.source.key_words,
        "ids": plural(relation.source.key_words),
        "one": subject.noun,
        "np": subject.plain,
        "things": ask.subject(relation.target).plain,
    }
