"""The question grammar: every module registers its intents in `INTENTS` when imported."""

from sql_env.worlds.intents import (
    absence,
    aggregates,
    chains,
    correlated,
    filtering,
    group_extremes,
    grouping,
    join_values,
    joined_groups,
    joins,
    listing,
    nested,
    ordering,
    sets,
)
from sql_env.worlds.intents.base import INTENTS, Asker, Candidate, Intent, propose

__all__ = [
    "INTENTS",
    "Asker",
    "Candidate",
    "Intent",
    "absence",
    "aggregates",
    "chains",
    "correlated",
    "filtering",
    "group_extremes",
    "grouping",
    "join_values",
    "joined_groups",
    "joins",
    "listing",
    "nested",
    "ordering",
    "propose",
    "sets",
]
