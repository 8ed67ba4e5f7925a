"""Questions about the rows of one table that meet a condition."""

from __future__ import annotations

from sql_env.worlds.conditions import Condition
from sql_env.worlds.english import plural
from sql_env.worlds.intents.base import (
    ORDERABLE,
    Asker,
    Draft,
    NotOffered,
    add_intent,
    intent,
    need,
)
from sql_env.worlds.query import Query, at
from sql_env.worlds.subjects import display_sql, names_of
from sql_env.worlds.world import WorldTable

LIST_PHRASINGS = (
    "What are the {names} of the {np}?",
    "List the {names} of all {np}.",
    "Find the {names} of {np}.",
    "Show the {names} of {np}.",
    "Give me the {names} of all the {np}.",
    "Which {plain} {vp}? Give their {names}.",
    "Return the {name} of every {one}.",
    "Tell me the {names} of all {plain} {clause}.",
)


def _filtered_list(
    ask: Asker, forms: tuple[str, ...] = (), several: bool = False, named: bool = False
) -> Draft:
    table = need(ask.table(named=named))
    conditions: list[Condition] = []
    for _ in range(2 if several else 1):
        condition = need(ask.condition(table, forms=forms, without=[c.column for c in conditions]))
        conditions.append(condition)
    query = Query([table], display_sql(table))
    differs = [query.sql]
    for condition in conditions:
        if several:
            differs.append(Query([table], display_sql(table), where=[condition.sql()]).sql)
        query.where.append(condition.sql())
    subject = ask.subject(table, *(c.saying for c in conditions))
    words = subject.words
    if not several:
        words["clause"] = subject.sayings[0].clause(table.who)
    return ask.draft(query, differs=differs, **words)


add_intent("filtered_list", "easy", LIST_PHRASINGS, _filtered_list)
add_intent("filtered_list_two", "medium", LIST_PHRASINGS, _filtered_list, several=True)
add_intent(
    "filtered_by_text",
    "medium",
    LIST_PHRASINGS,
    _filtered_list,
    forms=("like", "in_year"),
    named=True,
)
add_intent(
    "filtered_by_absence", "easy", LIST_PHRASINGS, _filtered_list, forms=("null", "not_null")
)
add_intent("filtered_by_range", "easy", LIST_PHRASINGS, _filtered_list, forms=("between", "in"))


@intent(
    "medium",
    "What are the {names} of the {np}?",
    "List the {names} of all {np}.",
    "Find the {names} of {np}.",
    "Which {plain} {vp}? Give their {names}.",
    "Show me the {names} of {np}.",
    "Return the {names} of all {np}.",
    "Give the {names} of those {np}.",
)
def filtered_or(ask: Asker) -> Draft:
    table = need(ask.table(named=True))
    first = need(ask.condition(table, share=(0.03, 0.35)))
    second = need(ask.condition(table, share=(0.03, 0.35), without=[first.column]))
    if "whose" in (first.saying.kind, second.saying.kind):
        raise NotOffered
    query = Query([table], display_sql(table), where=[f"{first.sql()} OR {second.sql()}"])
    differs = [
        Query([table], display_sql(table), where=[condition.sql()]).sql
        for condition in (first, second)
    ]
    subject = ask.subject(table, first.saying, second.saying)
    return ask.draft(
        query,
        differs=differs,
        names=names_of(table),
        np=subject.either(),
        plain=subject.plain,
        vp=subject.predicate("or"),
    )


@intent(
    "medium",
    "What are the {names} and {columns} of the {np}?",
    "Show the {name} and {column} of each {one}.",
    "List the {names} and {columns} of all {np}.",
    "Give me the {name} and {column} of every {one}.",
    "Find the {names} and {columns} of {np}.",
    "Which {plain} {vp}? Show their {names} and {columns}.",
    "For each {one}, return the {name} and the {column}.",
)
def filtered_columns(ask: Asker) -> Draft:
    table = need(ask.table(named=True))
    column = need(ask.column(table, *ORDERABLE, "category", "text"))
    condition = need(ask.condition(table, without=[column]))
    query = Query([table], [*display_sql(table), at(0, column)])
    differs = [query.sql]
    query.where.append(condition.sql())
    subject = ask.subject(table, condition.saying)
    word = ask.one_of(*column.spec.words)
    return ask.draft(query, subject, differs=differs, columns=plural(word), column=word)


COUNT_PHRASINGS = (
    "How many {plain} {vp}?",
    "How many {short} are there?",
    "Count the {np}.",
    "What is the number of {np}?",
    "Find the number of {np}.",
    "Tell me how many {plain} {vp}.",
    "Give the total number of {np}.",
    "In total, how many {plain} {vp}?",
)


def _filtered_count(ask: Asker, number: int) -> Draft:
    table = need(ask.table())
    conditions: list[Condition] = []
    for _ in range(number):
        condition = need(ask.condition(table, without=[c.column for c in conditions]))
        conditions.append(condition)
    query = Query([table], ["count(*)"], where=[c.sql() for c in conditions])
    differs = [Query([table], ["count(*)"], where=[c.sql()]).sql for c in conditions]
    subject = ask.subject(table, *(c.saying for c in conditions))
    return ask.draft(query, subject, differs=differs if number > 1 else ())


add_intent("filtered_count", "easy", COUNT_PHRASINGS, _filtered_count, number=1)
add_intent("filtered_count_two", "medium", COUNT_PHRASINGS, _filtered_count, number=2)


def _disjoint(ask: Asker) -> tuple[WorldTable, Condition, Condition] | None:
    """Two conditions that are each met by some rows and by none together."""
    table = ask.table(named=True)
    first = ask.condition(table, share=(0.03, 0.3)) if table else None
    if table is None or first is None:
        return None
    second = ask.condition(table, share=(0.03, 0.3), without=[first.column])
    if second is None or set(first.matches()) & set(second.matches()):
        return None
    return table, first, second


@intent("medium", *LIST_PHRASINGS, may_be_empty=True)
def nothing_found(ask: Asker) -> Draft:
    """An empty list, on purpose: an agent must be able to answer that there is none."""
    table, *conditions = need(_disjoint(ask))
    query = Query([table], display_sql(table), where=[c.sql() for c in conditions])
    return ask.draft(query, ask.subject(table, *(c.saying for c in conditions)))


@intent("medium", *COUNT_PHRASINGS, may_be_empty=True)
def none_counted(ask: Asker) -> Draft:
    """A count of zero, on purpose."""
    table, *conditions = need(_disjoint(ask))
    query = Query([table], ["count(*)"], where=[c.sql() for c in conditions])
    return ask.draft(query, ask.subject(table, *(c.saying for c in conditions)))


@intent(
    "easy",
    "What are the different {columns} of {np}?",
    "List the distinct {columns} of the {np}.",
    "Which different {columns} occur among {np}?",
    "Find all distinct {columns} of {np}.",
    "Show the different {columns} found among {np}, each one once.",
    "Give the unique {columns} of all {np}.",
)
def distinct_filtered(ask: Asker) -> Draft:
    table = need(ask.table(kinds=("category",)))
    column = need(ask.column(table, "category", full=True))
    condition = need(ask.condition(table, without=(column, *table.display)))
    query = Query([table], [at(0, column)], distinct=True)
    differs = [query.sql]
    query.where.append(condition.sql())
    return ask.draft(
        query,
        differs=differs,
        columns=plural(ask.one_of(*column.spec.words)),
        np=ask.subject(table, condition.saying).phrase(),
    )
