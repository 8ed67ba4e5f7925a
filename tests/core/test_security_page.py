"""Every row of the security page's tables names tests that exist."""

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
def test_a_row_names_its_tests(row: str) -> None:
    named = row.split("|")[-2]
    tests, groups = re.findall(r"`(\w+)`", named), re.findall(r'"([^"]+)"', named)
    assert tests or groups
    for name in tests:
        assert re.search(rf"^ *(?:async )?(?:def|class) {name}\b", TESTS, re.MULTILINE), name
    for group in groups:
        assert group in STATEMENTS, group


def test_every_group_of_hostile_statements_is_in_a_row() -> None:
    named = {group for row in ROWS for group in re.findall(r'"([^"]+)"', row.split("|")[-2])}
    assert named == set(STATEMENTS)


def test_the_page_counts_the_hostile_statements() -> None:
    count = sum(len(statements) for _, statements in STATEMENTS.values())
    assert f"holds {count} statements" in PAGE.read_text(encoding="utf-8")
