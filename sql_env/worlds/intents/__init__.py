"""The question grammar: every module registers its intents in `INTENTS` when imported."""

from sql_env.worlds.intents import (
    correlated,
    grouping,
    joined_groups,
    joins,
    nested,
    ordering,
    sets,
    single,
)
from sql_env.worlds.intents.base import INTENTS, Asker, Candidate, Intent, propose

__all__ = [
    "INTENTS",
    "Asker",
    "Candidate",
    "Intent",
    "correlated",
    "grouping",
    "joined_groups",
    "joins",
    "nested",
    "ordering",
    "propose",
    "sets",
    "single",
]
