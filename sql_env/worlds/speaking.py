"""Values in words: numbers with units, dates as people write them, thresholds people choose."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

from sql_env.worlds.words import split_words
from sql_env.worlds.world import Value, WorldColumn

_MONTHS = split_words(
    "January February March April May June July August September October November December"
)


def speak_number(column: WorldColumn, value: Value) -> str:
    """A number with its unit, thousands set apart where that helps."""
    text = str(value)
    if isinstance(value, int | float) and column.kind != "year":
        grouped = abs(value) >= (1_000 if column.spec.unit.startswith("$") else 10_000)
        text = f"{value:,}" if grouped else text
    return column.spec.unit.format(text)


def speak_date(value: str, rng: random.Random) -> str:
    """A day in one of the ways people write it; a moment as it is stored."""
    if len(value) > len("2000-01-01"):
        return value
    day = dt.date.fromisoformat(value)
    month = _MONTHS[day.month - 1]
    return rng.choice((value, f"{month} {day.day}, {day.year}", f"{day.day} {month} {day.year}"))


def speak_value(column: WorldColumn, value: Value, rng: random.Random) -> str:
    if column.kind == "date":
        return speak_date(str(value), rng)
    if column.kind in ("number", "year"):
        return speak_number(column, value)
    return column.spoken(value)


def _round(value: float, digits: int = 2) -> float | int:
    """A threshold a person would choose: two significant digits."""
    if value == 0:
        return 0
    scale = 10 ** (math.floor(math.log10(abs(value))) - digits + 1)
    rounded = round(value / scale) * scale
    return int(rounded) if scale >= 1 else round(rounded, 6)


def threshold(column: WorldColumn, rng: random.Random, low: float, high: float) -> Any:
    """A value somewhere between two quantiles, rounded as people round."""
    known = sorted(column.known)
    picked = known[min(len(known) - 1, int(len(known) * rng.uniform(low, high)))]
    if column.kind == "number":
        rounded = _round(picked)
        return int(rounded) if isinstance(picked, int) or rounded % 1 == 0 else rounded
    if column.kind == "date" and rng.random() < 0.5:
        return f"{picked[:4]}-01-01"
    return picked
