"""The question grammar: every module registers its intents in `INTENTS` when imported."""

from sql_env.worlds.intents import (
    absence,
    aggregates,
    chains,
    compound,
    correlated,
    existing,
    filtering,
    group_extremes,
    grouping,
    join_values,
    joined_groups,
    joins,
    kin,
    listing,
    nested,
    ordering,
    sets,
)
from sql_env.worlds.intents.base import INTENTS, Asker, Candidate, Intent, propose
from sql_env.worlds.intents.existing import EXISTING_INTENTS

__all__ = [
    "EXISTING_INTENTS",
    "INTENTS",
    "Asker",
    "Candidate",
    "Intent",
    "absence",
    "aggregates",
    "chains",
    "compound",
    "correlated",
    "existing",
    "filtering",
    "group_extremes",
    "grouping",
    "join_values",
    "joined_groups",
    "joins",
    "kin",
    "listing",
    "nested",
    "ordering",
    "propose",
    "sets",
]
