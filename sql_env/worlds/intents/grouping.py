"""Questions that group the rows of one table, all of them or the first: the most common value."""

from __future__ import annotations

from sql_env.worlds.english import number_word, plural
from sql_env.worlds.intents.aggregates import AGGREGATES, said_aggregate
from sql_env.worlds.intents.base import Asker, Draft, NotOffered, intent, need
from sql_env.worlds.query import Query, at, literal, sort_key
from sql_env.worlds.speaking import threshold
from sql_env.worlds.world import WorldColumn, WorldTable


def grouped_by(ask: Asker, least: int = 2) -> tuple[WorldTable, WorldColumn] | None:
    """A table and a column worth grouping by: complete, with groups of several rows."""
    table = ask.table(kinds=("category", "year"))
    column = ask.column(table, "category", full=True) if table else None
    if table is None or column is None:
        return None
    return (table, column) if len(set(column.values)) >= least else None


def _counts(column: WorldColumn) -> list[int]:
    return sorted(column.values.count(value) for value in dict.fromkeys(column.values))


@intent(
    "medium",
    "How many {np} are there for each {column}?",
    "For each {column}, how many {np} are there?",
    "Show the number of {np} per {column}.",
    "Count the {np} by {column}.",
    "List every {column} together with its number of {np}.",
    "What is the number of {np} for each {column}?",
    "Give each {column} and how many {np} it has.",
    "Break the {np} down by {column}: how many are there of each?",
)
def group_count(ask: Asker) -> Draft:
    table, column = need(grouped_by(ask))
    select = [at(0, column), "count(*)"]
    if ask.rng.random() < 0.3:
        select.reverse()
    query = Query([table], select, group=[at(0, column)])
    return ask.draft(query, np=ask.subject(table).plain, column=ask.one_of(*column.spec.words))


@intent(
    "medium",
    "What is the {agg} of the {np} for each {column}?",
    "For each {column}, find the {agg} of its {np}.",
    "Show the {agg} of {np} per {column}.",
    "Group the {np} by {column} and give the {agg} of each group.",
    "List every {column} with the {agg} of its {np}.",
    "Give me each {column} and the {agg} of the {np} in it.",
    "By {column}, what is the {agg} of the {np}?",
)
def group_aggregate(ask: Asker) -> Draft:
    table, column = need(grouped_by(ask))
    number = need(ask.column(table, "number", full=True))
    function = ask.rng.choice(["avg", "max", "min"] + ["sum"] * number.spec.additive)
    query = Query([table], [at(0, column), f"{function}({at(0, number)})"], group=[at(0, column)])
    return ask.draft(
        query,
        np=ask.subject(table).plain,
        column=ask.one_of(*column.spec.words),
        agg=said_aggregate(ask, function, number),
    )


@intent(
    "medium",
    "For each {column}, what are the {first} and {second} {number} of the {np}?",
    "Show the {first} and {second} {number} of {np} for every {column}.",
    "List each {column} with the {first} and the {second} {number} of its {np}.",
    "What are the {first} and {second} {number} of the {np} per {column}?",
    "Group the {np} by {column}; what are the {first} and {second} {number} in each group?",
    "Give the {column} and the {first} and {second} {number} of its {np}.",
)
def group_two_aggregates(ask: Asker) -> Draft:
    table, column = need(grouped_by(ask))
    number = need(ask.column(table, "number", full=True))
    words = {"avg": "average", "max": "maximum", "min": "minimum"}
    first, second = ask.rng.sample(sorted(words), 2)
    query = Query(
        [table],
        [at(0, column), f"{first}({at(0, number)})", f"{second}({at(0, number)})"],
        group=[at(0, column)],
    )
    return ask.draft(
        query,
        np=ask.subject(table).plain,
        column=ask.one_of(*column.spec.words),
        number=number.spec.words[0],
        first=words[first],
        second=words[second],
    )


def bound_on_count(ask: Asker, counts: list[int]) -> tuple[str, str, int] | None:
    """A condition on a count that some groups meet and some do not: SQL, words, the number."""
    kinds = []
    for n in range(1, max(counts)):
        over = sum(count > n for count in counts)
        if 0 < over < len(counts):
            kinds.append((f">= {n + 1}", f"at least {number_word(n + 1)}", n + 1))
            if n > 1:
                kinds.append((f"> {n}", f"more than {number_word(n)}", n))
            if n + 1 > 2:
                kinds.append((f"< {n + 1}", f"fewer than {number_word(n + 1)}", n + 1))
        if n > 1 and n in counts:
            kinds.append((f"= {n}", f"exactly {number_word(n)}", n))
    return ask.rng.choice(kinds) if kinds else None


