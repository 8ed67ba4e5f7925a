"""SQLEnv: an environment in which language models learn to explore SQL databases."""

from sql_env.environment import SQLEnvironment
from sql_env.models import QuestionRecord, SQLAction, SQLObservation, SQLState

__all__ = ["QuestionRecord", "SQLAction", "SQLEnvironment", "SQLObservation", "SQLState"]
__version__ = "0.2.1"
