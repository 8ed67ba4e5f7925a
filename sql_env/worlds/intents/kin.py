"""Questions about rows that are spread over two tables, one row for one row.

What a poker player earns lies in one table, the name in another: databases that others made are
often like that, domains never.
"""

from __future__ import annotations

from sql_env.worlds.english import plural
from sql_env.worlds.intents.aggregates import said_aggregate
from sql_env.worlds.intents.base import (
    ORDERABLE,
    Asker,
    Draft,
    NotOffered,
    direction_words,
    existing_intent,
    need,
    superlative,
)
from sql_env.worlds.intents.filtering import COUNT_PHRASINGS
from sql_env.worlds.query import Query, at, sort_key
from sql_env.worlds.subjects import display_sql, names_of
from sql_env.worlds.world import Relation


def _kin(ask: Asker) -> Relation | None:
    """A table and the one that holds the rest of its rows."""
    return ask.rng.choice(ask.world.kin) if ask.world.kin else None


def _labels(ask: Asker, relation: Relation, position: int) -> tuple[list[str], str] | None:
    """What tells the rows apart, from the table that has it: SQL and the word for one."""
    target = relation.target
    if target.display:
        return display_sql(target, position), names_of(target, False)
    column = ask.column(target, "text", "category")
    return ([at(position, column)], column.spec.words[0]) if column else None


def _many(words: str) -> str:
    return "first and last names" if words == "first and last name" else plural(words)


NAME_PHRASINGS = (
    "What are the {names} of the {np}?",
    "List the {names} of all {np}.",
    "Find the {names} of {np}.",
    "Show the {names} of the {np}.",
    "Give the {names} of {np}.",
    "Return the {names} of all {np}.",
)


@existing_intent("medium", *NAME_PHRASINGS)
def kin_list(ask: Asker) -> Draft:
    relation = need(_kin(ask))
    query = Query([relation.source])
    position = query.join(relation)
    labels = _labels(ask, relation, position)
    condition = ask.condition(relation.source)
    if labels is None:
        raise NotOffered
    query.select, word = labels
    subject, differs = ask.subject(relation.source), []
    if condition is not None and ask.rng.random() < 0.85:
        differs.append(query.sql)
        query.where.append(condition.sql())
        subject = subject.narrowed(condition.saying)
    return ask.draft(query, subject, differs=differs, names=_many(word))


@existing_intent(
    "medium",
    "List the {names} of the {np} {how}.",
    "What are the {names} of all {np}, sorted {how}?",
    "Show the {names} of all {np} {how}.",
    "Give the {names} of {np}, ordered {how}.",
    "Return the {names} of all {np}, sorted {how}.",
    "Find the {names} of the {np} and sort them {how}.",
)
def kin_ordered(ask: Asker) -> Draft:
    relation = need(_kin(ask))
    column = need(ask.column(relation.source, *ORDERABLE, full=True))
    query = Query([relation.source])
    labels = need(_labels(ask, relation, query.join(relation)))
    query.select, word = labels
    down = ask.rng.random() < 0.5
    query.order = [sort_key(at(0, column), down)]
    return ask.draft(
        query,
        names=_many(word),
        np=ask.subject(relation.source).plain,
        how=direction_words(column, down),
    )


@existing_intent(
    "hard",
    "What is the {column} of the {one}?",
    "Find the {column} of the {one}.",
    "Show the {column} of the {one}.",
    "Return the {column} of the {one}.",
    "Give me the {column} of the {one}.",
    "Tell me the {column} of the {one}.",
)
def kin_superlative(ask: Asker) -> Draft:
    """The value in one table of the row that is first in the other."""
    relation = need(_kin(ask))
    query = Query([relation.source])
    position = query.join(relation)
    sides = [(relation.source, 0), (relation.target, position)]
    ask.rng.shuffle(sides)
    (ranked_in, here), (shown_in, there) = sides
    ranked = ask.column(ranked_in, *ORDERABLE, full=True)
    shown = need(ask.column(shown_in, *ORDERABLE, "name", "category", "text"))
    if ranked is None:
        raise NotOffered
    top = ask.rng.random() < 0.6
    query.select = [at(there, shown)]
    query.order, query.limit = [sort_key(at(here, ranked), top)], 1
    one = superlative(ranked, ask.subject(relation.source), top)
    return ask.draft(query, column=shown.spec.words[0], one=one)


@existing_intent(
    "medium",
    "What is the {agg} of the {np}?",
    "Find the {agg} of all {np}.",
    "Give the {agg} of {np}.",
    "Return the {agg} of the {np}.",
    "Show the {agg} across all {np}.",
    "For {np}, what is the {agg}?",
)
def kin_aggregate(ask: Asker) -> Draft:
    relation = need(_kin(ask))
    column = ask.column(relation.source, "number")
    condition = need(ask.condition(relation.target))
    if column is None:
        raise NotOffered
    function = ask.rng.choice(["avg", "max", "min"] + ["sum"] * column.spec.additive)
    query = Query([relation.source], [f"{function}({at(0, column)})"])
    position = query.join(relation)
    bare = query.sql
    query.where.append(condition.sql(position))
    return ask.draft(
        query,
        differs=[bare],
        agg=said_aggregate(ask, function, column),
        np=ask.subject(relation.source, condition.saying).phrase(),
    )


@existing_intent("medium", *COUNT_PHRASINGS)
def kin_count(ask: Asker) -> Draft:
    relation = need(_kin(ask))
    condition = need(ask.condition(relation.target))
    query = Query([relation.source], ["count(*)"])
    query.where.append(condition.sql(query.join(relation)))
    return ask.draft(query, ask.subject(relation.source, condition.saying))


@existing_intent(
    "medium",
    "What are the {names} and {columns} of all {np}?",
    "List the {name} and {column} of each {one}.",
    "Show the {name} and {column} of every {one}.",
    "Give the {names} and {columns} of the {np}.",
    "For each {one}, return the {name} and {column}.",
    "Find the {name} and the {column} of every {one}.",
)
def kin_columns(ask: Asker) -> Draft:
    relation = need(_kin(ask))
    column = need(ask.column(relation.source, *ORDERABLE, "category", full=True))
    query = Query([relation.source])
    labels = need(_labels(ask, relation, query.join(relation)))
    query.select = [*labels[0], at(0, column)]
    condition = ask.condition(relation.source, without=[column], share=(0.03, 0.7))
    subject = ask.subject(relation.source)
    if condition is not None and (subject.table.size > 20 or ask.rng.random() < 0.4):
        query.where.append(condition.sql())
        subject = subject.narrowed(condition.saying)
    name, word = labels[1], column.spec.words[0]
    return ask.draft(
        query, subject, names=_many(name), name=name, columns=plural(word), column=word
    )


@existing_intent(
    "medium",
    "How many {np} are there for each {column}?",
    "For each {column}, how many {np} are there?",
    "Show each {column} and the number of {np}.",
    "What is the number of {np} for each {column}?",
    "Count the {np} of each {column}.",
    "List every {column} with its number of {np}.",
)
def kin_group(ask: Asker) -> Draft:
    relation = need(_kin(ask))
    column = need(ask.column(relation.target, "category", full=True))
    query = Query([relation.source])
    position = query.join(relation)
    query.select = [at(position, column), "count(*)"]
    query.group = [at(position, column)]
    return ask.draft(
        query, np=ask.subject(relation.source).plain, column=ask.one_of(*column.spec.words)
    )
