"""Questions that count or aggregate the rows of one table for each row of another."""

from __future__ import annotations

from sql_env.worlds.english import number_word
from sql_env.worlds.intents.aggregates import AGGREGATES
from sql_env.worlds.intents.base import Asker, Draft, NotOffered, intent, need
from sql_env.worlds.intents.grouping import bound_on_count
from sql_env.worlds.query import Query, at, literal, sort_key
from sql_env.worlds.speaking import threshold
from sql_env.worlds.subjects import display_sql, names_of, partners
from sql_env.worlds.world import Relation


def _counted(relation: Relation) -> dict[int, int]:
    counts = dict.fromkeys(relation.source.keys, 0)
    for source, _ in relation.pairs:
        counts[source] += 1
    return counts


def _grouping(relation: Relation, last: bool = True) -> tuple[Query, int]:
    """The sources with their targets, one group per source.

    Counting needs no more than the table that refers to the source; `last` goes on to the target.
    """
    query = Query([relation.source], display_sql(relation.source))
    hops = relation.hops if last else relation.hops[:1]
    position = query.follow(hops)
    query.group = [at(0, relation.source.key_name)]
    return query, position


def _things(ask: Asker, relation: Relation) -> dict[str, str]:
    """The targets as the sources' own: `its doctors`, `the flights they have operated`."""
    things = ask.subject(relation.target).plain
    return {
        "things": things,
        "its": partners(relation, things, many=False),
        "their": partners(relation, things, many=True),
        "whom": "whom" if relation.source.spec.person else "which",
    }


def _countable(ask: Asker, complete: bool = False) -> Relation | None:
    relation = ask.relation(many=True, named_source=True, complete=complete)
    if relation is None or not relation.distinct_pairs:
        return None
    return relation


@intent(
    "medium",
    "How many {things} {asked}? List the {names} and the counts.",
    "For each {one}, show the {name} and the number of {its_own}.",
    "List the {name} of every {one} with the number of {its_own}.",
    "Show how many {things} {each_verbs}, with the {name} of the {one}.",
    "What are the {names} of the {np}, and what is the number of {their_own}?",
    "Give the {name} of each {one} and the number of {its_own}.",
    "For every {one}, count {its}; show the {name} and the count.",
)
def join_group_count(ask: Asker) -> Draft:
    relation = need(_countable(ask, complete=True))
    query, _ = _grouping(relation, last=False)
    query.select.append("count(*)")
    subject = ask.subject(relation.source)
    words = _things(ask, relation) | {
        "names": names_of(relation.source),
        "name": names_of(relation.source, False),
        "one": subject.noun,
        "np": subject.plain,
    }
    words["its_own"] = words["its"].removeprefix("the ")
    words["their_own"] = words["their"].removeprefix("the ")
    if not relation.verb.is_passive:
        words["asked"] = relation.verb.asked(f"each {subject.noun}")
        words["each_verbs"] = f"each {subject.noun} {relation.verb.form(many=False)}"
    return ask.draft(query, **words)


@intent(
    "medium",
    "For each {one}, what is the {agg} of {its}? Show the {name} too.",
    "Show the {name} of every {one} and the {agg} of {its}.",
    "List the {names} of the {np} with the {agg} of {their}.",
    "For every {one}, report the {name} and the {agg} of {its}.",
    "Give the {name} of each {one} and the {agg} of {its}.",
    "Return the {names} of all {np} together with the {agg} of {their}.",
)
def join_group_aggregate(ask: Asker) -> Draft:
    relation = need(ask.relation(many=True, hops=1, named_source=True, complete=True))
    column = need(ask.column(relation.target, "number", full=True))
    function = ask.rng.choice(["avg", "max", "min"] + ["sum"] * column.spec.additive)
    query, position = _grouping(relation)
    query.select.append(f"{function}({at(position, column)})")
    subject = ask.subject(relation.source)
    return ask.draft(
        query,
        subject,
        **_things(ask, relation),
        agg=f"{AGGREGATES[function][0]} {column.spec.words[0]}",
    )


@intent(
    "medium",
    "Which {np} {verb} {bound} {things}? Give their {names}.",
    "What are the {names} of the {np} {who} {verb} {bound} {things}?",
    "List the {names} of all {np} {who} {verb} {bound} {things}.",
    "Find the {names} of {np} {who} {verb} {bound} {things}.",
    "Show the {name} of every {one} {who} {verbs} {bound} {things}.",
    "Give me the {names} of those {np} {who} {verb} {bound} {things}.",
    "Return the {names} of the {np} {who} {verb} {bound} {things}.",
)
def join_having(ask: Asker) -> Draft:
    relation = need(_countable(ask))
    counts = _counted(relation)
    bound = need(bound_on_count(ask, [count for count in counts.values() if count]))
    if bound[0][0] == "<" and 0 in counts.values():
        raise NotOffered
    query, _ = _grouping(relation, last=False)
    query.having = [f"count(*) {bound[0]}"]
    subject = ask.subject(relation.source)
    return ask.draft(
        query,
        subject,
        verb=relation.verb.form(),
        verbs=relation.verb.form(many=False),
        bound=bound[1],
        things=ask.subject(relation.target).plain,
    )


