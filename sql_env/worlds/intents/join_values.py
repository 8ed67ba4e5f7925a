"""Questions for values across a join: of the parent, of pairs, aggregates, extremes, order."""

from __future__ import annotations

from sql_env.worlds.english import plural
from sql_env.worlds.intents.aggregates import said_aggregate
from sql_env.worlds.intents.base import (
    ORDERABLE,
    Asker,
    Draft,
    NotOffered,
    direction_words,
    intent,
    need,
    superlative,
)
from sql_env.worlds.intents.joins import related
from sql_env.worlds.query import Query, at, sort_key
from sql_env.worlds.subjects import (
    called,
    display_sql,
    is_row,
    names_of,
    partner_of,
    partner_of_each,
)


@intent(
    "medium",
    "What is the {column} of the {parent}?",
    "Find the {column} of the {parent}.",
    "Look up the {column} of the {parent}.",
    "Give the {column} of the {parent}.",
    "Show me the {column} of the {parent}.",
    "Tell me the {column} of the {parent}.",
    "I need to know the {column} of the {parent}.",
)
def join_parent_value(ask: Asker) -> Draft:
    relation = need(ask.relation(many=False, named_source=True))
    target = relation.target
    column = need(ask.column(target, *ORDERABLE, "category", "name", "text"))
    row = ask.rng.randrange(relation.source.size)
    query = Query([relation.source])
    position = query.join(relation)
    query.select = [at(position, column)]
    query.where = is_row(relation.source, row)
    return ask.draft(
        query,
        column=ask.one_of(*column.spec.words),
        parent=partner_of(
            relation, ask.subject(target).noun, called(relation.source, row, ask.rng)
        ),
    )


