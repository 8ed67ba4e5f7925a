"""Domains as TOML files: one column a line, read into `Domain` and checked.

read_domain(Path("zoo.toml"))

`docs/worlds.md` describes the format. Whatever is wrong with a file comes back as one
`DomainError` that names the file and the key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from sql_env.core.errors import UserError
from sql_env.core.suggestions import did_you_mean, nearest
from sql_env.worlds import values
from sql_env.worlds.english import Saying, Verb
from sql_env.worlds.schema import Column, Domain, Link, Ref, Table
from sql_env.worlds.values import Values
from sql_env.worlds.words import items

_HERE = Path(__file__).parent
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_NEEDED: Any = object()


class DomainError(UserError, ValueError):
    """A domain file that cannot be used; the message names the file, the key and what it takes."""


def own_domains() -> dict[str, Path]:
    """The files of the domains that come with the package, by name."""
    return {path.stem: path for path in sorted((_HERE / "domains").glob("*.toml"))}


def read_domain(path: Path) -> Domain:
    """Read a domain; its name is the file's.

    Raises:
        DomainError: the file cannot be read, is no TOML, or does not declare a domain.
    """
    if not _NAME.fullmatch(path.stem):
        raise DomainError(
            f"{path}: databases are named after the file: call it a small letter, then small "
            "letters, digits and _"
        )
    whole = _Entry(path, "", _parsed(path))
    tables: dict[str, Table] = {}
    for name, entry in whole.entries("tables"):
        tables[name] = _table(name, entry, tables)
    links = tuple(_link(entry, tables) for entry in whole.entry_list("links"))
    whole.done()
    return Domain(path.stem, tuple(tables.values()), links)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise DomainError(
            f"{path}: cannot be read: {error.strerror}: name a TOML file that declares a domain"
        ) from error
    except UnicodeDecodeError as error:
        raise DomainError(
            f"{path}: not UTF-8 text (byte {error.start}): save it as UTF-8"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise DomainError(
            f"{path}: not TOML: {error}: a text stands in quotes, a key only once"
        ) from error


class _Entry:
    """One table of a TOML file, taken key by key; what nobody takes is not known."""

    def __init__(self, path: Path, place: str, found: object):
        self._path, self._place = path, place
        if not isinstance(found, dict):
            raise self.error("", f"is {found!r}, not a table of keys")
        self._found = found
        self._taken: list[str] = []

    def on(self, defaults: Mapping[str, Any]) -> _Entry:
        """The same, with what is not said in it."""
        entry = _Entry(self._path, self._place, {**defaults, **self._found})
        entry._taken = self._taken
        return entry

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def error(self, key: str, problem: str) -> DomainError:
        """What is wrong with a key, or with the whole table where none is named."""
        place = ".".join(filter(None, (self._place, key)))
        return DomainError(f"{self._path}: {place}: {problem}")

    def done(self) -> None:
        """See that every key was taken."""
        for key in self._found:
            if key not in self._taken:
                known = ", ".join(self._taken)
                hint = did_you_mean(key, self._taken)
                raise self.error(key, f"is not known.{hint} Allowed here: {known}")

    def _take(self, key: str, types: tuple[type, ...], what: str, default: Any) -> Any:
        self._taken.append(key)
        found = self._found.get(key, default)
        if found is _NEEDED:
            spelt = nearest(key, self._found.keys() - set(self._taken))
            instead = f"; {spelt[0]} is not known" if spelt else ""
            raise self.error(key, f"is missing: it takes {what}{instead}")
        if key in self._found and type(found) not in types:
            raise self.error(key, f"is {found!r}, not {what}")
        return found

    def text(self, key: str, default: str = _NEEDED, marks: int | None = None) -> str:
        """A text with so many `{}`, where that matters."""
        text: str = self._take(key, (str,), "a text", default)
        if marks is not None and text and self.marks(key, text) != [""] * marks:
            raise self.error(key, f"is {text!r}: it takes {'{}' if marks else 'no {}'}")
        return text

    def marks(self, key: str, text: str) -> list[str]:
        """What stands between the braces of a text: `""` for `{}`."""
        try:
            return [mark for _, mark, _, _ in Formatter().parse(text) if mark is not None]
        except ValueError as error:
            raise self.error(key, f"is {text!r}: {error}") from error

    def saying(self, key: str, marks: int, *, denied: bool = True) -> str:
        """What is said of a row: `be older than {}`, `cost|costs less than {}`, `adj {}`."""
        text = self.text(key, "")
        if not text:
            return ""
        if marks and set(self.marks(key, text)) not in ({""}, {"a"}):
            raise self.error(key, f"is {text!r}: it takes {{}} for the value, or {{a}} for a value")
        if Saying.parse(text, *["x"] * marks).kind == "verb":
            self._check_verb(key, text, denied=denied)
        return text

    def verb(self, key: str, default: str = _NEEDED, *, denied: bool = True) -> str:
        """`work|works in`; `denied` where questions say that it is not so."""
        text = self.text(key, default, marks=0)
        if text:
            self._check_verb(key, text, denied=denied)
        return text

    def _check_verb(self, key: str, text: str, *, denied: bool = True) -> None:
        many, bar, one = text.partition(" ")[0].partition("|")
        if not (many and bar and one):
            raise self.error(
                key, f"is {text!r}: it begins with a verb for many and for one, as work|works in"
            )
        if denied:
            try:
                Verb(text).negated()
            except ValueError as error:
                raise self.error(key, str(error)) from error

    def texts(self, key: str, default: tuple[str, ...] = (), marks: int = 0) -> tuple[str, ...]:
        """Several texts: a list, or one text with commas between them."""
        found = self._take(key, (str, list), "texts: a list, or a text with commas", default)
        texts = items(found) if isinstance(found, str) else tuple(found)
        for text in texts:
            if not isinstance(text, str) or not text:
                raise self.error(key, f"has {text!r} among its texts")
            if self.marks(key, text) != [""] * marks:
                raise self.error(key, f"has {text!r}: it takes {'{}' if marks else 'no {}'}")
            if texts.count(text) > 1:
                raise self.error(key, f"has {text!r} twice")
        return texts

    def names(self, key: str) -> tuple[str, ...]:
        """Physical names of tables or columns."""
        names = self.texts(key)
        for name in names:
            self.check_name(name, key)
        return names

    def check_name(self, name: str, key: str = "") -> None:
        if not _NAME.fullmatch(name):
            raise self.error(
                key, f"{name!r} is no name: small letters, digits and _, a letter first"
            )

    def share(self, key: str, default: float = _NEEDED) -> float:
        number: float = self._take(key, (int, float), "a number", default)
        if not 0 <= number <= 1:
            raise self.error(key, f"is {number}: it lies between 0 and 1")
        return number

    def nulls(self) -> float:
        nulls = self.share("nulls", 0.0)
        if nulls == 1:
            raise self.error("nulls", "is 1: every value would be missing")
        return nulls

    def whole(self, key: str, default: int) -> int:
        number: int = self._take(key, (int,), "a whole number", default)
        if number < 1:
            raise self.error(key, f"is {number}: it must be at least 1")
        return number

    def yes(self, key: str, default: bool = False) -> bool:
        yes: bool = self._take(key, (bool,), "true or false", default)
        return yes

    def pair(self, key: str, types: tuple[type, ...] = (int,)) -> tuple[Any, Any]:
        """Two numbers, the smaller one first."""
        what = f"two {'whole ' if types == (int,) else ''}numbers, as [1, 9]"
        found = self._take(key, (list,), what, _NEEDED)
        if len(found) != 2 or any(type(number) not in types for number in found):
            raise self.error(key, f"is {found!r}, not {what}")
        if found[0] > found[1]:
            raise self.error(key, f"is {found!r}: the smaller one comes first")
        if not all(abs(number) < 2**63 for number in found):
            raise self.error(key, f"is {found!r}: SQLite's numbers end before 2^63")
        return found[0], found[1]

    def years(self, key: str) -> tuple[int, int]:
        low, high = self.pair(key)
        if not 1 <= low <= high <= 9999:
            raise self.error(key, f"is {[low, high]}: years go from 1 to 9999")
        return low, high

    def options(self, key: str) -> tuple[Any, ...]:
        """The values of a choice: `"a, b"`, `[1, 2]`, or `{ stored = "spoken" }`."""
        what = 'values, as "a, b" or [1, 2] or { A = "what A stands for" }'
        found = self._take(key, (str, list, dict), what, _NEEDED)
        options: tuple[Any, ...]
        if isinstance(found, dict):
            stored = [int(a) if re.fullmatch(r"0|[1-9]\d*", a) else a for a in found]
            options = tuple(zip(stored, found.values(), strict=True))
            bad = any(not isinstance(spoken, str) for spoken in found.values())
        else:
            options = items(found) if isinstance(found, str) else tuple(found)
            bad = any(type(value) not in (str, int) for value in options)
        if bad or len(options) < 2:
            raise self.error(key, f"is {found!r}, not two or more {what}")
        return options

    def pools(self, key: str, count: int) -> tuple[tuple[str, ...], ...]:
        """As many lists of texts as a pattern has `{}`; one list may stand by itself."""
        if count == 1:
            return (self.texts(key),)
        found = self._take(key, (list,), f"{count} lists, one for each {{}} of the pattern", ())
        if len(found) != count:
            raise self.error(key, f"has {len(found)} lists: the pattern has {count} {{}}")
        parts = _Entry(
            self._path, f"{self._place}.{key}", {str(i): part for i, part in enumerate(found, 1)}
        )
        return tuple(parts.texts(part) for part in map(str, range(1, count + 1)))

    def entries(self, key: str) -> Iterable[tuple[str, _Entry]]:
        """The tables in a table, by name."""
        place = f"{self._place}.{key}".lstrip(".")
        for name, found in self._take(key, (dict,), f"tables, as [{place}.name]", _NEEDED).items():
            entry = _Entry(self._path, f"{place}.{name}", found)
            entry.check_name(name)
            yield name, entry

    def entry_list(self, key: str) -> Iterable[_Entry]:
        for number, found in enumerate(self._take(key, (list,), "a list of tables", ()), 1):
            yield _Entry(self._path, f"{key}, number {number}", found)


# -- columns -------------------------------------------------------------------------------------


def _title(entry: _Entry) -> Values:
    pattern = entry.text("pattern", "{}")
    marks = entry.marks("pattern", pattern)
    if set(marks) != {""} and sorted(marks) != [str(i) for i in range(len(marks))]:
        raise entry.error("pattern", f"is {pattern!r}: it takes {{}}, or {{0}}, {{1}} and so on")
    title = values.Title(entry.pools("of", len(marks)), pattern)
    if (title.capacity or 0) < 2:
        raise entry.error("of", "has too few texts to tell two rows apart")
    return title


def _flag(entry: _Entry) -> Values:
    options = entry.options("of")
    if len(options) != 2:
        raise entry.error("of", f"has {len(options)} values: a flag has yes and no")
    return values.Choice(options, kind="flag")


def _whole(entry: _Entry) -> Values:
    low, high = entry.pair("range")
    return values.Number(low, high, 0, entry.share("peak", 0.4), entry.whole("step", 1))


def _count(entry: _Entry) -> Values:
    low, high = entry.pair("range")
    step = 1 if high < 2000 else 10 if high < 50_000 else 100
    return values.Number(low, high, 0, entry.share("peak", 0.4), step)


def _real(entry: _Entry) -> Values:
    low, high = entry.pair("range", (int, float))
    return values.Number(low, high, entry.whole("digits", 1), entry.share("peak"))


def _money(entry: _Entry) -> Values:
    """Cents where the amount is small, hundreds where it is large."""
    low, high = entry.pair("range", (int, float))
    if high < 500:
        return values.Number(low, high, 2, entry.share("peak"))
    return values.Number(low, high, 0, entry.share("peak"), 1 if high < 5000 else 100)


def _days_after(entry: _Entry) -> Values:
    low, high = entry.pair("range")
    return values.DaysAfter(entry.text("after"), low, high)


# What a kind takes, and the values that it makes of it.
_VALUES: dict[str, Callable[[_Entry], Values]] = {
    "title": _title,
    "person": lambda entry: values.Person(),
    "choice": lambda entry: values.Choice(entry.options("of")),
    "flag": _flag,
    "whole": _whole,
    "count": _count,
    "real": _real,
    "money": _money,
    "date": lambda entry: values.Date(*entry.years("range")),
    "days_after": _days_after,
    "year": lambda entry: values.Year(*entry.years("range")),
    "code": lambda entry: values.Code(entry.text("pattern")),
    "city": lambda entry: values.City(),
    "country": lambda entry: values.Country(),
    "email": lambda entry: values.Email(entry.text("host")),
}


@cache
def _kinds() -> dict[str, tuple[str, dict[str, Any]]]:
    """Kinds of columns: how each is drawn, and what its columns have if they do not say it."""
    kinds: dict[str, tuple[str, dict[str, Any]]] = {key: (key, {}) for key in _VALUES}
    for key, defaults in _parsed(_HERE / "kinds.toml").items():
        base, inherited = kinds[defaults.pop("like", key)]
        kinds[key] = base, inherited | defaults
    return kinds


def _column(key: str, entry: _Entry, earlier: list[Column]) -> Column:
    kind = entry.text("kind", key)
    if kind not in _kinds():
        problem = (
            f"is {kind!r}.{did_you_mean(kind, _kinds())}" if "kind" in entry else "is missing."
        )
        raise entry.error("kind", f"{problem} There are: {', '.join(_kinds())}")
    base, defaults = _kinds()[kind]
    entry = entry.on(defaults)
    drawn = _VALUES[base](entry)
    things = entry.text("things") if base == "count" else ""
    column = Column(
        key,
        drawn,
        words=entry.texts("words", (f"number of {things}" if things else key.replace("_", " "),)),
        names=entry.names("names"),
        nulls=entry.nulls(),
        over=entry.saying("over", 1),
        under=entry.saying("under", 1),
        eq=entry.saying("eq", 1),
        missing=entry.saying("missing", 0),
        event=entry.saying("event", 0, denied=False),
        counted=entry.text("counted", things, marks=0),
        most=entry.text("most", "", marks=0),
        least=entry.text("least", "", marks=0),
        unit=entry.text("unit", "{}", marks=1),
        ask=entry.texts("ask", marks=1),
        additive=entry.yes("additive"),
        optional=entry.yes("optional", base not in ("title", "person")),
    )
    entry.done()
    _check_order(column, entry, earlier)
    return column


def _check_order(column: Column, entry: _Entry, earlier: list[Column]) -> None:
    """What is drawn from another column of the row comes after it."""
    match column.values:
        case values.Person() if column.key != "name":
            raise entry.error("", "a person's column is called name")
        case _ if column.key in ("first_name", "last_name") and any(
            c.values.kind == "person" for c in earlier
        ):
            raise entry.error("", "the column name holds a person: it may become this one")
        case values.Email() if not any(c.values.kind == "person" for c in earlier):
            raise entry.error("", "an email address needs a person's name before it")
        case values.DaysAfter(after) if after not in [
            c.key for c in earlier if c.values.kind == "date"
        ]:
            raise entry.error("after", f"{after!r} is no date before this column")


# -- tables, references, links -------------------------------------------------------------------


def _table(key: str, entry: _Entry, before: Mapping[str, Table]) -> Table:
    rows, nouns, names = entry.pair("rows"), entry.texts("nouns"), entry.names("names")
    person, called = entry.yes("person"), entry.texts("called", marks=1)
    optional = entry.yes("optional")
    found: list[Column | Ref] = []
    for name, item in entry.entries("columns"):
        if "to" in item:
            found.append(_reference(name, item, {*before, key}))
        else:
            found.append(_column(name, item, [c for c in found if isinstance(c, Column)]))
    entry.done()
    table = Table(key, tuple(found), rows, nouns, names, person, called, optional)
    others = [ref for ref in table.refs if ref.target != key]
    if rows[0] < 2:
        raise entry.error("rows", f"begin at {rows[0]}: a table has at least two")
    if not nouns and len(others) < 2:
        raise entry.error("nouns", "are missing: what does a question call a row?")
    if not table.columns and len(others) < 2:
        raise entry.error("columns", "hold nothing: a bare link refers to two other tables")
    return table


def _reference(role: str, entry: _Entry, tables: set[str]) -> Ref:
    target = entry.text("to")
    if target not in tables:
        hint = did_you_mean(target, tables)
        raise entry.error("to", f"there is no table {target!r} before this one.{hint}")
    says, back = entry.verb("says", denied=False), entry.verb("back", "")
    ref = Ref(target, says, back, "" if role == target else role, entry.nulls())
    entry.done()
    return ref


def _link(entry: _Entry, tables: Mapping[str, Table]) -> Link:
    link = Link(
        entry.text("through"),
        entry.text("left"),
        entry.text("right"),
        entry.verb("says"),
        entry.verb("back"),
    )
    entry.done()
    if link.through not in tables:
        hint = did_you_mean(link.through, tables)
        raise entry.error("through", f"there is no table {link.through!r}.{hint}")
    refs = tables[link.through].refs
    for side, name in (("left", link.left), ("right", link.right)):
        if name not in {ref.target for ref in refs} | {ref.key for ref in refs}:
            raise entry.error(side, f"{link.through!r} refers to no {name!r}")
    return link
