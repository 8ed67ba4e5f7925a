"""Statements that attack the sandbox, by the property they attack.

`{victim}`, `{secret}` and `{new_file}` stand for the path of the database under attack, of another
one beside it, and of a file that must not come into being.
"""

from __future__ import annotations

from itertools import combinations

from sql_env.core.database import ErrorKind

_COUNT_UP = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


_1K = f"replace('xxxxxxxxxx', 'x', '{'a' * 100}')"
_30K = f"replace(replace('xxxxxxxxxx', 'x', '{'y' * 50}'), 'y', '{'a' * 60}')"
_SHORT = f"{_COUNT_UP}, texts(short) AS MATERIALIZED (SELECT substr({_1K}, 19))"
_LONG = f"{_COUNT_UP}, texts(short, long) AS MATERIALIZED (SELECT substr({_1K}, 19), {_30K})"


def _doubled(times: int, start: str = "'0123456789abcdef'") -> str:
    """A common table expression `big` whose one value is `start`, doubled again and again."""
    return (
        f"WITH RECURSIVE big(t, i) AS (SELECT {start}, 0 "
        f"UNION ALL SELECT t || t, i + 1 FROM big WHERE i < {times})"
    )


def _nested(levels: int, uses: int, expression: str = "id", link: str = "+") -> str:
    """Subqueries that SQLite merges while compiling: `uses` to the power of `levels` copies."""
    sql = f"SELECT {expression} AS x FROM person"
    for _ in range(levels):
        sql = f"SELECT {link.join(['x'] * uses)} AS x FROM ({sql})"
    return sql


def _tree(terms: list[str], link: str) -> str:
    """Terms joined two by two, in parentheses: many of them at little depth."""
    while len(terms) > 1:
        pairs = [terms[i : i + 2] for i in range(0, len(terms), 2)]
        terms = [f"({f' {link} '.join(pair)})" if len(pair) > 1 else pair[0] for pair in pairs]
    return terms[0]


