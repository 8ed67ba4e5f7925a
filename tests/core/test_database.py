"""What the sandbox gives to those who mean well."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import apsw
import pytest

from sql_env.core.allow_list import FUNCTIONS
from sql_env.core.database import (
    TOO_LONG,
    Column,
    Database,
    DatabaseOpenError,
    ErrorKind,
    ForeignKey,
    Limits,
    quote_identifier,
)

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a database from an SQL script."""

    def write(script: str, name: str = "made.sqlite", rows: tuple[str, list[tuple]] | None = None):
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            connection.executescript(script)
            if rows:
                connection.executemany(*rows)
            connection.commit()
        return tmp_path / name

    return write


@pytest.fixture
def shop(make: Make) -> Database:
    return Database(
        make(
            """
            CREATE TABLE Customer (Id INTEGER PRIMARY KEY, Name TEXT NOT NULL, city TEXT);
            CREATE TABLE "Order" ("order id" INT, customer INT REFERENCES Customer, total REAL,
                PRIMARY KEY ("order id"));
            CREATE VIEW big AS SELECT "order id", total FROM "Order" WHERE total > 10;
            INSERT INTO Customer VALUES (1, 'Ann', 'Oslo'), (2, 'Bob', NULL), (3, 'Cem', 'Rome');
            INSERT INTO "Order" VALUES (1, 1, 9.5), (2, 1, 20), (3, 2, 30.25);
            """
        )
    )


class TestResults:
    def test_columns_bear_their_aliases_and_rows_keep_their_order(self, shop: Database) -> None:
        result = shop.query("SELECT Name, city AS town FROM Customer ORDER BY Id")
        assert result.columns == ("Name", "town")
        assert result.rows == (("Ann", "Oslo"), ("Bob", None), ("Cem", "Rome"))
        assert result.ok

    def test_types_stay_apart(self, shop: Database) -> None:
        (row,) = shop.query("SELECT 1, 1.0, '1', x'01', NULL, ''").rows
        assert [type(cell) for cell in row] == [int, float, str, bytes, type(None), str]

    def test_no_rows_is_not_an_error(self, shop: Database) -> None:
        result = shop.query("SELECT Name FROM Customer WHERE 0")
        assert (result.ok, result.columns, result.rows) == (True, ("Name",), ())

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT 1",
            "  select 1;  ",
            "SELECT 1 -- note",
            "/* note */ SELECT 1 ; /* end */ -- end",
            "WITH one AS (SELECT 1) SELECT * FROM one",
            "WITH one AS (SELECT 1 AS a) SELECT count(*) FROM one",
            "VALUES (1)",
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) "
            "SELECT min(i) FROM n",
        ],
    )
    def test_ways_to_write_one_select(self, shop: Database, sql: str) -> None:
        assert shop.query(sql).rows == ((1,),)

    @pytest.mark.parametrize("value", ["'a'", "CAST(x'61e9' AS TEXT)", f"'{'b' * 3_000}'"])
    @pytest.mark.parametrize(
        "end",
        [";", " -- x", "; -- x;", " /* x */;", " /* open", "; /* open", ";\n-- a\n;", ";\ufeff"],
    )
    def test_a_comment_behind_a_query_changes_nothing(
        self, make: Make, value: str, end: str
    ) -> None:
        database = Database(make(f"CREATE TABLE t(x); INSERT INTO t VALUES ({value}), (2);"))
        plain = database.query("SELECT x FROM t")
        assert plain.ok
        assert database.query(f"SELECT x FROM t{end}") == plain
        assert database.query(f"SELECT x FROM t{end}") == plain  # now it is known

    def test_joins_windows_and_views(self, shop: Database) -> None:
        sql = (
            "SELECT c.Name, rank() OVER (ORDER BY b.total DESC) FROM big b "
            'JOIN "Order" o USING ("order id") JOIN Customer c ON c.Id = o.customer'
        )
        assert sorted(shop.query(sql).rows) == [("Ann", 2), ("Bob", 1)]

    def test_sample_gives_the_first_rows(self, shop: Database) -> None:
        assert shop.sample("Order", 2).rows == ((1, 1, 9.5), (2, 1, 20.0))

    def test_every_allowed_function_of_this_sqlite_can_be_called(self, shop: Database) -> None:
        listed = apsw.Connection(":memory:").execute("SELECT name FROM pragma_function_list")
        known = {name for (name,) in listed}
        assert known >= FUNCTIONS
        calls = [f"{name}({', '.join('1' * n)})" for name in FUNCTIONS & known for n in range(4)]
        denied = [call for call in calls if shop.query(f"SELECT {call}").error_kind == "denied"]
        assert denied == []

    @pytest.mark.parametrize(
        ("call", "value"),
        [
            ("trim('  a ')", "a"),
            ("trim('xxaxyx', 'xy')", "a"),
            ("ltrim('xxax', 'x')", "ax"),
            ("rtrim('xxax', 'x')", "xxa"),
            ("trim(1001, 1)", "00"),
            ("trim(NULL, 'x')", None),
            ("trim('x', NULL)", None),
            ("trim('ééaé', 'é')", "a"),
            ("trim('abc', '')", "abc"),
            ("trim(x'616261', 'a')", "b"),
        ],
    )
    def test_trim_does_what_sqlites_own_does(
        self, shop: Database, call: str, value: str | None
    ) -> None:
        with closing(sqlite3.connect(":memory:")) as connection:
            assert connection.execute(f"SELECT {call}").fetchone() == (value,)
        assert shop.query(f"SELECT {call}").rows == ((value,),)