@intent(
    "extra",
    "Which {one} {verbs} the {most} {things}? Give the {name}.",
    "What {is_are} the {name} of the {one} {who} {verbs} the {most} {things}?",
    "Find the {name} of the {one} {who} {verbs} the {most} {things}.",
    "Show the {name} of the {one} {who} {verbs} the {most} {things}.",
    "Give me the {name} of the {one} {who} {verbs} the {most} {things}.",
    "Of all {np}, which one {verbs} the {most} {things}? Return the {name}.",
    "I would like the {name} of the {one} {who} {verbs} the {most} {things}.",
)
def join_most(ask: Asker) -> Draft:
    relation = need(_countable(ask))
    top = ask.rng.random() < 0.75 or not relation.complete
    query, position = _grouping(relation, last=False)
    things = ask.subject(relation.target)
    if len(relation.hops) == 1 and ask.rng.random() < 0.25 and top:
        condition = need(ask.condition(relation.target, share=(0.2, 0.8)))
        query.where.append(condition.sql(position))
        things = things.narrowed(condition.saying)
    query.order = [sort_key("count(*)", top)]
    query.limit = 1
    subject = ask.subject(relation.source)
    name, is_are = names_of(relation.source, False), "is"
    if ask.rng.random() < 0.25:
        query.select.append("count(*)")
        name += f" and the number of {things.plain}"
        is_are = "are"
    return ask.draft(
        query,
        subject,
        one=subject.noun,
        who=relation.source.who,
        verbs=relation.verb.form(many=False),
        most="most" if top else "fewest",
        things=things.phrase(),
        name=name,
        is_are=is_are,
    )


@intent(
    "extra",
    "What are the {names} of the {n} {np} {who} {verb} the most {things}?",
    "List the {names} of the {n} {np} {who} {verb} the most {things}.",
    "Find the {n} {np} {who} {verb} the most {things} and give their {names}.",
    "Show the {names} of the {n} {np} with the most {things}.",
    "Give the {names} of the top {n} {np} by number of {things}.",
    "Ranked by the number of {their_own}, which {np} are the top {n}? Give their {names}.",
)
def join_top(ask: Asker) -> Draft:
    relation = need(_countable(ask))
    n = ask.rng.choice((2, 3, 3, 5))
    query, _ = _grouping(relation, last=False)
    query.order, query.limit = ["count(*) DESC"], n
    words = {
        "n": ask.one_of(str(n), number_word(n)),
        "names": names_of(relation.source),
        "np": ask.subject(relation.source).plain,
        "who": relation.source.who,
        "verb": relation.verb.form(),
        **_things(ask, relation),
    }
    words["their_own"] = words["their"].removeprefix("the ")
    return ask.draft(query, **words)


@intent(
    "extra",
    "For which {one} is the {agg} of {its} the {end}? Give the {name}.",
    "Find the {name} of the {one} whose {things} have the {end} {agg}.",
    "What is the {name} of the {one} for {whom} the {agg} of {its} is {end}?",
    "Compare the {np} by the {agg} of {their}: which one comes {first}? Return the {name}.",
    "Show the {name} of the {one} whose {things} have the {end} {agg} of all.",
    "Rank the {np} by the {agg} of {their} and give the {name} of the one that comes {first}.",
)
def join_top_aggregate(ask: Asker) -> Draft:
    relation = need(ask.relation(many=True, hops=1, named_source=True))
    column = need(ask.column(relation.target, "number", full=True))
    function = "sum" if column.spec.additive and ask.rng.random() < 0.5 else "avg"
    top = ask.rng.random() < 0.7 or not relation.complete
    query, position = _grouping(relation)
    query.order = [sort_key(f"{function}({at(position, column)})", top)]
    query.limit = 1
    subject = ask.subject(relation.source)
    return ask.draft(
        query,
        subject,
        **_things(ask, relation),
        agg=f"{AGGREGATES[function][0]} {column.spec.words[0]}",
        end="highest" if top else "lowest",
        first="first" if top else "last",
    )


@intent(
    "medium",
    "For which {np} is the average {number} of {their} {above} {value}? Give the {names}.",
    "Find the {names} of {np} whose {things} have an average {number} {above} {value}.",
    "List the {names} of the {np} for {whom} the average {number} of {their} is {above} {value}.",
    "Show the {name} of every {one} whose {things} have an average {number} {above} {value}.",
    "What are the {names} of the {np} whose {things} have a mean {number} {above} {value}?",
    "Give the {names} of all {np} for {whom} the mean {number} of {their} is {above} {value}.",
)
def join_having_average(ask: Asker) -> Draft:
    relation = need(ask.relation(many=True, hops=1, named_source=True))
    column = need(ask.column(relation.target, "number", full=True))
    value = threshold(column, ask.rng, 0.35, 0.7)
    up = ask.rng.random() < 0.6
    query, position = _grouping(relation)
    differs = [query.sql]
    query.having = [f"avg({at(position, column)}) {'>' if up else '<'} {literal(value)}"]
    subject = ask.subject(relation.source)
    return ask.draft(
        query,
        subject,
        differs=differs,
        **_things(ask, relation),
        number=column.spec.words[0],
        above="above" if up else "below",
        value=column.spec.unit.format(f"{value:,}"),
    )
