"""The databases of one's own that README and documentation show: a bakery."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from fenced_blocks import blocks_of, commands_of

README = Path(__file__).resolve().parent.parent / "README.md"


def make_bakery(folder: Path) -> Path:
    """A folder with a SQLite file and the table of questions that the README shows."""
    bakery = folder / "bakery"
    bakery.mkdir()
    with closing(sqlite3.connect(bakery / "bakery.sqlite")) as connection:
        connection.executescript("""
            CREATE TABLE bread (id INTEGER PRIMARY KEY, name TEXT, price REAL);
            CREATE TABLE sale (bread_id INTEGER REFERENCES bread, pieces INTEGER, day DATE);
            INSERT INTO bread VALUES (1, 'rye', 4.5), (2, 'spelt', 5.2), (3, 'brioche', 6.0);
            INSERT INTO sale VALUES (1, 12, '2026-01-02'), (1, 7, '2026-01-03'),
                (2, 5, '2026-01-02');
        """)
    (shown,) = [
        command.output
        for block in blocks_of(README)
        if block.language == "console"
        for command in commands_of(block)
        if command.line == "cat bakery/questions.csv"
    ]
    (bakery / "questions.csv").write_text(shown, encoding="utf-8")
    return bakery
