"""Questions that join two to four tables."""

from __future__ import annotations

from sql_env.worlds.building import Relation
from sql_env.worlds.english import Saying, plural, with_article
from sql_env.worlds.intents.base import (
    ORDERABLE,
    Asker,
    Draft,
    direction_words,
    intent,
    superlative,
)
from sql_env.worlds.intents.single import AGGREGATES, COUNT_PHRASINGS
from sql_env.worlds.query import Query, at
from sql_env.worlds.subjects import called, display_sql, is_row, names_of


def _related(
    ask: Asker, relation: Relation, query: Query, position: int, by_name: float = 0.5
) -> Saying | None:
    """Narrow a query through the table at `position`, by one named row or by a property.

    Returns what the sources do: `work|works in the Cardiology department`.
    """
    target = relation.target
    if target.display and ask.rng.random() < by_name:
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


def _join_list(ask: Asker, relation: Relation | None, own_condition: bool) -> Draft | None:
    if relation is None:
        return None
    table = relation.source
    query = Query([table], display_sql(table), distinct=relation.many)
    position = query.join(relation)
    bare = query.sql
    saying = _related(ask, relation, query, position)
    if saying is None:
        return None
    differs = [bare]
    subject = ask.subject(table, saying)
    if own_condition:
        condition = ask.condition(table, share=(0.1, 0.7))
        if condition is None:
            return None
        differs.append(query.sql)
        query.where.append(condition.sql())
        subject = ask.subject(table, condition.saying, saying)
    return ask.draft(
        query,
        differs=differs,
        names=names_of(table),
        np=subject.phrase(),
        plain=subject.plain,
        who=table.who,
        vp=subject.predicate(),
    )


@intent("medium", *JOIN_LIST_PHRASINGS)
def join_list(ask: Asker) -> Draft | None:
    return _join_list(ask, ask.relation(hops=1), own_condition=False)


@intent("medium", *JOIN_LIST_PHRASINGS)
def join_list_two(ask: Asker) -> Draft | None:
    return _join_list(ask, ask.relation(hops=1), own_condition=True)


@intent("hard", *JOIN_LIST_PHRASINGS)
def link_list(ask: Asker) -> Draft | None:
    return _join_list(ask, ask.relation(hops=2), own_condition=False)


@intent("extra", *JOIN_LIST_PHRASINGS)
def link_list_two(ask: Asker) -> Draft | None:
    return _join_list(ask, ask.relation(hops=2), own_condition=True)


def _join_count(ask: Asker, relation: Relation | None) -> Draft | None:
    if relation is None:
        return None
    table = relation.source
    count = f"count(DISTINCT {at(0, table.key_name)})" if relation.many else "count(*)"
    query = Query([table], [count])
    position = query.join(relation)
    saying = _related(ask, relation, query, position, by_name=0.6)
    if saying is None:
        return None
    # Each source meets one named target once, so there is nothing to make distinct.
    if len(query.where) == len(relation.target.display) and relation.distinct_pairs:
        named = relation.target.display and query.where[0].startswith(
            at(position, relation.target.display[0])
        )
        if named:
            query.select = ["count(*)"]
    subject = ask.subject(table, saying)
    return ask.draft(query, np=subject.phrase(), plain=subject.plain, vp=subject.predicate())


@intent("medium", *COUNT_PHRASINGS)
def join_count(ask: Asker) -> Draft | None:
    return _join_count(ask, ask.relation(hops=1))


@intent("hard", *COUNT_PHRASINGS)
def link_count(ask: Asker) -> Draft | None:
    return _join_count(ask, ask.relation(hops=2))


@intent(
    "medium",
    "What is the {column} of the {parent} that {one} {verb}?",
    "Find the {column} of the {parent} that {one} {verb}.",
    "Look up the {column} of the {parent} that {one} {verb}.",
    "Give the {column} of the {parent} {one} {verb}.",
    "Show me the {column} of the {parent} which {one} {verb}.",
    "Tell me the {column} of the {parent} that {one} {verb}.",
    "I need the {column} of the {parent} that {one} {verb}.",
)
def join_parent_value(ask: Asker) -> Draft | None:
    relation = ask.relation(many=False, named_source=True)
    if relation is None:
        return None
    target = relation.target
    column = ask.column(target, *ORDERABLE, "category", "name", "text")
    if column is None:
        return None
    row = ask.rng.randrange(relation.source.size)
    query = Query([relation.source])
    position = query.join(relation)
    query.select = [at(position, column)]
    query.where = is_row(relation.source, row)
    return ask.draft(
        query,
        column=ask.one_of(*column.spec.words),
        parent=ask.subject(target).noun,
        one=called(relation.source, row, ask.rng),
        verb=relation.verb.form(many=False),
    )


