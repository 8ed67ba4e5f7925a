"""SQLEnv as an environment of SkyRL-Gym, so that SkyRL can train on it.

    from sql_env.integrations import skyrl

    skyrl.register()
    env = skyrl_gym.make("sql_env", extras={"question_id": "zoo-001"})

The trainer's rows carry `question_id`, and may carry `dataset`, `step_budget` and `rewards`; see
`SkyRLEnvironment`. Its configuration names `sql_env` as the environment's class.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
from skyrl_gym.envs.registration import register as register_environment
from skyrl_gym.envs.registration import registry

from sql_env.agent.prompts import Prompt
from sql_env.core.reward import RewardConfig
from sql_env.environment import SQLEnvironment
from sql_env.integrations.chat import ChatEpisode, Message
from sql_env.questions import Dataset

ENV_ID = "sql_env"


def register() -> None:
    """Make `sql_env` known to `skyrl_gym.make`; a second time does nothing."""
    if ENV_ID not in registry:
        register_environment(ENV_ID, f"{__name__}:{SkyRLEnvironment.__name__}")


class SkyRLEnvironment(BaseTextEnv):  # type: ignore[misc]  # it has no types
    """One episode. A turn's text comes in, the next messages and the turn's reward go out.

    Args:
        env_config: the environment's section of SkyRL's configuration; nothing of it is used.
        extras: `question_id`; `dataset`, a folder (default: the embedded data); `step_budget` (15);
            `rewards`, `dense` or `binary`.

    Raises:
        ValueError: there is no question, or a value is not allowed.
    """

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        given = dict(extras or {})
        if "question_id" not in given:
            raise ValueError("extras lack a question_id: each row must name its question")
        rewards = given.get("rewards", "dense")
        if rewards not in ("dense", "binary"):
            raise ValueError(f"extras have rewards {rewards!r}: use dense or binary")
        self.max_turns = int(given.get("step_budget", 15))
        self._question_id = str(given["question_id"])
        template = _template(given.get("dataset"), self.max_turns, rewards)
        self._env = template.another()
        self._episode = ChatEpisode(self._env, Prompt())

    def init(self, prompt: list[Message]) -> tuple[list[Message], dict[str, Any]]:
        """The first messages; what the row's own prompt says is not needed."""
        return self._episode.begin(self._question_id), {"question_id": self._question_id}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Play the actions of one turn."""
        self.turns += 1
        before = len(self._episode.steps)
        read = self._episode.reply(action)
        done = self._episode.done
        return BaseTextEnvStepOutput(
            observations=[] if done else read,
            reward=sum(step.reward for step in self._episode.steps[before:]),
            done=done,
            metadata={},
        )

    def get_metrics(self) -> dict[str, float]:
        """What SkyRL averages over episodes."""
        return {
            "success": float(any(step.terminal > 0 for step in self._episode.steps)),
            "steps": float(len(self._episode.steps)),
        }

    def close(self) -> None:
        self._env.close()


@lru_cache(maxsize=8)
def _template(dataset: str | None, step_budget: int, rewards: str) -> SQLEnvironment:
    """Questions are read once for all episodes of a process."""
    data = Dataset.at(dataset)
    return SQLEnvironment(
        data.questions_path,
        data.db_dir,
        step_budget,
        reward=RewardConfig.binary() if rewards == "binary" else RewardConfig(),
    )
