"""Steps and episodes for tests that need no environment to make them."""

from __future__ import annotations

from typing import Any

from sql_env.agent.episodes import EpisodeResult, Step


def make_step(kind: str, argument: str = "", **fields: Any) -> Step:
    values = {
        "result": "",
        "error": "",
        "error_kind": None,
        "rows": None,
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
