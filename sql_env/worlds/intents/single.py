"""Questions about one table: listing, filtering, sorting, counting, aggregating."""

from __future__ import annotations

from sql_env.worlds.conditions import Condition
from sql_env.worlds.english import listing, plural
from sql_env.worlds.intents.base import ORDERABLE, Asker, Draft, intent
from sql_env.worlds.query import Query, at
from sql_env.worlds.subjects import called, column_words, display_sql, is_row, names_of

AGGREGATES = {
    "avg": ("average", "mean"),
    "max": ("highest", "maximum", "largest"),
    "min": ("lowest", "minimum", "smallest"),
    "sum": ("total", "combined"),
}


@intent(
    "easy",
    "How many {np} are there?",
    "Count the {np}.",
    "What is the number of {np}?",
    "What is the total number of {np}?",
    "Tell me how many {np} there are.",
    "How many {np} are on record?",
    "Give me a count of all the {np}.",
    "Find out how many {np} are listed.",
)
def count_rows(ask: Asker) -> Draft | None:
    table = ask.table()
    if table is None:
        return None
    return ask.draft(Query([table], ["count(*)"]), np=ask.subject(table).phrase())


@intent(
    "easy",
    "What are the {names} of all the {np}?",
    "List the {names} of all {np}.",
    "Show the {name} of every {one}.",
    "Give me the {names} of all {np}.",
    "I want to see the {names} of every {one} on record.",
    "Find the {name} of each {one}.",
    "Return the {names} of all {np}.",
)
def list_names(ask: Asker) -> Draft | None:
    table = ask.table()
    if table is None:
        return None
    subject = ask.subject(table)
    query = Query([table], display_sql(table))
    return ask.draft(
        query,
        names=names_of(table),
        name=names_of(table, False),
        np=subject.plain,
        one=subject.noun,
    )


@intent(
    "medium",
    "What are the {columns} of all {np}?",
    "For every {one}, give the {column}.",
    "List the {column} of each {one}.",
    "Show me the {columns} of all the {np}.",
    "Return the {columns} of all {np}.",
    "I need the {column} of every {one}.",
    "Make a list of all {np} with their {columns}.",
)
def list_columns(ask: Asker) -> Draft | None:
    table = ask.table(named=True)
    first = ask.column(table, *ORDERABLE, "category", "text") if table else None
    if table is None or first is None:
        return None
    columns = [first]
    second = ask.column(table, *ORDERABLE, "category", without=columns)
    if second is not None and ask.rng.random() < 0.4:
        columns.append(second)
    subject = ask.subject(table)
    words = [column.spec.words[0] for column in columns]
    return ask.draft(
        Query([table], [*display_sql(table), *(at(0, c) for c in columns)]),
        np=subject.plain,
        one=subject.noun,
        columns=listing([names_of(table), *map(plural, words)]),
        column=listing([names_of(table, False), *words]),
    )


@intent(
    "easy",
    "What are the different {columns} of the {np}?",
    "List the distinct {columns} of {np}.",
    "Show every {column} that occurs among the {np}, each once.",
    "Which different {columns} do the {np} have?",
    "Give all the unique {columns} found among the {np}.",
    "Find the distinct {columns} recorded for {np}.",
    "Without repeats, what {columns} appear among the {np}?",
)
def distinct_values(ask: Asker) -> Draft | None:
    table = ask.table(kinds=("category",))
    column = ask.column(table, "category", full=True) if table else None
    if table is None or column is None:
        return None
    word = ask.one_of(*column.spec.words)
    return ask.draft(
        Query([table], [at(0, column)], distinct=True),
        np=ask.subject(table).plain,
        column=word,
        columns=plural(word),
    )


@intent(
    "easy",
    "How many different {columns} do the {np} have?",
    "Count the distinct {columns} of the {np}.",
    "What is the number of different {columns} among the {np}?",
    "How many distinct {columns} are there among the {np}?",
    "Among the {np}, how many different {columns} occur?",
    "Give the number of unique {columns} recorded for {np}.",
)
def count_distinct(ask: Asker) -> Draft | None:
    table = ask.table(kinds=("category",))
    column = ask.column(table, "category") if table else None
    if table is None or column is None:
        return None
    return ask.draft(
        Query([table], [f"count(DISTINCT {at(0, column)})"]),
        np=ask.subject(table).plain,
        columns=plural(ask.one_of(*column.spec.words)),
    )


def _aggregate(ask: Asker, condition_share: float) -> Draft | None:
    table = ask.table(kinds=("number",))
    column = ask.column(table, "number") if table else None
    if table is None or column is None:
        return None
    functions = ["avg", "avg", "max", "min"] + (["sum", "sum"] if column.spec.additive else [])
    function = ask.rng.choice(functions)
    subject = ask.subject(table)
    query = Query([table], [f"{function}({at(0, column)})"])
    differs = []
    if ask.rng.random() < condition_share:
        condition = ask.condition(table, without=(column, *table.display))
        if condition is None:
            return None
        differs.append(query.sql)
        query.where.append(condition.sql())
        subject = subject.narrowed(condition.saying)
    words = column.spec.words[0]
    return ask.draft(
        query,
        differs=differs,
        agg=f"{ask.one_of(*AGGREGATES[function])} {words}",
        np=subject.phrase(),
    )


