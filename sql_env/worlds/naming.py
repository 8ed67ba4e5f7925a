"""How one database spells its tables and columns: case, plurals, keys, abbreviations.

Databases in the wild differ in exactly this, so a model that has seen one style only cannot read
the next. A style is drawn per database; within it every name is made the same way.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from sql_env.worlds.english import plural
from sql_env.worlds.words import WORDS, split_words

_SHORT: dict[str, str] = WORDS["abbreviations"]
# Words that SQLite or the SQL reader would not take as a bare name, and T1-like aliases.
RESERVED = frozenset(split_words(WORDS["reserved"]))


@dataclass(frozen=True)
class Style:
    """One database's habits."""

    case: str  # snake, camel, mixed, lower, upper
    plural_tables: bool
    key_form: str  # table_id, id, tableid
    bare_references: bool  # `department` instead of `department_id`
    prefixed_names: bool  # `doctor_name` instead of `name`
    short: bool
    split_names: bool  # first and last name in two columns

    @classmethod
    def drawn(cls, rng: random.Random) -> Style:
        case = rng.choices(("snake", "mixed", "camel", "lower", "upper"), (9, 6, 4, 2, 1))[0]
        short = rng.random() < (0.7 if case == "lower" else 0.2)
        return cls(
            case=case,
            plural_tables=rng.random() < 0.45,
            key_form=rng.choices(("table_id", "id"), (7, 3))[0],
            bare_references=rng.random() < 0.12,
            prefixed_names=rng.random() < 0.2,
            short=short,
            split_names=rng.random() < 0.4,
        )

    def table(self, key: str, countable: bool = True) -> str:
        """`countable` is whether a row has a noun: `serves` has no plural."""
        words = key.split("_")
        if self.plural_tables and countable:
            words[-1] = plural(words[-1])
        return self.spelled(words)

    def column(self, key: str) -> str:
        return self.spelled(key.split("_"))

    def primary_key(self, table_key: str) -> str:
        words = ["id"] if self.key_form == "id" else [*table_key.split("_"), "id"]
        return self.spelled(words)

    def reference(self, role: str) -> str:
        words = role.split("_") if self.bare_references else [*role.split("_"), "id"]
        return self.spelled(words)

    def spelled(self, words: list[str]) -> str:
        """A name of these words."""
        if self.short:
            words = [_SHORT.get(word, word) for word in words]
        text = "_".join(words)
        if text.lower() in RESERVED or "".join(words).lower() in RESERVED:
            words = [*words, "info"]
            text = "_".join(words)
        if self.case == "snake":
            return text
        if self.case == "upper":
            return text.upper()
        if self.case == "lower":
            return "".join(words)
        capitals = ["ID" if word == "id" else word.capitalize() for word in words]
        return ("_" if self.case == "mixed" else "").join(capitals)