@intent(
    "medium",
    "What are the {names} of the {np}, and the {their} of the {parents}?",
    "List the {name} of each {one} together with the {its} of the {parent}.",
    "For every {one}, show the {name} and the {its} of the {parent}.",
    "Give the {names} of all {np} along with the {their} of the {parents}.",
    "Show the {name} of each {one} next to the {its} of the {parent}.",
    "Return the {names} of {np} and the {their} of the {parents}.",
    "Pair the {name} of every {one} with the {its} of the {parent}.",
)
def join_pairs(ask: Asker) -> Draft:
    relation = need(ask.relation(many=False, complete=True))
    table, target = relation.source, relation.target
    column = need(ask.column(target, "name", "category", *ORDERABLE, full=True))
    query = Query([table])
    position = query.join(relation)
    query.select = [*display_sql(table), at(position, column)]
    subject = ask.subject(table)
    if table.size > 20 or ask.rng.random() < 0.4:
        subject, _ = ask.narrowed(query, subject)
    parent = ask.subject(target).noun
    word = ask.one_of(*column.spec.words)
    return ask.draft(
        query,
        subject,
        their=plural(word),
        its=word,
        parent=partner_of_each(relation, parent, many=False),
        parents=partner_of_each(relation, plural(parent), many=True),
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
def join_aggregate(ask: Asker) -> Draft:
    relation = need(ask.relation(many=False))
    table = relation.source
    column = need(ask.column(table, "number"))
    function = ask.rng.choice(["avg", "max", "min"] + ["sum", "sum"] * column.spec.additive)
    query = Query([table], [f"{function}({at(0, column)})"])
    position = query.join(relation)
    bare = query.sql
    saying = need(related(ask, relation, query, position))
    return ask.draft(
        query,
        differs=[bare],
        agg=said_aggregate(ask, function, column),
        np=ask.subject(table, saying).phrase(),
    )


@intent(
    "hard",
    "What is the {column} of the {parent} {who} {verb} the {one}?",
    "Find the {column} of the {parent} {who} {verb} the {one}.",
    "Give the {column} of the {parent} {who} {verb} the {one}.",
    "Show the {column} of the {parent} {who} {verb} the {one}.",
    "Tell me the {column} of the {parent} {who} {verb} the {one}.",
    "I want to know the {column} of the {parent} {who} {verb} the {one}.",
)
def join_superlative(ask: Asker) -> Draft:
    relation = need(ask.relation(many=True, hops=1))
    child = relation.target
    ranked = ask.column(child, *ORDERABLE, full=True)
    column = need(ask.column(relation.source, "name", "category", *ORDERABLE, full=True))
    if ranked is None:
        raise NotOffered
    top = ask.rng.random() < 0.65
    query = Query([relation.source], [at(0, column)], limit=1)
    position = query.join(relation)
    query.order = [sort_key(at(position, ranked), top)]
    words = {
        "column": ask.one_of(*column.spec.words),
        "parent": ask.subject(relation.source).noun,
        "who": relation.source.who,
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
    "Sort the {np} {how}, then give their {names}.",
)
def join_ordered(ask: Asker) -> Draft:
    relation = need(ask.relation(many=False))
    table = relation.source
    column = need(ask.column(table, *ORDERABLE, full=True))
    down = ask.rng.random() < 0.5
    query = Query([table], display_sql(table), order=[sort_key(at(0, column), down)])
    position = query.join(relation)
    saying = need(related(ask, relation, query, position))
    return ask.draft(query, ask.subject(table, saying), how=direction_words(column, down))


@intent(
    "extra",
    "What is the {name} of the {one} among the {np}?",
    "Among the {np}, find the {name} of the {one}.",
    "Of all {np}, which is the {one}? Give the {name}.",
    "Consider the {np}. What is the {name} of the {one}?",
    "Show the {name} of the {one} among all {np}.",
    "Looking only at {np}, give the {name} of the {one}.",
)
def superlative_among(ask: Asker) -> Draft:
    """The first of those that have to do with something else."""
    relation = need(ask.relation(many=False))
    column = need(ask.column(relation.source, *ORDERABLE, full=True))
    table = relation.source
    top = ask.rng.random() < 0.65
    query = Query([table], display_sql(table), limit=1)
    query.order = [sort_key(at(0, column), top)]
    position = query.join(relation)
    bare = query.sql
    saying = need(related(ask, relation, query, position))
    subject = ask.subject(table)
    return ask.draft(
        query,
        differs=[bare],
        name=names_of(table, False),
        np=subject.narrowed(saying).phrase(),
        one=superlative(column, subject, top),
    )


@intent(
    "medium",
    "Count the {np} by the {column} of the {parent}.",
    "For each {noun} {column}, show the number of {np}.",
    "Group the {np} by the {column} of the {parent} and count each group.",
    "Give the number of {np} for each {noun} {column}.",
    "Break the {np} down by the {column} of the {parent}: how many are in each group?",
    "How many {np} are there for each {noun} {column}?",
)
def join_category_count(ask: Asker) -> Draft:
    relation = need(ask.relation(many=False, hops=1))
    column = need(ask.column(relation.target, "category", full=True))
    query = Query([relation.source])
    position = query.join(relation)
    query.select = [at(position, column), "count(*)"]
    query.group = [at(position, column)]
    parent = ask.subject(relation.target).noun
    return ask.draft(
        query,
        column=ask.one_of(*column.spec.words),
        noun=parent,
        parent=partner_of_each(relation, parent, many=True),
        np=ask.subject(relation.source).plain,
    )


@intent(
    "medium",
    "How many different {parents} {back} {np}?",
    "Count the distinct {parents} that {back} {np}.",
    "What is the number of different {parents} that {back} {np}?",
    "Find how many distinct {parents} {back} {np}.",
    "Give the number of different {parents} which {back} {np}.",
    "Tell me how many different {parents} {back} {np}.",
)
def join_count_distinct(ask: Asker) -> Draft:
    relation = need(ask.relation(many=False, hops=1))
    if not relation.back.spec:
        raise NotOffered
    condition = need(ask.condition(relation.source, share=(0.1, 0.7)))
    ref = relation.hops[0].left_column
    query = Query([relation.source], [f"count(DISTINCT {at(0, ref)})"], where=[condition.sql()])
    return ask.draft(
        query,
        parents=ask.subject(relation.target).plain,
        back=relation.back.form(),
        np=ask.subject(relation.source, condition.saying).phrase(),
    )
