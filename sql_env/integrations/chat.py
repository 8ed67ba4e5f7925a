"""An episode as a chat, for frameworks that own the loop themselves.

    episode = ChatEpisode(env)
    messages = episode.begin("car_1-007")       # system, worked example, question
    messages += episode.reply(model(messages))  # what the model reads next
    episode.result().correct

Turns, their actions and the record are those of the loop that plays everywhere else.
"""

from __future__ import annotations

from typing import Any

from sql_env.agent.episodes import EpisodeResult, Step
from sql_env.agent.playing import PlannedEpisode, RunningEpisode
from sql_env.agent.prompts import NEWEST, Prompt
from sql_env.agent.turns import Dialogue
from sql_env.environment import SQLEnvironment, UnknownQuestionError
from sql_env.models import SQLAction

Message = dict[str, Any]


class ChatEpisode:
    """One episode; the caller asks the model.

    Args:
        env: plays the episode; it is not shared.
        prompt: how the model is spoken to, and how many actions a turn may hold.

    Attributes:
        done: the episode is over.
    """

    def __init__(self, env: SQLEnvironment, prompt: Prompt = NEWEST) -> None:
        self._env = env
        self._prompt = prompt
        self.done = False

    def begin(self, question_id: str) -> list[Message]:
        """The messages before the model's first turn.

        Raises:
            UnknownQuestionError: the environment has no such question.
        """
        records = {record.question_id: record for record in self._env.questions}
        if question_id not in records:
            raise UnknownQuestionError(f"no question {question_id!r} among {len(records)} loaded")
        self._running = RunningEpisode(self._env, PlannedEpisode(records[question_id]), seed=0)
        self._running.begin()
        self._dialogue = Dialogue(self._prompt)
        self._dialogue.hear(self._running.observation)
        self.done = False
        system = {"role": "system", "content": self._prompt.system}
        return [system, *self._prompt.example, *self._reading()]

    def reply(self, text: str) -> list[Message]:
        """Play the actions of a turn; what the model reads next, after the last turn too."""
        action: SQLAction | None = self._dialogue.understand(text)
        while action is not None:
            self._running.advance(action)
            self._dialogue.hear(self._running.observation)
            self.done = self._running.observation.done
            action = None if self.done else self._dialogue.go_on()
        return self._reading()

    @property
    def steps(self) -> list[Step]:
        """What was played so far."""
        return self._running.steps

    def result(self) -> EpisodeResult:
        """The record of an episode that is over."""
        return self._running.finish()

    def _reading(self) -> list[Message]:
        reading = self._dialogue.reading()
        if reading.of_tools:
            return [{"role": "tool", "content": text} for text in reading.texts]
        return [{"role": "user", "content": reading.text}]
