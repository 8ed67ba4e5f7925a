"""When an action was played before: the reward, the episode loop and guided decoding ask here."""

from __future__ import annotations

from sql_env.core.schema import table_name
from sql_env.core.sql_text import normalize_sql


def action_key(kind: str, argument: str) -> tuple[str, str]:
    """Equal for actions that do the same: blanks, capitals and quotes of names make no other."""
    kind = kind.strip().upper()
    if kind == "QUERY":
        return kind, normalize_sql(argument)
    if kind in ("DESCRIBE", "SAMPLE"):
        return kind, table_name(argument.strip()).lower()
    return kind, " ".join(argument.lower().split())


class PlayedActions:
    """What an episode has played so far."""

    def __init__(self) -> None:
        self._keys: set[tuple[str, str]] = set()

    def __contains__(self, action: tuple[str, str]) -> bool:
        return action_key(*action) in self._keys

    def add(self, kind: str, argument: str) -> bool:
        """Note an action; whether it is the first of its kind."""
        return self.add_key(action_key(kind, argument))

    def add_key(self, key: tuple[str, str]) -> bool:
        """The same of an action whose key is known."""
        if key in self._keys:
            return False
        self._keys.add(key)
        return True

    def forget_answers(self) -> None:
        """There is a new result, and @last stands for that now."""
        self._keys = {key for key in self._keys if key[0] != "ANSWER"}

    def copy(self) -> PlayedActions:
        """Those so far, to be added to independently."""
        twin = PlayedActions()
        twin._keys = self._keys.copy()
        return twin
