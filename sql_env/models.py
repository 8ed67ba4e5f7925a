"""What crosses the environment's border: actions, observations, state and question records.

Plain pydantic, so that OpenEnv's server can serve these classes without this module importing it.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from sql_env.core.query_result import QueryResult
from sql_env.core.schema import TableSchema

AnswerType = Literal["integer", "float", "string", "list", "table"]
Difficulty = Literal["easy", "medium", "hard", "extra"]
DIFFICULTIES: tuple[Difficulty, ...] = get_args(Difficulty)


class SQLAction(BaseModel):
    """One move of the agent.

    `action_type` is free text on purpose: an unknown type is an observation with an error that
    costs a step, not an exception.
    """

    model_config = ConfigDict(extra="forbid")

    action_type: str = Field(description="DESCRIBE, SAMPLE, QUERY or ANSWER")
    argument: str = Field(default="", description="A table name, an SQL query or the answer")
    metadata: dict[str, Any] = Field(default_factory=dict, description="Ignored; OpenEnv sends it")


class SQLObservation(BaseModel):
    """What the agent sees after a reset or a step.

    `schema_info` and `result` are text, made once for whoever reads. `described` and `shown` are
    what that text was made of: for policies in the same process, which then parse no text. They are
    not sent over the wire.
    """

    model_config = ConfigDict(extra="forbid")

    question: str = Field(description="The question to answer, in English")
    table_names: list[str] = Field(description="Names of the database's tables, nothing more")
    schema_info: str = Field(default="", description="What DESCRIBE has revealed so far")
    result: str = Field(default="", description="Outcome of the last action, as text")
    error: str = Field(default="", description="What went wrong with the last action, or empty")
    step_count: int = Field(default=0, ge=0)
    budget_remaining: int = Field(default=0, ge=0)
    action_history: list[str] = Field(default_factory=list, description="'QUERY: SELECT …', …")
    done: bool = False
    reward: float | None = Field(default=None, description="Reward of the last step; None on reset")
    metadata: dict[str, Any] = Field(default_factory=dict)

    _described: tuple[TableSchema, ...] = PrivateAttr(default=())
    _shown: QueryResult | None = PrivateAttr(default=None)

    @property
    def described(self) -> tuple[TableSchema, ...]:
        """The tables that DESCRIBE has shown so far, in that order."""
        return self._described

    @property
    def shown(self) -> QueryResult | None:
        """What the last action returned; None after a reset and for actions that return no rows."""
        return self._shown


_OBSERVED = set(SQLObservation.model_fields)


def made_observation(
    fields: dict[str, Any], described: tuple[TableSchema, ...], shown: QueryResult | None
) -> SQLObservation:
    """An observation of the environment's own making, and the data that its text was made of.

    `fields` are all of the fields, in their order, and nobody else's. They are not validated: that
    takes as long as a small query. What comes over the wire is.
    """
    observation = object.__new__(SQLObservation)
    put = object.__setattr__  # as pydantic's own `model_construct` does
    put(observation, "__dict__", fields)
    put(observation, "__pydantic_fields_set__", _OBSERVED.copy())
    put(observation, "__pydantic_extra__", None)
    put(observation, "__pydantic_private__", {"_described": described, "_shown": shown})
    return observation


class SQLState(BaseModel):
    """Progress of the running episode. It is served to clients, so it holds nothing secret."""

    model_config = ConfigDict(extra="allow")

    episode_id: str | None = None
    step_count: int = Field(default=0, ge=0)
    question_id: str | None = None
    database_name: str | None = None
    budget_remaining: int = Field(default=0, ge=0)
    described_tables: list[str] = Field(default_factory=list)
    done: bool = False


class QuestionRecord(BaseModel):
    """A question with its gold query and everything the environment needs to judge an answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question_id: str = Field(min_length=1)
    question_text: str = Field(min_length=1)
    database_name: str = Field(min_length=1)
    gold_sql: str = Field(min_length=1)
    gold_answer: Any = Field(description="A scalar, a list of scalars or a list of rows")
    answer_type: AnswerType
    difficulty: Difficulty
    tables_involved: list[str]
    split: str = Field(min_length=1, description="train, eval, wide, unseen, …")
    hint: str | None = Field(default=None, description="Evidence the agent may read")
