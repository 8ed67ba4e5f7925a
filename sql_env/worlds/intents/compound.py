"""Two thoughts in one question, for existing databases: a number over those that lack something,
the first of those that meet a condition, more than what the first has."""

from __future__ import annotations

from sql_env.worlds.english import Saying, number_word, plural, with_article
from sql_env.worlds.intents.aggregates import AGGREGATES
from sql_env.worlds.intents.base import ORDERABLE, Asker, Draft, superlative
from sql_env.worlds.intents.existing import existing_intent
from sql_env.worlds.intents.filtering import COUNT_PHRASINGS, count_words
from sql_env.worlds.intents.nested import NAMES_PHRASINGS, names_words
from sql_env.worlds.intents.ordering import SUPERLATIVE_PHRASINGS, superlative_of
from sql_env.worlds.query import Query, at
from sql_env.worlds.subjects import display_sql, names_of
from sql_env.worlds.world import Relation, WorldColumn, WorldTable

_AGGREGATE_PHRASINGS = (
    "What is the {agg} of the {np}?",
    "Find the {agg} of all {np}.",
    "Give the {agg} of {np}.",
    "For {np}, what is the {agg}?",
    "Show me the {agg} of the {np}.",
    "Return the {agg} of all the {np}.",
)


# -- a number over those that have something, or lack it -------------------------------------


def _aggregated(ask: Asker, table: WorldTable) -> tuple[Query, str] | None:
    """One number over a table, and its words."""
    column = ask.column(table, "number")
    if column is None:
        return None
    function = ask.rng.choice(["avg", "avg", "max", "min"] + ["sum"] * 2 * column.spec.additive)
    words = f"{ask.one_of(*AGGREGATES[function])} {column.spec.words[0]}"
    return Query([table], [f"{function}({at(0, column)})"]), words


def _refers_always(relation: Relation) -> bool:
    """Whether the target has no row that refers to nothing: NOT IN is never true with a NULL."""
    hop = relation.hops[0]
    refs = [ref for ref in hop.right.references if ref.name == hop.right_column]
    return bool(refs) and None not in refs[0].values


def _aggregate_over(ask: Asker, *, having: bool, such: bool) -> Draft | None:
    """A number over those that have a target, or have none; perhaps one with a property."""
    relation = ask.relation(many=True, hops=1)
    if relation is None or (relation.complete and not such):
        return None
    found = _aggregated(ask, relation.source)
    condition = ask.condition(relation.target, share=(0.05, 0.6)) if such else None
    if found is None or (such and condition is None) or not (having or _refers_always(relation)):
        return None
    query, words = found
    differs = [query.sql]
    things = ask.subject(relation.target, *([condition.saying] if condition else []))
    inner = Query([relation.target], [at(0, relation.hops[0].right_column)])
    if condition:
        inner.where = [condition.sql()]
    word = "IN" if having else "NOT IN"
    query.where = [f"{at(0, relation.source.key_name)} {word} ({inner.sql})"]
    whole = ask.subject(relation.source)
    if having:
        saying = Saying("verb", f"{relation.verb.spec} at least one {things.phrase(many=False)}")
        np = whole.narrowed(saying).phrase()
    else:
        lacking = f"{relation.source.who} {relation.verb.negated()} any {things.phrase()}"
        np = f"{whole.plain} {lacking}"
    return ask.draft(query, differs=differs, agg=words, np=np)


@existing_intent("hard", *_AGGREGATE_PHRASINGS)
def aggregate_with_any(ask: Asker) -> Draft | None:
    return _aggregate_over(ask, having=True, such=False)


@existing_intent("hard", *_AGGREGATE_PHRASINGS)
def aggregate_with_such(ask: Asker) -> Draft | None:
    return _aggregate_over(ask, having=True, such=True)


@existing_intent("extra", *_AGGREGATE_PHRASINGS)
def aggregate_without_any(ask: Asker) -> Draft | None:
    return _aggregate_over(ask, having=False, such=False)


@existing_intent("extra", *_AGGREGATE_PHRASINGS)
def aggregate_without_such(ask: Asker) -> Draft | None:
    return _aggregate_over(ask, having=False, such=True)


@existing_intent(
    "medium",
    "What are the {first} and the {second} of the {np}?",
    "Find the {first} and the {second} of all {np}.",
    "Give the {first} and {second} of {np}.",
    "For {np}, what are the {first} and the {second}?",
    "Show the {first} together with the {second} of the {np}.",
    "Return the {first} and the {second} of the {np}.",
)
def filtered_two_aggregates(ask: Asker) -> Draft | None:
    table = ask.table(kinds=("number",))
    first = _aggregated(ask, table) if table else None
    second = _aggregated(ask, table) if table else None
    if table is None or first is None or second is None or first[0].sql == second[0].sql:
        return None
    query = first[0]
    query.select += second[0].select
    condition = ask.condition(table, without=table.display)
    if condition is None or condition.column.name in "".join(query.select):
        return None
    differs = [query.sql]
    query.where = [condition.sql()]
    np = ask.subject(table, condition.saying).phrase()
    return ask.draft(query, differs=differs, first=first[1], second=second[1], np=np)


