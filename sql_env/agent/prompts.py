"""The words a model is given: one system prompt, and an observation as a user turn.

Spare on purpose: a small model pays for every token, and every episode repeats these.
"""

from __future__ import annotations

from sql_env.models import SQLObservation

_SYSTEM_PROMPT = """\
You answer questions about an SQLite database. You know its tables by name only; explore first.
Each turn, write exactly one action on its own:
DESCRIBE: table
SAMPLE: table
QUERY: SELECT ...
ANSWER: value
DESCRIBE shows a table's columns and keys, SAMPLE some of its rows, QUERY runs one read-only \
SELECT. ANSWER ends the episode: type the value, or write ANSWER: @last to give the whole result \
of your last query. DESCRIBE the tables you need, SAMPLE when the spelling of values \
matters, then QUERY. After an error or a strange result, fix the query and try again before you \
answer."""

_TOOL_SYSTEM_PROMPT = """\
You answer questions about an SQLite database. You know its tables by name only; explore first. \
Call one tool per turn. Describe the tables you need, sample when the spelling of values matters, \
then query. After an error or a strange result, fix the query and try again. End with answer: type \
the value, or give @last for the whole result of your last query."""


def get_system_prompt() -> str:
    """The four actions, the format, how to explore. The same for every episode."""
    return _SYSTEM_PROMPT


def get_tool_system_prompt() -> str:
    """The same for models that call tools, whose chat template already lists the actions."""
    return _TOOL_SYSTEM_PROMPT


def format_observation(obs: SQLObservation) -> str:
    """An observation as the user turn a model reads.

    The first turn shows the question and the table names; later ones only what is new.
    """
    steps = f"Steps left: {obs.budget_remaining}"
    if obs.step_count:
        return f"{f'Error: {obs.error}' if obs.error else obs.result}\n{steps}"
    lines = [f"Question: {obs.question}", f"Tables: {', '.join(obs.table_names)}"]
    if obs.metadata.get("hint"):
        lines.append(f"Hint: {obs.metadata['hint']}")
    if obs.metadata.get("allow_last") is False:
        lines.append("@last is not allowed: type the answer.")
    return "\n".join([*lines, steps])
