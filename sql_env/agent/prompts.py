"""The words a model is given: a system prompt, and what it reads back after each of its turns.

Spare on purpose: a small model pays for every token, and every episode repeats these. A model that
was trained with one prompt plays badly with another, so the prompts have versions, a checkpoint
carries the name of its own (`sql_env.json`), and a version's words never change.

    v1   one action a turn; what version 0.1 trained with
    v2   several actions a turn, one worked example
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from sql_env.models import SQLAction, SQLObservation

PromptVersion = Literal["v1", "v2"]
Actions = Literal["text", "tools"]
PROMPT_FILE = "sql_env.json"
# Beside a model that was trained here, these say so where it has no file of its own.
_TRAINED_IN_0_1 = ("delta_config.json", "adapter_config.json", "../sessions.jsonl")
_FEW_STEPS = 3

_V1 = """\
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

_V1_TOOLS = """\
You answer questions about an SQLite database. You know its tables by name only; explore first. \
Call one tool per turn. Describe the tables you need, sample when the spelling of values matters, \
then query. After an error or a strange result, fix the query and try again. End with answer: type \
the value, or give @last for the whole result of your last query."""

_V2 = """\
You answer questions about an SQLite database. You know its tables by name only. Actions, one a \
line:
DESCRIBE: table, table, ... shows columns and keys
SAMPLE: table shows some rows
QUERY: SELECT ... runs one query
ANSWER: @last ends the episode with the whole result of your last query
First DESCRIBE the tables, then QUERY. Take names from DESCRIBE only. Select exactly what is asked \
for. After an error, or a result that cannot be right, write another QUERY; otherwise ANSWER."""

_V2_TOOLS = """\
You answer questions about an SQLite database. You know its tables by name only. First describe \
the tables, then query. Take names from describe only. Select exactly what is asked for. After an \
error, or a result that cannot be right, query again; otherwise answer with @last: the whole \
result of your last query."""

# A schema and a question that no dataset has. The first query fails, because a model that is shown
# no mistake never mends one; and it joins nothing, because examples are copied.
_EXAMPLE_QUESTION = """\
Question: How many bakers are there from each town?
Tables: baker, prize"""
_EXAMPLE_TABLES = (
    """\
baker (8 rows)
 baker.id integer primary key
 baker.name text
 baker.home_town text""",
    """\
prize (20 rows)
 prize.year integer
 prize.baker_id integer
 prize.baker_id = baker.id""",
)
_EXAMPLE_FIRST_QUERY = "SELECT town, count(*) FROM baker GROUP BY town"
_EXAMPLE_ERROR = "Error: no such column: town. Did you mean baker.home_town?"
_EXAMPLE_QUERY = "SELECT home_town, count(*) FROM baker GROUP BY home_town"
_EXAMPLE_RESULT = "home_town | count(*)\nDijon | 5\nLyon | 3"

_SYSTEM: dict[tuple[str, str], str] = {
    ("v1", "text"): _V1,
    ("v1", "tools"): _V1_TOOLS,
    ("v2", "text"): _V2,
    ("v2", "tools"): _V2_TOOLS,
}


class PromptError(ValueError):
    """A prompt that does not exist; the message says which there are."""


@dataclass(frozen=True)
class Prompt:
    """How a model is spoken to, and how it writes its actions.

    Attributes:
        version: which words; see this module.
        actions: `text` is lines such as `DESCRIBE: table`, `tools` the calls of the model's chat
            template or endpoint.

    Raises:
        PromptError: there is no such version or no such way to write actions.
    """

    version: PromptVersion = "v2"
    actions: Actions = "text"

    def __post_init__(self) -> None:
        for value, kind in ((self.version, PromptVersion), (self.actions, Actions)):
            if value not in get_args(kind):
                raise PromptError(f"{value!r} is none of {', '.join(get_args(kind))}")

    @property
    def system(self) -> str:
        """The system prompt: the actions, the format, how to explore."""
        return _SYSTEM[self.version, self.actions]

    @property
    def several(self) -> bool:
        """Whether a turn may hold several actions."""
        return self.version != "v1"

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        """What a chat template or an endpoint is told of the tools."""
        return TOOLS if self.actions == "tools" else None

    @property
    def example(self) -> list[dict[str, Any]]:
        """A worked episode as chat messages, to stand before the first question."""
        if not self.several:
            return []
        if self.actions == "tools":
            described = [("describe", "table", name) for name in ("baker", "prize")]
            return [
                _message("user", _EXAMPLE_QUESTION),
                _calling(*described),
                *(_message("tool", text) for text in _EXAMPLE_TABLES),
                _calling(("query", "sql", _EXAMPLE_FIRST_QUERY)),
                _message("tool", _EXAMPLE_ERROR),
                _calling(("query", "sql", _EXAMPLE_QUERY)),
                _message("tool", _EXAMPLE_RESULT),
                _calling(("answer", "value", "@last")),
            ]
        turns = (
            (_EXAMPLE_QUESTION, "DESCRIBE: baker, prize"),
            ("\n".join(_EXAMPLE_TABLES), f"QUERY: {_EXAMPLE_FIRST_QUERY}"),
            (_EXAMPLE_ERROR, f"QUERY: {_EXAMPLE_QUERY}"),
            (_EXAMPLE_RESULT, "ANSWER: @last"),
        )
        return [
            _message(role, text)
            for turn in turns
            for role, text in zip(("user", "assistant"), turn, strict=True)
        ]

    @property
    def for_template(self) -> dict[str, Any]:
        """What a `ChatLayout` has to know of it."""
        return {"tools": self.tools, "example": self.example}

    def save(self, folder: Path) -> None:
        """Put it beside a model that was trained with it."""
        text = json.dumps({"prompt": self.version, "actions": self.actions}, indent=2)
        (folder / PROMPT_FILE).write_text(text + "\n", encoding="utf-8")


