"""Did you mean …? One answer to every name that is not there."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_NAMES_LISTED = 20


def nearest(name: str, names: Iterable[str], *, count: int = 1, likeness: float = 0.5) -> list[str]:
    """Those of `names` that are most like `name`, the likeliest first; capitals do not matter."""
    spelt = {item.lower(): item for item in names}
    return [spelt[item] for item in get_close_matches(name.lower(), spelt, count, likeness)]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """` Did you mean X?`, to follow an error, or nothing."""
    return "".join(f" Did you mean {item}?" for item in nearest(name, names))


def name_some(names: Iterable[str], near: str = "") -> str:
    """A list of names for a message; of many, those most like `near`."""
    every = sorted(names)
    if len(every) <= _NAMES_LISTED:
        return ", ".join(every) or "none"
    alike = nearest(near, every, count=3, likeness=0.4) or every[:3]
    return f"{', '.join(alike)} and {len(every) - len(alike)} others"
