"""What people call the tables and columns of a database, guessed from their physical names.

`Ref_Template_Types` holds template types, `cars_data` cars; `LName` is a last name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sql_env.worlds.english import ALREADY_PLURAL, IRREGULAR
from sql_env.worlds.words import WORDS, split_words

_SINGULAR: dict[str, str] = {many: one for one, many in IRREGULAR.items()} | WORDS["singulars"]
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_LONG_FORMS: dict[str, str] = WORDS["written_out"]
_ACRONYMS = frozenset(
    split_words("id gnp gdp mpg url isbn dvd cd tv uk us usa hq ip imdb ssn gpa pin uid")
)
_WRAPPING = frozenset(split_words("ref tbl tb table data list info information master record"))
_PEOPLE = frozenset(split_words(WORDS["people"]))


def singular(word: str) -> str:
    """One of the things a plural names; a word that is no plural stays as it is."""
    if word in _SINGULAR:
        return _SINGULAR[word]
    if len(word) < 4 or not word.endswith("s") or word in ALREADY_PLURAL:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return word[:-2]
    return word if word.endswith(("ss", "us", "is")) else word[:-1]


def words_of(name: str, known: frozenset[str] = frozenset()) -> list[str]:
    """The words of a physical name, abbreviations written out: `LName` is `last name`.

    A word that is two known ones in a row is taken apart: `countrylanguage`.
    """
    pieces = [piece for part in re.split(r"[^A-Za-z0-9]+", name) for piece in _PIECE.findall(part)]
    words = [piece.lower() for piece in pieces]
    if len(words) == 2 and words[1] == "name" and words[0] in ("f", "l", "m"):
        words = [words[0] + "name"]
    words = [part for word in words for part in _taken_apart(word, known)]
    spelled = [_LONG_FORMS.get(word, word) for word in words]
    return " ".join(word.upper() if word in _ACRONYMS else word for word in spelled).split()


def _taken_apart(word: str, known: frozenset[str]) -> list[str]:
    if word not in known:
        for i in range(3, len(word) - 2):
            if word[:i] in known and word[i:] in known:
                return [word[:i], word[i:]]
    return [word]


def vocabulary(columns: Iterable[str], tables: Iterable[str]) -> frozenset[str]:
    """The words a database uses, to take longer ones apart."""
    words = {word for name in columns for word in words_of(name)}
    return frozenset(words | {singular(word) for name in tables for word in words_of(name)[:1]})


def table_noun(name: str, known: frozenset[str] = frozenset()) -> str:
    """What one row of a table is called; empty where the name has no words."""
    words = words_of(name, known)
    while len(words) > 1 and words[0] in _WRAPPING:
        words = words[1:]
    while len(words) > 1 and words[-1] in _WRAPPING:
        words = words[:-1]
    if words:
        words[-1] = singular(words[-1])
    return " ".join(words)


def is_person(noun: str) -> bool:
    """Whether the noun is one of a person."""
    return noun.rpartition(" ")[2] in _PEOPLE


def column_words(name: str, noun: str) -> str:
    """What a column is called beside the noun of its table: `pet_age` of a pet is its `age`."""
    words, of = words_of(name), noun.split()
    if len(words) > len(of) and [singular(word) for word in words[: len(of)]] == of:
        words = words[len(of) :]
    elif of and words[-len(of) - 1 :] == ["of", *of]:
        words = words[: -len(of) - 1]
    elif len(of) > 1 and len(words) > 1 and words[0] == of[-1]:
        words = words[1:]
    return _dated(" ".join(words))


def _dated(words: str) -> str:
    """`date from` and `date effective to` as people say them."""
    match = re.fullmatch(r"date( [a-z ]+)? (from|to)", words)
    if match:
        end = "start date" if match[2] == "from" else "end date"
        return f"{(match[1] or '').strip()} {end}".strip()
    return "start year" if words == "start from" else words
