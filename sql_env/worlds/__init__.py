"""Procedural databases with questions and gold SQL: the data that needs no download."""

from sql_env.worlds.domains import DOMAINS
from sql_env.worlds.generating import GenerationError, Summary, generate_dataset
from sql_env.worlds.intents import INTENTS

__all__ = ["DOMAINS", "INTENTS", "GenerationError", "Summary", "generate_dataset"]
