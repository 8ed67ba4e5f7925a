"""The environment's old address; it lives in `sql_env.environment`."""

from sql_env.environment import *  # noqa: F403
