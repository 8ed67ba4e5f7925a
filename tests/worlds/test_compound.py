"""Two thoughts in one question: what is asked is what is found, worked out by hand."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from made_databases import database

from sql_env.core.database import Database
from sql_env.worlds.intents import EXISTING_INTENTS, Asker, propose
from sql_env.worlds.introspection import world_of

KENNEL = """
CREATE TABLE Dogs (dog_id INTEGER PRIMARY KEY, name TEXT, age INTEGER, price INTEGER,
  breed TEXT);
CREATE TABLE Treatments (treatment_id INTEGER PRIMARY KEY, dog_id INTEGER, cost INTEGER, kind TEXT,
  FOREIGN KEY (dog_id) REFERENCES Dogs (dog_id));
INSERT INTO Dogs VALUES (1, 'Ajax', 2, 300, 'pug'), (2, 'Bella', 4, 120, 'pug'),
  (3, 'Cleo', 7, 800, 'collie'),
  (4, 'Dax', 11, 400, 'collie'), (5, 'Elsa', 9, 220, 'pug'),
  (6, 'Finn', 3, 550, 'collie');
INSERT INTO Treatments VALUES (1, 1, 90, 'walk'), (2, 1, 250, 'exam'), (3, 2, 120, 'exam'),
  (4, 3, 60, 'walk'), (5, 3, 310, 'walk'), (6, 3, 75, 'walk');
"""


@pytest.fixture
def kennel(tmp_path: Path) -> Path:
    return database(tmp_path, KENNEL)


def asked(path: Path, name: str) -> dict[str, Any]:
    """All that one intent asks, in any of its sentences, and what is found."""
    asker, opened = Asker(world_of(path), random.Random(3)), Database(path)
    found = [propose(EXISTING_INTENTS[name], asker) for _ in range(3000)]
    return {item.question: list(opened.query(item.sql).rows) for item in found if item}


@pytest.mark.parametrize(
    ("name", "question", "rows"),
    [
        # Ajax, Bella and Cleo were treated; Cleo three times, and counts once.
        (
            "aggregate_with_any",
            "What is the average age of the dogs that have at least one treatment?",
            [(13 / 3,)],
        ),
        (
            "aggregate_without_any",
            "What is the average age of the dogs that do not have any treatments?",
            [(23 / 3,)],
        ),
        (
            "aggregate_with_such",
            "What is the average age of the dogs that have at least one treatment whose kind is"
            " exam?",
            [(3.0,)],
        ),
        (
            "aggregate_without_such",
            "What is the lowest age of the dogs that do not have any treatments whose kind is"
            " exam?",
            [(3,)],
        ),
        (
            "filtered_two_aggregates",
            "What are the total cost and the minimum cost of the treatments whose kind is exam?",
            [(370, 120)],
        ),
        (
            "superlative_filtered_columns",
            "What are the name and price of the oldest dog whose breed is pug?",
            [("Elsa", 220)],
        ),
        (
            "top_columns",
            "What are the names and ages of the two oldest dogs?",
            [("Dax", 11), ("Elsa", 9)],
        ),
        (
            "count_of_the_extreme",
            "How many treatments belong to the most expensive dog?",
            [(3,)],
        ),
        (
            "count_beyond_the_first",
            "How many dogs have a higher price than the oldest dog?",
            [(2,)],
        ),
        (
            "beyond_the_first",
            "Which dogs have a higher price than the oldest dog? Give their names.",
            [("Cleo",), ("Finn",)],
        ),
    ],
)
def test_what_is_asked_is_what_is_found(
    name: str, question: str, rows: list[tuple[Any, ...]], kennel: Path
) -> None:
    found = asked(kennel, name)
    assert found.get(question) == rows, "\n".join(sorted(found))


def test_a_number_is_not_asked_for_twice(kennel: Path) -> None:
    asker = Asker(world_of(kennel), random.Random(3))
    found = [propose(EXISTING_INTENTS["filtered_two_aggregates"], asker) for _ in range(300)]
    selected = [item.sql.partition(" FROM ")[0].split(", ") for item in found if item]
    assert len(selected) > 50
    assert all(first.removeprefix("SELECT ") != second for first, second in selected)
