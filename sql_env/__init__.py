"""SQLEnv: an environment in which language models learn to explore SQL databases."""

from sql_env.models import QuestionRecord, SQLAction, SQLObservation, SQLState
from sql_env.server.sql_environment import SQLEnvironment

__all__ = ["QuestionRecord", "SQLAction", "SQLEnvironment", "SQLObservation", "SQLState"]
__version__ = "0.1.0"
