"""The text of one SELECT, taken apart far enough to find its top-level clauses.

A tokenizer, not a parser: it knows strings, comments, quoted identifiers and parentheses, so that
an ORDER BY inside a subquery, a string or a comment is never taken for the query's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

# Blanks match nothing, so they are skipped. What a lexeme is shows in its first character. What is
# not ASCII is a letter to SQLite, but a byte order mark where a lexeme could begin is a blank.
_LEXEME = re.compile(
    r"""
      [a-zA-Z_][\w$\x80-\U0010ffff]*+(?!')            # most lexemes are words
    | [xX]?'(?:[^']|'')*'                              # a string or a blob
    | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*(?:\]|\Z)  # a name, or a string to SQLite
    | (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[\w$\x80-\U0010ffff]*
    | (?!\ufeff)[a-zA-Z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*
    | --[^\n]* | /\*.*?(?:\*/|\Z)
    | [$@\#:](?:[\w$\x80-\U0010ffff]|::)+(?:\([^)\s]*\)?)?  # a parameter, as Tcl writes them
    | <=|>=|<>|!=|==|\|\||<<|>>|->>?
    | [^\s\ufeff]
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_COMMENT = ("--", "/*")
_QUOTES = '"`['
_BLANKS = " \t\n\r\f\ufeff"
_COMPOUND = frozenset({"UNION", "INTERSECT", "EXCEPT"})
_AFTER_LIST = _COMPOUND | {"FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT"}
_BEFORE_TABLE = frozenset({"from", "join", ",", "("})
_AFTER_FROM = frozenset(word.lower() for word in _AFTER_LIST - {"FROM", "WINDOW"})  # is a name too
_MOST_FORWARD_REFERENCES = 8
_LONGEST_KEPT = 2_000  # characters of a query whose normal form is remembered
_LITERAL = r"""(?:x?'(?:[^']|'')*'|"(?:[^"]|"")*"|(?<!\S)(?:\.?\d\S*|(?:true|false|null)(?!\S)))"""
# Over the normal form: what is compared, counts rows or is a name; in the group any other literal.
_OTHER_LITERALS = re.compile(
    rf"`[^`]*`|\[[^\]]*\]|{_LITERAL}(?= (?:[<>!=]=?|<>|\.)(?!\S))|"
    rf"(?<!\S)(?:limit|by|in \() (?:[-+] )?{_LITERAL}(?: , (?:[-+] )?{_LITERAL})*|"
    r"(?<!\S)(?:[<>!=]=?|<>|like|glob|between|and|is|not|escape|offset|as|(?:asc|desc) ,|\.|"
    rf"from|join|with|exists \( select) (?:[-+] )?{_LITERAL}|({_LITERAL})"
)
_LIMIT = re.compile(r"(-? ?\d+)(?: (,|OFFSET) (-? ?\d+))?")


class Token(NamedTuple):
    kind: str  # string, quoted, number, word or mark
    text: str
    start: int
    end: int
    depth: int  # of the parentheses around it

    @property
    def keyword(self) -> str:
        """The token in capitals where it is a bare word at the top level, else nothing."""
        return self.text.upper() if self.kind == "word" and not self.depth else ""

    @property
    def identifier(self) -> str | None:
        """The name that the token spells, in lower case, or None where it is not a name."""
        if self.kind == "word":
            return self.text.lower()
        if self.kind == "quoted":
            closing = self.text[-1]
            return self.text[1:-1].replace(closing * 2, closing).lower()
        return None


def tokenize(sql: str) -> list[Token]:
    """The tokens of `sql`, without blanks and comments."""
    tokens: list[Token] = []
    depth = 0
    for match in _LEXEME.finditer(sql):
        text = match.group()
        if text.startswith(_COMMENT):
            continue
        if text == ")":
            depth -= 1
        tokens.append(Token(_kind(text), text, match.start(), match.end(), depth))
        if text == "(":
            depth += 1
    return tokens


def bare_statement(sql: str) -> str:
    """`sql` without the semicolons, blanks and comments around it."""
    tokens = [token for token in tokenize(sql) if token.text != ";"]
    return sql[tokens[0].start : tokens[-1].end] if tokens else ""


def first_statement(sql: str) -> str:
    """`sql` up to its first semicolon that is no part of a string, a name or a comment."""
    end = next((match.start() for match in _LEXEME.finditer(sql) if match[0] == ";"), None)
    return sql[:end]


def _kind(lexeme: str) -> str:
    first = lexeme[0]
    if lexeme[-1] == "'" and len(lexeme) > 1:
        return "string"
    if first in _QUOTES and len(lexeme) > 1:
        return "quoted"
    if first in "0123456789" or (first == "." and len(lexeme) > 1):
        return "number"
    return "word" if first == "_" or first.isalpha() or not first.isascii() else "mark"


def normalize_sql(sql: str) -> str:
    """The normal form of a query: two that have the same mean the same.

    Blanks, comments, semicolons at the ends and the case of names and keywords make no other query.
    What stands in double quotes keeps its case: where no column bears the name, it is a string.
    """
    sql = sql.strip(_BLANKS)  # a name whose bracket is never closed would take them in
    return _normal_form(sql) if len(sql) <= _LONGEST_KEPT else _normal_form.__wrapped__(sql)


@lru_cache(maxsize=1024)
def _normal_form(sql: str) -> str:
    """Kept for a while: all who look for repeats ask for the same few texts."""
    lexemes: list[str] = _LEXEME.findall(sql)
    if "--" in sql or "/*" in sql:
        lexemes = [lexeme for lexeme in lexemes if not lexeme.startswith(_COMMENT)]
    if ";" in sql:
        while lexemes and lexemes[-1] == ";":
            lexemes.pop()
        while lexemes and lexemes[0] == ";":
            del lexemes[0]
    if "'" in sql or '"' in sql:
        return " ".join([x if x[0] in "'\"" else lowered(x) for x in lexemes])
    return lowered(" ".join(lexemes))


def lowered(text: str) -> str:
    """`text` as SQLite compares names: letters beyond ASCII keep their case."""
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)


class Literals(NamedTuple):
    """The literals of a query, and whether its result may be made of them.

    One that is only compared (`= 3`, `IN (3, 4)`, `LIKE 'a%'`) or counts rows (`LIMIT 3`) chooses
    among the values that are there. Any other may become a value: `34`, `char(65)`, `THEN 1`.
    """

    values: frozenset[str | float]
    make_values: bool
    quoted: frozenset[str]  # others in double quotes: where they name no column, they make values


def literals(query: str) -> Literals:
    """The literals of a query in normal form."""
    return _literals(query) if len(query) <= _LONGEST_KEPT else _literals.__wrapped__(query)


@lru_cache(maxsize=1024)
def _literals(query: str) -> Literals:
    others = [literal for literal in _OTHER_LITERALS.findall(query) if literal]
    quoted = frozenset(_unquoted(literal).lower() for literal in others if literal[0] == '"')
    return Literals(
        frozenset(map(_literal_value, re.findall(_LITERAL, query))),
        any(literal[0] != '"' for literal in others),
        quoted,
    )


def _literal_value(lexeme: str) -> str | float:
    try:
        return float(lexeme)
    except ValueError:
        return _unquoted(lexeme)


class OrderTerm(NamedTuple):
    """One term of an ORDER BY, without its direction."""

    text: str
    normalized: str
    position: int | None  # for ORDER BY 2
    identifier: str | None  # for a single name
    collation: str  # NOCASE, RTRIM or nothing


@dataclass(frozen=True)
class SelectText:
    """One SELECT statement and what its top-level clauses say."""

    body: str  # the whole statement without LIMIT
    unordered_body: str  # without ORDER BY and LIMIT
    order_clause: str  # from ORDER on, without LIMIT; empty where there is none
    list_end: int  # where the select list of a simple (not compound) statement ends
    distinct: bool
    arms: tuple[tuple[str, ...], ...]  # each arm's select list, normalized
    order_terms: tuple[OrderTerm, ...]
    limit: int | None  # None: no LIMIT, or a negative one
    offset: int
    limit_is_plain: bool  # False where LIMIT is an expression that only SQLite can evaluate

    @property
    def limited(self) -> bool:
        return self.limit is not None or self.offset > 0 or not self.limit_is_plain


def parse_select(sql: str) -> SelectText | None:
    """Find the top-level clauses of a SELECT; None where it is not one."""
    tokens = tokenize(sql)
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    selects = [i for i, token in enumerate(tokens) if token.keyword == "SELECT"]
    if not selects:
        return None
    end = len(tokens)
    limit_at = _find(tokens, "LIMIT", selects[-1], end)
    order_at = _find(tokens, "ORDER", selects[-1], limit_at)
    starts = [(i + 2 if tokens[i + 1].keyword in ("DISTINCT", "ALL") else i + 1) for i in selects]
    list_ends = [_list_end(tokens, start) for start in starts]
    limit, offset, plain = _read_limit(tokens[limit_at + 1 :])
    return SelectText(
        body=sql[: tokens[limit_at - 1].end],
        unordered_body=sql[: tokens[order_at - 1].end],
        order_clause=(
            sql[tokens[order_at].start : tokens[limit_at - 1].end] if order_at < limit_at else ""
        ),
        list_end=tokens[list_ends[0] - 1].end,
        distinct=tokens[selects[0] + 1].keyword == "DISTINCT",
        arms=tuple(
            tuple(_normalized(item) for item in _split(tokens[start:stop]))
            for start, stop in zip(starts, list_ends, strict=True)
        ),
        order_terms=tuple(_order_term(sql, t) for t in _split(tokens[order_at + 2 : limit_at])),
        limit=limit,
        offset=offset,
        limit_is_plain=plain,
    )


class Size(NamedTuple):
    """What makes a statement slow to compile."""

    joined: int  # the most tables of one FROM, with what SQLite may merge into it
    selects: int  # with those of views and common table expressions, as often as they are used

    def exceeds(self, most: Size) -> bool:
        return self.joined > most.joined or self.selects > most.selects

    def or_more(self, other: Size) -> Size:
        return Size(max(self.joined, other.joined), max(self.selects, other.selects))


class _Parenthesis:
    """What is counted of a statement, or of a part of it in parentheses."""

    def __init__(self, name: str = "", *, in_from: bool = False, exists: bool = False) -> None:
        self.name = name  # of the common table expression that it is
        self.is_item = in_from  # it stands in a FROM itself
        self.exists = exists
        self.in_from = in_from
        self.tables = int(in_from)
        self.most = 0
        self.selects = 0
        self.is_query = False
        self.after = ""  # what it stands behind

    def end_of_arm(self) -> None:
        self.most = max(self.most, self.tables)
        self.tables, self.in_from = 0, False


def is_larger(sql: str, most: Size, views: Mapping[str, Size]) -> bool:
    """Whether `size` says more than `most`; of almost all queries that is seen at once."""
    text = lowered(sql)
    if not views and "with" not in text:
        joined = sum(map(text.count, (",", "join", "from")))
        # What shows a table's columns, and so may be wide, has a FROM.
        if joined <= min(most):
            return False
    return size(sql, views).exceeds(most)


def size(sql: str, views: Mapping[str, Size]) -> Size:
    """What SQLite has to compile. It may be too much, never too little.

    Into a join SQLite merges subqueries, common table expressions, views and EXISTS. A statement
    that seems to join little and joins a lot keeps its planner busy for seconds; so does one that
    seems to have few subqueries while it finds out what their columns mean.

    Args:
        sql: any text.
        views: the sizes of the views, by their names as `lowered`.
    """
    lexemes = [lexeme for lexeme in _LEXEME.findall(lowered(sql)) if lexeme[:2] not in _COMMENT]
    sizes, again = dict(views), set[str]()
    for _ in range(_MOST_FORWARD_REFERENCES):
        before = sizes.copy(), again.copy()
        most = _count(lexemes, views, sizes, again)
        if (sizes, again) == before:
            return most
    # Each of them used before it is defined: nobody writes like this.
    return Size(len(lexemes), len(lexemes))


def _count(
    lexemes: Sequence[str], views: Mapping[str, Size], sizes: dict[str, Size], again: set[str]
) -> Size:
    """One reading of a statement.

    Args:
        lexemes: the statement, in lower case and without comments.
        views: what a name with a schema stands for.
        sizes: what any other name stands for; common table expressions are put into it.
        again: names that are given twice are put into it. The others mean themselves in their own
            definition, which is one table: a recursion.
    """
    here = _Parenthesis()
    around: list[_Parenthesis] = []
    given: set[str] = set()
    previous = closed = ""
    for at, lexeme in enumerate(lexemes):
        if lexeme == "(":
            around.append(here)
            here = _Parenthesis(
                _name_before(lexemes, at, closed),
                in_from=here.in_from and previous in _BEFORE_TABLE,
                exists=previous == "exists",
            )
            here.after = previous
            if here.name in given:
                again.add(here.name)
            given.add(here.name)
        elif lexeme == ")" and around:
            inner, here, closed = here, around.pop(), here.after
            if inner.is_query:
                inner.end_of_arm()
            if inner.name and inner.is_query:
                found = Size(inner.most, inner.selects)
                sizes[inner.name] = found.or_more(sizes.get(inner.name, Size(1, 0)))
            else:
                here.selects += inner.selects
            if inner.is_query and (inner.is_item or inner.exists):
                here.tables += inner.most - inner.is_item
            else:  # a query for itself, or an expression, which may hold EXISTS
                here.tables += inner.tables - inner.is_item
                here.most = max(here.most, inner.most)
        elif lexeme in ("select", "values"):
            here.end_of_arm()
            here.is_query = True
            here.selects += 1
        elif lexeme == "from" and previous != "distinct":
            here.in_from = True
            here.tables += 1
        elif lexeme in _AFTER_FROM:
            here.in_from = False
        elif here.in_from and lexeme in (",", "join"):
            here.tables += 1
        elif _stands_for_table(lexemes, at, here.in_from):
            name = _unquoted(lexeme)
            recursive = any(name == part.name and part.is_query for part in (*around, here))
            named = views if previous == "." else sizes
            if name in named and (named is views or not recursive or name in again):
                here.selects += named[name].selects
                if here.in_from:
                    here.tables += named[name].joined - 1
        previous = lexeme
    for part in (*around, here):
        part.end_of_arm()
    parts = (*around, here)
    return Size(max(part.most for part in parts), sum(part.selects for part in parts))


def _stands_for_table(lexemes: Sequence[str], at: int, in_from: bool) -> bool:
    """Whether `at` is where a FROM or an IN names a table."""
    if at >= 3 and lexemes[at - 1] == ".":
        at -= 2
    before = lexemes[at - 1] if at else ""
    return before == "in" or (in_from and before in _BEFORE_TABLE)


def _name_before(lexemes: Sequence[str], at: int, closed: str) -> str:
    """The name in `name AS (` or `name (…) AS NOT MATERIALIZED (`, where `at` is the parenthesis.

    Args:
        closed: what stood before the parenthesis that was closed last.
    """
    for hint in ("materialized", "not"):
        if at and lexemes[at - 1] == hint:
            at -= 1
    if at < 2 or lexemes[at - 1] != "as":
        return ""
    return _unquoted(closed if lexemes[at - 2] == ")" else lexemes[at - 2])


def _unquoted(lexeme: str) -> str:
    if lexeme[0] not in "'\"`[":
        return lexeme
    closing = lexeme[-1]
    return lexeme[1:-1].replace(closing * 2, closing)


def _find(tokens: list[Token], keyword: str, start: int, stop: int) -> int:
    """Index of the top-level `keyword` between `start` and `stop`; `stop` where there is none."""
    return next((i for i in range(start, stop) if tokens[i].keyword == keyword), stop)


def _list_end(tokens: list[Token], start: int) -> int:
    for i in range(start, len(tokens)):
        # `a IS DISTINCT FROM b` has a FROM that ends nothing.
        if tokens[i].keyword in _AFTER_LIST and tokens[i - 1].keyword != "DISTINCT":
            return i
    return len(tokens)


def _split(tokens: list[Token]) -> list[list[Token]]:
    """`tokens` cut at the top-level commas."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == "," and not token.depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _normalized(tokens: list[Token]) -> str:
    return " ".join(t.text if t.kind == "string" else t.identifier or t.text for t in tokens)


def _order_term(sql: str, tokens: list[Token]) -> OrderTerm:
    collation = ""
    if len(tokens) > 2 and tokens[-2].keyword == "NULLS":
        tokens = tokens[:-2]
    if len(tokens) > 1 and tokens[-1].keyword in ("ASC", "DESC"):
        tokens = tokens[:-1]
    if len(tokens) > 2 and tokens[-2].keyword == "COLLATE":
        collation = (tokens[-1].identifier or "").upper()
        tokens = tokens[:-2]
    only = tokens[0] if len(tokens) == 1 else None
    return OrderTerm(
        text=sql[tokens[0].start : tokens[-1].end],
        normalized=_normalized(tokens),
        position=int(only.text) if only and only.kind == "number" and only.text.isdigit() else None,
        identifier=only.identifier if only else None,
        collation=collation,
    )


def _read_limit(tokens: list[Token]) -> tuple[int | None, int, bool]:
    """(limit, offset, known) of what follows LIMIT: `5`, `5 OFFSET 2` or `2, 5`."""
    if not tokens:
        return None, 0, True
    match = _LIMIT.fullmatch(" ".join(token.text.upper() for token in tokens))
    if match is None:
        return None, 0, False
    first, joint, second = match.group(1), match.group(2), match.group(3)
    numbers = [int(text.replace(" ", "")) for text in (first, second) if text]
    limit = numbers[-1] if joint == "," else numbers[0]
    offset = numbers[0] if joint == "," else (numbers[1] if len(numbers) > 1 else 0)
    return (limit if limit >= 0 else None), max(offset, 0), True
