"""Small pieces of English: plurals, articles, lists, verbs and ways of saying a property."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sql_env.worlds.words import WORDS, split_words

IRREGULAR: dict[str, str] = WORDS["plurals"]
# Words that have no singular here, and what columns hold: `earnings`, `other details`.
ALREADY_PLURAL = frozenset(split_words(WORDS["already_plural"]))
_SILENT_H = ("hour", "honor", "honour", "heir")
_SOUNDS_LIKE_YOU = ("university", "unit", "union", "unique", "uniform", "use", "usual", "one", "eu")


def plural(noun: str) -> str:
    """The plural of a noun phrase: `date of birth` → `dates of birth`."""
    for preposition in (" of ", " per "):
        head, joint, rest = noun.partition(preposition)
        if joint:
            return f"{plural(head)}{joint}{rest}"
    before, _, word = noun.rpartition(" ")
    first, _, rest = noun.partition(" ")
    if first in ("date", "year") and word.endswith("ed"):
        return f"{first}s {rest}"
    prefix = f"{before} " if before else ""
    lower = word.lower()
    if lower in ALREADY_PLURAL:
        return noun
    if lower in IRREGULAR:
        return prefix + IRREGULAR[lower]
    if re.search(r"[^aeiou]y$", lower):
        return f"{prefix}{word[:-1]}ies"
    if re.search(r"(s|x|z|ch|sh)$", lower):
        return f"{prefix}{word}es"
    return f"{prefix}{word}s"


def with_article(phrase: str) -> str:
    """`phrase` after `a` or `an`, by the sound it begins with; `earnings` go without."""
    word = phrase.lower()
    if not ALREADY_PLURAL.isdisjoint(word.split()[:2]):
        return phrase
    vowel = word[0] in "aeiou" and not word.startswith(_SOUNDS_LIKE_YOU)
    if word[0].isdigit():
        vowel = word[0] == "8" or re.match(r"1[18](\D|$)", word) is not None
    # A letter read by its name: an MRI, an X-ray.
    letters = re.match(r"([A-Z])(?![a-z])", phrase)
    if letters:
        vowel = letters[1] in "AEFHILMNORSX"
    return f"{'an' if vowel or word.startswith(_SILENT_H) else 'a'} {phrase}"


def listing(items: Sequence[str], word: str = "and") -> str:
    """`a, b and c`."""
    if len(items) == 1:
        return items[0]
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def sentence(text: str) -> str:
    """Tidy spaces and begin with a capital; the end mark is the template's."""
    text = re.sub(r"\s+([,.?;:])", r"\1", " ".join(text.split()))
    return text[0].upper() + text[1:]


_SMALL = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def number_word(number: int) -> str:
    """`three` up to ten, digits above."""
    return _SMALL[number] if 0 <= number < len(_SMALL) else str(number)


@dataclass(frozen=True)
class Verb:
    """A verb with what follows it: `work|works in`, `have|has written`, `are|is held in`.

    The part before the bar agrees with many, the part after it with one.
    """

    spec: str

    @property
    def _parts(self) -> tuple[str, str, str]:
        pair, _, rest = self.spec.partition(" ")
        many, _, one = pair.partition("|")
        return many, one, rest

    @property
    def _is_auxiliary(self) -> bool:
        many, _, rest = self._parts
        return many in ("are", "were") or (many == "have" and bool(rest))

    def form(self, many: bool = True) -> str:
        """`work in` or `works in`."""
        plural_form, singular, rest = self._parts
        return f"{plural_form if many else singular} {rest}".strip()

    def negated(self, many: bool = True) -> str:
        """`do not work in`, `has not written`, `are not held in`.

        A past tense (`went|went to`) cannot be negated from its form: such verbs are for relations
        and events that are never denied.
        """
        plural_form, singular, rest = self._parts
        if plural_form == singular:
            raise ValueError(f"{self.spec!r} cannot be negated: give its perfect or passive")
        if self._is_auxiliary:
            return f"{plural_form if many else singular} not {rest}"
        return f"{'do' if many else 'does'} not {plural_form} {rest}".strip()

    def asked(self, subject: str, many: bool = False) -> str:
        """After `how many`: `does each department employ`, `has each author written`."""
        plural_form, singular, rest = self._parts
        if self._is_auxiliary:
            return f"{plural_form if many else singular} {subject} {rest}"
        return f"{'do' if many else 'does'} {subject} {plural_form} {rest}".strip()

    @property
    def is_passive(self) -> bool:
        """`are taught by`: such a verb sounds odd after its object."""
        return self.spec.endswith(" by")

    @property
    def is_perfect(self) -> bool:
        """`have written`: such a verb goes with `never`."""
        many, _, rest = self._parts
        return many == "have" and bool(rest)


@dataclass(frozen=True)
class Saying:
    """A property in words, fit for a modifier (`older than 30`) and a predicate (`is older …`).

    Kinds:
        be: `older than 30`; was: `published in 1990`; have: `a salary above 10`;
        verb: `earn|earns more than 10`; adj: `retired` (before the noun);
        type: `metro` (before the noun, and with it in the predicate: `are metro lines`);
        whose: `salary is above 10`, with a predicate of kind `have` beside it.
    """

    kind: str
    text: str
    predicate_text: str = ""

    @classmethod
    def parse(cls, spec: str, *values: str) -> Saying:
        """From a column's own words: `be older than {}`, `adj {}`, `work|works as {a}`."""
        filled = spec.format(*values, a=with_article(values[0]) if values else "")
        first, _, rest = filled.partition(" ")
        if first in ("be", "was", "have", "adj", "type", "whose"):
            return cls(first, rest)
        return cls("verb", filled)

    def about(self, noun: str) -> Saying:
        """The same, bound to the noun it is said of; only `type` needs it."""
        return replace(self, predicate_text=noun) if self.kind == "type" else self

    def modifier(self, who: str, many: bool = True) -> str:
        """What follows the noun; `who` is the relative pronoun that fits it."""
        if self.kind in ("be", "was"):
            return self.text
        if self.kind == "have":
            return f"with {self.text}"
        if self.kind == "whose":
            return f"whose {self.text}"
        return f"{who} {self.predicate(many)}"

    def clause(self, who: str, many: bool = True) -> str:
        """A relative clause: `who are older than 30`."""
        if self.kind == "whose":
            return f"whose {self.text}"
        return f"{who} {self.predicate(many)}"

    def predicate(self, many: bool = True) -> str:
        """What is said of the subject: `are older than 30`."""
        if self.kind == "verb":
            return Verb(self.text).form(many)
        if self.kind == "whose":
            return f"{'have' if many else 'has'} {self.predicate_text}"
        if self.kind == "type":
            noun = f"{self.text} {self.predicate_text}"
            return f"are {plural(noun)}" if many else f"is {with_article(noun)}"
        lead = {"be": ("are", "is"), "was": ("were", "was"), "have": ("have", "has")}
        many_form, one_form = lead.get(self.kind, ("are", "is"))
        return f"{many_form if many else one_form} {self.text}"

    def negated(self, many: bool = True) -> str:
        """`are not older than 30`, `do not have …`."""
        if self.kind == "verb":
            return Verb(self.text).negated(many)
        if self.kind in ("have", "whose"):
            text = self.text if self.kind == "have" else self.predicate_text
            return f"{'do' if many else 'does'} not have {text}"
        form = ("were", "was") if self.kind == "was" else ("are", "is")
        return f"{form[0] if many else form[1]} not {self.text}"
