"""What the tables of an existing database have to do with each other, in plain verbs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sql_env.worlds.english import Verb
from sql_env.worlds.humanising import singular, words_of
from sql_env.worlds.words import split_words
from sql_env.worlds.world import Hop, Relation, World, WorldReference, WorldTable, link_relations

_MOST_LINKED = 400  # ends of a link; comparing every two of more would take long
_PLACES = frozenset(
    split_words(
        """city country state region district continent location stadium airport building school
        college university department campus hotel hospital museum theater cinema station club
        league"""
    )
)
_TRAITS = frozenset(split_words("type size status breed category color colour role level brand"))
_ROLES = {
    "source": "depart|departs from",
    "origin": "depart|departs from",
    "departure": "depart|departs from",
    "destination": "arrive|arrives at",
    "arrival": "arrive|arrives at",
}
# The words of a link table, and what its first kind of rows then does to the second.
_LINK_VERBS = {
    "registration": ("are|is registered for", "have|has"),
    "enrollment": ("are|is enrolled in", "have|has"),
    "enrolment": ("are|is enrolled in", "have|has"),
    "enrolled": ("are|is enrolled in", "have|has"),
    "attendance": ("attend|attends", "are|is attended by"),
    "hiring": ("are|is hired by", "hire|hires"),
    "employment": ("are|is employed by", "employ|employs"),
    "membership": ("are|is a member of", "have|has"),
}


def relations_between(world: World, most_rows: int) -> list[Relation]:
    """Every relation that has plain words, in both directions."""
    relations: list[Relation] = []
    for table in world.tables.values():
        linked = _link(table, most_rows)
        relations += linked
        if linked and not table.columns:
            table.spec = replace(table.spec, nouns=())
        if linked:
            continue
        for ref in table.references:
            relations += _reference(table, ref, most_rows)
    return relations


def kin_of(world: World) -> list[Relation]:
    """Tables whose rows are continued in another one: a poker player is a person with a name."""
    found = []
    for table in world.tables.values():
        for ref in table.references:
            pairs = _pairs(table, ref)
            alone = len(table.references) == 1 and not table.display and table.columns
            if alone and len(pairs) == table.size and _is_one_to_one(ref):
                up = Hop(table, ref.name, ref.target, ref.target.key_name)
                found.append(Relation(table, ref.target, (up,), Verb(""), Verb(""), False, pairs))
    return found


def _pairs(table: WorldTable, ref: WorldReference) -> tuple[tuple[Any, Any], ...]:
    there = set(ref.target.keys)
    return tuple(
        (key, value) for key, value in zip(table.keys, ref.values, strict=True) if value in there
    )


def _is_one_to_one(ref: WorldReference) -> bool:
    known = [value for value in ref.values if value is not None]
    return len(set(known)) == len(known)


def _reference(table: WorldTable, ref: WorldReference, most_rows: int) -> list[Relation]:
    pairs = _pairs(table, ref)
    if not pairs or _is_one_to_one(ref) or ref.target is table:
        return []
    role = [word.lower() for word in words_of(ref.name)]
    twice = sum(other.target is ref.target for other in table.references) > 1
    says = next((_ROLES[word] for word in role if word in _ROLES), "")
    back = "have|has"
    if twice:
        back = ""
    if not says and not twice:
        says = "are|is in" if _last_word(ref) in _PLACES else "belong|belongs to"
        if _last_word(ref) in _TRAITS:
            says = "have|has"
    if not says:
        return []
    up = Hop(table, ref.name, ref.target, ref.target.key_name)
    down = Hop(ref.target, ref.target.key_name, table, ref.name)
    relations = [Relation(table, ref.target, (up,), Verb(says), Verb(back), False, pairs)]
    flipped = tuple((b, a) for a, b in pairs)
    whole = max(table.spec.rows[1], ref.target.spec.rows[1]) <= most_rows
    if back and whole:
        relations.append(
            Relation(ref.target, table, (down,), Verb(back), Verb(says), True, flipped)
        )
    return relations


def _last_word(ref: WorldReference) -> str:
    return ref.target.spec.nouns[0].rpartition(" ")[2]


def _link(table: WorldTable, most_rows: int) -> list[Relation]:
    """The two ends of a table that does little else than to refer to them."""
    if len(table.references) != 2 or table.display or len(table.columns) > 3:
        return []
    left, right = table.references
    if left.target is right.target or left.target is table or right.target is table:
        return []
    known = (set(left.target.keys), set(right.target.keys))
    pairs = tuple(
        (a, b)
        for a, b in zip(left.values, right.values, strict=True)
        if a in known[0] and b in known[1]
    )
    ends = max(len({a for a, _ in pairs}), len({b for _, b in pairs}), 0)
    sizes = (table.spec.rows[1], left.target.spec.rows[1], right.target.spec.rows[1])
    if not pairs or ends > _MOST_LINKED or max(sizes) > most_rows:
        return []
    says, back = _link_verbs(table, left, right)
    return link_relations(table, left, right, Verb(says), Verb(back), pairs)


def _link_verbs(table: WorldTable, left: WorldReference, right: WorldReference) -> tuple[str, str]:
    words = words_of(table.name)
    nouns = (left.target.spec.nouns[0], right.target.spec.nouns[0])
    persons = (left.target.spec.person, right.target.spec.person)
    if len(words) == 3 and words[1] == "in":
        return ("are|is in", "have|has") if words[0] == nouns[0] else ("have|has", "are|is in")
    for word in words:
        verbs = _LINK_VERBS.get(singular(word))
        if verbs is not None and persons[0] != persons[1]:
            return verbs if persons[0] else verbs[::-1]
    if words[0] in ("has", "have", "owns"):
        return (
            ("have|has", "belong|belongs to") if persons[0] else ("belong|belongs to", "have|has")
        )
    return "have|has", "have|has"