# -- the first of some -----------------------------------------------------------------------


@existing_intent("hard", *SUPERLATIVE_PHRASINGS)
def superlative_filtered_columns(ask: Asker) -> Draft | None:
    return superlative_of(ask, conditioned=True, extra_column=True)


@existing_intent(
    "medium",
    "What are the {names} and {columns} of the {n} {many}?",
    "List the {names} and {columns} of the {n} {many}.",
    "Find the {n} {many} and give their {names} and {columns}.",
    "Show the {names} and the {columns} of the {n} {many}.",
    "Return the {names} and {columns} for the {n} {many}.",
    "Give the {names} and {columns} of the {n} {many}.",
)
def top_columns(ask: Asker) -> Draft | None:
    table = ask.table(named=True, kinds=ORDERABLE)
    key = ask.column(table, *ORDERABLE, full=True) if table else None
    if table is None or key is None:
        return None
    # As often as not people want to see what was sorted by.
    other = key if ask.rng.random() < 0.5 else ask.column(table, *ORDERABLE, "category")
    count = ask.rng.choice((2, 3, 3, 4, 5))
    if other is None or table.size < 2 * count:
        return None
    top = ask.rng.random() < 0.65
    query = Query([table], [*display_sql(table), at(0, other)], limit=count)
    query.order = [at(0, key) + (" DESC" if top else "")]
    return ask.draft(
        query,
        names=names_of(table),
        columns=plural(other.spec.words[0]),
        n=ask.one_of(str(count), number_word(count)),
        many=superlative(key, ask.subject(table), top, many=True),
    )


def _first(ask: Asker, table: WorldTable, select: str) -> tuple[Query, WorldColumn, bool] | None:
    """The query for one value of the first row in something."""
    key = ask.column(table, *ORDERABLE, full=True)
    if key is None or select == at(0, key):
        return None
    top = ask.rng.random() < 0.65
    order = [at(0, key) + (" DESC" if top else "")]
    return Query([table], [select], order=order, limit=1), key, top


@existing_intent("hard", *COUNT_PHRASINGS)
def count_of_the_extreme(ask: Asker) -> Draft | None:
    """How many have to do with the one that is first in something."""
    relation = ask.relation(many=False, hops=1)
    found = _first(ask, relation.target, at(0, relation.target.key_name)) if relation else None
    if relation is None or found is None:
        return None
    inner, key, top = found
    query = Query([relation.source], ["count(*)"])
    query.where = [f"{at(0, relation.hops[0].left_column)} = ({inner.sql})"]
    first = superlative(key, ask.subject(relation.target), top)
    saying = Saying("verb", f"{relation.verb.spec} the {first}")
    words = count_words(ask.subject(relation.source, saying))
    return Draft(query.sql, words, (), ask.draft(inner).ties, 1)


def _more_than(column: WorldColumn, up: bool, other: str) -> Saying:
    """`be older than the cheapest dog`, `have a higher price than the oldest dog`."""
    own = column.spec.over if up else column.spec.under
    if own.startswith("be ") and column.spec.unit == "{}":
        return Saying.parse(own, other)
    if column.spec.counted:
        return Saying("have", f"{'more' if up else 'fewer'} {column.spec.counted} than {other}")
    more = with_article(f"{'higher' if up else 'lower'} {column.spec.words[0]}")
    return Saying("have", f"{more} than {other}")


def _beyond_the_first(ask: Asker, counted: bool) -> Draft | None:
    """Those that have more of something than the one that is first in something else."""
    table = ask.table(kinds=("number",))
    column = ask.column(table, "number", full=True) if table else None
    found = _first(ask, table, at(0, column)) if table and column else None
    if table is None or column is None or found is None:
        return None
    inner, key, top = found
    up = ask.rng.random() < 0.6
    query = Query([table], ["count(*)"] if counted else display_sql(table))
    query.where = [f"{at(0, column)} {'>' if up else '<'} ({inner.sql})"]
    saying = _more_than(column, up, f"the {superlative(key, ask.subject(table), top)}")
    words = count_words(ask.subject(table, saying)) if counted else names_words(ask, table, saying)
    return Draft(query.sql, words, (), ask.draft(inner).ties, 1)


@existing_intent("hard", *COUNT_PHRASINGS)
def count_beyond_the_first(ask: Asker) -> Draft | None:
    return _beyond_the_first(ask, counted=True)


@existing_intent("hard", *NAMES_PHRASINGS)
def beyond_the_first(ask: Asker) -> Draft | None:
    return _beyond_the_first(ask, counted=False)
