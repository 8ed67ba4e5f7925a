"""Questions that combine two results: both, either, but not."""

from __future__ import annotations

from sql_env.worlds.english import plural
from sql_env.worlds.intents.base import Asker, Draft, intent, need
from sql_env.worlds.query import Query, at
from sql_env.worlds.subjects import called, display_sql, is_row
from sql_env.worlds.world import Relation, WorldColumn, WorldTable


def _two_targets(ask: Asker) -> tuple[Relation, int, int] | None:
    """A link and two of its targets that share at least one source."""
    relation = ask.relation(many=True, hops=2, named_target=True)
    if relation is None:
        return None
    by_target: dict[int, set[int]] = {}
    for source, target in relation.pairs:
        by_target.setdefault(target, set()).add(source)
    position = {key: i for i, key in enumerate(relation.target.keys)}
    pairs = [
        (a, b)
        for a in sorted(by_target)
        for b in sorted(by_target)
        if a != b and by_target[a] & by_target[b] and by_target[a] - by_target[b]
    ]
    if not pairs:
        return None
    a, b = ask.rng.choice(pairs)
    return relation, position[a], position[b]


def _side(relation: Relation, row: int) -> Query:
    query = Query([relation.source], display_sql(relation.source))
    position = query.join(relation)
    query.where = is_row(relation.target, row, position)
    return query


def _combined(ask: Asker, word: str) -> Draft:
    relation, a, b = need(_two_targets(ask))
    left, right = _side(relation, a), _side(relation, b)
    canonical = f"{left.sql} {word} {right.sql}"
    left.flip(ask.rng)
    right.flipped = left.flipped
    table = relation.source
    subject = ask.subject(table)
    one, other = (called(relation.target, row, ask.rng) for row in (a, b))
    words = {
        **subject.words,
        "verb": relation.verb.form(),
        "verbs": relation.verb.form(many=False),
        "lack": relation.verb.negated(),
        "one": one,
        "other": other,
    }
    sql = f"{left.sql} {word} {right.sql}"
    return Draft(sql, words, differs=(left.sql, right.sql), canonical=canonical)


@intent(
    "extra",
    "Which {np} {verb} both {one} and {other}? Give their {names}.",
    "What are the {names} of the {np} {who} {verb} both {one} and {other}?",
    "List the {names} of {np} {who} {verb} {one} as well as {other}.",
    "Find the {names} of all {np} {who} {verb} {one} and also {other}.",
    "Show the {name} of every {noun} {who} {verbs} both {one} and {other}.",
    "Give the {names} of the {np} {who} {verb} not only {one} but also {other}.",
)
def both(ask: Asker) -> Draft:
    return _combined(ask, "INTERSECT")


@intent(
    "extra",
    "Which {np} {verb} {one} but not {other}? Give their {names}.",
    "What are the {names} of the {np} {who} {verb} {one} but {lack} {other}?",
    "List the {names} of {np} {who} {verb} {one} but {lack} {other}.",
    "Find the {names} of all {np} {who} {verb} {one}, leaving out those {who} {verb} {other}.",
    "Show the {names} of the {np} {who} {verb} {one} but not {other}.",
    "Give the {name} of every {noun} {who} {verbs} {one} and not {other}.",
)
def one_but_not(ask: Asker) -> Draft:
    return _combined(ask, "EXCEPT")


@intent(
    "extra",
    "Which {np} {verb} {one} or {other}? Give their {names}, each once.",
    "What are the {names} of the {np} {who} {verb} either {one} or {other}?",
    "List the {names} of all {np} {who} {verb} {one} or {other} or both.",
    "Find the {names} of the {np} {who} {verb} at least one of {one} and {other}.",
    "Show the {name} of every {noun} {who} {verbs} {one} or {other}, without repeats.",
    "Give the {names} of those {np} {who} {verb} {one}, {other} or both.",
)
def either(ask: Asker) -> Draft:
    return _combined(ask, "UNION")


def _category_sides(ask: Asker) -> tuple[WorldTable, WorldColumn, Query, Query, str, str] | None:
    table = ask.table(kinds=("category",))
    column = ask.column(table, "category", full=True) if table else None
    if table is None or column is None:
        return None
    first = ask.condition(table, without=(column, *table.display), share=(0.1, 0.6))
    second = (
        ask.condition(table, without=(column, *table.display), share=(0.1, 0.6)) if first else None
    )
    if first is None or second is None or set(first.matches()) & set(second.matches()):
        return None
    noun = ask.subject(table)
    sides = [
        Query([table], [at(0, column)], where=[condition.sql()]) for condition in (first, second)
    ]
    return (
        table,
        column,
        sides[0],
        sides[1],
        noun.narrowed(first.saying).phrase(),
        noun.narrowed(second.saying).phrase(),
    )


@intent(
    "hard",
    "Which {columns} have both {one} and {other}?",
    "Find the {columns} that are shared by {one} and {other}.",
    "List the {columns} for which there are {one} as well as {other}.",
    "What are the {columns} that occur both among {one} and among {other}?",
    "Show every {column} found among {one} and also among {other}.",
    "Give the {columns} that have {one} and also {other}.",
)
def category_both(ask: Asker) -> Draft:
    return _category_draft(ask, "INTERSECT")


@intent(
    "hard",
    "Which {columns} have {one} but no {other}?",
    "Find the {columns} that occur among {one} but not among {other}.",
    "List the {columns} for which there are {one} but no {other}.",
    "What are the {columns} of {one} that no {other} have?",
    "Show every {column} found among {one} and never among {other}.",
    "Give the {columns} with {one} and without any {other}.",
)
def category_except(ask: Asker) -> Draft:
    return _category_draft(ask, "EXCEPT")


