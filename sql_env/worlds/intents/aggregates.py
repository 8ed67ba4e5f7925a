"""Questions for one number over a table: averages, totals, extremes."""

from __future__ import annotations

from sql_env.worlds.english import listing
from sql_env.worlds.intents.base import Asker, Draft, intent, need
from sql_env.worlds.query import Query, at
from sql_env.worlds.world import WorldColumn

AGGREGATES = {
    "avg": ("average", "mean"),
    "max": ("highest", "maximum"),
    "min": ("lowest", "minimum"),
    "sum": ("total",),
}


def aggregate_of(ask: Asker, column: WorldColumn) -> str:
    """A function that makes sense of a column; averages and totals are asked for most."""
    sums = ["sum", "sum"] if column.spec.additive else []
    return ask.rng.choice(["avg", "avg", "max", "min", *sums])


def said_aggregate(ask: Asker, function: str, column: WorldColumn) -> str:
    """`average salary`, `highest age`."""
    return f"{ask.one_of(*AGGREGATES[function])} {column.spec.words[0]}"


def _aggregate(ask: Asker, condition_share: float) -> Draft:
    table = need(ask.table(kinds=("number",)))
    column = need(ask.column(table, "number"))
    function = aggregate_of(ask, column)
    subject = ask.subject(table)
    query = Query([table], [f"{function}({at(0, column)})"])
    differs: list[str] = []
    if ask.rng.random() < condition_share:
        subject, differs = ask.narrowed(query, subject, without=(column, *table.display))
    agg = said_aggregate(ask, function, column)
    return ask.draft(query, subject, differs=differs, agg=agg)


@intent(
    "easy",
    "What is the {agg} of all {np}?",
    "Find the {agg} of the {np}.",
    "Give the {agg} over all {np}.",
    "Compute the {agg} of all the {np}.",
    "Show me the {agg} of the {np}.",
    "Taking all {np} together, what is the {agg}?",
    "Return the {agg} across all {np}.",
)
def aggregate(ask: Asker) -> Draft:
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
def filtered_aggregate(ask: Asker) -> Draft:
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
def several_aggregates(ask: Asker) -> Draft:
    table = need(ask.table(kinds=("number",)))
    column = need(ask.column(table, "number"))
    functions = ask.rng.sample(["avg", "max", "min"], ask.rng.choice((2, 2, 3)))
    query = Query([table], [f"{function}({at(0, column)})" for function in functions])
    subject = ask.subject(table)
    differs: list[str] = []
    if ask.rng.random() < 0.6:
        subject, differs = ask.narrowed(query, subject, without=(column, *table.display))
    words = {"avg": "average", "max": "maximum", "min": "minimum"}
    aggs = f"{listing([words[f] for f in functions])} {column.spec.words[0]}"
    return ask.draft(query, subject, differs=differs, aggs=aggs)


@intent(
    "medium",
    "What are the average {first} and the average {second} of the {np}?",
    "Find the average {first} and {second} of all {np}.",
    "Give the mean {first} and the mean {second} of {np}.",
    "Show the average {first} together with the average {second} of the {np}.",
    "Compute the average {first} and the average {second} over all {np}.",
    "On average, what are the {first} and the {second} of the {np}?",
)
def two_averages(ask: Asker) -> Draft:
    table = need(ask.table(kinds=("number",)))
    first = need(ask.column(table, "number"))
    second = need(ask.column(table, "number", without=[first]))
    query = Query([table], [f"avg({at(0, first)})", f"avg({at(0, second)})"])
    subject = ask.subject(table)
    differs: list[str] = []
    if ask.rng.random() < 0.5:
        subject, differs = ask.narrowed(query, subject, without=(first, second, *table.display))
    return ask.draft(
        query,
        subject,
        differs=differs,
        first=first.spec.words[0],
        second=second.spec.words[0],
    )
