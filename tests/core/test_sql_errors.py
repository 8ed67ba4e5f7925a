from sql_env.core.sql_errors import explain_sql_error

TABLES = ["singer", "concert"]
DESCRIBED = {"singer": ["Singer_ID", "Name"]}


def test_a_column_of_another_described_table_is_named() -> None:
    told = explain_sql_error("no such column: T2.name", TABLES, DESCRIBED)
    assert told == "no such column: T2.name. Did you mean singer.Name?"


def test_a_table_that_the_query_does_not_read_is_to_be_joined() -> None:
    told = explain_sql_error("no such column: singer.name", TABLES, DESCRIBED)
    assert told == "no such column: singer.name. The query does not read singer: JOIN it"


def test_a_misspelt_column_gets_its_neighbour() -> None:
    told = explain_sql_error("no such column: Singr_ID", TABLES, DESCRIBED)
    assert told.endswith("Did you mean singer.Singer_ID?")


def test_columns_of_tables_not_described_are_never_offered() -> None:
    told = explain_sql_error("no such column: Theme", TABLES, {})
    assert told == "no such column: Theme. DESCRIBE shows columns"


def test_an_unknown_table_gets_the_names_and_the_nearest() -> None:
    told = explain_sql_error("no such table: concerts", TABLES, {})
    assert told == "no such table: concerts. Did you mean concert? Tables: singer, concert"


def test_an_ambiguous_column_names_its_tables() -> None:
    both = {"singer": ["Name"], "stadium": ["name"]}
    told = explain_sql_error("ambiguous column name: Name", TABLES, both)
    assert told.endswith("Did you mean singer.Name or stadium.name?")


def test_any_other_message_is_left_alone() -> None:
    assert explain_sql_error('near "FORM": syntax error', TABLES, DESCRIBED) == (
        'near "FORM": syntax error'
    )
