"""What a column of an existing database holds, guessed from its name, its type and its values."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sql_env.worlds.english import ALREADY_PLURAL
from sql_env.worlds.humanising import column_words, is_person, singular, words_of
from sql_env.worlds.schema import Column
from sql_env.worlds.values import Cells, Choice
from sql_env.worlds.words import WORDS, split_words
from sql_env.worlds.world import Value, WorldColumn

_LONGEST = 60  # characters of a value that fits into a question
_DATE = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?")
# Not to be put in a sentence, or not to be found again in one.
_ODD = re.compile(r"[{}|\x00-\x1f]|\s\s|\s[,.?;:]|^null$|^n/?a$", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_YEARS = range(1000, 2101)
_MARKS = frozenset(
    split_words(
        """id code number zip postcode postal phone telephone fax mobile version major minor advisor
        uid isbn ssn account key order seq sequence capital"""
    )
)
_TOTALS = frozenset(
    split_words(
        """population amount cost sales quantity budget earnings money revenue area products
        capacity bonus points goals wins losses attendance students total profit profits hours
        votes seats pages employees members salary payment gnp gdp"""
    )
)
_NO_TOTALS = frozenset(split_words("average percentage rate minimum maximum"))
# "the average average" says nothing.
_UNSPEAKABLE = frozenset(
    split_words("highest lowest average total maximum minimum high low mean count sum rank order")
)
# Plurals that are amounts: nobody has 300 earnings.
_AMOUNTS = frozenset(
    split_words(
        """earnings sales assets profits savings damages proceeds feet meters metres inches miles
        kilometers dollars minutes seconds days years"""
    )
)
_HANGING = frozenset(split_words("in of to from by at on for with as"))
_INTRANSITIVE = frozenset(
    split_words("arrived departed joined left died started ended retired graduated moved expired")
)
_YES = {"t": True, "y": True, "yes": True, "true": True, "1": True}
_NO = {"f": False, "n": False, "no": False, "false": False, "0": False}
_PLACES = frozenset(
    split_words(
        "city country state region district continent location town county province hometown"
    )
)

_OWN_WORDS: dict[str, dict[str, str]] = WORDS["own_words"]


@dataclass(frozen=True)
class Found:
    """Values that are already there: nothing is drawn."""

    kind: str
    capacity: int | None = None

    def draw(self, rng: Any, row: Cells) -> Any:
        raise NotImplementedError("the values of an existing database are read, not drawn")


@dataclass(frozen=True)
class Seen:
    """A column as the file shows it."""

    name: str  # as declared
    sql_name: str  # quoted where SQL needs it
    type: str
    values: list[Any]
    key: bool  # part of the primary key
    reference: bool


def guess_column(seen: Seen, noun: str, person: bool) -> WorldColumn | None:
    """The column as questions may speak of it; None where nobody would."""
    known = [value for value in seen.values if value is not None]
    words = column_words(seen.name, "" if seen.reference else noun)
    if not known or not words or any(isinstance(value, bytes) for value in known):
        return None
    first, last = words.split()[0], words.split()[-1]
    if last in _HANGING or first in ("took", "left", "was"):
        return None
    if last.lower() in ("id", "uid") or (seen.reference and last != "code"):
        return None
    if seen.key and not isinstance(known[0], str):
        return None
    flag = _flag(seen, words, known)
    if flag is not None:
        return flag
    numbers = _numbers(seen, known)
    if numbers is not None and last in ("gender", "sex"):
        return None
    if numbers is not None:
        return _number(seen, words, numbers)
    texts = [value for value in known if isinstance(value, str)]
    if len(texts) < len(known):
        return None
    if all(_is_date(text) for text in texts):
        return WorldColumn(_spec(seen, "date", words), seen.sql_name, seen.values)
    if any(len(text) > _LONGEST or "\n" in text for text in texts):
        return None
    return _text(seen, words, last, texts, person)


def _is_date(text: str) -> bool:
    try:
        return bool(_DATE.fullmatch(text) and dt.date.fromisoformat(text[:10]))
    except ValueError:  # 0000-00-00
        return False


def _spec(seen: Seen, kind: str, words: str, **more: Any) -> Column:
    own = dict(_OWN_WORDS.get(words) or _OWN_WORDS.get(words.rpartition(" ")[2]) or {})
    if kind in ("date", "year"):
        first, _, rest = words.partition(" ")
        if first in ("date", "year") and rest.endswith("ed") and " " not in rest:
            event = f"{rest}|{rest}" if rest in _INTRANSITIVE else f"was {rest}"
            own.setdefault("event", event)
    elif "event" in own:
        own = {}
    return Column(seen.name.lower(), Found(kind), (words,), **(own | more))


def _numbers(seen: Seen, known: Sequence[Any]) -> list[Value] | None:
    """The values as numbers, where SQLite compares them as numbers too."""
    if all(isinstance(value, int | float) for value in known):
        whole = all(float(value).is_integer() for value in known)
        return [int(v) if whole and v is not None else v for v in seen.values]
    # Digits kept as text sort like numbers only where all have the same length.
    if all(isinstance(value, str) and value.isascii() and value.isdigit() for value in known):
        same = len({len(value) for value in known}) == 1 and not known[0].startswith("0")
        return [None if value is None else int(value) for value in seen.values] if same else None
    return None


def _number(seen: Seen, words: str, values: list[Value]) -> WorldColumn | None:
    known = [value for value in values if isinstance(value, int | float)]
    spoken = set(words.lower().split())
    dated = spoken & {"year", "date", "since", "founded", "from", "built", "opened", "established"}
    if dated and max(known) in _YEARS and sorted(known)[len(known) // 2] in _YEARS:
        more = {"eq": "be from {}"} if words == "year" else {}
        return WorldColumn(_spec(seen, "year", words, **more), seen.sql_name, values)
    counted = _counted(words)
    if not counted and (spoken & _MARKS or seen.key):
        if len(set(known)) == len(known) or len(set(known)) < 2:
            return WorldColumn(_spec(seen, "text", words), seen.sql_name, seen.values)
        return WorldColumn(_spec(seen, "category", words), seen.sql_name, values)
    if spoken <= _UNSPEAKABLE:
        return WorldColumn(_spec(seen, "text", words), seen.sql_name, seen.values)
    additive = bool(spoken & _TOTALS) and not spoken & _NO_TOTALS
    if counted:
        spec = _spec(seen, "number", f"number of {counted}", counted=counted, additive=True)
    else:
        spec = _spec(seen, "number", words, additive=additive)
    return WorldColumn(spec, seen.sql_name, values)


def _counted(words: str) -> str:
    """The things a number counts: `number of products` and `cylinders`, but not `earnings`."""
    if words.startswith("number "):
        return words.removeprefix("number ").removeprefix("of ")
    last = words.rpartition(" ")[2]
    if last in _AMOUNTS or last in ALREADY_PLURAL or singular(last) == last:
        return ""
    return words


def _flag(seen: Seen, words: str, known: Sequence[Any]) -> WorldColumn | None:
    first, _, rest = words.partition(" ")
    last = words.rpartition(" ")[2]
    if first in ("is", "has") and rest:
        said = rest
    elif last in ("yn", "flag") and words != last:
        said, first = words.removesuffix(f" {last}"), "is"
    else:
        return None
    options = []
    for value in sorted(set(known), key=str):
        meaning = (_YES | _NO).get(str(value).lower())
        if meaning is None:
            return None
        said_no = f"not {said}" if first == "is" else f"no {said}"
        options.append((value, said if meaning else said_no))
    if len(options) != 2:
        return None
    choice = Choice(tuple(options), kind="flag")
    eq = "are|is {}" if first == "is" else "have|has {}"
    spec = Column(seen.name.lower(), choice, (said,), eq=eq)
    return WorldColumn(spec, seen.sql_name, seen.values, choice)


def _text(
    seen: Seen, words: str, last: str, texts: Sequence[str], person: bool
) -> WorldColumn | None:
    different = set(texts)
    odd = {text for text in different if text != text.strip() or not text or _ODD.search(text)}
    values = seen.values
    if odd:
        if sum(text in odd for text in texts) > 0.05 * len(texts):
            return WorldColumn(_spec(seen, "text", words), seen.sql_name, values)
        # Nobody asks for these: for questions they are not there.
        values = [None if value in odd else value for value in values]
        different -= odd
    if last in ("gender", "sex") and {text.lower() for text in different} <= {"f", "m"}:
        spoken = {"f": "female", "m": "male"}
        choice = Choice(tuple((text, spoken[text.lower()]) for text in sorted(different)))
        spec = Column(seen.name.lower(), choice, (words,), eq="adj {}")
        return WorldColumn(spec, seen.sql_name, values, choice)
    repeated = len(different) <= 0.7 * len(texts)
    if last in ("phone", "number", "email", "address", "password", "line", "details"):
        repeated = False
    # Numbers kept as text, with a word here and there: SQLite would compare them as words.
    if sum(_NUMBER.fullmatch(text) is not None for text in texts) > 0.5 * len(texts):
        repeated = repeated and last in _MARKS
    if not repeated:
        return WorldColumn(_spec(seen, "text", words), seen.sql_name, values)
    eq = ""
    if words in _PLACES and person:
        eq = "be from {}" if words in ("country", "hometown") else "live|lives in {}"
    elif words in _PLACES:
        eq = f"be in the {words} {{}}"  # a country may be in a region and in a continent
    return WorldColumn(_spec(seen, "category", words, eq=eq), seen.sql_name, values)


def display_columns(columns: Sequence[WorldColumn], noun: str) -> tuple[str, list[WorldColumn]]:
    """The kind and the columns by which people tell the rows apart; none where only a key does."""
    by_words = {column.spec.words[0]: column for column in columns if column.kind in _NAMING}
    if "first name" in by_words and "last name" in by_words:
        return "person", [by_words["first name"], by_words["last name"]]
    last = noun.rpartition(" ")[2]
    for words in ("name", "full name", f"{last} name", "title", noun, last, "description"):
        column = by_words.get(words)
        least = 0.75 if words in ("name", "title") else 0.9
        if column is not None and _tells_apart(column, least):
            if words in (noun, last):
                column.spec = replace(column.spec, words=("name",))
            return "name", [column]
    return "", []


_NAMING = ("text", "category")


def _tells_apart(column: WorldColumn, least: float) -> bool:
    known = column.known
    usable = all(
        isinstance(value, str) and value.strip() == value and value and not _ODD.search(value)
        for value in known
    )
    return usable and len(known) > 0.9 * len(column.values) and len(set(known)) > least * len(known)


def without_rivals(columns: Sequence[WorldColumn]) -> None:
    """Only one column may make a row the oldest: the age, where there is one."""
    if not any(column.spec.words[0] == "age" and column.spec.most for column in columns):
        return
    for column in columns:
        if column.kind in ("date", "year"):
            column.spec = replace(column.spec, most="", least="")


def spoken_of_people(noun: str, columns: Sequence[str]) -> bool:
    """Whether the rows are people."""
    words = {" ".join(words_of(column)) for column in columns}
    return is_person(noun) or {"first name", "last name"} <= words