class TestErrors:
    @pytest.mark.parametrize(
        ("sql", "kind", "message"),
        [
            ("SELECT nope FROM Customer", ErrorKind.NO_COLUMN, "no such column: nope"),
            ("SELECT * FROM nope", ErrorKind.NO_TABLE, "no such table: nope"),
            ("SELEC 1", ErrorKind.SYNTAX, 'near "SELEC": syntax error'),
            ("SELECT * FROM", ErrorKind.SYNTAX, "incomplete input"),
            ("SELECT nope(1)", ErrorKind.OTHER, "no such function: nope"),
            (
                "SELECT Name FROM Customer a JOIN Customer b",
                ErrorKind.OTHER,
                "ambiguous column name: Name",
            ),
            (
                "SELECT sum(sum(Id)) FROM Customer",
                ErrorKind.OTHER,
                "misuse of aggregate function sum()",
            ),
        ],
    )
    def test_sqlites_own_words_reach_the_agent(
        self, shop: Database, sql: str, kind: ErrorKind, message: str
    ) -> None:
        result = shop.query(sql)
        assert (result.error_kind, result.error) == (kind, message)
        assert not result.ok

    @pytest.mark.parametrize(
        ("sql", "kind", "says"),
        [
            ("DELETE FROM Customer", ErrorKind.DENIED, "DELETE is not allowed"),
            ("SELECT * FROM sqlite_master", ErrorKind.DENIED, "use DESCRIBE"),
            ("SELECT random()", ErrorKind.DENIED, "the function random() is not available"),
            ("SELECT 1; SELECT 2", ErrorKind.MULTIPLE, "one statement only"),
            ("SELECT ?", ErrorKind.SYNTAX, "write the value itself"),
            ("-- nothing", ErrorKind.SYNTAX, "no SELECT statement"),
            ("SELECT '\0'", ErrorKind.SYNTAX, "NUL"),
            ("SELECT 1" + " " * 10_000, ErrorKind.TOO_LARGE, "10,000 bytes"),
        ],
    )
    def test_our_words_say_what_to_do(
        self, shop: Database, sql: str, kind: ErrorKind, says: str
    ) -> None:
        result = shop.query(sql)
        assert result.error_kind == kind
        assert says in result.error


