"""Questions that list, count or look up in one table, without conditions."""

from __future__ import annotations

from sql_env.worlds.english import listing, plural
from sql_env.worlds.intents.base import ORDERABLE, Asker, Draft, NotOffered, intent, need
from sql_env.worlds.query import Query, at, literal, sort_key
from sql_env.worlds.subjects import called, column_words, display_sql, is_row, names_of


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
def count_rows(ask: Asker) -> Draft:
    table = need(ask.table())
    return ask.draft(Query([table], ["count(*)"]), np=ask.subject(table).phrase())


@intent(
    "easy",
    "What are the {names} of all the {np}?",
    "List the {names} of all {np}.",
    "Show the {name} of every {one}.",
    "Give me the {names} of all {np}.",
    "I want to see the {name} of every {one} on record.",
    "Find the {name} of each {one}.",
    "Return the {names} of all {np}.",
)
def list_names(ask: Asker) -> Draft:
    table = need(ask.table())
    return ask.draft(Query([table], display_sql(table)), ask.subject(table))


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
def list_columns(ask: Asker) -> Draft:
    table = need(ask.table(named=True))
    first = need(ask.column(table, *ORDERABLE, "category", "text"))
    columns = [first]
    second = ask.column(table, *ORDERABLE, "category", without=columns)
    if second is not None and ask.rng.random() < 0.4:
        columns.append(second)
    subject = ask.subject(table)
    words = [column.spec.words[0] for column in columns]
    return ask.draft(
        Query([table], [*display_sql(table), *(at(0, c) for c in columns)]),
        subject,
        columns=listing([names_of(table), *map(plural, words)]),
        column=listing([names_of(table, False), *words]),
    )


@intent(
    "easy",
    "What are the different {columns} of the {np}?",
    "List the distinct {columns} of {np}.",
    "Show every {column} that occurs among the {np}, each once.",
    "Which different {columns} are found among the {np}?",
    "Give all the unique {columns} found among the {np}.",
    "Find the distinct {columns} recorded for {np}.",
    "Without repeats, what {columns} appear among the {np}?",
)
def distinct_values(ask: Asker) -> Draft:
    table = need(ask.table(kinds=("category",)))
    column = need(ask.column(table, "category", full=True))
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
def count_distinct(ask: Asker) -> Draft:
    table = need(ask.table(kinds=("category",)))
    column = need(ask.column(table, "category"))
    return ask.draft(
        Query([table], [f"count(DISTINCT {at(0, column)})"]),
        np=ask.subject(table).plain,
        columns=plural(ask.one_of(*column.spec.words)),
    )


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
def lookup(ask: Asker) -> Draft:
    table = need(ask.table(named=True))
    column = need(ask.column(table, *ORDERABLE, "category", "text"))
    row = ask.rng.randrange(table.size)
    if column.values[row] is None:
        raise NotOffered
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
def lookup_two(ask: Asker) -> Draft:
    table = need(ask.table(named=True))
    first = need(ask.column(table, *ORDERABLE, "category"))
    second = need(ask.column(table, *ORDERABLE, "category", "text", without=[first]))
    row = ask.rng.randrange(table.size)
    if first.values[row] is None or second.values[row] is None:
        raise NotOffered
    query = Query([table], [at(0, first), at(0, second)], where=is_row(table, row))
    columns = column_words([first, second], ask.rng, many=False)
    return ask.draft(query, columns=columns, one=called(table, row, ask.rng))


@intent(
    "easy",
    "What is the {column} of the {noun} with {id} {key}?",
    "Give the {column} of the {noun} with {id} {key}.",
    "Find the {column} of the {noun} whose {id} is {key}.",
    "I am looking at the {noun} with {id} {key}. What is the {column}?",
    "Which {column} does the {noun} with {id} {key} have?",
    "Show the {column} recorded for the {noun} with {id} {key}.",
    "Tell me the {column} of {noun} number {number}.",
)
def lookup_by_key(ask: Asker) -> Draft:
    table = need(ask.table())
    column = need(ask.column(table, *ORDERABLE, "category", "name"))
    row = ask.rng.randrange(table.size)
    if column.values[row] is None:
        raise NotOffered
    key = table.keys[row]
    query = Query([table], [at(0, column)], where=[f"{at(0, table.key_name)} = {literal(key)}"])
    words = {
        "column": ask.one_of(*column.spec.words),
        "noun": ask.subject(table).noun,
        "id": table.key_words,
        "key": str(key),
    }
    if isinstance(key, int):
        words["number"] = str(key)
    return ask.draft(query, **words)


@intent(
    "easy",
    "List the {names} of all {np} in {order} order.",
    "What are the {names} of the {np} in {order} order?",
    "Show the {names} of all {np}, sorted in {order} order.",
    "Give me the {name} of every {one}, in {order} order.",
    "In {order} order, what are the {names} of the {np}?",
    "Return the {names} of all {np}, ordered {orderly}.",
)
def alphabetical(ask: Asker) -> Draft:
    table = need(ask.table(named=True))
    if len(table.display) != 1:
        raise NotOffered
    down = ask.rng.random() < 0.35
    (column,) = table.display
    query = Query([table], [at(0, column)], order=[sort_key(at(0, column), down)])
    subject = ask.subject(table)
    differs: list[str] = []
    if ask.rng.random() < 0.5:
        subject, differs = ask.narrowed(query, subject, without=[column])
    return ask.draft(
        query,
        subject,
        differs=differs,
        order="reverse alphabetical" if down else "alphabetical",
        orderly="from Z to A" if down else "from A to Z",
    )


@intent(
    "easy",
    "Show all the information about the {np}.",
    "Give all details of the {np}.",
    "What is everything on record about the {np}?",
    "List every column for the {np}.",
    "Find the complete records of the {np}.",
    "Return all the data there is on the {np}.",
)
def all_details(ask: Asker) -> Draft:
    table = need(ask.table())
    condition = need(ask.condition(table, share=(0.01, 0.25)))
    query = Query([table], ["*"], where=[condition.sql()])
    return ask.draft(query, np=ask.subject(table, condition.saying).phrase())
