"""Words that are data, as `words.toml` has them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def split_words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


def items(text: str) -> tuple[str, ...]:
    """The parts of a text between its commas."""
    return tuple(" ".join(part.split()) for part in text.split(","))


FIRST_NAMES = split_words(WORDS["first_names"])
LAST_NAMES = split_words(WORDS["last_names"])
CITIES: dict[str, str] = WORDS["cities"]
COUNTRIES_WITH_ARTICLE = frozenset(
    items("Czech Republic, Netherlands, United Kingdom, United States")
)
