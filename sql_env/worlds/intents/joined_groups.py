"""Questions that count or aggregate the rows of one table for each row of another."""

from __future__ import annotations

from sql_env.worlds.building import Relation
from sql_env.worlds.conditions import threshold
from sql_env.worlds.english import number_word, plural
from sql_env.worlds.intents.base import Asker, Draft, intent
from sql_env.worlds.intents.grouping import _bound
from sql_env.worlds.intents.single import AGGREGATES
from sql_env.worlds.query import Query, at, literal
from sql_env.worlds.subjects import display_sql, names_of


def _counted(relation: Relation) -> dict[int, int]:
    counts = dict.fromkeys(relation.source.keys, 0)
    for source, _ in relation.pairs:
        counts[source] += 1
    return counts


def _grouping(ask: Asker, relation: Relation, last: bool = True) -> tuple[Query, int]:
    """The sources with their targets, one group per source.

    Counting needs no more than the table that refers to the source; `last` goes on to the target.
    """
    query = Query([relation.source], display_sql(relation.source))
    hops = relation.hops if last else relation.hops[:1]
    position = query.follow(hops)
    query.group = [at(0, relation.source.key_name)]
    return query, position


def _countable(ask: Asker, complete: bool = False) -> Relation | None:
    relation = ask.relation(many=True, named_source=True, complete=complete)
    if relation is None or not relation.distinct_pairs:
        return None
    return relation


@intent(
    "medium",
    "How many {things} {asked}? List the {names} and the counts.",
    "For each {one}, show the {name} and the number of {things} {it_verbs}.",
    "List the {name} of every {one} with the number of {things} {it_verbs}.",
    "Show how many {things} each {one} {verbs}, with the {name} of the {one}.",
    "What are the {names} of the {np} and how many {things} do they each have?",
    "Give each {one}'s {name} and the number of {things} {it_verbs}.",
    "Count the {things} that each {one} {verbs}; show the {name} and the count.",
)
def join_group_count(ask: Asker) -> Draft | None:
    relation = _countable(ask, complete=True)
    if relation is None:
        return None
    query, _ = _grouping(ask, relation, last=False)
    query.select.append("count(*)")
    subject = ask.subject(relation.source)
    person = relation.source.spec.person
    words = {
        "things": ask.subject(relation.target).plain,
        "asked": relation.verb.asked(f"each {subject.noun}"),
        "names": names_of(relation.source),
        "name": names_of(relation.source, False),
        "one": subject.noun,
        "verbs": relation.verb.form(many=False),
        "it_verbs": f"{'they' if person else 'it'} {relation.verb.form(many=person)}",
    }
    if relation.verb.spec == "have|has":
        words["np"] = subject.plain
    return ask.draft(query, **words)


