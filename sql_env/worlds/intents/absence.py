"""Questions for what is missing: rows without partners, rows that exist, averages of counts."""

from __future__ import annotations

from sql_env.worlds.english import Saying
from sql_env.worlds.intents.base import Asker, Draft, NotOffered, intent, need
from sql_env.worlds.intents.nested import NAMES_PHRASINGS
from sql_env.worlds.query import Query, at
from sql_env.worlds.subjects import display_sql, names_of
from sql_env.worlds.world import Relation

WITHOUT_PHRASINGS = (
    "Which {np} {lack} any {things}? Give their {names}.",
    "What are the {names} of the {np} {who} {lack} any {things}?",
    "List the {names} of all {np} {who} {lack} any {things}.",
    "Find the {names} of {np} {who} {lack} any {things}.",
    "Show the {names} of the {np} {who} {verb} no {things}.",
    "Give the {names} of those {np} {who} {verb} no {things} at all.",
    "Return the {names} of the {np} {who} {never} any {things}.",
)


def _without_words(ask: Asker, relation: Relation, things: str) -> dict[str, str]:
    words = {
        "np": ask.subject(relation.source).plain,
        "lack": relation.verb.negated(),
        "verb": relation.verb.form(),
        "who": relation.source.who,
        "things": things,
        "names": names_of(relation.source),
    }
    if relation.verb.is_perfect:
        words["never"] = relation.verb.form().replace("have ", "have never ", 1)
    return words


def refers_always(relation: Relation) -> bool:
    """Whether every row that refers to the source does so: NOT IN is never true with a NULL."""
    hop = relation.hops[0]
    return None not in next(r.values for r in hop.right.references if r.name == hop.right_column)


@intent("hard", *WITHOUT_PHRASINGS)
def without_any(ask: Asker) -> Draft:
    relation = need(ask.relation(many=True))
    if relation.complete:
        raise NotOffered
    table = relation.source
    hop = relation.hops[0]
    inner = Query([hop.right], [at(0, hop.right_column)])
    if not refers_always(relation):
        inner.where = [f"{at(0, hop.right_column)} IS NOT NULL"]
    query = Query([table], display_sql(table))
    query.where = [f"{at(0, table.key_name)} NOT IN ({inner.sql})"]
    return ask.draft(query, **_without_words(ask, relation, ask.subject(relation.target).plain))


@intent(
    "hard",
    "How many {np} {lack} any {things}?",
    "Count the {np} {who} {lack} any {things}.",
    "What is the number of {np} {who} {lack} any {things}?",
    "Find the number of {np} {who} {verb} no {things}.",
    "Tell me how many {np} {verb} no {things}.",
    "How many of the {np} {verb} no {things} at all?",
    "How many {np} {never} any {things}?",
)
def count_without(ask: Asker) -> Draft:
    relation = need(ask.relation(many=True))
    if relation.complete:
        raise NotOffered
    hop = relation.hops[0]
    if not refers_always(relation):
        raise NotOffered
    inner = Query([hop.right], [at(0, hop.right_column)])
    query = Query([relation.source], ["count(*)"])
    query.where = [f"{at(0, relation.source.key_name)} NOT IN ({inner.sql})"]
    return ask.draft(query, **_without_words(ask, relation, ask.subject(relation.target).plain))


@intent("hard", *WITHOUT_PHRASINGS)
def without_such(ask: Asker) -> Draft:
    """Those that have no target with some property."""
    relation = need(ask.relation(many=True, hops=1))
    table, target = relation.source, relation.target
    condition = need(ask.condition(target, share=(0.1, 0.6)))
    if not refers_always(relation):
        raise NotOffered
    inner = Query([target], [at(0, relation.hops[0].right_column)], where=[condition.sql()])
    query = Query([table], display_sql(table))
    differs = [query.sql]
    query.where = [f"{at(0, table.key_name)} NOT IN ({inner.sql})"]
    things = ask.subject(target, condition.saying).phrase()
    return ask.draft(query, differs=differs, **_without_words(ask, relation, things))


@intent("hard", *NAMES_PHRASINGS)
def with_such(ask: Asker) -> Draft:
    """Those that have a target with some property, as a nested query."""
    relation = need(ask.relation(many=True, hops=1))
    table, target = relation.source, relation.target
    condition = need(ask.condition(target, share=(0.02, 0.4)))
    inner = Query([target], [at(0, relation.hops[0].right_column)], where=[condition.sql()])
    query = Query([table], display_sql(table))
    differs = [query.sql]
    query.where = [f"{at(0, table.key_name)} IN ({inner.sql})"]
    things = ask.subject(target, condition.saying).phrase(many=False)
    saying = Saying("verb", f"{relation.verb.spec} at least one {things}")
    return ask.draft(query, ask.subject(table, saying), differs=differs)