class TestCaps:
    def test_a_result_of_too_many_rows_is_refused(self, make: Make) -> None:
        path = make(
            "CREATE TABLE t(x)", rows=("INSERT INTO t VALUES (?)", [(i,) for i in range(9)])
        )
        assert len(Database(path, Limits(rows=9)).query("SELECT x FROM t").rows) == 9
        over = Database(path, Limits(rows=8)).query("SELECT x FROM t")
        assert (over.error_kind, over.rows) == (ErrorKind.TOO_LARGE, ())
        assert "more than 8 rows" in over.error

    @pytest.mark.parametrize("allowed", [20_000, 10_000_000])
    def test_many_rows_come_whole_whatever_the_batch(self, make: Make, allowed: int) -> None:
        numbers = [(i,) for i in range(20_000)]
        path = make("CREATE TABLE t(x)", rows=("INSERT INTO t VALUES (?)", numbers))
        limits = Limits(rows=allowed, bytes=allowed * 100)
        assert Database(path, limits).query("SELECT x FROM t").rows == tuple(numbers)

    def test_a_result_of_too_many_bytes_is_refused(self, make: Make) -> None:
        texts = [("x" * 500,) for _ in range(100)]
        path = make("CREATE TABLE t(x)", rows=("INSERT INTO t VALUES (?)", texts))
        assert Database(path, Limits(bytes=300_000)).query("SELECT x FROM t").ok
        over = Database(path, Limits(bytes=40_000)).query("SELECT x FROM t")
        assert over.error_kind == ErrorKind.TOO_LARGE
        assert "more than 40,000 bytes" in over.error

    def test_a_query_that_takes_too_long_is_ended(self, shop: Database) -> None:
        patient = Database(shop.path, Limits(seconds=0.05))
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT max(i) FROM n"
        result = patient.query(endless)
        assert result.error_kind == ErrorKind.TIMEOUT
        assert "0.05 seconds" in result.error

    @pytest.mark.parametrize("width", [400, 2000])
    def test_wide_tables_can_be_sampled(self, make: Make, width: int) -> None:
        names = ", ".join(f"c{i}" for i in range(width))
        path = make(f"CREATE TABLE wide({names}); INSERT INTO wide(c{width - 1}) VALUES ('last');")
        assert Database(path).sample("wide", 1).rows[0][-1] == "last"

    def test_of_a_wide_table_with_long_names_and_values_the_first_columns_are_sampled(
        self, make: Make
    ) -> None:
        names = [f"a_column_with_a_long_name_{i}" for i in range(1_900)]
        path = make(
            f"CREATE TABLE wide({', '.join(names)}); INSERT INTO wide({names[0]}, {names[1]}) "
            "VALUES (zeroblob(100000), 1)"
        )
        sample = Database(path).sample("wide", 1)
        assert sample.rows[0][:3] == ("(too long to show)", 1, None)
        assert sample.columns == tuple(names[: len(sample.columns)])