@intent(
    "easy",
    "Which {columns} have {bound} {np}?",
    "List the {columns} shared by {bound} {np}.",
    "Find the {columns} that have {bound} {np}.",
    "Show every {column} with {bound} {np}.",
    "What are the {columns} with {bound} {np}?",
    "Give the {columns} for which there are {bound} {np}.",
    "For which {columns} are {bound} {np} recorded?",
)
def group_having(ask: Asker) -> Draft:
    table, column = need(grouped_by(ask, least=3))
    bound = need(bound_on_count(ask, _counts(column)))
    if bound[2] == 1:
        raise NotOffered
    query = Query([table], [at(0, column)], group=[at(0, column)], having=[f"count(*) {bound[0]}"])
    subject = ask.subject(table)
    # With a condition on the rows, "fewer than" would have to count groups that are gone.
    if bound[0][0] == ">" and ask.rng.random() < 0.3:
        without = (column, *table.display)
        subject, _ = ask.narrowed(query, subject, without=without, share=(0.3, 0.9))
    word = ask.one_of(*column.spec.words)
    return ask.draft(query, subject, column=word, columns=plural(word), bound=bound[1])


@intent(
    "easy",
    "Which {columns} have {np} with an average {number} {above} {value}?",
    "Find the {columns} whose {np} have an average {number} {above} {value}.",
    "List the {columns} where the average {number} of the {np} is {above} {value}.",
    "For which {columns} is the average {number} of {np} {above} {value}?",
    "Show every {column} in which the {np} have an average {number} {above} {value}.",
    "Give the {columns} whose {np} average {above} {value} in {number}.",
    "What are the {columns} for which the mean {number} of the {np} is {above} {value}?",
)
def group_having_average(ask: Asker) -> Draft:
    table, column = need(grouped_by(ask, least=3))
    number = need(ask.column(table, "number", full=True))
    value = threshold(number, ask.rng, 0.4, 0.65)
    up = ask.rng.random() < 0.6
    query = Query(
        [table],
        [at(0, column)],
        group=[at(0, column)],
        having=[f"avg({at(0, number)}) {'>' if up else '<'} {literal(value)}"],
    )
    differs = [Query([table], [at(0, column)], group=[at(0, column)]).sql]
    word = ask.one_of(*column.spec.words)
    return ask.draft(
        query,
        differs=differs,
        np=ask.subject(table).plain,
        column=word,
        columns=plural(word),
        number=number.spec.words[0],
        above="above" if up else "below",
        value=number.spec.unit.format(f"{value:,}"),
    )


@intent(
    "medium",
    "For each {column}, how many {plain} {vp}?",
    "Count the {np} for each {column}.",
    "How many {np} are there per {column}?",
    "Show each {column} with the number of {np}.",
    "Looking only at {np}, how many are there for each {column}?",
    "Give the number of {np} by {column}.",
    "List the {columns} of {np} and how many there are of each.",
)
def group_filtered(ask: Asker) -> Draft:
    table, column = need(grouped_by(ask))
    condition = need(ask.condition(table, without=(column, *table.display), share=(0.2, 0.8)))
    query = Query(
        [table], [at(0, column), "count(*)"], where=[condition.sql()], group=[at(0, column)]
    )
    subject = ask.subject(table, condition.saying)
    word = ask.one_of(*column.spec.words)
    return ask.draft(query, subject, column=word, columns=plural(word))


@intent(
    "easy",
    "How many {columns} have {bound} {np}?",
    "Count the {columns} that have {bound} {np}.",
    "What is the number of {columns} with {bound} {np}?",
    "Find how many {columns} are shared by {bound} {np}.",
    "For how many {columns} are there {bound} {np}?",
    "Tell me how many {columns} have {bound} {np}.",
)
def count_groups(ask: Asker) -> Draft:
    table, column = need(grouped_by(ask, least=4))
    bound = need(bound_on_count(ask, _counts(column)))
    inner = Query([table], [at(0, column)], group=[at(0, column)], having=[f"count(*) {bound[0]}"])
    word = ask.one_of(*column.spec.words)
    return Draft(
        f"SELECT count(*) FROM ({inner.sql})",
        {"np": ask.subject(table).plain, "columns": plural(word), "bound": bound[1]},
    )


# -- the group that comes first or last --------------------------------------------------------


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