@intent(
    "easy",
    "What is the {agg} of all {np}?",
    "Find the {agg} of the {np}.",
    "Give the {agg} over all {np}.",
    "Compute the {agg} of all the {np}.",
    "Show me the {agg} among the {np}.",
    "Taking all {np} together, what is the {agg}?",
    "Return the {agg} across all {np}.",
)
def aggregate(ask: Asker) -> Draft | None:
    return _aggregate(ask, 0.0)


@intent(
    "easy",
    "What is the {agg} of the {np}?",
    "Find the {agg} of all {np}.",
    "For {np}, what is the {agg}?",
    "Give the {agg} of {np}.",
    "Looking only at {np}, what is the {agg}?",
    "Compute the {agg} over all {np}.",
    "Report the {agg} of the {np}.",
)
def filtered_aggregate(ask: Asker) -> Draft | None:
    return _aggregate(ask, 1.0)


@intent(
    "medium",
    "What are the {aggs} of the {np}?",
    "Find the {aggs} of all {np}.",
    "Give me the {aggs} of {np}.",
    "Show the {aggs} over all {np}.",
    "Across the {np}, what are the {aggs}?",
    "Compute the {aggs} of the {np}.",
    "I would like to know the {aggs} of {np}.",
)
def several_aggregates(ask: Asker) -> Draft | None:
    table = ask.table(kinds=("number",))
    column = ask.column(table, "number") if table else None
    if table is None or column is None:
        return None
    functions = ask.rng.sample(["avg", "max", "min"], ask.rng.choice((2, 2, 3)))
    query = Query([table], [f"{function}({at(0, column)})" for function in functions])
    subject = ask.subject(table)
    differs = []
    if ask.rng.random() < 0.6:
        condition = ask.condition(table, without=(column, *table.display))
        if condition is None:
            return None
        differs.append(query.sql)
        query.where.append(condition.sql())
        subject = subject.narrowed(condition.saying)
    words = {"avg": "average", "max": "maximum", "min": "minimum"}
    aggs = f"{listing([words[f] for f in functions])} {column.spec.words[0]}"
    return ask.draft(query, differs=differs, aggs=aggs, np=subject.phrase())


@intent(
    "easy",
    "What is the {column} of {one}?",
    "Find the {column} of {one}.",
    "Give me the {column} of {one}.",
    "Look up the {column} of {one}.",
    "Which {column} is recorded for {one}?",
    "Tell me the {column} of {one}.",
    "{own}",
)
def lookup(ask: Asker) -> Draft | None:
    table = ask.table(named=True)
    column = ask.column(table, *ORDERABLE, "category", "text") if table else None
    if table is None or column is None:
        return None
    row = ask.rng.randrange(table.size)
    if column.values[row] is None:
        return None
    query = Query([table], [at(0, column)], where=is_row(table, row))
    one = called(table, row, ask.rng)
    words = {"column": ask.one_of(*column.spec.words), "one": one}
    if column.spec.ask:
        words["own"] = ask.one_of(*column.spec.ask).format(one)
    return ask.draft(query, **words)


@intent(
    "medium",
    "What are the {columns} of {one}?",
    "Give the {columns} of {one}.",
    "Find the {columns} of {one}.",
    "Show me the {columns} of {one}.",
    "I need the {columns} of {one}.",
    "For {one}, what are the {columns}?",
    "Look up the {columns} recorded for {one}.",
)
def lookup_two(ask: Asker) -> Draft | None:
    table = ask.table(named=True)
    first = ask.column(table, *ORDERABLE, "category") if table else None
    if table is None or first is None:
        return None
    second = ask.column(table, *ORDERABLE, "category", "text", without=[first])
    if second is None:
        return None
    row = ask.rng.randrange(table.size)
    if first.values[row] is None or second.values[row] is None:
        return None
    query = Query([table], [at(0, first), at(0, second)], where=is_row(table, row))
    columns = column_words([first, second], ask.rng, many=False)
    return ask.draft(query, columns=columns, one=called(table, row, ask.rng))


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
) -> Draft | None:
    table = ask.table(named=named)
    if table is None:
        return None
    conditions: list[Condition] = []
    for _ in range(2 if several else 1):
        condition = ask.condition(table, forms=forms, without=[c.column for c in conditions])
        if condition is None:
            return None
        conditions.append(condition)
    query = Query([table], display_sql(table))
    differs = [query.sql]
    for condition in conditions:
        if several:
            differs.append(Query([table], display_sql(table), where=[condition.sql()]).sql)
        query.where.append(condition.sql())
    subject = ask.subject(table, *(c.saying for c in conditions))
    clause = conditions[0].saying.clause(table.who)
    words = {
        "names": names_of(table),
        "name": names_of(table, False),
        "np": subject.phrase(),
        "plain": subject.plain,
        "vp": subject.predicate(),
        "one": subject.phrase(many=False),
    }
    if not several:
        words["clause"] = clause
    return ask.draft(query, differs=differs, **words)