class TestText:
    @pytest.mark.parametrize("length", [1_000, 1_025, 5_000, 32_000])
    def test_long_values_are_read(self, make: Make, length: int) -> None:
        path = make(
            "CREATE TABLE t(x)", rows=("INSERT INTO t VALUES (?)", [("é" * (length // 2),)])
        )
        database = Database(path)
        assert database.query("SELECT x FROM t").rows == (("é" * (length // 2),),)
        assert database.query("SELECT count(*) FROM t WHERE x LIKE '%é'").rows == ((1,),)

    def test_values_beyond_the_limit_leave_the_rest_readable(self, make: Make) -> None:
        path = make(
            "CREATE TABLE t(id, x)", rows=("INSERT INTO t VALUES (?, ?)", [(7, "x" * 40_000)])
        )
        database = Database(path)
        assert database.query("SELECT x FROM t").error_kind == ErrorKind.TOO_LARGE
        assert database.query("SELECT id FROM t").rows == ((7,),)

    def test_a_long_value_spoils_neither_sample_nor_like(self, make: Make) -> None:
        rows = [(1, "short foo", "a"), (2, "x" * 40_000 + "foo", "b"), (3, "none", "c")]
        path = make("CREATE TABLE t(id, x, y)", rows=("INSERT INTO t VALUES (?, ?, ?)", rows))
        database = Database(path)
        assert database.sample("T", 2).rows == ((1, TOO_LONG, "a"), (2, TOO_LONG, "b"))
        assert database.sample("T", 2).columns == ("id", "x", "y")
        refused = database.query("SELECT id FROM t WHERE x LIKE '%foo'")
        assert "octet_length(column) <= 32768" in refused.error
        advised = "SELECT id FROM t WHERE octet_length(x) <= 32768 AND x LIKE '%foo'"
        assert database.query(advised).rows == ((1,),)

    def test_bytes_that_are_not_utf8_are_read_as_latin1(self, make: Make) -> None:
        path = make(
            "CREATE TABLE t(x); INSERT INTO t VALUES (CAST(x'51756562e963' AS TEXT)), ('é');"
        )
        database = Database(path)
        assert database.query("SELECT x FROM t").rows == (("Quebéc",), ("é",))
        assert database.query("SELECT x FROM t WHERE x = 'é'").rows == (("é",),)

    def test_every_table_of_spider_can_be_read(self, spider_dir: Path) -> None:
        for path in sorted(spider_dir.glob("database/*/*.sqlite")):
            database = Database(path)
            for table in database.table_names:
                result = database.sample(table, 2_000)
                assert result.ok, f"{path} {table}: {result.error}"


class TestReads:
    def test_what_a_join_reads_is_seen_column_by_column(self, shop: Database) -> None:
        sql = 'SELECT c.name FROM customer c JOIN "order" o ON o.CUSTOMER = c.id WHERE total > 1'
        assert shop.query(sql).reads == {
            ("Customer", "Name"),
            ("Customer", "Id"),
            ("Order", "customer"),
            ("Order", "total"),
        }

    def test_star_reads_every_column(self, shop: Database) -> None:
        assert shop.query("SELECT * FROM customer").reads == {
            ("Customer", "Id"),
            ("Customer", "Name"),
            ("Customer", "city"),
        }

    def test_count_reads_the_table_and_no_column(self, shop: Database) -> None:
        assert shop.query("SELECT count(*) FROM CUSTOMER").reads == {("Customer", "")}

    def test_a_view_reads_what_is_behind_it(self, shop: Database) -> None:
        assert ("Order", "total") in shop.query("SELECT total FROM big").reads

    def test_common_table_expressions_are_no_tables(self, shop: Database) -> None:
        sql = "WITH x AS (SELECT city FROM Customer) SELECT count(*) FROM x"
        assert {table for table, _ in shop.query(sql).reads} == {"Customer"}

    def test_repeated_statements_keep_their_reads(self, shop: Database) -> None:
        statements = [f"SELECT Name, {i} FROM Customer" for i in range(300)]
        expected = {("Customer", "Name")}
        for _ in range(2):
            assert all(shop.query(sql).reads == expected for sql in statements)
        assert all(shop.query(statements[0]).reads == expected for _ in range(3))

    def test_reads_survive_a_failure_in_between(self, make: Make) -> None:
        rows = ("INSERT INTO t VALUES (?)", [(i,) for i in range(50)])
        path = make("CREATE TABLE t(x)", rows=rows)
        sql = "SELECT x FROM t"
        assert not Database(path, Limits(rows=5)).query(sql).ok
        assert Database(path).query(sql).reads == {("t", "x")}

    def test_failed_queries_read_nothing(self, shop: Database) -> None:
        assert shop.query("SELECT Name, nope FROM Customer").reads == frozenset()


class TestSchema:
    def test_columns_keys_and_size(self, shop: Database) -> None:
        schema = shop.schema("ORDER")
        assert schema is not None
        assert schema.name == "Order"
        assert schema.columns == (
            Column("order id", "INT", primary_key=True),
            Column("customer", "INT", primary_key=False),
            Column("total", "REAL", primary_key=False),
        )
        assert schema.row_count == 3

    def test_foreign_key_without_a_column_means_the_primary_key(self, shop: Database) -> None:
        schema = shop.schema("Order")
        assert schema is not None
        assert schema.foreign_keys == (ForeignKey("customer", "Customer", "Id"),)

    def test_composite_foreign_key(self, make: Make) -> None:
        path = make(
            """
            CREATE TABLE a (x, y, PRIMARY KEY (y, x));
            CREATE TABLE b (
                p, q, r, FOREIGN KEY (p, q) REFERENCES a, FOREIGN KEY (r) REFERENCES gone);
            """
        )
        schema = Database(path).schema("b")
        assert schema is not None
        assert set(schema.foreign_keys) == {
            ForeignKey("p", "a", "y"),
            ForeignKey("q", "a", "x"),
            ForeignKey("r", "gone", ""),
        }

    def test_names_in_order_tables_first(self, shop: Database) -> None:
        assert shop.table_names == ("Customer", "Order", "big")

    def test_an_unknown_table_has_no_schema(self, shop: Database) -> None:
        assert shop.schema("nope") is None

    def test_views_that_do_not_run_are_left_out(self, make: Make) -> None:
        path = make(
            """
            CREATE TABLE t (x); CREATE TABLE gone (x);
            CREATE VIEW good AS SELECT x FROM t; CREATE VIEW bad AS SELECT x FROM gone;
            DROP TABLE gone;
            """
        )
        assert Database(path).table_names == ("t", "good")

    def test_a_view_that_joins_too_many_is_left_out_whenever_it_was_created(
        self, make: Make
    ) -> None:
        path = make(
            f"""
            CREATE TABLE t (x); CREATE VIEW many AS SELECT a.x FROM five a, five b, five c, five d;
            CREATE VIEW five AS SELECT a.x FROM {", ".join(f"t {alias}" for alias in "abcde")};
            """
        )
        database = Database(path)
        assert database.table_names == ("t", "five")
        assert database.query("SELECT 1 FROM many").error_kind == ErrorKind.TOO_LARGE

    def test_what_the_database_computes_itself_can_be_read(self, make: Make) -> None:
        path = make(
            """
            CREATE TABLE t (
                id TEXT DEFAULT (hex(randomblob(8))), price REAL,
                label AS (printf('%.2f', price)), double AS (price * 2) STORED
            );
            INSERT INTO t(id, price) VALUES ('xax', 1.5);
            CREATE VIEW shown AS SELECT trim(id, 'x') AS id, printf('%.1f', price) AS price FROM t;
            """
        )
        database = Database(path)
        schema = database.schema("t")
        assert schema is not None
        assert [column.name for column in schema.columns] == ["id", "price", "label", "double"]
        assert database.sample("t", 1).rows == (("xax", 1.5, "1.50", 3.0),)
        assert database.query("SELECT * FROM shown").rows == (("a", "1.5"),)
        assert database.query("SELECT PrintF('%d', price) FROM t").error_kind == ErrorKind.DENIED

    def test_virtual_tables_and_their_shadows_are_left_out(self, make: Make) -> None:
        path = make("CREATE TABLE t (x); CREATE VIRTUAL TABLE words USING fts5(text);")
        assert Database(path).table_names == ("t",)

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT count(*) FROM words_content",
            "SELECT 1 FROM main.Words_Content",
            "SELECT EXISTS (SELECT 1 FROM words_docsize)",
            "SELECT count(*) FROM t, words_content",
            "SELECT x FROM t WHERE 1 IN (SELECT 1 FROM words_content)",
            "SELECT count(*) FROM words",
            "SELECT count(*) FROM seen",
            "SELECT one FROM ones",
            "SELECT count(*) FROM stored",
            "SELECT count(*) FROM sqlite_stat1",
            "SELECT 1 FROM sqlite_sequence",
        ],
    )
    def test_rows_of_hidden_tables_are_not_counted(self, make: Make, sql: str) -> None:
        path = make(
            """
            CREATE TABLE t (x INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO t VALUES (1);
            CREATE VIRTUAL TABLE words USING fts5(text); INSERT INTO words VALUES ('a'), ('b');
            CREATE VIEW seen AS SELECT * FROM words_content; CREATE VIEW fine AS SELECT x FROM t;
            CREATE VIEW ones AS SELECT 1 AS one FROM words_content;
            CREATE VIEW stored AS SELECT name FROM sqlite_master;
            CREATE INDEX by_x ON t(x); ANALYZE;
            """
        )
        database = Database(path)
        assert database.table_names == ("t", "fine")
        assert database.query("WITH by_x AS (SELECT 1) SELECT count(*) FROM by_x").ok
        assert database.query(sql).error_kind == ErrorKind.DENIED

    def test_a_name_may_hold_any_character(self, make: Make) -> None:
        name = 'we"ird [table] `x` ?#%'
        path = make(f"CREATE TABLE {quote_identifier(name)} (x)", name="odd name ?#%.sqlite")
        database = Database(path)
        assert database.table_names == (name,)
        assert database.sample(name, 1).columns == ("x",)


class TestOpening:
    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(DatabaseOpenError, match=r"none\.sqlite.*Prepare the data"):
            Database(tmp_path / "none.sqlite")

    def test_a_folder_is_no_database(self, tmp_path: Path) -> None:
        with pytest.raises(DatabaseOpenError, match=str(tmp_path)):
            Database(tmp_path)

    def test_a_text_file_is_no_database(self, tmp_path: Path) -> None:
        path = tmp_path / "text.sqlite"
        path.write_text("not a database " * 100)
        with pytest.raises(DatabaseOpenError, match=r"text\.sqlite.*prepare the data again"):
            Database(path)

    def test_an_empty_file_has_no_tables(self, tmp_path: Path) -> None:
        (tmp_path / "empty.sqlite").touch()
        with pytest.raises(DatabaseOpenError, match="no tables"):
            Database(tmp_path / "empty.sqlite")

    def test_a_truncated_file_is_damaged(self, make: Make) -> None:
        texts = [("x" * 500,) for _ in range(500)]
        path = make("CREATE TABLE t(x)", rows=("INSERT INTO t VALUES (?)", texts))
        path.write_bytes(path.read_bytes()[:20_000])
        with pytest.raises(DatabaseOpenError, match="damaged"):
            Database(path)

    def test_damage_met_by_a_query_is_an_error_without_a_path(self, make: Make) -> None:
        texts = [("x" * 500,) for _ in range(500)]
        path = make("CREATE TABLE t(x)", rows=("INSERT INTO t VALUES (?)", texts))
        database = Database(path)
        assert database.query("SELECT 1").ok
        whole = path.read_bytes()
        path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
        result = database.query("SELECT count(DISTINCT x) FROM t")
        assert not result.ok
        assert str(path.parent) not in result.error

    def test_a_file_that_vanished_is_an_error(self, make: Make) -> None:
        path = make("CREATE TABLE t(x)")
        database = Database(path)
        path.unlink()
        result = database.query("SELECT * FROM t")
        assert (result.error_kind, "gone" in result.error) == (ErrorKind.OTHER, True)

    def test_a_file_that_was_replaced_is_read_anew(self, make: Make) -> None:
        path = make("CREATE TABLE before (x)")
        assert Database(path).table_names == ("before",)
        path.unlink()
        make("CREATE TABLE after (x); CREATE TABLE more (x);")
        assert Database(path).table_names == ("after", "more")
        assert Database(path).query("SELECT * FROM after").ok


def test_every_gold_query_of_spider_gives_what_sqlite_gives(spider_dir: Path) -> None:
    asked = {
        (item["db_id"], item["query"])
        for file in ("dev.json", "train_spider.json")
        for item in json.loads((spider_dir / file).read_text())
    }
    compared = 0
    for name, queries in groupby(sorted(asked), key=itemgetter(0)):
        path = spider_dir / "database" / name / f"{name}.sqlite"
        if not path.is_file():
            continue
        database = Database(path, Limits(seconds=20, rows=1_000_000))
        with closing(apsw.Connection(str(path))) as connection:
            for _, sql in queries:
                ours = database.query(sql)
                try:
                    theirs = connection.execute(sql).fetchall()
                except apsw.SQLError as error:
                    assert ours.error == str(error)
                else:
                    assert ours.rows == tuple(theirs), (name, sql, ours.error)
                    compared += 1
    assert compared > 4_000
