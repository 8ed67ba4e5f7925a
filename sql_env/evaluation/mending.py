"""Slips of the pen in a query, put right: what was meant is plain, and no other turn is needed.

A table that is nearly spelt right; one that is used and was not joined, where a single foreign key
leads to it; a text that is nearly spelt as the question spells it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from difflib import get_close_matches
from functools import lru_cache

from sqlglot import exp

from sql_env.core.render import spelt_identifier
from sql_env.core.schema import quote_identifier
from sql_env.evaluation.known_schema import folded
from sql_env.evaluation.proofreading import (
    QUOTED,
    Tables,
    foreign_keys,
    parsed,
    read_by,
    sources,
)

_NEARLY = 0.75  # "Particip" and "Participants", not "Parties"
_ALMOST = 0.85  # "Sofya Roth" and "Sofia Roth"
_WORDS = re.compile(r"\w[\w'&-]*\b|\w")


def table_called_nearly(name: str, tables: Sequence[str]) -> str:
    """The table that a misspelt name means, as a query has to spell it, or nothing."""
    spellings = {folded(table): table for table in tables}
    near = get_close_matches(folded(name), spellings, n=1, cutoff=_NEARLY)
    return spelt_name(spellings[near[0]]) if near else ""


def with_missing_join(query: str, tables: Tables) -> str:
    """A query with the table joined that it uses and does not read, or as it was."""
    tree = parsed(query)
    if tree is None:
        return query
    for column in tree.find_all(exp.Column):
        select = column.find_ancestor(exp.Select)
        missing = folded(column.table)
        if select is None or missing not in tables or _can_see(select, missing):
            continue
        read = {name for alias, name in sources(select).items() if alias == name in tables}
        ways = list(dict.fromkeys(_ways_to(missing, read, tables)))
        if len(ways) == 1:
            table = exp.Table(this=_identifier(tables[missing].name))
            select.join(table, on=ways[0], copy=False)
            return tree.sql("sqlite")
    return query


def with_texts_as_asked(query: str, question: str, seen: str) -> str:
    """A query with texts as the question spells them, where they were nearly so.

    Args:
        seen: what results have shown. A text from there is how the database spells it.
    """
    tree = parsed(query)
    if tree is None:
        return query
    changed = False
    for literal in tree.find_all(exp.Literal):
        text = literal.name.strip("%")
        if not literal.is_string or text in question or text in seen:
            continue
        if meant := _text_almost(text, question):
            literal.set("this", literal.name.replace(text, meant))
            changed = True
    return tree.sql("sqlite") if changed else query


def _text_almost(text: str, question: str) -> str:
    """What a question has in quotes, or a name of several words, of which some letters are wrong.

    One word without quotes is not enough: "asian" in a question may well be "Asia" in a query. Nor
    are other capitals or stops wrong: the database may have them.
    """
    words = list(_WORDS.finditer(question))
    count = len(_WORDS.findall(text))
    found = [quoted.strip() for quoted in QUOTED.findall(question)]
    for some in range(max(count - 1, 2), count + 2) if count > 1 else ():
        for at in range(len(words) - some + 1):
            first, last = words[at], words[at + some - 1]
            if first[0][0].isupper() and last[0][0].isupper():
                found.append(question[first.start() : last.end()])
    if _only_words(text) in map(_only_words, found):
        return ""
    near = get_close_matches(folded(text), map(folded, found), n=1, cutoff=_ALMOST)
    return next((item for item in found if folded(item) in near), "")


def _only_words(text: str) -> str:
    return " ".join(_WORDS.findall(folded(text)))


def _can_see(select: exp.Select, name: str) -> bool:
    outer: exp.Select | None = select
    while outer is not None:
        if name in (folded(item.alias_or_name) for item in read_by(outer)):
            return True
        outer = outer.find_ancestor(exp.Select)
    return False


def _ways_to(missing: str, read: set[str], tables: Tables) -> Iterator[exp.Expr]:
    """The conditions of joining a table to those that are read, one for each foreign key."""
    for one, other in foreign_keys(tables):
        for (here, column), (there, its_column) in ((one, other), (other, one)):
            if here == missing and there in read:
                yield exp.EQ(
                    this=_column(there, its_column, tables),
                    expression=_column(here, column, tables),
                )


def _column(table: str, column: str, tables: Tables) -> exp.Column:
    spellings = {folded(name): name for name in tables[table].columns}
    return exp.Column(
        this=_identifier(spellings.get(column, column)), table=_identifier(tables[table].name)
    )


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=spelt_name(name) != name)


@lru_cache(maxsize=10_000)
def spelt_name(name: str) -> str:
    """A name as a query has to spell it, also where it is a word of SQL."""
    spelt = spelt_identifier(name)
    with closing(sqlite3.connect(":memory:")) as database:
        try:
            database.execute(f"SELECT 1 AS {spelt}")
        except sqlite3.OperationalError:
            return quote_identifier(name)
    return spelt
