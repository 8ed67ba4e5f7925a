"""The other side of a relation in words: `its doctors`, `the flights it has operated`."""

from __future__ import annotations

from sql_env.worlds.world import Relation


def partners(relation: Relation, things: str, many: bool) -> str:
    """The targets as said of one source (`its …`) or of many (`their …`).

    A passive verb sounds odd after its object, so it is turned round: not `the readers it has been
    borrowed by` but `the readers who have borrowed it`.
    """
    plural_subject = many or relation.source.spec.person
    if relation.verb.spec == "have|has":
        return f"{'their' if plural_subject else 'its'} {things}"
    if relation.verb.is_passive and relation.back.spec:
        return (
            f"the {things} {relation.target.who} {relation.back.form()} {_object(plural_subject)}"
        )
    subject = "they" if plural_subject else "it"
    return f"the {things} {subject} {relation.verb.form(many=plural_subject)}"


def partner_of(relation: Relation, thing: str, one: str) -> str:
    """The one target of a named source: `department that Ada Berg works in`."""
    if relation.verb.is_passive and relation.back.spec:
        return f"{thing} {relation.target.who} {relation.back.form(many=False)} {one}"
    return f"{thing} that {one} {relation.verb.form(many=False)}"


def partner_of_each(relation: Relation, thing: str, many: bool) -> str:
    """The one target of each source: `department they work in`, `author who has written it`."""
    plural_subject = many or relation.source.spec.person
    if relation.verb.is_passive and relation.back.spec:
        back = relation.back.form(many=False)
        return f"{thing} {relation.target.who} {back} {_object(plural_subject)}"
    subject = "they" if plural_subject else "it"
    return f"{thing} {subject} {relation.verb.form(many=plural_subject)}"


def _object(many: bool) -> str:
    return "them" if many else "it"