@intent("easy", *LIST_PHRASINGS, may_be_empty=True)
def filtered_list(ask: Asker) -> Draft | None:
    return _filtered_list(ask)


@intent("medium", *LIST_PHRASINGS)
def filtered_list_two(ask: Asker) -> Draft | None:
    return _filtered_list(ask, several=True)


@intent("medium", *LIST_PHRASINGS)
def filtered_by_text(ask: Asker) -> Draft | None:
    return _filtered_list(ask, forms=("like", "in_year"), named=True)


@intent("easy", *LIST_PHRASINGS)
def filtered_by_absence(ask: Asker) -> Draft | None:
    return _filtered_list(ask, forms=("null", "not_null"))


@intent("easy", *LIST_PHRASINGS)
def filtered_by_range(ask: Asker) -> Draft | None:
    return _filtered_list(ask, forms=("between", "in"))


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
def filtered_or(ask: Asker) -> Draft | None:
    table = ask.table(named=True)
    if table is None:
        return None
    first = ask.condition(table, share=(0.03, 0.35))
    second = ask.condition(table, share=(0.03, 0.35), without=[first.column]) if first else None
    if first is None or second is None:
        return None
    if "whose" in (first.saying.kind, second.saying.kind):
        return None
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
def filtered_columns(ask: Asker) -> Draft | None:
    table = ask.table(named=True)
    column = ask.column(table, *ORDERABLE, "category", "text") if table else None
    if table is None or column is None:
        return None
    condition = ask.condition(table, without=[column])
    if condition is None:
        return None
    query = Query([table], [*display_sql(table), at(0, column)])
    differs = [query.sql]
    query.where.append(condition.sql())
    subject = ask.subject(table, condition.saying)
    word = ask.one_of(*column.spec.words)
    return ask.draft(
        query,
        differs=differs,
        names=names_of(table),
        name=names_of(table, False),
        columns=plural(word),
        column=word,
        np=subject.phrase(),
        one=subject.phrase(many=False),
        plain=subject.plain,
        vp=subject.predicate(),
    )


COUNT_PHRASINGS = (
    "How many {plain} {vp}?",
    "How many {np} are there?",
    "Count the {np}.",
    "What is the number of {np}?",
    "Find the number of {np}.",
    "Tell me how many {plain} {vp}.",
    "Give the total number of {np}.",
    "In total, how many {plain} {vp}?",
)


def _filtered_count(ask: Asker, number: int) -> Draft | None:
    table = ask.table()
    if table is None:
        return None
    conditions: list[Condition] = []
    for _ in range(number):
        condition = ask.condition(table, without=[c.column for c in conditions])
        if condition is None:
            return None
        conditions.append(condition)
    query = Query([table], ["count(*)"], where=[c.sql() for c in conditions])
    differs = [Query([table], ["count(*)"], where=[c.sql()]).sql for c in conditions]
    subject = ask.subject(table, *(c.saying for c in conditions))
    return ask.draft(
        query,
        differs=differs if number > 1 else (),
        np=subject.phrase(),
        plain=subject.plain,
        vp=subject.predicate(),
    )


@intent("easy", *COUNT_PHRASINGS)
def filtered_count(ask: Asker) -> Draft | None:
    return _filtered_count(ask, 1)


@intent("medium", *COUNT_PHRASINGS, may_be_empty=True)
def filtered_count_two(ask: Asker) -> Draft | None:
    return _filtered_count(ask, 2)


@intent(
    "easy",
    "What are the different {columns} of {np}?",
    "List the distinct {columns} of the {np}.",
    "Which different {columns} occur among {np}?",
    "Find all distinct {columns} of {np}.",
    "Show the different {columns} found among {np}, each one once.",
    "Give the unique {columns} of all {np}.",
)
def distinct_filtered(ask: Asker) -> Draft | None:
    table = ask.table(kinds=("category",))
    column = ask.column(table, "category", full=True) if table else None
    if table is None or column is None:
        return None
    condition = ask.condition(table, without=(column, *table.display))
    if condition is None:
        return None
    query = Query([table], [at(0, column)], distinct=True)
    differs = [query.sql]
    query.where.append(condition.sql())
    return ask.draft(
        query,
        differs=differs,
        columns=plural(ask.one_of(*column.spec.words)),
        np=ask.subject(table, condition.saying).phrase(),
    )
