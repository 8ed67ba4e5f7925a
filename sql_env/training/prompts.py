"""The prompts' old address; they live in `sql_env.agent.prompts`."""

from sql_env.agent.prompts import *  # noqa: F403
