"""Which tables have to do with each other, in which words, over which joins."""

from __future__ import annotations

from sql_env.worlds.english import Verb
from sql_env.worlds.schema import Link
from sql_env.worlds.world import Hop, Relation, World, WorldReference, WorldTable


def relations_of(world: World) -> list[Relation]:
    """Every relation of a database, in both directions where both have words."""
    return [*_reference_relations(world), *_link_relations(world)]


def _reference_relations(world: World) -> list[Relation]:
    relations = []
    for table in world.tables.values():
        if not table.spec.nouns:
            continue
        for ref in table.references:
            says, back = Verb(ref.spec.says), Verb(ref.spec.back)
            pairs = tuple(
                (key, value)
                for key, value in zip(table.keys, ref.values, strict=True)
                if value is not None
            )
            up = Hop(table, ref.name, ref.target, ref.target.key_name)
            down = Hop(ref.target, ref.target.key_name, table, ref.name)
            flipped = tuple((b, a) for a, b in pairs)
            relations.append(Relation(table, ref.target, (up,), says, back, False, pairs))
            if ref.spec.back:
                relations.append(Relation(ref.target, table, (down,), back, says, True, flipped))
    return relations


def _link_relations(world: World) -> list[Relation]:
    relations = []
    for link in world.domain.links:
        if not {link.through, link.left, link.right} <= set(world.tables):
            continue
        through = world.tables[link.through]
        left, right = _ends(through, link)
        pairs = tuple(
            (a, b)
            for a, b in zip(left.values, right.values, strict=True)
            if a is not None and b is not None
        )
        says, back = Verb(link.says), Verb(link.back)
        for near, far, verb, other, some in (
            (left, right, says, back, pairs),
            (right, left, back, says, tuple((b, a) for a, b in pairs)),
        ):
            hops = (
                Hop(near.target, near.target.key_name, through, near.name),
                Hop(through, far.name, far.target, far.target.key_name),
            )
            relations.append(Relation(near.target, far.target, hops, verb, other, True, some))
    return relations


def _ends(through: WorldTable, link: Link) -> tuple[WorldReference, WorldReference]:
    by_role = {ref.spec.key or ref.spec.target: ref for ref in through.references}
    by_target = {ref.spec.target: ref for ref in through.references}
    left = by_role.get(link.left) or by_target[link.left]
    right = by_role.get(link.right) or by_target[link.right]
    return left, right
