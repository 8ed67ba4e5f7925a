"""Worlds for tests: the domains of the package, and SQLite files as others might make them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sql_env.worlds import own_domains, read_domain

DOMAINS = {name: read_domain(path) for name, path in own_domains().items()}
SCHOOL = """
CREATE TABLE Ref_Course_Types (type_code TEXT PRIMARY KEY, type_description TEXT);
CREATE TABLE Courses (
  course_id INTEGER PRIMARY KEY, course_name TEXT, type_code TEXT, Number_hours INTEGER,
  FOREIGN KEY (type_code) REFERENCES Ref_Course_Types (type_code));
CREATE TABLE Student (StuID INTEGER PRIMARY KEY, LName TEXT, Fname TEXT, Age INTEGER, Sex TEXT,
  Is_resident BOOL, Enrolled DATE);
CREATE TABLE Takes (StuID INTEGER, course_id INTEGER, PRIMARY KEY (StuID, course_id));
INSERT INTO Ref_Course_Types VALUES ('SCI', 'Science'), ('ART', 'Arts'), ('LAW', 'Law');
INSERT INTO Courses VALUES (1, 'Physics', 'SCI', 40), (2, 'Drawing', 'ART', 20),
  (3, 'Chemistry', 'SCI', 60), (4, 'Music', 'ART', 30), (5, 'Biology', 'SCI', 50);
INSERT INTO Student VALUES (1, 'Berg', 'Ada', 20, 'F', 'T', '2020-09-01'),
  (2, 'Holm', 'Bo', 22, 'M', 'F', '2019-09-01'), (3, 'Lund', 'Cy', 19, 'M', 'T', '2021-09-01'),
  (4, 'Dahl', 'Di', 25, 'F', 'T', '2018-09-01'), (5, 'Moe', 'Ed', 21, 'M', 'F', '2020-02-01');
INSERT INTO Takes VALUES (1, 1), (1, 2), (2, 1), (3, 3), (4, 1), (4, 4), (5, 5);
"""


def database(folder: Path, script: str, name: str = "made") -> Path:
    path = folder / f"{name}.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
        connection.commit()
    return path
