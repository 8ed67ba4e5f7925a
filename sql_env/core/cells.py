"""When are two values equal? The rules for single cells, and an index that finds equal ones.

* NULL equals NULL only; an empty text and 0 are other values.
* Two whole numbers are equal exactly. Where one has a fraction they may differ by one part in a
  thousand million, which covers sums taken in another order and nothing a person would notice.
* Texts are compared without case, outer blanks and one pair of outer quotes; a curly quote in them
  is a straight one.
* A text that is a plain number ("2014", "3.5", not "007") equals that number.
* A column of numbers with a fraction may be rounded: to two or more decimals, all alike, with two
  significant digits left of each. A whole number (`100`, not `100.0`) is never rounded.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import NamedTuple

from sql_env.core.database import Cell

RELATIVE_TOLERANCE = 1e-9
ABSOLUTE_TOLERANCE = 1e-12
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d+)?")
_TYPED_NUMBER = re.compile(
    r"[+-]?(?:\d{1,25}|\d{1,3}(?:,\d{3}){1,8})?(?:\.(?P<decimals>\d*))?(?:[eE][+-]?\d{1,3})?"
)
_STRAIGHT = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "\u2018": "\u2019", "«": "»"}
_BLOB = re.compile(r"[xX]'((?:[0-9a-fA-F]{2})*)'")


@dataclass(slots=True, unsafe_hash=True)  # not frozen: long answers make many of them
class Bare:
    """A typed word without quotes: NULL, a number or a text, whichever the gold value is."""

    text: str


class Rounding(NamedTuple):
    """How many decimals were kept, and which way halves went."""

    decimals: int
    mode: str


TypedCell = Cell | Bare
ROUNDING_MODES = (ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_HALF_DOWN)
# Fewer decimals than this are no rounding but another value: 3.14 stands for 3.14159, 3.1 does not.
MIN_DECIMALS = 2
MAX_DECIMALS = 12
_MAX_ROUNDED = 1e12
_LAST_EXACT_FLOAT = 2.0**53


def normalize_text(text: str) -> str:
    """The form in which texts are compared."""
    text = text.strip()
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
        text = text[1:-1].strip()
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).translate(_STRAIGHT)
    return text.casefold()


def same_number(a: float, b: float) -> bool:
    """Equal within tolerance; whole numbers (ids, years, populations) exactly."""
    if a == b:
        return True
    if _is_exact(a) and _is_exact(b):
        return False
    return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)


def _is_exact(number: float) -> bool:
    """Whole, and not a float so large that every float is whole."""
    if isinstance(number, int):
        return True
    return number.is_integer() and abs(number) < _LAST_EXACT_FLOAT


def plain_number(text: str) -> int | float | None:
    """The number that a text spells in its plain form, or None."""
    if _PLAIN_NUMBER.fullmatch(text) is None:
        return None
    return float(text) if "." in text else int(text)


def typed_number(text: str) -> int | float | None:
    """The number a person means by `text`: also "1,234", "+3", ".5", "2e3" and a proper minus."""
    text = text.replace("\u2212", "-")
    if text.lower().lstrip("+-") in ("inf", "infinity"):
        return float(text)
    if not any(map(str.isdigit, text)) or _TYPED_NUMBER.fullmatch(text) is None:
        return None
    digits = text.replace(",", "")
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def number_of(cell: TypedCell) -> int | float | None:
    """The number that a cell is, or spells; None where it is something else."""
    if isinstance(cell, Bare):
        return typed_number(cell.text)
    if isinstance(cell, str):
        return plain_number(cell)
    return cell if isinstance(cell, int | float) else None


def decimals_kept(cells: Iterable[TypedCell]) -> int | None:
    """The decimals that a column may have been rounded to; None where it cannot have been.

    Zeros at the end are not counted: `round(2.701, 2)` is 2.7 to SQLite.
    """
    fractions = [n for n in map(number_of, cells) if isinstance(n, float) and math.isfinite(n)]
    if not fractions:
        return None
    most = max(-int(Decimal(repr(n)).normalize().as_tuple().exponent) for n in fractions)
    return max(most, MIN_DECIMALS) if most <= MAX_DECIMALS else None


def rounded(cell: Cell, rounding: Rounding) -> Cell:
    """A number with a fraction, rounded; everything else as it is.

    A number that would keep fewer than two digits stays exact: 0.004 is not 0.00.
    """
    if not isinstance(cell, float) or cell.is_integer() or not abs(cell) < _MAX_ROUNDED:
        return cell
    short = Decimal(repr(cell)).quantize(Decimal(1).scaleb(-rounding.decimals), rounding.mode)
    return float(short) if abs(short) >= Decimal(1).scaleb(1 - rounding.decimals) else cell


class ColumnIndex:
    """Numbers the different values of one gold column and finds the number of an equal value."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._known: dict[TypedCell, int] = {}
        self._texts: dict[str, int] = {}
        self._spelled: dict[float, int] = {}  # numbers that gold holds as text
        numbers = sorted({cell for cell in cells if isinstance(cell, int | float)})
        self._numbers: list[int | float] = []  # sorted; the values of `_number_classes`
        self._number_classes: list[int] = []
        classes = 0
        for number in numbers:
            if not self._numbers or not same_number(self._numbers[-1], number):
                classes += 1
            self._numbers.append(number)
            self._number_classes.append(classes)
            self._known[number] = classes
        for cell in cells:
            if cell in self._known:
                continue
            if isinstance(cell, str):
                text = normalize_text(cell)
                number_spelled = plain_number(text)
                found = self._texts.get(text)
                if found is None and number_spelled is not None:
                    found = self._find_number(number_spelled)
                if found is None:
                    classes += 1
                    found = classes
                self._texts[text] = found
                if number_spelled is not None:
                    self._spelled.setdefault(number_spelled, found)
            else:
                classes += 1
                found = classes
            self._known[cell] = found
        self.ids: list[int] = [self._known[cell] for cell in cells]
        self.size = classes

    def holds_all(self, numbers: Iterable[int]) -> bool:
        """Whether there are values equal to each of these numbers, as often as they occur."""
        wanted = Counter(map(self._find_number, numbers))
        return wanted <= Counter(self.ids)

    def encode(self, cells: Sequence[TypedCell]) -> list[int] | None:
        """The numbers of gold values equal to `cells`; None where one has no equal."""
        ids = list(map(self._known.get, cells))
        if None not in ids:
            return ids  # type: ignore[return-value]
        found: dict[TypedCell, int | None] = {}
        for at, (cell, number) in enumerate(zip(cells, ids, strict=True)):
            if number is not None:
                continue
            if cell not in found:
                found[cell] = self._find(cell)
                if found[cell] is None:
                    return None
            ids[at] = found[cell]
        return ids  # type: ignore[return-value]

    def _find(self, cell: TypedCell) -> int | None:
        if isinstance(cell, str):
            return self._find_text(normalize_text(cell))
        if isinstance(cell, int | float):
            return self._find_number(cell)
        if isinstance(cell, Bare):
            return self._find_typed(cell.text.strip())
        return self._known.get(cell)

    def _find_text(self, text: str) -> int | None:
        found = self._texts.get(text)
        if found is None:
            number = plain_number(text)
            found = None if number is None else self._find_number(number)
        return found

    def _find_number(self, number: int | float) -> int | None:
        at = bisect_left(self._numbers, number)
        for near in (at, at - 1):
            if 0 <= near < len(self._numbers) and same_number(self._numbers[near], number):
                return self._number_classes[near]
        return self._spelled.get(number)

    def _find_typed(self, text: str) -> int | None:
        """A bare word may be NULL, a text, a number or a blob; quotes are the way to insist."""
        null = self._known.get(None)
        if text.upper() == "NULL" and null is not None:
            return null
        found = self._texts.get(normalize_text(text))
        if found is None and (number := typed_number(text)) is not None:
            found = self._find_number(number)
        if found is None and (blob := _BLOB.fullmatch(text)):
            found = self._known.get(bytes.fromhex(blob[1]))
        return null if found is None and text.lower() == "none" else found
