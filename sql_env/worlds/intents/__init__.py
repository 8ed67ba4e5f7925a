"""The question grammar: every module registers its intents in `INTENTS` when imported."""

from sql_env.worlds.intents import (  # noqa: F401
    absence,
    aggregates,
    compound,
    correlated,
    existing,
    filtering,
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
from sql_env.worlds.intents.base import EXISTING_INTENTS, INTENTS, Asker, Candidate, Intent, propose

__all__ = ["EXISTING_INTENTS", "INTENTS", "Asker", "Candidate", "Intent", "propose"]