def _self_join(
    table: str, aliases: int, term: str, length: int, link: str = "AND", comma: str = ","
) -> str:
    """A join of a table with itself, with as many terms over pairs of aliases as there is room."""
    tables = comma.join(f"{table} t{i}" for i in range(aliases))
    pairs = combinations(range(aliases), 2)
    terms = [term.format(f"t{i}", f"t{j}", i % 9 + 1, j % 8 + 1) for i, j in pairs]
    start = f"SELECT 1 FROM {tables} WHERE "
    while len(start) + len(_tree(terms, link)) > length:
        terms = terms[: len(terms) * 19 // 20]
    return start + _tree(terms, link)


def _sorted_join(table: str, aliases: int, terms: int, length: int) -> str:
    """A join whose every place in the order is open, sorted by a column of each table."""
    tables = ",".join(f"{table.format(i)} t{i}" for i in range(aliases))
    columns = [f"t{i}.{'ab'[term % 2]}" for term in range(terms) for i in range(aliases)]
    order = " ORDER BY " + ",".join(f"t{i}.b" for i in range(aliases))
    start = f"SELECT 1 FROM {tables} WHERE "
    where = [f"{column}={number % 10}" for number, column in enumerate(columns)]
    while len(start + _tree(where, "AND") + order) > length:
        where.pop()
    return start + _tree(where, "AND") + order


_ALIASES = ", ".join(f"crowded t{i}" for i in range(60))


_SIX = (
    f"(SELECT {', '.join(f'{x}.a AS {x}' for x in 'uvwxyz')} FROM "
    f"{', '.join(f'pair {x}' for x in 'uvwxyz')} WHERE "
    f"{' AND '.join(f'{x}.a=1 AND {x}.b=2' for x in 'uvwxyz')})"
)


def _ten_times(name: str) -> str:
    """`_SIX` under this name, joined with itself and sorted."""
    order = ", ".join(f"t{i}.{x}" for i in range(10) for x in "uvwxyz")
    return f"FROM {', '.join(f'{name} t{i}' for i in range(10))} ORDER BY {order}"


def _chain(levels: int, body: str) -> str:
    """Common table expressions of which each uses the one before it twice."""
    links = [f"a{i} AS ({body.format(before=f'a{i - 1}')})" for i in range(1, levels)]
    return ", ".join(["WITH a0 AS (SELECT id AS x FROM person)", *links])


_HIDDEN = f"WITH c AS {_SIX} SELECT 1 {_ten_times('c')}"
_WIDE = f"SELECT {', '.join(f'1 c{i}' for i in range(128))}"
# Names that SQLite takes for one word, and the swallowing of a quote by a parameter.
_STRANGE_NAMES = ("\u0663$c", "\u0663.c", "\u212a", "\u00b2c", "c\u00aa$", "\u2028")
_SWALLOWING = ("$a(')", '@a(")', ":a([)", "$a::b(`)", "$a(/*)", "$a(--)")


DENIED = {ErrorKind.DENIED}
TOO_LARGE = {ErrorKind.TOO_LARGE}
TIMEOUT = {ErrorKind.TIMEOUT}
SYNTAX = {ErrorKind.SYNTAX}
TOO_MUCH = {ErrorKind.TIMEOUT, ErrorKind.TOO_LARGE}

STATEMENTS: dict[str, tuple[set[ErrorKind], list[str]]] = {
    "attach": (
        DENIED,
        [
            "ATTACH '{new_file}' AS other",
            "ATTACH DATABASE '{secret}' AS other",
            "ATTACH 'file:{secret}?mode=ro' AS other",
            "ATTACH ':memory:' AS other",
            "ATTACH '' AS other",
            "ATTACH '{victim}' AS main",
            "/* hello */ ATTACH '{new_file}' AS other -- bye",
            "aTtAcH '{new_file}' aS other",
            "DETACH main",
            "DETACH DATABASE temp",
        ],
    ),
    "vacuum": (
        DENIED,
        [
            "VACUUM",
            "VACUUM main",
            "VACUUM INTO '{new_file}'",
            "VACUUM main INTO '{new_file}'",
            "VACUUM INTO 'file:{new_file}'",
            "VACUUM INTO (SELECT '{new_file}')",
        ],
    ),
    "pragma": (
        DENIED,
        [
            "PRAGMA query_only = 0",
            "PRAGMA writable_schema = ON",
            "PRAGMA journal_mode = WAL",
            "PRAGMA journal_mode",
            "PRAGMA temp_store_directory = '/'",
            "PRAGMA hard_heap_limit = 1",
            "PRAGMA soft_heap_limit = 1",
            "PRAGMA table_info(person)",
            "PRAGMA table_list",
            "PRAGMA database_list",
            "PRAGMA function_list",
            "PRAGMA foreign_keys = ON",
            "PRAGMA cache_size = 1000000",
            "PRAGMA mmap_size = 1000000000",
            "PRAGMA trusted_schema = ON",
            "PRAGMA user_version = 7",
            "PRAGMA integrity_check",
            "PRAGMA optimize",
            "PRAGMA main.page_size",
            "PRAGMA key = 'x'",
        ],
    ),
    "table functions": (
        DENIED | {ErrorKind.NO_TABLE},  # not every SQLite is built with dbstat
        [
            "SELECT * FROM pragma_table_info('person')",
            "SELECT count(*) FROM pragma_table_info('person')",
            "SELECT 1 FROM pragma_database_list",
            "SELECT file FROM pragma_database_list",
            "SELECT name FROM pragma_table_list",
            "SELECT * FROM pragma_function_list",
            "SELECT * FROM pragma_compile_options",
            "SELECT person.name FROM person, pragma_table_list",
            "SELECT (SELECT group_concat(name) FROM pragma_table_info('person'))",
            "WITH t AS (SELECT * FROM pragma_table_list) SELECT count(*) FROM t",
            "SELECT * FROM dbstat",
            "SELECT count(*) FROM dbstat",
            "SELECT * FROM sqlite_stmt",
            "SELECT * FROM json_each('[1, 2]')",
            "SELECT count(*) FROM json_tree('[1, 2]')",
        ],
    ),
    "the schema behind DESCRIBE's back": (
        DENIED | {ErrorKind.NO_TABLE},
        [
            "SELECT sql FROM sqlite_master",
            "SELECT * FROM sqlite_schema",
            "SELECT count(*) FROM sqlite_master",
            "SELECT 1 FROM sqlite_master",
            "SELECT * FROM main.sqlite_master",
            "SELECT * FROM sqlite_temp_master",
            "SELECT * FROM temp.sqlite_schema",
            'SELECT * FROM "SQLITE_MASTER"',
            "SELECT name FROM person UNION SELECT sql FROM sqlite_master",
            "SELECT (SELECT sql FROM sqlite_master LIMIT 1)",
            "SELECT name FROM person WHERE id IN (SELECT rootpage FROM sqlite_master)",
            "SELECT * FROM sqlite_sequence",
            "EXPLAIN SELECT * FROM person",
            "EXPLAIN QUERY PLAN SELECT * FROM person",
        ],
    ),
    "writes": (
        DENIED,
        [
            "INSERT INTO person VALUES (900, 'Eve', 1, 1.0)",
            "INSERT OR REPLACE INTO person(id) VALUES (1)",
            "REPLACE INTO person(id) VALUES (1)",
            "UPDATE person SET name = 'Eve'",
            "DELETE FROM person",
            "DELETE FROM person WHERE 0",
            "WITH x AS (SELECT 1) DELETE FROM person WHERE id IN x",
            "WITH x AS (SELECT 1) INSERT INTO person(id) SELECT * FROM x",
            "UPDATE person SET name = 'Eve' RETURNING *",
            "INSERT INTO person(id) VALUES (901) RETURNING id",
            "DROP TABLE person",
            "DROP TABLE IF EXISTS person",
            "CREATE TABLE loot(x)",
            "CREATE TABLE loot AS SELECT * FROM person",
            "CREATE TEMP TABLE loot(x)",
            "CREATE TEMPORARY TABLE loot AS SELECT * FROM person",
            "CREATE INDEX by_name ON person(name)",
            "CREATE VIEW loot AS SELECT * FROM person",
            "CREATE TEMP VIEW loot AS SELECT 1",
            "CREATE TRIGGER t AFTER INSERT ON person BEGIN SELECT 1; END",
            "CREATE TEMP TRIGGER t AFTER INSERT ON person BEGIN DELETE FROM city; END",
            "CREATE VIRTUAL TABLE loot USING fts5(x)",
            "CREATE VIRTUAL TABLE loot USING rtree(id, a, b)",
            "CREATE VIRTUAL TABLE temp.loot USING dbstat",
            "ALTER TABLE person RENAME TO loot",
            "ALTER TABLE person ADD COLUMN loot",
            "ALTER TABLE person DROP COLUMN name",
            "REINDEX",
            "REINDEX person",
            "ANALYZE",
            "ANALYZE person",
        ],
    ),
    "transactions": (
        DENIED,
        [
            "BEGIN",
            "BEGIN EXCLUSIVE",
            "COMMIT",
            "ROLLBACK",
            "SAVEPOINT s",
            "RELEASE s",
            "END TRANSACTION",
        ],
    ),
    "extension loading": (
        DENIED,
        [
            "SELECT load_extension('/tmp/evil.so')",
            "SELECT load_extension('evil', 'init')",
            "SELECT name, load_extension('evil') FROM person",
            "SELECT fts3_tokenizer('simple')",
            "SELECT fts3_tokenizer('simple', x'4141414141414141')",
        ],
    ),
    "functions with a weak spot": (
        DENIED,
        [
            "SELECT median(id) FROM person",
            "SELECT percentile(id, 50) FROM person",
            "SELECT percentile_cont(id, 0.5) FROM person",
            "SELECT percentile_disc(id, 0.5) OVER () FROM person",
            "SELECT jsonb('[1]')",
            "SELECT unistr('a')",
            "SELECT json_pretty('[1]')",
            "SELECT geopoly_regular(0, 0, 1, 1000)",
            "SELECT printf('%s', id) FROM person",
        ],
    ),
    "reading other files": (
        DENIED | SYNTAX | {ErrorKind.OTHER, ErrorKind.NO_TABLE},
        [
            "SELECT readfile('/etc/passwd')",
            "SELECT writefile('{new_file}', 'x')",
            "SELECT edit('x')",
            "SELECT * FROM fsdir('/')",
            "SELECT * FROM csv('/etc/passwd')",
            "SELECT * FROM '/etc/passwd'",
            "SELECT * FROM zipfile('/etc/passwd')",
            ".read /etc/passwd",
            ".shell id",
            "COPY person TO '{new_file}'",
            "LOAD DATA INFILE '/etc/passwd' INTO TABLE person",
            "SELECT * FROM person INTO OUTFILE '{new_file}'",
        ],
    ),
    "other databases": (
        {ErrorKind.NO_TABLE, ErrorKind.DENIED, ErrorKind.SYNTAX, ErrorKind.OTHER},
        [
            "SELECT * FROM secret.token",
            "SELECT * FROM token",
            "SELECT * FROM '{secret}'.token",
            "SELECT * FROM other.person",
            "SELECT * FROM temp.person",
            "SELECT * FROM information_schema.tables",
            "SHOW TABLES",
            "SHOW DATABASES",
            "USE secret",
            "SELECT sqlite_compileoption_get(0)",
            "SELECT sqlite_source_id()",
            "SELECT last_insert_rowid()",
            "SELECT total_changes()",
        ],
    ),
    "results that differ from run to run": (
        DENIED,
        [
            "SELECT random()",
            "SELECT name FROM person ORDER BY random() LIMIT 1",
            "SELECT hex(randomblob(8))",
            "SELECT abs(random()) % 6",
        ],
    ),
    "several statements": (
        {ErrorKind.MULTIPLE},
        [
            "SELECT 1; DROP TABLE person",
            "SELECT 1; SELECT 2",
            "SELECT 1;;; SELECT 2",
            "SELECT 1; /* now */ DELETE FROM person; --",
            "SELECT 1; ATTACH '{new_file}' AS other",
            "SELECT 1;\nVACUUM INTO '{new_file}';",
        ],
    ),
    "no statement": (
        SYNTAX,
        ["", " ", ";", ";;", "-- nothing", "/* nothing */", "/* open", "\n\t"],
    ),
    "recursive bombs": (
        TIMEOUT,
        [
            f"{_COUNT_UP} SELECT count(*) FROM n",
            f"{_COUNT_UP} SELECT max(i) FROM n",
            f"{_COUNT_UP} SELECT i FROM n WHERE i < 0",
            f"{_COUNT_UP} SELECT count(DISTINCT i % 7) FROM n",
            f"{_COUNT_UP} SELECT i % 7, count(*) FROM n GROUP BY 1",
            f"{_COUNT_UP} SELECT i FROM n ORDER BY i DESC LIMIT 1",
            f"{_COUNT_UP} SELECT sum(i) OVER (ORDER BY i) FROM n LIMIT 1 OFFSET 100000000",
            f"{_COUNT_UP} SELECT 1 WHERE (SELECT count(*) FROM n) > 0",
            f"{_COUNT_UP} SELECT EXISTS (SELECT 1 FROM n WHERE i < 0)",
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT (i * 16807) % 2147483647 FROM n) "
            "SELECT count(*) FROM n",
            "WITH RECURSIVE f(a, b) AS (SELECT 1, 1 UNION ALL SELECT b, (a + b) % 999 FROM f) "
            "SELECT count(*) FROM f, f AS g",
            "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i FROM t, person ORDER BY 1) "
            "SELECT count(*) FROM t",
        ],
    ),
    "cartesian bombs": (
        TIMEOUT,
        [
            "SELECT count(*) FROM person a, person b, person c, person d, person e",
            "SELECT sum(a.id) FROM person a, person b, person c, person d WHERE a.id <> b.id",
            "SELECT max(a.name || b.name) FROM person a, person b, person c, person d, person e",
            "SELECT a.id FROM person a, person b, person c, person d "
            "WHERE a.id + b.id + c.id + d.id < 0",
            "SELECT count(*) FROM person a JOIN person b JOIN person c JOIN person d "
            "WHERE a.name LIKE b.name || c.name || d.name",
            "SELECT count(*) FROM person a CROSS JOIN person b CROSS JOIN person c "
            "CROSS JOIN person d CROSS JOIN person e CROSS JOIN person f",
            "SELECT DISTINCT 1 FROM person a, person b, person c, person d, person e ORDER BY a.id",
            "SELECT a.id FROM person a, person b, person c, person d ORDER BY d.name LIMIT 1",
            "SELECT count(DISTINCT a.id * 1000000 + b.id * 1000 + c.id) "
            "FROM person a, person b, person c, person d",
            "SELECT (SELECT count(*) FROM person b, person c, person d WHERE b.id > a.id) "
            "FROM person a",
        ],
    ),
    "floods of rows": (
        TOO_MUCH,
        [
            f"{_COUNT_UP} SELECT i FROM n",
            f"{_COUNT_UP} SELECT i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i FROM n",
            f"{_COUNT_UP} SELECT CAST(i AS BLOB) FROM n",
            f"{_SHORT} SELECT short || i FROM n, texts",
            f"{_SHORT} SELECT short || i || '😀' FROM n, texts",
            f"{_LONG} SELECT long || i FROM n, texts",
            f"{_LONG} SELECT long || i || '😀', '😀' || long || i FROM n, texts",
            f"{_LONG} SELECT CAST(long || i AS BLOB) FROM n, texts",
            "SELECT a.*, b.*, c.* FROM person a, person b, person c",
        ],
    ),
    "huge values": (
        TOO_LARGE | TIMEOUT | DENIED,
        [
            "SELECT zeroblob(400000000)",
            "SELECT length(hex(zeroblob(400000000)))",
            "SELECT randomblob(400000000)",
            "SELECT length(randomblob(999999999))",
            "SELECT printf('%1000000000d', 1)",
            "SELECT format('%.999999999f', 1.5)",
            "SELECT length(printf('%*d', 900000000, 1))",
            "SELECT printf('%.*c', 1000000000, 'x')",
            f"{_LONG} SELECT long || long FROM texts",
            f"{_LONG} SELECT replace(long, 'a', long) FROM texts",
            f"{_SHORT} SELECT replace(short, 'a', short) FROM texts",
            f"{_SHORT} SELECT replace(replace(short, 'a', short), 'a', short) FROM texts",
            f"{_LONG} SELECT hex(long) FROM texts",
            f"{_SHORT} SELECT hex(hex(hex(hex(hex(hex(short)))))) FROM texts",
            f"{_LONG} SELECT quote(CAST(long AS BLOB)) FROM texts",
            f"{_LONG} SELECT substr(long || long, 1, 10) FROM texts",
            f"{_LONG} SELECT group_concat(long) FROM texts, person",
            f"{_SHORT} SELECT group_concat(short || i) FROM texts, n",
            f"{_doubled(40)} SELECT max(length(t)) FROM big",
            f"{_doubled(40, 'CAST(0 AS BLOB)')} SELECT max(length(t)) FROM big",
            f"{_COUNT_UP} SELECT group_concat(i) FROM n",
            "SELECT group_concat(a.name || b.name) FROM person a, person b, person c, person d",
            f"{_COUNT_UP} SELECT json_group_array(i) FROM n",
            f"{_COUNT_UP} SELECT json_group_object(i, i) FROM n",
            "SELECT char(" + ", ".join(["128512"] * 40) + ")",
            "SELECT '" + "x" * 11_000 + "'",
            "SELECT x'" + "00" * 6_000 + "'",
        ],
    ),
    "memory": (
        TOO_MUCH,
        [
            f"{_LONG} SELECT {', '.join(f'long || {i}' for i in range(200))} FROM texts",
            f"{_LONG} SELECT {', '.join(f'long || {i}' for i in range(128))} FROM texts, n",
            f"{_LONG} SELECT {', '.join(f'{i}||long||x' for i in range(128))} "
            "FROM texts, n, (SELECT '😀' AS x)",
            f"{_LONG} SELECT {', '.join(f'CAST(long || {i} AS BLOB)' for i in range(128))} "
            "FROM texts, n",
            f"{_LONG} SELECT count(*) FROM (SELECT DISTINCT long || i FROM n, texts)",
            f"{_LONG} SELECT long || i FROM n, texts ORDER BY 1 LIMIT 1",
            f"{_SHORT} SELECT short || i AS p, count(*) FROM n, texts GROUP BY p",
            f"{_SHORT} SELECT max(i) OVER (PARTITION BY short || i) FROM n, texts",
            f"{_SHORT} SELECT lag(short || i, 100000) OVER () FROM n, texts",
            f"{_SHORT} SELECT {', '.join(f'count(DISTINCT i + {k})' for k in range(90))} FROM n",
            f"{_SHORT} SELECT {', '.join(f'count(DISTINCT short || {k} || i)' for k in range(80))} "
            "FROM n, texts",
            f"{_LONG} SELECT {', '.join(f'max(long || {k} || i)' for k in range(9))} FROM n, texts",
            f"{_SHORT} SELECT {', '.join(f'max(short || {k} || i)' for k in range(90))} "
            "FROM n, texts GROUP BY i",
            f"{_SHORT} SELECT group_concat(short) OVER (ORDER BY i) FROM n, texts",
            f"{_SHORT}, m AS MATERIALIZED (SELECT short || i AS t FROM n, texts) "
            "SELECT count(*) FROM m",
            f"{_SHORT} SELECT 1 WHERE 'x' IN (SELECT short || i FROM n, texts)",
            f"{_LONG} SELECT 1 FROM texts WHERE long IN (SELECT long || i FROM n, texts)",
            f"{_COUNT_UP} SELECT count(*) FROM n AS a, n AS b WHERE a.i = b.i",
            f"{_COUNT_UP} SELECT i FROM n UNION SELECT -i FROM n",
            f"{_COUNT_UP} SELECT i FROM n EXCEPT SELECT i FROM n",
            f"WITH RECURSIVE r(t) AS (SELECT {_1K} UNION SELECT substr(t, 2) || length(t) FROM r) "
            "SELECT count(*) FROM r",
            f"WITH RECURSIVE r(t, i) AS (SELECT {_1K}, 0 UNION ALL SELECT t, i + 1 FROM r, person "
            "ORDER BY 2) SELECT count(*) FROM r",
        ],
    ),
    "explosions while compiling": (
        TOO_MUCH,
        [
            _nested(4, 30),
            _nested(5, 25),
            _nested(6, 20),
            _nested(9, 9),
            _nested(4, 30, "name", "||"),
            _nested(4, 30, "name", " AND "),
            _nested(4, 30, "CASE WHEN id > 1 THEN id END"),
            _nested(5, 12, "max(id, height)") + " ORDER BY x",
            f"SELECT x FROM ({_nested(4, 30)}) WHERE x > 1 GROUP BY x ORDER BY x",
            f"{_chain(22, 'SELECT a.x FROM {before} a, {before} b LIMIT 1')} SELECT x FROM a21",
            f"{_chain(22, 'SELECT a.x FROM {before} a, {before} b')} SELECT x FROM a21",
            f"{_chain(22, 'SELECT x FROM {before} UNION SELECT x FROM {before}')} "
            "SELECT x FROM a21",
            _chain(22, "SELECT (SELECT x FROM {before}) + (SELECT x FROM {before}) AS x")
            + " SELECT x FROM a21",
            f"{_chain(60, 'SELECT x FROM {before} WHERE x IN (SELECT x FROM {before})')} "
            "SELECT x FROM a59",
            f"{_chain(7, 'SELECT a.x FROM ' + ', '.join(['{before}'] * 12))} SELECT x FROM a6",
        ],
    ),
    "bombs for the planner": (
        TOO_MUCH,
        [
            _self_join("pair", 60, "{0}.a={1}.b", 9_900),
            _self_join("quad", 60, "{0}.a={1}.b", 9_900),
            _self_join("quad", 60, "{0}.a={1}.b", 3_920),
            _self_join("quad", 40, "{0}.c={1}.d", 9_900),
            _self_join("quad", 30, "{0}.b={1}.b", 6_000),
            _self_join("quad", 60, "{0}.a IS {1}.b", 9_900),
            _self_join("crowded", 50, "{0}.c{2}={1}.c{3}", 9_900),
            _self_join("crowded", 50, "{0}.c{2}<{1}.c{3}", 9_900, "OR"),
            f"SELECT 1 FROM {_ALIASES} ORDER BY "
            + ", ".join(f"t{i}.c{i % 9 + 1}" for i in range(60)),
            f"SELECT 1 FROM {_ALIASES} WHERE "
            + " AND ".join(
                f"(t{i}.c1=1 OR t{i}.c2=t{i + 1}.c3 OR t{i}.c4=t{(i + 9) % 59}.c5)"
                for i in range(59)
            ),
            f"SELECT DISTINCT {', '.join(f't{i}.c1' for i in range(60))} FROM {_ALIASES} "
            f"ORDER BY {', '.join(f't{i}.c2' for i in range(60))}",
            f"SELECT count(*) FROM {_ALIASES} GROUP BY "
            + ", ".join(f"t{i}.c1+1" for i in range(60)),
            "SELECT 1 FROM quad t0 "
            + " ".join(f"JOIN quad t{i} USING (a, b, c, d)" for i in range(1, 60))
            + " ORDER BY a, b, c, d, t9.a, t8.b",
            _self_join("quad", 30, "{0}.c IN ({1}.a,1)", 9_900),
            _sorted_join("pair", 60, 1, 8_700),
            _sorted_join("quad", 60, 2, 3_900),
            _sorted_join("tiny{0}", 60, 2, 5_000),
            f"WITH c AS {_SIX} SELECT 1 {_ten_times('c')}",
            # Names that look like keywords, and what is a blank to SQLite alone.
            f"WITH materialized AS {_SIX} SELECT 1 {_ten_times('materialized')}",
            f"WITH c AS {_SIX} SELECT 1 {_ten_times(chr(0xFEFF) + 'c')}",
            f"WITH c AS {_SIX} SELECT 1 {_ten_times('c')}".replace(" FROM c", " \ufeffFROM c"),
            _sorted_join("pair", 60, 1, 8_700).replace("FROM pair t0", "FROM pair window,pair t0"),
            # A name that does not mean what is defined around it.
            f"WITH c AS {_SIX} SELECT sum(1) OVER c FROM city "
            f"WINDOW c AS (PARTITION BY (SELECT 1 {_ten_times('c')}))",
            f"WITH c AS (WITH c AS {_SIX} SELECT 1 {_ten_times('c')}) SELECT * FROM c",
        ],
    ),
    "names and parameters that hide a join": (
        TOO_LARGE | SYNTAX,
        [
            *(
                _HIDDEN.replace("WITH c", f"WITH {x}").replace("c t", f"{x} t")
                for x in _STRANGE_NAMES
            ),
            *(_HIDDEN.replace("SELECT 1", f"SELECT {x}") for x in _SWALLOWING),
            *(_self_join("pair", 60, "{0}.a={1}.b", 9_000).replace(" 1 ", f" {x} ") for x in "?:a"),
        ],
    ),
    "deep queries": (
        TOO_LARGE,
        [
            "SELECT * FROM " + "(SELECT * FROM " * 300 + f"({_WIDE})" + ")" * 300,
            "SELECT count(*) FROM " + "(SELECT * FROM " * 400 + f"({_WIDE})" + ")" * 400,
            "SELECT 1 WHERE EXISTS " + "(SELECT * FROM " * 300 + f"({_WIDE})" + ")" * 300,
            "SELECT * FROM " + "(SELECT DISTINCT * FROM " * 200 + f"({_WIDE})" + ")" * 200,
            f"WITH x0 AS ({_WIDE})"
            + "".join(f", x{i} AS (SELECT * FROM x{i - 1})" for i in range(1, 99))
            + " SELECT * FROM x98",
            f"WITH x0 AS ({_WIDE})"
            + "".join(f", x{i} AS (SELECT * FROM x{i - 1} WHERE 1 IN x0)" for i in range(1, 99))
            + " SELECT * FROM x98",
            f"WITH x0 AS ({_WIDE})"
            + "".join(
                f", x{i} AS (SELECT * FROM x{i - 1} WHERE 1 IN (SELECT 1 FROM x{i - 1}))"
                for i in range(1, 20)
            )
            + " SELECT * FROM x19",
            "SELECT "
            + "+".join([f"(SELECT c1 FROM (SELECT * FROM {'(SELECT * FROM city)'}))"] * 90),
        ],
    ),
    "deep expressions": (
        TOO_LARGE,
        [
            "SELECT " + "(" * 6000 + "1" + ")" * 6000,
            "SELECT -" + " -" * 3000 + "1",
            "SELECT " + "NOT " * 2000 + "1",
            "SELECT " + "+".join("1" * 3000),
            "SELECT " + " AND ".join(["1"] * 1500),
            "SELECT " + "||".join(["'a'"] * 1500),
            "SELECT " + "CASE WHEN 1 THEN " * 300 + "1" + " END" * 300,
            "SELECT " + "abs(" * 1500 + "1" + ")" * 1500,
            "SELECT " + "(SELECT " * 800 + "1" + ")" * 800,
            "SELECT * FROM " + "(SELECT * FROM " * 700 + "person" + ")" * 700,
            "SELECT 1 WHERE 1" + " BETWEEN 0 AND 1" * 500,
        ],
    ),
    "giant statements": (
        TOO_LARGE,
        [
            " UNION ALL ".join(["SELECT 1"] * 500),
            " UNION ".join(f"SELECT {i}" for i in range(400)),
            " INTERSECT ".join(["SELECT 1"] * 400),
            " EXCEPT ".join(["SELECT 1"] * 400),
            "SELECT " + ", ".join("1" * 3000),
            "SELECT * FROM " + ", ".join(f"person p{i}" for i in range(70)),
            "SELECT * FROM " + " NATURAL JOIN ".join(f"person p{i}" for i in range(70)),
            "SELECT "
            + ", ".join(f"p{i}.*" for i in range(60))
            + " FROM "
            + ", ".join(f"person p{i}" for i in range(60)),
            "SELECT max(" + ", ".join("1" * 200) + ")",
            "SELECT 1 FROM person GROUP BY " + ", ".join(f"id + {i}" for i in range(500)),
            "SELECT 1 FROM person ORDER BY " + ", ".join(f"id + {i}" for i in range(500)),
            "SELECT 1 WHERE 1 IN (" + ", ".join(map(str, range(4000))) + ")",
            "SELECT "
            + ", ".join(f"sum(id) OVER (PARTITION BY id + {i})" for i in range(120))
            + " FROM person",
            "SELECT 1 -- " + "x" * 200_000,
            "SELECT 1" + " " * 2_000_000,
            "x" * 5_000_000,
        ],
    ),
    "pattern bombs": (
        TOO_MUCH,
        [
            "SELECT 'a' LIKE '" + "%a" * 200 + "'",
            "SELECT 'a' GLOB '" + "*a" * 200 + "'",
            "SELECT name FROM person WHERE name LIKE '" + "%_" * 100 + "'",
            f"{_SHORT} SELECT count(*) FROM n, texts WHERE short || i LIKE '{'%a' * 31}b'",
            f"{_SHORT} SELECT count(*) FROM n, texts WHERE short || i LIKE '%{'a' * 60}b%'",
            f"{_SHORT} SELECT count(*) FROM n, texts WHERE short || i GLOB '*{'a' * 60}b*'",
            f"{_SHORT} SELECT count(*) FROM n, texts WHERE short || i GLOB '*[{'b' * 55}a]c'",
            f"{_SHORT} SELECT count(*) FROM n, texts WHERE short || i LIKE '{'_%' * 31}b'",
            f"{_LONG} SELECT count(*) FROM n, texts WHERE long || i LIKE '%{'a' * 60}b%'",
            f"{_LONG} SELECT count(*) FROM n, texts WHERE long || i GLOB '*[{'b' * 55}a]c'",
            f"{_SHORT} SELECT count(*) FROM n, texts WHERE "
            + " OR ".join(f"short || i LIKE '%{k}%{'a' * 50}b'" for k in range(60)),
            f"{_LONG} SELECT count(*) FROM n, texts WHERE "
            + " OR ".join(f"long || i LIKE '%{k}%{'a' * 50}b'" for k in range(60)),
            f"{_SHORT} SELECT "
            + ", ".join(f"short || i LIKE '%{'a' * 50}b'" for k in range(100))
            + " FROM n, texts",
            f"{_SHORT} SELECT {'+'.join(['x'] * 90)} FROM (SELECT {'+'.join(['x'] * 3)} AS x FROM "
            f"(SELECT short || i LIKE '%{'a' * 60}b' AS x FROM n, texts))",
        ],
    ),
    "slow functions": (
        TOO_MUCH | DENIED,
        [
            f"{_LONG} SELECT trim(long, long || 'b') FROM texts",
            f"{_LONG} SELECT count(trim(long || i, short)) FROM texts, n",
            f"{_SHORT} SELECT count(ltrim(short || i, short)) FROM texts, n",
            f"{_SHORT} SELECT count(rtrim(short || i, substr(short, 1, 60))) FROM texts, n",
            f"{_LONG} SELECT max(instr(long, substr(long, 1, 15000) || i)) FROM texts, n",
            f"{_SHORT} SELECT max(instr(short, substr(short, 1, 500) || i)) FROM texts, n",
            f"{_LONG} SELECT max(replace(long, substr(long, 1, 15000) || i, '')) FROM texts, n",
            f"{_LONG} SELECT max(length(upper(long || i))) FROM texts, n",
            f"{_SHORT} SELECT max(length(strftime(replace(short, 'aa', '%Y'), i))) FROM texts, n",
            f"{_SHORT} SELECT max(json_extract('[' || replace(short, 'aa', '1,') || '1]', '$[' || "
            "(i % 500) || ']')) FROM texts, n",
            f"{_LONG} SELECT max(json_valid(replace(long, 'a', '[') || i)) FROM texts, n",
            f"{_LONG} SELECT max(length(concat_ws(long, i, 1, 2))) FROM texts, n",
            f"{_LONG} SELECT max(CAST(replace(long, 'a', '9') || i AS REAL)) FROM texts, n",
            f"{_LONG} SELECT {', '.join(f'instr(long, long || {i})' for i in range(120))} "
            "FROM texts",
            f"{_LONG} SELECT {', '.join(f'trim(long, {i})' for i in range(120))} FROM texts",
            f"{_SHORT} SELECT "
            + ", ".join(f"instr(short, substr(short, 500) || {i} || i)" for i in range(90))
            + " FROM texts, n",
        ],
    ),
    "unicode and NUL bytes": (
        SYNTAX | {ErrorKind.NO_COLUMN, ErrorKind.NO_TABLE, ErrorKind.DENIED},
        [
            "SELECT 1\0",
            "\0",
            "SELECT '\0'",
            "SELECT 1;\0DROP TABLE person",
            "SELECT \0 name FROM person",
            "SELECT '\ud800'",
            "\udfff",
            "SELECT name FROM person WHERE name = '\udcff'",
            "\uff33\uff25\uff2c\uff25\uff23\uff34 1",
            "SELECT\u00a01",
            "SELECT\u200b1",
            "SELECT \u2018a\u2019",
            "SELECT \u201ca\u201d FROM person",
            "\ufeffDELETE FROM person",
            "SELECT * FROM p\u0435rson",  # a Cyrillic letter
            "DELETE\x0cFROM person",
            "SELECT '" + "\u202e" + "' FROM \u202eperson",
            "SELECT 'unterminated",
            'SELECT "unterminated',
            "SELECT `unterminated",
            "SELECT [unterminated",
            "SELECT x'0'",
            "SELECT x'zz'",
            "SELECT ?",
            "SELECT :name",
            "SELECT $x, @y, ?5",
        ],
    ),
}

ALL = [
    (attack, kinds, statement)
    for attack, (kinds, statements) in STATEMENTS.items()
    for statement in statements
]
