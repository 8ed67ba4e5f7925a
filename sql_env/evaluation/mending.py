"""Slips of the pen in a query, put right: what was meant is plain, and no other turn is needed.

A table that is nearly spelt right; one that is used and was not joined, where a single foreign key
leads to it; a text that is nearly the one that the question has in quotes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher, get_close_matches

from sqlglot import exp

from sql_env.core.render import spelt_identifier
from sql_env.evaluation.known_schema import folded
from sql_env.evaluation.proofreading import (
    QUOTED,
    Tables,
    foreign_keys,
    parsed,
    sources,
)

_NEARLY = 0.75  # "Particip" and "Participants", not "Parties"
_ALMOST = 0.85  # "Bookcollection A" and "Book collection A"


def table_called_nearly(name: str, tables: Sequence[str]) -> str:
    """The table that a misspelt name means, as a query has to spell it, or nothing."""
    spellings = {folded(table): table for table in tables}
    near = get_close_matches(folded(name), spellings, n=1, cutoff=_NEARLY)
    return spelt_identifier(spellings[near[0]]) if near else ""


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
        read = {table for alias, table in sources(select).items() if alias == table}
        ways = list(dict.fromkeys(_ways_to(missing, read, tables)))
        if len(ways) == 1:
            select.join(exp.to_table(tables[missing].name), on=ways[0], copy=False)
            return tree.sql("sqlite")
    return query


def with_quoted_texts(query: str, question: str, seen: str) -> str:
    """A query with texts as the question has them in quotes, where they were nearly so.

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
        for quoted in map(str.strip, QUOTED.findall(question)):
            if _is_almost(text, quoted):
                literal.set("this", literal.name.replace(text, quoted))
                changed = True
    return tree.sql("sqlite") if changed else query


def _is_almost(text: str, quoted: str) -> bool:
    """Whether letters are missing or wrong. Other capitals may be meant."""
    text, quoted = folded(text), folded(quoted)
    return text != quoted and SequenceMatcher(None, text, quoted).ratio() >= _ALMOST


def _can_see(select: exp.Select, name: str) -> bool:
    outer: exp.Select | None = select
    while outer is not None:
        if name in sources(outer):
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
    return exp.column(spellings.get(column, column), table=tables[table].name)
