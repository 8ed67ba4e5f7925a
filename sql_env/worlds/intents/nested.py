"""Questions that need a query inside a query: averages, absences, comparisons, the same as."""

from __future__ import annotations

from sql_env.worlds.english import Saying, with_article
from sql_env.worlds.intents.base import (
    ORDERABLE,
    Asker,
    Draft,
    NotOffered,
    add_intent,
    intent,
    need,
    superlative,
)
from sql_env.worlds.intents.filtering import COUNT_PHRASINGS
from sql_env.worlds.query import Query, at, sort_key
from sql_env.worlds.subjects import called, display_sql, is_row
from sql_env.worlds.world import WorldColumn, WorldTable

NAMES_PHRASINGS = (
    "What are the {names} of the {np}?",
    "List the {names} of all {np}.",
    "Which {plain} {vp}? Give their {names}.",
    "Find the {names} of {np}.",
    "Show the {names} of {np}.",
    "Give me the {names} of the {np}.",
    "Return the {name} of every {one}.",
)


def _average_saying(column: WorldColumn, up: bool, ask: Asker) -> Saying:
    words = column.spec.words[0]
    if column.spec.counted:
        more = "more" if up else "fewer"
        return Saying("have", f"{more} {column.spec.counted} than average")
    side = "above-average" if up else "below-average"
    options = [
        Saying("have", with_article(f"{side} {words}")),
        Saying(
            "whose",
            f"{words} is {'above' if up else 'below'} the average",
            with_article(f"{words} {'above' if up else 'below'} the average"),
        ),
    ]
    own = column.spec.over if up else column.spec.under
    if own.startswith("be "):
        options.append(Saying.parse(own, "the average"))
    return ask.rng.choice(options)


def _above_average(ask: Asker, counted: bool = False) -> Draft:
    table = need(ask.table(kinds=("number",)))
    column = need(ask.column(table, "number"))
    up = ask.rng.random() < 0.6
    inner = Query([table], [f"avg({at(0, column)})"])
    query = Query([table], ["count(*)"] if counted else display_sql(table))
    query.where = [f"{at(0, column)} {'>' if up else '<'} ({inner.sql})"]
    return ask.draft(query, ask.subject(table, _average_saying(column, up, ask)))


add_intent("above_average", "hard", NAMES_PHRASINGS, _above_average)
add_intent("count_above_average", "hard", COUNT_PHRASINGS, _above_average, counted=True)


@intent(
    "hard",
    "Which {np} have the {end} {column} of all? Give their {names}.",
    "Find the {names} of the {np} whose {column} is the {end} of all.",
    "List the {name} of every {one} that has the {end} {column}.",
    "What are the {names} of the {np} with the {end} {column} on record, ties included?",
    "Show the {name} of each {one} whose {column} equals the {end} one on record.",
    "Give the {names} of all {np} that share the {end} {column}.",
)
def equal_extreme(ask: Asker) -> Draft:
    table = need(ask.table(kinds=ORDERABLE))
    column = need(ask.column(table, *ORDERABLE))
    # "the highest height" is no English: columns with a superlative of their own are left out.
    if column.spec.most:
        raise NotOffered
    top = ask.rng.random() < 0.6
    inner = Query([table], [f"{'max' if top else 'min'}({at(0, column)})"])
    query = Query([table], display_sql(table), where=[f"{at(0, column)} = ({inner.sql})"])
    subject = ask.subject(table)
    dated = column.kind in ("date", "year")
    ends = ("latest", "earliest") if dated else ("highest", "lowest")
    end = ends[0] if top else ends[1]
    return ask.draft(query, subject, column=column.spec.words[0], end=end)


@intent(
    "hard",
    "Which {plain} have {a_column} {above} that of every {other}? Give their {names}.",
    "Find the {names} of the {plain} whose {column} is {above} that of all {others}.",
    "List the {names} of {plain} whose {column} is {above} that of any {other}.",
    "What are the {names} of the {plain} with {a_column} {above} the {column} of every {other}?",
    "Show the {names} of those {plain} whose {column} is {above} the {end} {column} among"
    " {others}.",
    "Give the {names} of all {plain} whose {column} lies {above} that of every single {other}.",
)
def beyond_all(ask: Asker) -> Draft:
    return _beyond(ask, every=True)


@intent(
    "hard",
    "Which {plain} have {a_column} {above} that of at least one {other}? Give their {names}.",
    "Find the {names} of the {plain} whose {column} is {above} that of some {other}.",
    "List the {names} of {plain} whose {column} is {above} that of at least one {other}.",
    "What are the {names} of the {plain} with {a_column} {above} the {column} of at least one"
    " {other}?",
    "Show the {names} of those {plain} whose {column} is {above} the {end} {column} among"
    " {others}.",
    "Give the {names} of all {plain} whose {column} beats that of at least one {other}.",
)
def beyond_some(ask: Asker) -> Draft:
    return _beyond(ask, every=False)


