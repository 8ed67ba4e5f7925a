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
        parse_action: a model's text as an action; raises ValueError where it holds none.
    """

    system_prompt: str
    format_observation: Callable[[SQLObservation], str]
    parse_action: Callable[[str], SQLAction]

    def understand(self, text: str, **trace: Any) -> SQLAction:
        """The action in `text`, with the text itself as its trace.

        Text without an action is played as a query: it fails, and the error says so.
        """
        try:
            action, parsed = self.parse_action(text), True
        except ValueError:
            action, parsed = SQLAction(action_type="QUERY", argument=text.strip()), False
        return action.model_copy(update={"metadata": {"raw": text, "parsed": parsed, **trace}})
