"""Procedural databases with questions and gold SQL: the data that needs no download."""

from sql_env.worlds.domain_files import DomainError, own_domains, read_domain
from sql_env.worlds.generating import GenerationError, Summary, generate_dataset
from sql_env.worlds.intents import INTENTS

__all__ = [
    "INTENTS",
    "DomainError",
    "GenerationError",
    "Summary",
    "generate_dataset",
    "own_domains",
    "read_domain",
]