@intent(
    "hard",
    "Which {columns} have {one} or {other}?",
    "Find the {columns} that occur among {one} or among {other}, each once.",
    "List the {columns} for which there are {one} or {other}, without repeats.",
    "What are the distinct {columns} of {one} together with those of {other}?",
    "Show every {column} found among {one}, among {other}, or among both.",
    "Give all the different {columns} of {one} and of {other}.",
)
def category_either(ask: Asker) -> Draft:
    return _category_draft(ask, "UNION")


def _category_draft(ask: Asker, word: str) -> Draft:
    _, column, left, right, one, other = need(_category_sides(ask))
    name = ask.one_of(*column.spec.words)
    words = {"columns": plural(name), "column": name, "one": one, "other": other}
    every = Query(left.tables, left.select, distinct=True).sql
    alone = Query(left.tables, left.select, distinct=True, where=left.where).sql
    beside = Query(left.tables, left.select, distinct=True, where=right.where).sql
    differs = (every, alone, beside) if word != "INTERSECT" else (every,)
    return Draft(f"{left.sql} {word} {right.sql}", words, differs=differs)


@intent(
    "hard",
    "What are the {names} of the {np} {who} {lack} any {things}?",
    "List the {names} of all {np} except those {who} {verb} {things}.",
    "Find the {names} of {np} {who} {verb} no {things}.",
    "Which {np} {lack} any {things}? Return their {names}.",
    "Show the {names} of the {np}, leaving out those {who} {verb} {things}.",
    "Give the {name} of every {noun} except the ones {who} {verb} {things}.",
)
def all_except(ask: Asker) -> Draft:
    """Everyone minus those who have something, as EXCEPT over a join."""
    relation = need(ask.relation(many=True, named_source=True))
    table = relation.source
    left = Query([table], display_sql(table))
    right = Query([table], display_sql(table))
    things = ask.subject(relation.target)
    if len(relation.hops) == 1 and (relation.complete or ask.rng.random() < 0.5):
        position = right.join(relation)
        condition = need(ask.condition(relation.target, share=(0.05, 0.6)))
        right.where.append(condition.sql(position))
        things = things.narrowed(condition.saying)
    else:
        right.follow(relation.hops[:1])
    canonical = f"{left.sql} EXCEPT {right.sql}"
    right.flip(ask.rng)
    words = {
        **ask.subject(table).words,
        "noun": ask.subject(table).noun,
        "lack": relation.verb.negated(),
        "verb": relation.verb.form(),
        "things": things.phrase(),
    }
    sql = f"{left.sql} EXCEPT {right.sql}"
    return Draft(sql, words, differs=(left.sql,), canonical=canonical)


def _shared_column(ask: Asker) -> tuple[WorldTable, WorldTable, WorldColumn, WorldColumn] | None:
    """The same column in two tables, with values in common."""
    tables = [t for t in ask.world.tables.values() if t.spec.nouns]
    found = [
        (a, b, a.columns[key], b.columns[key])
        for a in tables
        for b in tables
        if a is not b
        for key in a.columns
        if key in b.columns
        and a.columns[key].kind == b.columns[key].kind == "category"
        and not a.columns[key].has_nulls
        and not b.columns[key].has_nulls
        and set(a.columns[key].values) & set(b.columns[key].values)
    ]
    return ask.rng.choice(found) if found else None


def _across_tables(ask: Asker, word: str) -> Draft:
    a, b, left, right = need(_shared_column(ask))
    one, other = (Query([t], [at(0, c)]).sql for t, c in ((a, left), (b, right)))
    name = left.spec.words[0]
    words = {
        "columns": plural(name),
        "column": name,
        "one": ask.subject(a).plain,
        "other": ask.subject(b).plain,
    }
    distinct = Query([a], [at(0, left)], distinct=True).sql
    return Draft(f"{one} {word} {other}", words, differs=(distinct,))


@intent(
    "hard",
    "Which {columns} have both {one} and {other}?",
    "Find the {columns} that {one} and {other} have in common.",
    "List every {column} that occurs among the {one} and among the {other}.",
    "What {columns} do the {one} and the {other} share?",
    "Show the {columns} found among the {one} as well as the {other}.",
    "Give the {columns} that appear for both {one} and {other}.",
)
def shared_across(ask: Asker) -> Draft:
    return _across_tables(ask, "INTERSECT")


@intent(
    "hard",
    "Which {columns} have {one} but no {other}?",
    "Find the {columns} of {one} that do not occur among the {other}.",
    "List every {column} found among the {one} but not among the {other}.",
    "What {columns} appear for {one} and never for {other}?",
    "Show the {columns} that have {one} without having any {other}.",
    "Give the {columns} of the {one} that none of the {other} have.",
)
def missing_across(ask: Asker) -> Draft:
    return _across_tables(ask, "EXCEPT")


@intent(
    "hard",
    "Which different {columns} occur among the {one} and the {other} taken together?",
    "List all {columns} that have {one} or {other}, each once.",
    "Find every distinct {column} of the {one} or the {other}.",
    "What are all the different {columns} of {one} and {other} combined?",
    "Show each {column} that appears for {one} or for {other}, without repeats.",
    "Give the {columns} found among the {one}, the {other} or both, without duplicates.",
)
def combined_across(ask: Asker) -> Draft:
    return _across_tables(ask, "UNION")
