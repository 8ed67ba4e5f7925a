"""What is kept of an episode: every action, what it brought, the verdict and why.

One episode is one JSON line. Metrics, comparisons and reports read only this.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from sql_env.models import QuestionRecord

GOLD_ROWS_KEPT = 20


class Step(NamedTuple):
    """One action and what came back. A tuple, because evaluation makes one per step."""

    action_type: str
    argument: str
    result: str
    error: str
    error_kind: str | None
    rows: int | None  # how many rows came back; None where the action returns none
    operational: float
    progress: float
    terminal: float
    trace: dict[str, Any]  # what the policy noted: raw text, whether it parsed, tokens used

    @property
    def reward(self) -> float:
        return self.operational + self.progress + self.terminal


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """One question played once.

    `error` is set where the episode broke off: the policy or the environment raised.
    """

    question_id: str
    question: str
    database: str
    difficulty: str
    answer_type: str
    gold_sql: str
    gold_answer: Any  # cut to the first rows: it is here for people to read
    sample: int
    seed: int
    steps: tuple[Step, ...]
    correct: bool
    verdict: str
    stop_reason: str
    error: str
    environment_seconds: float
    policy_seconds: float

    @property
    def key(self) -> tuple[str, int]:
        """What makes this episode the same one in another run."""
        return self.question_id, self.sample

    @property
    def reward(self) -> float:
        return sum(step.reward for step in self.steps)

    def to_json(self) -> str:
        """One line of `episodes.jsonl`."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields["steps"] = [_step_fields(step) for step in self.steps]
        return json.dumps(fields, ensure_ascii=False, default=repr)

    @classmethod
    def from_json(cls, line: str) -> EpisodeResult:
        """The episode of one line of `episodes.jsonl`.

        Raises:
            ValueError, TypeError: the line is not an episode.
        """
        fields = json.loads(line)
        fields["steps"] = tuple(_step_from(item) for item in fields["steps"])
        return cls(**fields)


def _step_fields(step: Step) -> dict[str, Any]:
    """Only what is set: most steps have no error and no trace."""
    fields = step._asdict()
    parts = [fields.pop(name) for name in ("operational", "progress", "terminal")]
    kept = {name: value for name, value in fields.items() if value or value == 0}
    return {**kept, "reward": [round(part, 6) for part in parts]}


def _step_from(fields: dict[str, Any]) -> Step:
    operational, progress, terminal = fields["reward"]
    return Step(
        action_type=fields.get("action_type", ""),
        argument=fields.get("argument", ""),
        result=fields.get("result", ""),
        error=fields.get("error", ""),
        error_kind=fields.get("error_kind"),
        rows=fields.get("rows"),
        operational=operational,
        progress=progress,
        terminal=terminal,
        trace=fields.get("trace", {}),
    )


def shortened_gold(record: QuestionRecord) -> Any:
    """The gold answer, without the rows nobody reads."""
    answer = record.gold_answer
    return answer[:GOLD_ROWS_KEPT] if isinstance(answer, list) else answer
