"""A key that gold queries share which give each other's answer away.

Two questions with the same gold query under other table aliases or in other quotes must not lie on
both sides of a split. That is more than the normal form (`core.sql_text`) makes equal, which needs
no parser and judges what agents play; a text that no parser reads is left to it.
"""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

from sql_env.core.sql_text import normalize_sql
from sql_env.sql.parse import NotAQueryError, parse_query
from sql_env.sql.scope import enclosing_selects, tables_of


@lru_cache(maxsize=32_768)
def leak_key(sql: str) -> str:
    """`sql` in lower case, without aliases of tables, quotes and superfluous white space.

    Example:
        >>> leak_key("SELECT T1.name FROM Singer AS T1") == leak_key('SELECT "name" FROM singer')
        True
    """
    try:
        tree = parse_query(sql)
    except NotAQueryError:
        return normalize_sql(sql)
    selects = list(tree.find_all(exp.Select))
    renamed = [(column, _real_table(column)) for column in tree.find_all(exp.Column)]
    for column, table in renamed:
        column.set("table", exp.to_identifier(table) if table else None)
    for select in selects:
        for source in tables_of(select):
            source.set("alias", None)
    # Spider writes text in double quotes; sqlglot reads those as names. Without quotes both agree.
    text = tree.sql(dialect="sqlite", comments=False).lower()
    return " ".join(text.replace('"', "").replace("'", "").split())


def _real_table(column: exp.Column) -> str:
    """The table a column's qualifier stands for; empty where the qualifier says nothing."""
    qualifier = column.table.lower()
    if not qualifier:
        return ""
    for depth, select in enumerate(enclosing_selects(column)):
        tables = tables_of(select)
        names = [table.name.lower() for table in tables]
        for number, table in enumerate(tables):
            if table.alias_or_name.lower() == qualifier:
                if len(tables) == 1 and not depth:
                    return ""
                # A table joined with itself needs telling apart.
                return f"{table.name}#{number}" if names.count(names[number]) > 1 else table.name
    return qualifier