def prompt_of_model(name: str) -> Prompt:
    """The prompt that a model was trained with, or the newest for one that was not trained here.

    Args:
        name: a model's folder, file or hub id.

    Raises:
        PromptError: the file beside the model cannot be read.
    """
    folder = Path(name).expanduser()
    path = folder / PROMPT_FILE
    if not path.is_file():
        trained = any((folder / beside).is_file() for beside in _TRAINED_IN_0_1)
        return V1 if trained else NEWEST
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Prompt(values["prompt"], values["actions"])
    except (ValueError, KeyError, TypeError) as error:
        raise PromptError(
            f'{path} is damaged ({error}): it holds {{"prompt": "v2", "actions": "text"}}'
        ) from error


def _message(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


def _calling(*calls: tuple[str, str, str]) -> dict[str, Any]:
    made = [
        {"type": "function", "function": {"name": name, "arguments": {argument: value}}}
        for name, argument, value in calls
    ]
    return {**_message("assistant", ""), "tool_calls": made}


def _tool(name: str, does: str, argument: str, is_what: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {argument: {"type": "string", "description": is_what}},
        "required": [argument],
    }
    return {
        "type": "function",
        "function": {"name": name, "description": does, "parameters": parameters},
    }


TOOLS = [
    _tool("describe", "Show a table's columns and keys.", "table", "Name of the table"),
    _tool("sample", "Show some rows of a table.", "table", "Name of the table"),
    _tool("query", "Run one read-only SELECT statement.", "sql", "The SELECT statement"),
    _tool(
        "answer",
        "Answer the question and end the episode.",
        "value",
        "The answer, [] for no rows, or @last for the whole result of the last query",
    ),
]
V1 = Prompt("v1", "text")
NEWEST = Prompt()
_ARGUMENTS = {"describe": "table", "sample": "table", "query": "sql", "answer": "value"}


def tool_call(action: SQLAction) -> dict[str, Any]:
    """An action as the call of a tool."""
    name = action.action_type.lower()
    return {"name": name, "arguments": {_ARGUMENTS.get(name, "argument"): action.argument}}


def get_system_prompt() -> str:
    """The system prompt of version 1, with actions as text."""
    return _V1


def get_tool_system_prompt() -> str:
    """The system prompt of version 1, for models that call tools."""
    return _V1_TOOLS


def format_observation(obs: SQLObservation) -> str:
    """An observation as the user turn a model reads, in version 1.

    The first turn shows the question and the table names; later ones only what is new.
    """
    steps = f"Steps left: {obs.budget_remaining}"
    if obs.step_count:
        return f"{f'Error: {obs.error}' if obs.error else obs.result}\n{steps}"
    return f"{format_question(obs)}\n{steps}"


def format_question(obs: SQLObservation) -> str:
    """What an episode begins with."""
    lines = [f"Question: {obs.question}", f"Tables: {', '.join(obs.table_names)}"]
    if obs.metadata.get("hint"):
        lines.append(f"Hint: {obs.metadata['hint']}")
    if obs.metadata.get("allow_last") is False:
        lines.append("@last is not allowed: type the answer.")
    return "\n".join(lines)


def format_outcome(
    action: SQLAction, obs: SQLObservation, failed: str = "", actions: Actions = "text"
) -> str:
    """What came of one action, in version 2.

    Args:
        failed: why the last query failed, where it did: an answer cannot stand on it.
        actions: how they are to be written.
    """
    kind = action.action_type.strip().upper()
    if action.metadata.get("parsed") is False:
        write = "Write one, such as DESCRIBE: table" if actions == "text" else "Call a tool"
        return f"Error: there is no action in that. {write}"
    if kind == "ANSWER" and failed:
        return f"Error: {obs.error}. Your last one failed: {failed}\nWrite another QUERY."
    if obs.error and obs.metadata.get("repeated"):
        return f"Error: that was played before and failed: {obs.error}\nWrite something else."
    if obs.error:
        return f"Error: {obs.error}"
    if obs.metadata.get("repeated"):
        if kind != "QUERY":
            return f"{action.argument} was shown before, above."
        return f"This query was played before: {obs.result}"
    if kind == "QUERY" and obs.shown is not None and not obs.shown.rows:
        return f"{obs.result}\nIf there should be some, look at the values and query again."
    return obs.result


def format_steps_left(obs: SQLObservation) -> str:
    """A word when the end is near, in version 2; nothing before that."""
    left = obs.budget_remaining
    return f"Steps left: {left}" if left <= _FEW_STEPS else ""


def format_not_played(actions: list[SQLAction], *, after_error: bool) -> str:
    """Which actions of a turn were left out, and why, in version 2."""
    names = ", ".join(action.action_type for action in actions)
    why = "after the error" if after_error else "look at the result first"
    return f"Not played: {names} ({why})"