def _beyond(ask: Asker, every: bool) -> Draft:
    table = need(ask.table(kinds=("number",)))
    column = need(ask.column(table, "number", full=True))
    condition = need(ask.condition(table, without=(column, *table.display), share=(0.05, 0.6)))
    up = ask.rng.random() < 0.65 or not every
    function = "max" if up == every else "min"
    inner = Query([table], [f"{function}({at(0, column)})"], where=[condition.sql()])
    query = Query([table], display_sql(table))
    differs = [query.sql]
    query.where = [f"{at(0, column)} {'>' if up else '<'} ({inner.sql})"]
    subject = ask.subject(table)
    others = subject.narrowed(condition.saying)
    return ask.draft(
        query,
        subject,
        differs=differs,
        column=column.spec.words[0],
        a_column=with_article(column.spec.words[0]),
        above="above" if up else "below",
        other=others.phrase(many=False),
        others=others.phrase(),
        end="highest" if function == "max" else "lowest",
    )


def of_the_first(ask: Asker) -> tuple[WorldTable, str, Saying, str] | None:
    """Rows whose parent is first in something: their table, the condition, its words, the ties."""
    relation = ask.relation(many=False, hops=1)
    if relation is None:
        return None
    target = relation.target
    column = ask.column(target, *ORDERABLE, full=True)
    if column is None:
        return None
    top = ask.rng.random() < 0.65
    inner = Query(
        [target],
        [at(0, target.key_name)],
        order=[sort_key(at(0, column), top)],
        limit=1,
    )
    condition = f"{at(0, relation.hops[0].left_column)} = ({inner.sql})"
    ties = ask.draft(inner).ties
    saying = Saying(
        "verb", f"{relation.verb.spec} the {superlative(column, ask.subject(target), top)}"
    )
    return relation.source, condition, saying, ties


@intent("hard", *NAMES_PHRASINGS)
def of_the_extreme(ask: Asker) -> Draft:
    """The children of the parent that is first in something."""
    table, condition, saying, ties = need(of_the_first(ask))
    query = Query([table], display_sql(table), where=[condition])
    return Draft(query.sql, ask.subject(table, saying).words, (), ties, 1)


@intent(
    "extra",
    "Which other {np} have the same {column} as {one}? Give their {names}.",
    "Find the {names} of the {np} that have the same {column} as {one}, leaving out {one}.",
    "List the {names} of all other {np} with the same {column} as {one}.",
    "What are the {names} of the other {np} that share the {column} of {one}?",
    "Apart from {one}, which {np} have the same {column}? Show their {names}.",
    "Give the {name} of every other {noun} whose {column} is the same as that of {one}.",
)
def same_as(ask: Asker) -> Draft:
    table = need(ask.table(named=True, kinds=("category",)))
    column = need(ask.column(table, "category", full=True))
    if len(table.display) != 1:
        raise NotOffered
    row = ask.rng.randrange(table.size)
    inner = Query([table], [at(0, column)], where=is_row(table, row))
    query = Query([table], display_sql(table), where=[f"{at(0, column)} = ({inner.sql})"])
    query.where += [part.replace(" = ", " != ", 1) for part in is_row(table, row)]
    subject = ask.subject(table)
    return ask.draft(
        query,
        subject,
        column=ask.one_of(*column.spec.words),
        one=called(table, row, ask.rng),
    )


@intent(
    "hard",
    "How many {things} {asked} on average?",
    "What is the average number of {things} per {one}, counting only {np} {who} {verb} any?",
    "On average, how many {things} {verb_np} {who} {verb} at least one?",
    "Find the average number of {things} for each {one} that {verbs} any.",
    "Counting only {np} with at least one, what is the mean number of {things} per {one}?",
    "Give the average count of {things} per {one}, leaving out {np} without any.",
)
def average_count(ask: Asker) -> Draft:
    relation = need(ask.relation(many=True, hops=1))
    hop = relation.hops[0]
    inner = Query([hop.right], ["count(*) AS n"], group=[at(0, hop.right_column)])
    if None in next(r.values for r in hop.right.references if r.name == hop.right_column):
        raise NotOffered
    subject = ask.subject(relation.source)
    words = {
        **subject.words,
        "things": ask.subject(relation.target).plain,
        "verb": relation.verb.form(),
        "verbs": relation.verb.form(many=False),
        "verb_np": f"are there for {subject.plain}",
    }
    if relation.complete:
        words["asked"] = relation.verb.asked(f"each {subject.noun}")
    return Draft(f"SELECT avg(n) FROM ({inner.sql})", words)
