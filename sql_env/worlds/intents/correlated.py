"""Questions whose inner query looks at the outer row: per-group extremes, existence, counts."""

from __future__ import annotations

from typing import Any

from sql_env.worlds.english import Saying, with_article
from sql_env.worlds.intents.base import (
    Asker,
    Draft,
    NotOffered,
    add_intent,
    intent,
    need,
    superlative,
)
from sql_env.worlds.intents.nested import NAMES_PHRASINGS
from sql_env.worlds.query import Query, at
from sql_env.worlds.subjects import display_sql, names_of, partners
from sql_env.worlds.world import Value, WorldTable


def _outer(table: WorldTable) -> Query:
    return Query([table], display_sql(table), always_alias=True)


def _inner(table: WorldTable, select: str) -> Query:
    return Query([table], [select], always_alias=True, first_alias=2)


@intent(
    "hard",
    "Which {np} have {a_column} {side} the average for their own {group}? Give their {names}.",
    "Find the {names} of the {np} whose {column} is {side} the average of their {group}.",
    "List the {names} of {np} with {a_column} {side} the average among {np} of the same {group}.",
    "Against the average of their own {group}, which {np} have a {comparative} {column}?"
    " Return the {names}.",
    "Show the {names} of all {np} whose {column} lies {side} the average for the same {group}.",
    "Give the {name} of every {one} whose {column} is {side} the mean of the same {group}.",
)
def above_own_group(ask: Asker) -> Draft:
    table = need(ask.table(kinds=("number",)))
    column = ask.column(table, "number", full=True)
    group = need(ask.column(table, "category", full=True))
    if column is None:
        raise NotOffered
    up = ask.rng.random() < 0.65
    inner = _inner(table, f"avg({at(0, column)})")
    inner.where = [f"{at(0, group)} = T1.{group.name}"]
    query = _outer(table)
    query.where = [f"{at(0, column)} {'>' if up else '<'} ({inner.sql})"]
    subject = ask.subject(table)
    return ask.draft(
        query,
        subject,
        column=column.spec.words[0],
        a_column=with_article(column.spec.words[0]),
        group=group.spec.words[0],
        side="above" if up else "below",
        comparative="higher" if up else "lower",
    )


@intent(
    "extra",
    "Find the {best} of each {group}. Give the {group}, the {name} and the {column}.",
    "Show, for every {group}, the {name} and {column} of the {best}.",
    "List each {group} with the {name} and {column} of its {best}.",
    "Per {group}, find the {best}; return the {group}, {name} and {column}.",
    "What are the {group}, {name} and {column} of the {best} in each {group}?",
    "Give every {group} together with the {name} and the {column} of its {best}.",
)
def best_of_group(ask: Asker) -> Draft:
    table = need(ask.table(named=True, kinds=("number",)))
    column = ask.column(table, "number", full=True)
    group = need(ask.column(table, "category", full=True))
    if column is None:
        raise NotOffered
    top = ask.rng.random() < 0.65
    inner = _inner(table, f"{'max' if top else 'min'}({at(0, column)})")
    inner.where = [f"{at(0, group)} = T1.{group.name}"]
    query = _outer(table)
    query.select = [at(0, group), *query.select, at(0, column)]
    query.where = [f"{at(0, column)} = ({inner.sql})"]
    # Two winners in one group would make the question odd.
    best: dict[Value, list[Any]] = {}
    for value, key in zip(column.values, group.values, strict=True):
        best.setdefault(key, []).append(value)
    extremes = {key: max(values) if top else min(values) for key, values in best.items()}
    if any(values.count(extremes[key]) > 1 for key, values in best.items()):
        raise NotOffered
    return ask.draft(
        query,
        group=group.spec.words[0],
        best=superlative(column, ask.subject(table), top),
        column=column.spec.words[0],
        name=names_of(table, False),
    )


