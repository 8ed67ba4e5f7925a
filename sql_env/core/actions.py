"""When two actions are the same: the reward, the episode loop and guided decoding ask here."""

from __future__ import annotations

import re

from sql_env.core.sql_text import normalize_sql

_ORNAMENT = re.compile(r"[\s\"'`\[\];]+")


def action_key(kind: str, argument: str) -> tuple[str, str]:
    """Equal for actions that do the same: blanks, capitals and quotes of names make no other."""
    kind = kind.strip().upper()
    if kind == "QUERY":
        return kind, normalize_sql(argument)
    return kind, _ORNAMENT.sub(" ", argument.lower()).strip()
