import pytest

from sql_env.core.sql_errors import explain_sql_error

TABLES = ["singer", "concert"]
DESCRIBED = {"singer": ["Singer_ID", "Name"]}


def test_a_column_of_another_described_table_is_named() -> None:
    sql = "SELECT T2.name FROM singer AS T1 JOIN concert AS T2"
    told = explain_sql_error("no such column: T2.name", sql, TABLES, DESCRIBED)
    hint = "Did you mean singer.Name? DESCRIBE concert shows its columns"
    assert told == f"no such column: T2.name. {hint}"


def test_an_alias_is_told_what_its_table_has() -> None:
    described = {"singer": ["Name"], "concert": ["Theme", "Year"], "stadium": ["City"]}
    sql = "SELECT T1.Name FROM singer AS T1 JOIN concert T2 ON T2.Name = T1.Name"
    told = explain_sql_error("no such column: T2.Name", sql, [*described], described)
    has = "concert has Theme, Year"
    assert told == f"no such column: T2.Name. Did you mean singer.Name? {has}"
    told = explain_sql_error("no such column: T2.City", sql, [*described], described)
    absent = "The query does not read stadium: JOIN it."
    assert told == f"no such column: T2.City. Did you mean stadium.City? {absent} {has}"


def test_the_only_table_of_a_query_is_told_what_it_has() -> None:
    told = explain_sql_error("no such column: Age", "SELECT Age FROM singer", TABLES, DESCRIBED)
    assert told == "no such column: Age. singer has Singer_ID, Name"


def test_a_name_behind_an_alias_is_told_so() -> None:
    sql = "SELECT singer.name FROM singer AS T1"
    told = explain_sql_error("no such column: singer.name", sql, TABLES, DESCRIBED)
    assert told == "no such column: singer.name. The query calls singer t1"


def test_a_table_that_the_query_does_not_read_is_to_be_joined() -> None:
    told = explain_sql_error("no such column: singer.name", "", TABLES, DESCRIBED)
    assert told == "no such column: singer.name. The query does not read singer: JOIN it"


def test_a_misspelt_column_gets_its_neighbour() -> None:
    told = explain_sql_error("no such column: Singr_ID", "", TABLES, DESCRIBED)
    assert told.endswith("Did you mean singer.Singer_ID?")


def test_a_table_without_the_column_is_told_what_it_has() -> None:
    described = {
        "building": ["Name"],
        "Institution": ["Institution_id", "Institution", "Home Town"],
    }
    tables, sql = [*described], "SELECT institution.Name FROM Institution, building"
    told = explain_sql_error("no such column: institution.Name", sql, tables, described)
    has = 'Institution has Institution_id, Institution, "Home Town"'
    assert told == f"no such column: institution.Name. Did you mean building.Name? {has}"
    told = explain_sql_error("no such column: Institution.Zip", "", ["Institution"], described)
    assert told == f"no such column: Institution.Zip. {has}"


def test_a_wide_table_is_not_listed_again() -> None:
    wide = {"t": [f"c{number}" for number in range(40)]}
    told = explain_sql_error("no such column: t.Zip", "", ["t"], wide)
    assert told == "no such column: t.Zip. DESCRIBE shows columns"


def test_a_hint_is_spelt_as_a_query_must() -> None:
    told = explain_sql_error("no such table: home", "", ["Home Team"], {})
    assert told == 'no such table: home. Did you mean "Home Team"? Tables: "Home Team"'
    told = explain_sql_error("no such column: home town", "", ["t"], {"t": ["Home Town"]})
    assert 'Did you mean t."Home Town"?' in told


@pytest.mark.parametrize(
    ("message", "sql"),
    [
        ("no such column: Theme", ""),
        ("no such column: Theme", "SELECT Theme FROM concert"),
        ("no such column: T1.Them", "SELECT T1.Them FROM concert AS T1"),
        ("no such column: concert.Them", "SELECT concert.Them FROM concert, singer"),
    ],
)
def test_columns_of_tables_not_described_are_never_offered(message: str, sql: str) -> None:
    told = explain_sql_error(message, sql, TABLES, DESCRIBED)
    of_concert = " DESCRIBE concert shows its columns" if sql else " DESCRIBE shows columns"
    assert told == f"{message}.{of_concert}"


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        (
            "SELECT lines.name FROM staff WHERE line IN (SELECT id FROM lines)",
            "lines is read elsewhere in the query, not here: JOIN it",
        ),
        ("SELECT name FROM staff ORDER BY lines.name", "The query does not read lines: JOIN it"),
        ("SELECT lines, lines.name FROM staff", "The query does not read lines: JOIN it"),
        ("SELECT lines.name FROM lines AS x, staff", "The query calls lines x"),
        (
            "SELECT lines.name FROM (SELECT id FROM lines y) JOIN lines x",
            "lines is read elsewhere in the query, not here: JOIN it",
        ),
    ],
)
def test_a_name_that_cannot_be_used_here_is_told_why(sql: str, hint: str) -> None:
    described = {"lines": ["id", "name"], "staff": ["line", "lines"]}
    told = explain_sql_error("no such column: lines.name", sql, [*described], described)
    assert told == f"no such column: lines.name. {hint}"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT T1.foo FROM lines T1 WHERE T1.id IN (SELECT T1.id FROM staff T1)",
        "WITH T1 AS (SELECT id FROM lines) SELECT T1.foo FROM T1",
        "SELECT T1.foo FROM (SELECT id FROM lines) T1",
    ],
)
def test_an_alias_that_may_be_either_is_not_explained(sql: str) -> None:
    described = {"lines": ["id", "name"], "staff": ["line"]}
    told = explain_sql_error("no such column: T1.foo", sql, [*described], described)
    assert told == "no such column: T1.foo. DESCRIBE shows columns"


def test_an_unknown_table_gets_the_names_and_the_nearest() -> None:
    told = explain_sql_error("no such table: concerts", "", TABLES, {})
    assert told == "no such table: concerts. Did you mean concert? Tables: singer, concert"


def test_an_ambiguous_column_names_its_tables() -> None:
    both = {"singer": ["Name"], "stadium": ["name"]}
    told = explain_sql_error("ambiguous column name: Name", "", TABLES, both)
    assert told.endswith("Did you mean singer.Name or stadium.name?")


def test_any_other_message_is_left_alone() -> None:
    assert explain_sql_error('near "FORM": syntax error', "", TABLES, DESCRIBED) == (
        'near "FORM": syntax error'
    )
