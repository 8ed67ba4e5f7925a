"""Every row of the security page's tables has tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hostile_statements import STATEMENTS

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "security.md"
TABLES = re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
ROWS = [line for table in TABLES for line in table.splitlines()[2:]]
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in CHECKOUT.glob("tests/**/test_*.py"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_every_row_of_the_page_names_tests_that_exist(row: str) -> None:
    for name in _named(row):
        begins = rf"^ *(?:async )?(?:def|class) {re.escape(name)}\b"
        assert name in STATEMENTS or (name and re.search(begins, TESTS, re.MULTILINE)), name


def test_every_group_of_hostile_statements_is_in_a_row() -> None:
    assert set(STATEMENTS) <= {name for row in ROWS for name in _named(row)}


def _named(row: str) -> list[str]:
    """What stands in the last column: tests, and groups of hostile statements."""
    return [name.strip(" `") for name in row.split("|")[-2].split(",")]


def test_the_page_counts_the_hostile_statements() -> None:
    count = sum(len(statements) for _, statements in STATEMENTS.values())
    assert f"holds {count} statements" in PAGE.read_text(encoding="utf-8")
