"""Questions about order and extremes in one table."""

from __future__ import annotations

from sql_env.worlds.english import number_word, plural
from sql_env.worlds.intents.base import (
    ORDERABLE,
    Asker,
    Draft,
    NotOffered,
    add_intent,
    direction_words,
    need,
    superlative,
)
from sql_env.worlds.query import Query, at, sort_key
from sql_env.worlds.subjects import display_sql, names_of

ORDERED_PHRASINGS = (
    "List the {names} of all {np} {how}.",
    "What are the {names} of the {np}, {sorted}?",
    "Show the {names} of {np} {how}.",
    "Give me the {names} of all {np}, {sorted}.",
    "Sort the {np} {how}, then list their {names}.",
    "Return the {names} of the {np}, {sorted}.",
    "I want the {names} of all {np}, arranged {how}.",
)


def _ordered(ask: Asker, conditioned: bool = False, extra_column: bool = False) -> Draft:
    table = need(ask.table(kinds=ORDERABLE))
    column = need(ask.column(table, *ORDERABLE, full=True))
    down = ask.rng.random() < 0.5
    query = Query([table], display_sql(table), order=[sort_key(at(0, column), down)])
    names = names_of(table)
    if extra_column:
        query.select.append(at(0, column))
        names = f"{names} and {plural(column.spec.words[0])}"
    subject = ask.subject(table)
    differs: list[str] = []
    if conditioned:
        subject, differs = ask.narrowed(query, subject, without=[column])
    how = direction_words(column, down)
    return ask.draft(
        query,
        subject,
        differs=differs,
        names=names,
        how=how,
        sorted=f"{ask.one_of('sorted', 'ordered')} {how}",
    )


add_intent("ordered_list", "easy", ORDERED_PHRASINGS, _ordered)
add_intent("ordered_filtered", "medium", ORDERED_PHRASINGS, _ordered, conditioned=True)
add_intent("ordered_columns", "medium", ORDERED_PHRASINGS, _ordered, extra_column=True)


SUPERLATIVE_PHRASINGS = (
    "What {is_are} the {name} of the {one}?",
    "Find the {name} of the {one}.",
    "Give me the {name} of the {one}.",
    "Who is the {person}?",
    "Show the {name} of the {one}.",
    "I would like to know the {name} of the {one}.",
    "Tell me the {name} of the {one}.",
    "Return the {name} of the {one}.",
)


def superlative_of(ask: Asker, conditioned: bool = False, extra_column: bool = False) -> Draft:
    """The first row in something, perhaps among some, perhaps with one more of its columns."""
    table = need(ask.table(kinds=ORDERABLE))
    column = need(ask.column(table, *ORDERABLE, full=True))
    top = ask.rng.random() < 0.6
    query = Query([table], display_sql(table), order=[sort_key(at(0, column), top)], limit=1)
    name = names_of(table, False)
    other = None
    if extra_column:
        other = need(ask.column(table, *ORDERABLE, "category", without=[column]))
        query.select.append(at(0, other))
        name = f"{name} and {ask.one_of(*other.spec.words)}"
    subject = ask.subject(table)
    differs: list[str] = []
    if conditioned:
        told = (column, *table.display, *([other] if other else []))
        subject, differs = ask.narrowed(query, subject, without=told, share=(0.06, 0.7))
    one = superlative(column, subject, top)
    words = {"name": name, "one": one, "is_are": "are" if extra_column else "is"}
    if table.spec.person and table.display and not extra_column:
        words["person"] = one
    return ask.draft(query, differs=differs, **words)


add_intent("superlative_row", "medium", SUPERLATIVE_PHRASINGS, superlative_of)
add_intent(
    "superlative_columns", "medium", SUPERLATIVE_PHRASINGS, superlative_of, extra_column=True
)
add_intent("superlative_filtered", "hard", SUPERLATIVE_PHRASINGS, superlative_of, conditioned=True)


TOP_PHRASINGS = (
    "What are the {names} of the {n} {many}?",
    "List the {names} of the {n} {many}.",
    "Find the {n} {many} and give their {names}.",
    "Show me the {names} of the {n} {many}.",
    "Return the {names} of the {n} {many}.",
    "Give the {names} of the {n} {many}.",
    "I am looking for the {names} of the {n} {many}.",
)


def top_of(ask: Asker, extra_column: bool = False) -> Draft:
    """The first few rows in something, perhaps with one more of their columns."""
    table = need(ask.table(kinds=ORDERABLE))
    column = need(ask.column(table, *ORDERABLE, full=True))
    top = ask.rng.random() < 0.6
    n = ask.rng.choice((2, 3, 3, 4, 5))
    if table.size < 2 * n:
        raise NotOffered
    query = Query([table], display_sql(table), order=[sort_key(at(0, column), top)], limit=n)
    names = names_of(table)
    if extra_column:
        # As often as not people want to see what was sorted by.
        other = need(ask.rng.choice([column, ask.column(table, *ORDERABLE, "category")]))
        query.select.append(at(0, other))
        names = f"{names} and {plural(other.spec.words[0])}"
    number = ask.one_of(str(n), number_word(n))
    subject = ask.subject(table)
    return ask.draft(
        query, names=names, n=number, many=superlative(column, subject, top, many=True)
    )


add_intent("top_rows", "medium", TOP_PHRASINGS, top_of)
