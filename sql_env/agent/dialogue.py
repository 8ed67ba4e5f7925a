"""How a language model is spoken to, whoever runs it.

A policy is handed its words and its parser, because they belong to training, a room above; the
same prompt and parser serve both, so evaluation and training cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sql_env.models import SQLAction, SQLObservation


@dataclass(frozen=True)
class Dialogue:
    """How a model is spoken to, and how its words are understood.

    Attributes:
        system_prompt: the first message of every episode.
        format_observation: an observation as a user turn.
        parse: a model's text as an action. Where the text holds none it guesses, and says so
            with `metadata={"parsed": False}`.
    """

    system_prompt: str
    format_observation: Callable[[SQLObservation], str]
    parse: Callable[[str], SQLAction]

    def understand(self, text: str, **trace: Any) -> SQLAction:
        """The action in `text`, with the text itself as its trace."""
        action = self.parse(text)
        noted = {"raw": text, "parsed": True, **trace, **action.metadata}
        return action.model_copy(update={"metadata": noted})
