"""Questions whose inner query looks at the outer row: per-group extremes, existence, counts."""

from __future__ import annotations

from sql_env.worlds.building import Relation, WorldTable
from sql_env.worlds.english import Saying, with_article
from sql_env.worlds.intents.base import Asker, Draft, intent, superlative
from sql_env.worlds.intents.nested import NAMES_PHRASINGS, names_words
from sql_env.worlds.query import Query, at
from sql_env.worlds.subjects import display_sql, names_of


def _outer(table: WorldTable) -> Query:
    return Query([table], display_sql(table), always_alias=True)


def _inner(table: WorldTable, select: str) -> Query:
    return Query([table], [select], always_alias=True, first_alias=2)


@intent(
    "hard",
    "Which {np} have a {column} {side} the average for their own {group}? Give their {names}.",
    "Find the {names} of the {np} whose {column} is {side} the average of their {group}.",
    "List the {names} of {np} with a {column} {side} the average among {np} of the same {group}.",
    "Compared with the average of their own {group}, which {np} have a {comparative} {column}?"
    " Return the {names}.",
    "Show the {names} of all {np} whose {column} lies {side} the average for the same {group}.",
    "Give the {name} of every {one} whose {column} is {side} the mean {column} of its {group}.",
)
def above_own_group(ask: Asker) -> Draft | None:
    table = ask.table(kinds=("number",))
    column = ask.column(table, "number", full=True) if table else None
    group = ask.column(table, "category", full=True) if table else None
    if table is None or column is None or group is None:
        return None
    up = ask.rng.random() < 0.65
    inner = _inner(table, f"avg({at(0, column)})")
    inner.where = [f"{at(0, group)} = T1.{group.name}"]
    query = _outer(table)
    query.where = [f"{at(0, column)} {'>' if up else '<'} ({inner.sql})"]
    subject = ask.subject(table)
    return ask.draft(
        query,
        np=subject.plain,
        one=subject.noun,
        column=column.spec.words[0],
        group=group.spec.words[0],
        side="above" if up else "below",
        comparative="higher" if up else "lower",
        names=names_of(table),
        name=names_of(table, False),
    )


@intent(
    "extra",
    "For each {group}, which {one} has the {end} {column}? Give the {group}, the {name} and the"
    " {column}.",
    "Show, for every {group}, the {name} and {column} of the {one} with the {end} {column}.",
    "List each {group} with the {name} and {column} of its {one} with the {end} {column}.",
    "Per {group}, find the {one} with the {end} {column}; return {group}, {name} and {column}.",
    "What are the {group}, {name} and {column} of the {one} with the {end} {column} in each"
    " {group}?",
    "Give the {group}, the {name} and the {column} of whichever {one} has the {end} {column} in"
    " that {group}.",
)
def best_of_group(ask: Asker) -> Draft | None:
    table = ask.table(named=True, kinds=("number",))
    column = ask.column(table, "number", full=True) if table else None
    group = ask.column(table, "category", full=True) if table else None
    if table is None or column is None or group is None:
        return None
    top = ask.rng.random() < 0.65
    inner = _inner(table, f"{'max' if top else 'min'}({at(0, column)})")
    inner.where = [f"{at(0, group)} = T1.{group.name}"]
    query = _outer(table)
    query.select = [at(0, group), *query.select, at(0, column)]
    query.where = [f"{at(0, column)} = ({inner.sql})"]
    # Two winners in one group would make the question odd.
    best = {}
    for value, key in zip(column.values, group.values, strict=True):
        best.setdefault(key, []).append(value)
    extremes = {key: max(values) if top else min(values) for key, values in best.items()}
    if any(values.count(extremes[key]) > 1 for key, values in best.items()):
        return None
    return ask.draft(
        query,
        group=group.spec.words[0],
        one=ask.subject(table).noun,
        column=column.spec.words[0],
        name=names_of(table, False),
        end="highest" if top else "lowest",
    )


def _exists(ask: Asker, relation: Relation, negated: bool) -> Draft | None:
    table, target = relation.source, relation.target
    hop = relation.hops[0]
    inner = _inner(target, "1")
    inner.where = [f"{at(0, hop.right_column)} = T1.{table.key_name}"]
    things = ask.subject(target)
    if negated and not relation.complete and ask.rng.random() < 0.5:
        pass
    else:
        condition = ask.condition(target, share=(0.05, 0.5))
        if condition is None:
            return None
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
    return ask.draft(query, differs=differs, **names_words(ask, table, saying))


@intent("hard", *NAMES_PHRASINGS)
def exists_such(ask: Asker) -> Draft | None:
    relation = ask.relation(many=True, hops=1)
    return _exists(ask, relation, negated=False) if relation else None


@intent("hard", *NAMES_PHRASINGS)
def exists_none(ask: Asker) -> Draft | None:
    relation = ask.relation(many=True, hops=1)
    return _exists(ask, relation, negated=True) if relation else None


@intent(
    "extra",
    "For every {one}, including those without any, how many {things} are there? Show the {name}"
    " and the count.",
    "List the {name} of each {one} with the number of {things} {it_verbs}, zero included.",
    "Show all {np} by {name} with how many {things} {it_verbs}; some have none.",
    "How many {things} {asked}? Include the {np} with none, and give each {name}.",
    "Give the {names} of all {np}, even those without {things}, and the number of {things} of"
    " each.",
    "Return each {one}'s {name} and number of {things}, keeping the {np} that have none.",
)
def count_with_zero(ask: Asker) -> Draft | None:
    relation = ask.relation(many=True, hops=1, named_source=True)
    if relation is None or relation.complete:
        return None
    table, target = relation.source, relation.target
    inner = _inner(target, "count(*)")
    inner.where = [f"{at(0, relation.hops[0].right_column)} = T1.{table.key_name}"]
    query = _outer(table)
    query.select.append(f"({inner.sql})")
    subject = ask.subject(table)
    person = table.spec.person
    return ask.draft(
        query,
        one=subject.noun,
        np=subject.plain,
        things=ask.subject(target).plain,
        name=names_of(table, False),
        names=names_of(table),
        asked=relation.verb.asked(f"each {subject.noun}"),
        it_verbs=f"{'they' if person else 'it'} {relation.verb.form(many=person)}",
    )


@intent(
    "hard",
    "What are the {names} of the {np} that come out as the {best} within their own {group}?",
    "For each {group}, find its {best}; list the {names}.",
    "Which {np} are the {best} of their {group}? Give the {names}.",
    "Show the {names} of the {np} that are the {best} of their {group}.",
    "List the {names} of all {np} that are the {best} in their {group}.",
    "Give the {name} of each {group}'s {best}.",
)
def extreme_of_group(ask: Asker) -> Draft | None:
    table = ask.table(named=True)
    column = ask.column(table, "number", "year", "date", full=True) if table else None
    group = ask.column(table, "category", full=True) if table else None
    if table is None or column is None or group is None:
        return None
    top = ask.rng.random() < 0.65
    own = column.spec.most if top else column.spec.least
    if not own or " " in own:
        return None
    inner = _inner(table, f"{'max' if top else 'min'}({at(0, column)})")
    inner.where = [f"{at(0, group)} = T1.{group.name}"]
    query = _outer(table)
    query.where = [f"{at(0, column)} = ({inner.sql})"]
    subject = ask.subject(table)
    return ask.draft(
        query,
        names=names_of(table),
        name=names_of(table, False),
        np=subject.plain,
        best=superlative(column, subject, top),
        group=group.spec.words[0],
    )
