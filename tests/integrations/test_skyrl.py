"""Episodes played through skyrl-gym itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import skyrl_gym

from sql_env.integrations import skyrl


def make(music_dir: Path, **extras: Any) -> Any:
    skyrl.register()
    return skyrl_gym.make("sql_env", env_config={}, extras={"dataset": str(music_dir), **extras})


def test_a_right_episode_is_paid_and_ends(music_dir: Path) -> None:
    env = make(music_dir, question_id="music_count", rewards="binary")
    messages, about = env.init([])
    assert messages[0]["role"] == "system"
    assert messages[-1]["content"].startswith("Question: How many singers are there?")
    assert about == {"question_id": "music_count"}
    first = env.step("DESCRIBE: Singer\nQUERY: SELECT count(*) FROM singer")
    assert not first["done"]
    assert first["reward"] == 0
    assert [message["role"] for message in first["observations"]] == ["user"]
    last = env.step("ANSWER: @last")
    assert (last["done"], last["reward"], last["observations"]) == (True, 1.0, [])
    assert env.get_metrics() == {"success": 1.0, "steps": 3.0}
    env.close()


def test_every_step_of_a_turn_is_paid(music_dir: Path) -> None:
    env = make(music_dir, question_id="music_count")
    env.init([])
    turn = env.step("DESCRIBE: Singer\nDESCRIBE: Concert")
    single = make(music_dir, question_id="music_count")
    single.init([])
    apart = [single.step(f"DESCRIBE: {name}")["reward"] for name in ("Singer", "Concert")]
    assert turn["reward"] == pytest.approx(sum(apart))


def test_the_budget_ends_an_episode(music_dir: Path) -> None:
    env = make(music_dir, question_id="music_count", step_budget=2)
    env.init([])
    assert not env.step("SAMPLE: Singer")["done"]
    assert env.step("SAMPLE: Concert")["done"]
    assert env.get_metrics()["success"] == 0


def test_a_row_must_name_its_question_and_known_rewards(music_dir: Path) -> None:
    with pytest.raises(ValueError, match="lack a question_id"):
        make(music_dir)
    with pytest.raises(ValueError, match="use dense or binary"):
        make(music_dir, question_id="music_count", rewards="lots")