def _exists(ask: Asker, negated: bool = False) -> Draft:
    relation = need(ask.relation(many=True, hops=1))
    table, target = relation.source, relation.target
    hop = relation.hops[0]
    inner = _inner(target, "1")
    inner.where = [f"{at(0, hop.right_column)} = T1.{table.key_name}"]
    things = ask.subject(target)
    if not negated or relation.complete or ask.rng.random() >= 0.5:
        condition = need(ask.condition(target, share=(0.05, 0.5)))
        inner.where.append(condition.sql())
        things = things.narrowed(condition.saying)
    query = _outer(table)
    differs = [query.sql]
    query.where = [f"{'NOT ' if negated else ''}EXISTS ({inner.sql})"]
    if negated:
        many, one = relation.verb.negated(True), relation.verb.negated(False)
        first, _, rest = many.partition(" ")
        saying = Saying("verb", f"{first}|{one.partition(' ')[0]} {rest} any {things.phrase()}")
    else:
        some = with_article(things.phrase(many=False))
        saying = Saying("verb", f"{relation.verb.spec} {some}")
    return ask.draft(query, ask.subject(table, saying), differs=differs)


add_intent("exists_such", "hard", NAMES_PHRASINGS, _exists)
add_intent("exists_none", "hard", NAMES_PHRASINGS, _exists, negated=True)


@intent(
    "extra",
    "For every {one}, including those without any, how many {things} are there? Show the {name}"
    " and the count.",
    "List the {name} of each {one} with the number of {its_own}, zero included.",
    "Show the {name} of every {one} with the number of {its_own}, even where there are none.",
    "How many {things} {asked}? Include the {np} with none, and give each {name}.",
    "For all {np}, give the {name} and the number of {their_own}; a zero counts too.",
    "Give the {names} of all {np}, even those without {things}, and the number of {things} of"
    " each.",
    "Return the {name} of each {one} and the number of {its_own}, keeping the {np} with none.",
)
def count_with_zero(ask: Asker) -> Draft:
    relation = need(ask.relation(many=True, hops=1, named_source=True))
    if relation.complete:
        raise NotOffered
    table, target = relation.source, relation.target
    inner = _inner(target, "count(*)")
    inner.where = [f"{at(0, relation.hops[0].right_column)} = T1.{table.key_name}"]
    query = _outer(table)
    query.select.append(f"({inner.sql})")
    subject = ask.subject(table)
    things = ask.subject(target).plain
    words = {
        **subject.words,
        "things": things,
        "its_own": partners(relation, things, many=False).removeprefix("the "),
        "their_own": partners(relation, things, many=True).removeprefix("the "),
    }
    if not relation.verb.is_passive:
        words["asked"] = relation.verb.asked(f"each {subject.noun}")
    return ask.draft(query, **words)


@intent(
    "hard",
    "What are the {names} of the {np} that come out as the {best} within their own {group}?",
    "For each {group}, find its {best}; list the {names}.",
    "Which {np} are the {best} of their {group}? Give the {names}.",
    "Show the {names} of the {np} that are the {best} of their {group}.",
    "List the {names} of all {np} that are the {best} in their {group}.",
    "Give the {name} of each {group}'s {best}.",
)
def extreme_of_group(ask: Asker) -> Draft:
    table = need(ask.table(named=True))
    column = ask.column(table, "number", "year", "date", full=True)
    group = need(ask.column(table, "category", full=True))
    if column is None:
        raise NotOffered
    top = ask.rng.random() < 0.65
    if not (column.spec.most if top else column.spec.least):
        raise NotOffered
    inner = _inner(table, f"{'max' if top else 'min'}({at(0, column)})")
    inner.where = [f"{at(0, group)} = T1.{group.name}"]
    query = _outer(table)
    query.where = [f"{at(0, column)} = ({inner.sql})"]
    subject = ask.subject(table)
    return ask.draft(
        query,
        subject,
        best=superlative(column, subject, top),
        group=group.spec.words[0],
    )
