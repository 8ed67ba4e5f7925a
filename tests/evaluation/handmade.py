"""Steps, episodes and described tables for tests that need no environment to make them."""

from __future__ import annotations

import sqlite3
from typing import Any

from sql_env.evaluation.proofreading import Tables

from sql_env.agent.episodes import EpisodeResult, Step
from sql_env.agent.known_schema import described_tables
from sql_env.core.render import render_schema
from sql_env.core.schema import read_schemas


def described(connection: sqlite3.Connection, *names: str) -> Tables:
    """As DESCRIBE shows the tables of a database: all of them, or those of these names."""
    shown = [item for item in read_schemas(connection) if not names or item.name in names]
    return dict(described_tables("\n\n".join(map(render_schema, shown))))


def make_step(kind: str, argument: str = "", **fields: Any) -> Step:
    values = {
        "result": "",
        "error": "",
        "error_kind": None,
        "operational": 0.0,
        "progress": 0.0,
        "terminal": 0.0,
        "trace": {},
        **fields,
    }
    return Step(action_type=kind, argument=argument, **values)


def handmade_episode(question_id: str = "q", correct: bool = False, **fields: Any) -> EpisodeResult:
    """An episode with everything filled in that a test does not care about."""
    values: dict[str, Any] = {
        "question": f"What about {question_id}?",
        "database": "music",
        "difficulty": "easy",
        "answer_type": "integer",
        "gold_sql": "SELECT 1",
        "gold_answer": 1,
        "sample": 0,
        "seed": 0,
        "steps": (make_step("ANSWER", "1", terminal=float(correct)),),
        "verdict": "",
        "stop_reason": "correct" if correct else "wrong_answer",
        "error": "",
        "environment_seconds": 0.25,
        "policy_seconds": 0.75,
        **fields,
    }
    return EpisodeResult(question_id=question_id, correct=correct, **values)
