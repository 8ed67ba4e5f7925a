"""Questions for the group that comes first or last: most common, highest average."""

from __future__ import annotations

from sql_env.worlds.english import plural
from sql_env.worlds.intents.aggregates import AGGREGATES
from sql_env.worlds.intents.base import Asker, Draft, intent, need
from sql_env.worlds.intents.grouping import grouped_by
from sql_env.worlds.query import Query, at, sort_key
from sql_env.worlds.world import WorldColumn, WorldTable


def _ranked(
    table: WorldTable,
    column: WorldColumn,
    *also: str,
    top: bool,
    by: str = "count(*)",
    limit: int | None = 1,
) -> Query:
    """The groups of a column in the order of a number, the largest first where `top`."""
    key = at(0, column)
    return Query([table], [key, *also], group=[key], order=[sort_key(by, top)], limit=limit)


@intent(
    "hard",
    "What is the {most} {column} among the {np}?",
    "Find the {most} {column} of all {np}.",
    "Which {column} is the {most} one among {np}?",
    "Show the {column} that the {superlative} {np} have.",
    "Which {column} has the {superlative} {np}?",
    "Give the {column} with the {superlative} {np}.",
    "Among the {np}, which {column} occurs {often}?",
)
def most_common(ask: Asker) -> Draft:
    table, column = need(grouped_by(ask))
    top = ask.rng.random() < 0.7
    query = _ranked(table, column, top=top)
    subject = ask.subject(table)
    if ask.rng.random() < 0.25:
        subject, _ = ask.narrowed(
            query, subject, without=(column, *table.display), share=(0.2, 0.8)
        )
    return ask.draft(
        query,
        subject,
        column=ask.one_of(*column.spec.words),
        most="most common" if top else "least common",
        superlative="most" if top else "fewest",
        often="most often" if top else "least often",
    )


@intent(
    "hard",
    "Which {column} has the {superlative} {np}, and how many are there?",
    "Find the {column} with the {superlative} {np} and give their number.",
    "What is the {most} {column} among the {np}, and how often does it occur?",
    "Show the {most} {column} of {np} along with its count.",
    "Give the {column} that has the {superlative} {np} as well as the number of {np} it has.",
    "Return the {most} {column} among {np} and how many {np} share it.",
)
def most_common_with_count(ask: Asker) -> Draft:
    table, column = need(grouped_by(ask))
    top = ask.rng.random() < 0.7
    query = _ranked(table, column, "count(*)", top=top)
    return ask.draft(
        query,
        np=ask.subject(table).plain,
        column=ask.one_of(*column.spec.words),
        most="most common" if top else "least common",
        superlative="most" if top else "fewest",
    )


@intent(
    "extra",
    "List every {column} and its number of {np}, {how}.",
    "How many {np} are there for each {column}? Sort the result {how}.",
    "Show the number of {np} per {column}, {how}.",
    "For each {column}, count the {np}; list them {how}.",
    "Give the {columns} and how many {np} each has, {how}.",
    "What is the number of {np} for each {column}, {how}?",
)
def group_ordered(ask: Asker) -> Draft:
    table, column = need(grouped_by(ask))
    down = ask.rng.random() < 0.6
    query = _ranked(table, column, "count(*)", top=down, limit=None)
    word = ask.one_of(*column.spec.words)
    how = (
        ask.one_of("from the most to the fewest", "with the largest number first")
        if down
        else ask.one_of("from the fewest to the most", "with the smallest number first")
    )
    return ask.draft(query, np=ask.subject(table).plain, column=word, columns=plural(word), how=how)


@intent(
    "hard",
    "Which {column} has the {end} {agg} of {np}?",
    "Find the {column} whose {np} have the {end} {agg}.",
    "What is the {column} with the {end} {agg} of {np}?",
    "Among the {np}, which {column} has the {end} {agg}?",
    "Show the {column} in which the {np} have the {end} {agg}.",
    "Grouping the {np} by {column}, which {column} comes out with the {end} {agg}?",
    "Give the {column} for which the {agg} of the {np} is {end}.",
)
def top_group(ask: Asker) -> Draft:
    table, column = need(grouped_by(ask))
    number = need(ask.column(table, "number", full=True))
    function = "sum" if number.spec.additive and ask.rng.random() < 0.5 else "avg"
    top = ask.rng.random() < 0.65
    query = _ranked(table, column, top=top, by=f"{function}({at(0, number)})")
    return ask.draft(
        query,
        np=ask.subject(table).plain,
        column=ask.one_of(*column.spec.words),
        agg=f"{AGGREGATES[function][0]} {number.spec.words[0]}",
        end="highest" if top else "lowest",
    )