@intent(
    "medium",
    "What are the {names} of the {np}, and the {their} of the {parents} they {verb}?",
    "List the {name} of each {one} together with the {its} of the {parent} {it_verbs}.",
    "For every {one}, show the {name} and the {its} of the {parent} {it_verbs}.",
    "Give the {names} of all {np} along with the {their} of the {parents} they {verb}.",
    "Show the {name} of each {one} next to the {its} of the {parent} {it_verbs}.",
    "Return the {names} of {np} and the {their} of the {parents} that they {verb}.",
    "Pair the {name} of every {one} with the {its} of the {parent} {it_verbs}.",
)
def join_pairs(ask: Asker) -> Draft | None:
    relation = ask.relation(many=False, complete=True)
    if relation is None:
        return None
    table, target = relation.source, relation.target
    column = ask.column(target, "name", "category", *ORDERABLE, full=True)
    if column is None:
        return None
    query = Query([table])
    position = query.join(relation)
    query.select = [*display_sql(table), at(position, column)]
    subject = ask.subject(table)
    if table.size > 20 or ask.rng.random() < 0.4:
        condition = ask.condition(table)
        if condition is None:
            return None
        query.where.append(condition.sql())
        subject = subject.narrowed(condition.saying)
    parent = ask.subject(target).noun
    word = ask.one_of(*column.spec.words)
    # A person of unknown gender is "they", with the verb to match.
    person = table.spec.person
    return ask.draft(
        query,
        names=names_of(table),
        name=names_of(table, False),
        np=subject.phrase(),
        one=subject.phrase(many=False),
        their=plural(word),
        its=word,
        parent=parent,
        parents=plural(parent),
        verb=relation.verb.form(),
        it_verbs=f"{'they' if person else 'it'} {relation.verb.form(many=person)}",
    )


@intent(
    "medium",
    "What is the {agg} of the {np}?",
    "Find the {agg} of all {np}.",
    "Compute the {agg} of {np}.",
    "For {np}, what is the {agg}?",
    "Give me the {agg} of all the {np}.",
    "Report the {agg} over all {np}.",
    "Considering only {np}, what is the {agg}?",
)
def join_aggregate(ask: Asker) -> Draft | None:
    relation = ask.relation(many=False)
    if relation is None:
        return None
    table = relation.source
    column = ask.column(table, "number")
    if column is None:
        return None
    function = ask.rng.choice(["avg", "max", "min"] + ["sum", "sum"] * column.spec.additive)
    query = Query([table], [f"{function}({at(0, column)})"])
    position = query.join(relation)
    bare = query.sql
    saying = _related(ask, relation, query, position)
    if saying is None:
        return None
    return ask.draft(
        query,
        differs=[bare],
        agg=f"{ask.one_of(*AGGREGATES[function])} {column.spec.words[0]}",
        np=ask.subject(table, saying).phrase(),
    )


@intent("extra", *JOIN_LIST_PHRASINGS)
def chain_list(ask: Asker) -> Draft | None:
    """Through one table to the next: three or four tables."""
    first = ask.relation()
    second = ask.relation(source=first.target) if first else None
    if first is None or second is None or second.target is first.source:
        return None
    if len(first.hops) + len(second.hops) > 3:
        return None
    tables = [first.source, *(hop.right for hop in (*first.hops, *second.hops))]
    if len({table.name for table in tables}) < len(tables):
        return None
    table = first.source
    query = Query([table], display_sql(table), distinct=first.many or second.many)
    middle = query.join(first)
    far = query.join(second, middle)
    bare = query.sql
    saying = _related(ask, second, query, far)
    if saying is None:
        return None
    between = ask.subject(first.target, saying)
    some = between.phrase() if first.many else with_article(between.phrase(many=False))
    subject = ask.subject(table, Saying("verb", f"{first.verb.spec} {some}"))
    return ask.draft(
        query,
        differs=[bare],
        names=names_of(table),
        np=subject.phrase(),
        plain=subject.plain,
        who=table.who,
        vp=subject.predicate(),
    )


@intent(
    "hard",
    "What is the {column} of the {parent} that {verb} the {one}?",
    "Find the {column} of the {parent} that {verb} the {one}.",
    "Give the {column} of the {parent} which {verb} the {one}.",
    "Show the {column} of the {parent} that {verb} the {one}.",
    "Tell me the {column} of the {parent} that {verb} the {one}.",
    "I want to know the {column} of the {parent} that {verb} the {one}.",
)
def join_superlative(ask: Asker) -> Draft | None:
    relation = ask.relation(many=True, hops=1)
    if relation is None:
        return None
    child = relation.target
    ranked = ask.column(child, *ORDERABLE, full=True)
    column = ask.column(relation.source, "name", "category", *ORDERABLE, full=True)
    if ranked is None or column is None:
        return None
    top = ask.rng.random() < 0.65
    query = Query([relation.source], [at(0, column)], limit=1)
    position = query.join(relation)
    query.order = [at(position, ranked) + (" DESC" if top else "")]
    words = {
        "column": ask.one_of(*column.spec.words),
        "parent": ask.subject(relation.source).noun,
        "verb": relation.verb.form(many=False),
        "one": superlative(ranked, ask.subject(child), top),
    }
    return ask.draft(query, **words)


@intent(
    "medium",
    "List the {names} of all {np} {how}.",
    "Show the {names} of the {np} {how}.",
    "What are the {names} of the {np}, sorted {how}?",
    "Give the {names} of {np}, ordered {how}.",
    "Return the {names} of all {np}, sorted {how}.",
    "Sort the {np} {how} and give their {names}.",
)
def join_ordered(ask: Asker) -> Draft | None:
    relation = ask.relation(many=False)
    if relation is None:
        return None
    table = relation.source
    column = ask.column(table, *ORDERABLE, full=True)
    if column is None:
        return None
    down = ask.rng.random() < 0.5
    query = Query([table], display_sql(table), order=[at(0, column) + (" DESC" if down else "")])
    position = query.join(relation)
    saying = _related(ask, relation, query, position)
    if saying is None:
        return None
    return ask.draft(
        query,
        names=names_of(table),
        np=ask.subject(table, saying).phrase(),
        how=direction_words(column, down),
    )
