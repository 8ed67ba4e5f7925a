"""What stands around typed values: names of columns, labels, markdown, closing punctuation.

Names bind: a value under a name of gold's columns is that column's value and no other's. Decoration
does not count: it is taken off in further readings of the same text, so that a value which really
ends in a stop or stands in asterisks is still found as it was typed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from sql_env.core.cells import Bare, TypedCell, normalize_text

# A run of marks is tried at its beginning only: thousands of them would take quadratic time.
_BOLD_OR_CODE = re.compile(
    r"(?<![\w`])(?:\*\*((?:[^*\n]|\*(?!\*))+)\*\*|__((?:[^_\n]|_(?!_))+)__|`++([^`\n]+)`+)(?!\w)"
)
_MARKS = ("**", "__", "*", "_", "`")
_QUALIFIER = re.compile(r"\w+\.")
_WORD = re.compile(r"[^\W_]+")
_IDLE_WORDS = frozenset(
    {"a", "an", "and", "are", "by", "distinct", "for", "is", "of", "per", "the"}
)
_SYNONYMS = {
    "average": "avg",
    "mean": "avg",
    "maximum": "max",
    "minimum": "min",
    "number": "count",
}
_AGGREGATES = frozenset({"avg", "count", "max", "min", "sum"})
_ANSWER_WORDS = frozenset({"answer", "output", "result", "total", "value"})
_LABEL = re.compile(r"\s*([^\W\d][^:=|;,\n]{0,60}?)\s*(?:[:=]|\b(?:is|are)\b\s*:?)\s*")


def undecorated(text: str) -> str:
    """A text without bold, code marks and separators at the ends of lines."""
    lines = []
    for line in _BOLD_OR_CODE.sub(lambda match: match[match.lastindex or 0], text).splitlines():
        line = line.strip().rstrip(",;").rstrip()
        if line.endswith("|") and not line.startswith("|"):
            line = line[:-1].rstrip()
        elif line.startswith("|") and not line.endswith("|"):
            line = line[1:].lstrip()
        lines.append(line)
    return "\n".join(lines).strip()


def without_stop(text: str) -> str:
    """A text without the one stop at its end."""
    return text[:-1].rstrip() if text.endswith(".") and not text.endswith("..") else text


def undecorated_cell(cell: TypedCell) -> TypedCell:
    """A bare word without the marks around it and a stop or semicolon behind it.

    In curly quotes it is a text and nothing else, as it is in straight ones.
    """
    if not isinstance(cell, Bare) or not cell.text:
        return cell
    text = cell.text
    if text[-1] in ".,;":
        text = text[:-1].rstrip()
    for mark in _MARKS:
        inner = text[len(mark) : -len(mark)]
        if inner and text.startswith(mark) and text.endswith(mark) and mark not in inner:
            text = inner.strip()
    if len(text) > 2 and text[0] + text[-1] in ("\u201c\u201d", "\u2018\u2019"):
        return text[1:-1]
    return cell if text == cell.text or not text else Bare(text)


def bind(names: Sequence[str], columns: Sequence[str]) -> tuple[int | None, ...]:
    """For each name the gold column that it means; None where it may mean any.

    A name means the column that is called the same, or else the only one of which it has all the
    words or which has all of its words: `max` is `max(age)`, `singer name` is `name`.
    """
    if not names or len(names) != len(columns):
        return (None,) * len(columns)
    exact = [normalize_text(column) for column in columns]
    words = [_words(column) for column in columns]
    bound: list[int | None] = []
    for name in names:
        same = [i for i, column in enumerate(exact) if column == normalize_text(name)]
        own = _words(name)
        if not same and own:
            same = [i for i, its in enumerate(words) if its and (own <= its or its <= own)]
        bound.append(same[0] if len(same) == 1 else None)
    claims = Counter(bound)
    return tuple(None if i is None or claims[i] > 1 else i for i in bound)


def split_label(text: str) -> tuple[str, str] | None:
    """The label and the rest of `count: 42`, `n = 42` or `The answer is 42`."""
    match = _LABEL.match(text)
    return (match[1], text[match.end() :]) if match else None


def labels_value(label: str, column: str) -> bool:
    """Whether a label says what the value of the only column is, and nothing against it."""
    own, its = _words(label), _words(column)
    aggregate = its & _AGGREGATES
    if aggregate and (own & _AGGREGATES) - aggregate:
        return False
    return bool(own & (its | _ANSWER_WORDS | (frozenset() if aggregate else _AGGREGATES)))


def _words(name: str) -> frozenset[str]:
    found = set()
    for word in _WORD.findall(_QUALIFIER.sub("", name.lower())):
        word = word.removesuffix("s") if len(word) > 3 else word
        if word not in _IDLE_WORDS:
            found.add(_SYNONYMS.get(word, word))
    return frozenset(found)