@intent(
    "medium",
    "For each {one}, what is the {agg} of the {things} {it_verbs}? Show the {name} too.",
    "Show the {name} of every {one} and the {agg} of the {things} {it_verbs}.",
    "List the {names} of the {np} with the {agg} of the {things} that they {verb}.",
    "What is the {agg} of the {things} that each {one} {verbs}? Give the {name} as well.",
    "Give each {one}'s {name} and the {agg} of the {things} {it_verbs}.",
    "Return the {names} of all {np} together with the {agg} of the {things} they {verb}.",
)
def join_group_aggregate(ask: Asker) -> Draft | None:
    relation = ask.relation(many=True, hops=1, named_source=True, complete=True)
    column = ask.column(relation.target, "number", full=True) if relation else None
    if relation is None or column is None:
        return None
    function = ask.rng.choice(["avg", "max", "min"] + ["sum"] * column.spec.additive)
    query, position = _grouping(ask, relation)
    query.select.append(f"{function}({at(position, column)})")
    subject = ask.subject(relation.source)
    person = relation.source.spec.person
    return ask.draft(
        query,
        things=ask.subject(relation.target).plain,
        agg=f"{AGGREGATES[function][0]} {column.spec.words[0]}",
        names=names_of(relation.source),
        name=names_of(relation.source, False),
        one=subject.noun,
        np=subject.plain,
        verb=relation.verb.form(),
        verbs=relation.verb.form(many=False),
        it_verbs=f"{'they' if person else 'it'} {relation.verb.form(many=person)}",
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
def join_having(ask: Asker) -> Draft | None:
    relation = _countable(ask)
    if relation is None:
        return None
    counts = _counted(relation)
    bound = _bound(ask, [count for count in counts.values() if count])
    if bound is None or (bound[0][0] == "<" and 0 in counts.values()):
        return None
    query, _ = _grouping(ask, relation, last=False)
    query.having = [f"count(*) {bound[0]}"]
    subject = ask.subject(relation.source)
    return ask.draft(
        query,
        np=subject.plain,
        one=subject.noun,
        who=relation.source.who,
        verb=relation.verb.form(),
        verbs=relation.verb.form(many=False),
        bound=bound[1],
        things=ask.subject(relation.target).plain,
        names=names_of(relation.source),
        name=names_of(relation.source, False),
    )


@intent(
    "extra",
    "Which {one} {verbs} the {most} {things}? Give the {name}.",
    "What is the {name} of the {one} {who} {verbs} the {most} {things}?",
    "Find the {name} of the {one} {who} {verbs} the {most} {things}.",
    "Show the {name} of the {one} {who} {verbs} the {most} {things}.",
    "Give me the {name} of the {one} {who} {verbs} the {most} {things}.",
    "Of all {np}, which one {verbs} the {most} {things}? Return the {name}.",
    "I would like the {name} of the {one} {who} {verbs} the {most} {things}.",
)
def join_most(ask: Asker) -> Draft | None:
    relation = _countable(ask)
    if relation is None:
        return None
    top = ask.rng.random() < 0.75 or not relation.complete
    query, position = _grouping(ask, relation, last=False)
    things = ask.subject(relation.target)
    if len(relation.hops) == 1 and ask.rng.random() < 0.25 and top:
        condition = ask.condition(relation.target, share=(0.2, 0.8))
        if condition is None:
            return None
        query.where.append(condition.sql(position))
        things = things.narrowed(condition.saying)
    query.order = ["count(*)" + (" DESC" if top else "")]
    query.limit = 1
    subject = ask.subject(relation.source)
    name = names_of(relation.source, False)
    if ask.rng.random() < 0.25:
        query.select.append("count(*)")
        name += f" and the number of {things.plain}"
    return ask.draft(
        query,
        one=subject.noun,
        np=subject.plain,
        who=relation.source.who,
        verbs=relation.verb.form(many=False),
        most="most" if top else "fewest",
        things=things.phrase(),
        name=name,
    )


@intent(
    "extra",
    "What are the {names} of the {n} {np} {who} {verb} the most {things}?",
    "List the {names} of the {n} {np} {who} {verb} the most {things}.",
    "Find the {n} {np} {who} {verb} the most {things} and give their {names}.",
    "Show the {names} of the {n} {np} with the most {things}.",
    "Give the {names} of the top {n} {np} by number of {things}.",
    "Ranked by the number of {things} they {verb}, which {np} are the top {n}? Give their {names}.",
)
def join_top(ask: Asker) -> Draft | None:
    relation = _countable(ask)
    if relation is None:
        return None
    n = ask.rng.choice((2, 3, 3, 5))
    query, _ = _grouping(ask, relation, last=False)
    query.order, query.limit = ["count(*) DESC"], n
    words = {
        "n": ask.one_of(str(n), number_word(n)),
        "names": names_of(relation.source),
        "np": ask.subject(relation.source).plain,
        "who": relation.source.who,
        "verb": relation.verb.form(),
        "things": ask.subject(relation.target).plain,
    }
    return ask.draft(query, **words)


@intent(
    "extra",
    "Which {one} has the {end} {agg} of the {things} {it_verbs}? Give the {name}.",
    "Find the {name} of the {one} whose {things} have the {end} {agg}.",
    "What is the {name} of the {one} with the {end} {agg} of the {things} {it_verbs}?",
    "For which {one} is the {agg} of the {things} {it_verbs} {end}? Return the {name}.",
    "Show the {name} of the {one} whose {things} come to the {end} {agg}.",
    "Comparing the {agg} of the {things} they {verb}, which {one} ranks {end}? Give the {name}.",
)
def join_top_aggregate(ask: Asker) -> Draft | None:
    relation = ask.relation(many=True, hops=1, named_source=True)
    column = ask.column(relation.target, "number", full=True) if relation else None
    if relation is None or column is None:
        return None
    function = "sum" if column.spec.additive and ask.rng.random() < 0.5 else "avg"
    top = ask.rng.random() < 0.7 or not relation.complete
    query, position = _grouping(ask, relation)
    query.order = [f"{function}({at(position, column)})" + (" DESC" if top else "")]
    query.limit = 1
    person = relation.source.spec.person
    return ask.draft(
        query,
        one=ask.subject(relation.source).noun,
        things=ask.subject(relation.target).plain,
        agg=f"{AGGREGATES[function][0]} {column.spec.words[0]}",
        end="highest" if top else "lowest",
        name=names_of(relation.source, False),
        verb=relation.verb.form(),
        it_verbs=f"{'they' if person else 'it'} {relation.verb.form(many=person)}",
    )


@intent(
    "medium",
    "Which {np} {verb} {things} with an average {number} {above} {value}? Give their {names}.",
    "Find the {names} of {np} whose {things} have an average {number} {above} {value}.",
    "List the {names} of the {np} for which the average {number} of the {things} they {verb} is"
    " {above} {value}.",
    "Show the {name} of every {one} whose {things} have an average {number} {above} {value}.",
    "What are the {names} of the {np} whose {things} average {above} {value} in {number}?",
    "Give the {names} of all {np} for which the mean {number} of their {things} is"
    " {above} {value}.",
)
def join_having_average(ask: Asker) -> Draft | None:
    relation = ask.relation(many=True, hops=1, named_source=True)
    column = ask.column(relation.target, "number", full=True) if relation else None
    if relation is None or column is None:
        return None
    value = threshold(column, ask.rng, 0.35, 0.7)
    up = ask.rng.random() < 0.6
    query, position = _grouping(ask, relation)
    differs = [query.sql]
    query.having = [f"avg({at(position, column)}) {'>' if up else '<'} {literal(value)}"]
    subject = ask.subject(relation.source)
    return ask.draft(
        query,
        differs=differs,
        np=subject.plain,
        one=subject.noun,
        verb=relation.verb.form(),
        things=ask.subject(relation.target).plain,
        number=column.spec.words[0],
        above="above" if up else "below",
        value=column.spec.unit.format(f"{value:,}"),
        names=names_of(relation.source),
        name=names_of(relation.source, False),
    )


@intent(
    "medium",
    "For each {column} of the {parents}, how many {np} {verb} them?",
    "Count the {np} by the {column} of the {parent} {it_verbs}.",
    "How many {np} are there for each {column} of the {parent} {it_verbs}?",
    "Show every {column} of the {parents} with the number of {np} that {verb} them.",
    "Group the {np} by the {column} of the {parent} {it_verbs} and count each group.",
    "Give the number of {np} for each {parent} {column}.",
)
def join_category_count(ask: Asker) -> Draft | None:
    relation = ask.relation(many=False, hops=1)
    column = ask.column(relation.target, "category", full=True) if relation else None
    if relation is None or column is None:
        return None
    query = Query([relation.source])
    position = query.join(relation)
    query.select = [at(position, column), "count(*)"]
    query.group = [at(position, column)]
    parent = ask.subject(relation.target).noun
    return ask.draft(
        query,
        column=ask.one_of(*column.spec.words),
        parent=parent,
        parents=plural(parent),
        np=ask.subject(relation.source).plain,
        verb=relation.verb.form(),
        it_verbs=f"they {relation.verb.form()}",
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
def join_count_distinct(ask: Asker) -> Draft | None:
    relation = ask.relation(many=False, hops=1)
    if relation is None:
        return None
    condition = ask.condition(relation.source, share=(0.1, 0.7))
    if condition is None:
        return None
    ref = relation.hops[0].left_column
    query = Query([relation.source], [f"count(DISTINCT {at(0, ref)})"], where=[condition.sql()])
    return ask.draft(
        query,
        parents=ask.subject(relation.target).plain,
        back=relation.back.form(),
        np=ask.subject(relation.source, condition.saying).phrase(),
    )
