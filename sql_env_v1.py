"""Where `vf-eval sql-env-v1` looks: verifiers finds tasksets by the name of a top-level module."""

from sql_env.integrations.verifiers import SQLEpisodes, SQLTaskset

__all__ = ["SQLEpisodes", "SQLTaskset"]
