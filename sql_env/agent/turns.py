"""One episode as its model lives it: turns of one action or several, and what is read after each.

A model writes a turn; its actions are played one after the other, each at its price, up to the
first error; then the model reads what came of all of them at once. So a turn with several actions
is one turn of the model's, and several steps of the episode. An ANSWER is played in a turn of its
own only: whoever writes it beside a QUERY has not seen the result.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from sql_env.agent.guided import Guide
from sql_env.agent.parsing import parse_model_output, parse_turn
from sql_env.agent.prompts import (
    Prompt,
    format_not_played,
    format_observation,
    format_outcome,
    format_question,
    format_steps_left,
)
from sql_env.models import SQLAction, SQLObservation


class Reading(NamedTuple):
    """What a model reads next.

    Attributes:
        texts: one text; for the results of tool calls one for each call.
        of_tools: they are results of tool calls.
    """

    texts: list[str]
    of_tools: bool

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


class Dialogue:
    """The turns of one episode.

    Args:
        prompt: says how many actions a turn may hold and what is read back.
        guided: remember what guided decoding has to know; see `objection`.

    Attributes:
        turns: how many there were.
        text: the last one, as it was written.
    """

    def __init__(self, prompt: Prompt, *, guided: bool = False) -> None:
        self._prompt = prompt
        self._guide = Guide() if guided else None
        self.turns = 0
        self.text = ""
        self._calls = False  # the turn called tools
        self._to_play: deque[SQLAction] = deque()
        self._held: list[SQLAction] = []  # not to be played in this turn
        self._played: list[tuple[SQLAction, SQLObservation]] = []
        self._now: SQLAction | None = None
        self._heard: SQLObservation
        self._failed = ""  # the error of the last query

    def hear(self, observation: SQLObservation) -> None:
        """What the episode begins with, or what came of the action under way."""
        self._heard = observation
        if self._guide is not None:
            self._guide.hear(observation)
        if self._now is not None:
            self._played.append((self._now, observation))
            if self._now.action_type == "QUERY":
                self._failed = observation.error

    def understand(self, text: str, **trace: object) -> SQLAction:
        """A turn that the model wrote; its first action.

        Every action notes its turn; the first also what the whole turn is known by: the text, and
        `trace`, so that tokens are counted once.
        """
        actions, self._held = _meant(text, self._prompt)
        self.text = text
        self.turns += 1
        noted = {"turn": self.turns}
        first, *others = actions
        known = {**noted, "raw": text, "parsed": True, **trace, **first.metadata}
        self._to_play = deque(a.model_copy(update={"metadata": noted}) for a in others)
        self._played = []
        self._calls = self._prompt.actions == "tools" and bool(known["parsed"])
        return self._play(first.model_copy(update={"metadata": known}))

    def go_on(self) -> SQLAction | None:
        """The turn's next action; None where the model is to write."""
        if self._heard.error or not self._to_play:
            return None
        return self._play(self._to_play.popleft())

    def objection(self, text: str) -> str:
        """Why guided decoding would not play one of a turn's actions, or nothing."""
        assert self._guide is not None, "the dialogue is not guided"
        actions, _ = _meant(text, self._prompt)
        return next(filter(None, map(self._guide.objection, actions)), "")

    def actions(self) -> list[SQLAction]:
        """All actions of the turn, played or not."""
        return [*(action for action, _ in self._played), *self._to_play, *self._held]

    def reading(self) -> Reading:
        """What the model reads before it writes its next turn."""
        seen = self._heard
        if not self._prompt.several:
            return Reading([format_observation(seen)], self._calls)
        if self._now is None:
            return Reading([format_question(seen)], of_tools=False)
        texts = [
            format_outcome(*played, failed=self._failed, actions=self._prompt.actions)
            for played in self._played
        ]
        left = [*self._to_play, *self._held]
        for group in [[action] for action in left] if self._calls else [left] if left else []:
            texts.append(format_not_played(group, after_error=bool(seen.error)))
        if near_end := format_steps_left(seen):
            texts[-1] += f"\n{near_end}"
        return Reading(texts, self._calls)

    def _play(self, action: SQLAction) -> SQLAction:
        self._now = action
        if self._guide is not None:
            self._guide.add(action)
        return action


def _meant(text: str, prompt: Prompt) -> tuple[list[SQLAction], list[SQLAction]]:
    """The actions that a turn means: those to play, and those it should not have held."""
    if not prompt.several:
        return [parse_model_output(text, warn=False)], []
    actions = parse_turn(text)
    answers = [n for n, action in enumerate(actions) if n and action.action_type == "ANSWER"]
    end = answers[0] if answers else len(actions)
    return actions[:end], actions[end:]
