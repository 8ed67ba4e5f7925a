"""Who is fooled, and who gets stuck? The same wrong answers and the same long query for everyone.

SkyRL-Gym's SQL environment (`skyrl` extra) is the public environment that is nearest in kind. Both
judge the same queries, by the rules of Spider's own evaluation (rows are a multiset, order counts
where the gold query has an ORDER BY, columns may be permuted), and both run one query that spends
its time inside a single opcode, where SQLite cannot be interrupted.

    .venv/bin/python benchmarks/peers.py
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from sql_env import QuestionRecord, SQLAction, SQLEnvironment
from sql_env.core.database import Limits

TABLES = """
CREATE TABLE singer (id INTEGER PRIMARY KEY, name TEXT, country TEXT, age INTEGER);
INSERT INTO singer VALUES (1, 'Ann', 'France', 30), (2, 'Bob', 'France', 41), (3, 'Cy', 'Peru', 30),
                          (4, 'Di', 'Japan', 52), (5, 'Eve', 'France', 30);
"""
# trim() compares every character of one text with every character of the other, in one opcode.
SLOW = "SELECT length(trim(hex(zeroblob(30000)), replace(hex(zeroblob(30000)), '0', '1') || '0'))"


class Case(NamedTuple):
    """A gold query, an agent's query, and whether the agent is right."""

    what: str
    gold: str
    query: str
    right: bool


CASES = (
    Case(
        "duplicates lost",
        "SELECT country FROM singer",
        "SELECT DISTINCT country FROM singer",
        False,
    ),
    Case(
        "DISTINCT forgotten",
        "SELECT DISTINCT country FROM singer",
        "SELECT country FROM singer",
        False,
    ),
    Case(
        "order reversed",
        "SELECT name FROM singer ORDER BY age, name",
        "SELECT name FROM singer ORDER BY age DESC, name DESC",
        False,
    ),
    Case(
        "order forgotten",
        "SELECT name FROM singer ORDER BY age DESC, name",
        "SELECT name FROM singer",
        False,
    ),
    Case(
        "columns in another order",
        "SELECT name, age FROM singer",
        "SELECT age, name FROM singer",
        True,
    ),
    Case("3 and 3.0", "SELECT count(*) FROM singer", "SELECT count(*) * 1.0 FROM singer", True),
    Case(
        "ties in another order",
        "SELECT name FROM singer ORDER BY age",
        "SELECT name FROM singer ORDER BY age, name DESC",
        True,
    ),
)


class Ours:
    """SQLEnv: a query, then `ANSWER: @last`."""

    deadline_s = Limits().seconds

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, gold: str) -> SQLEnvironment:
        record = QuestionRecord(
            question_id="peer",
            question_text="?",
            database_name="music",
            gold_sql=gold,
            gold_answer=None,
            answer_type="table",
            difficulty="easy",
            tables_involved=["singer"],
            split="eval",
        )
        env = SQLEnvironment(questions=[record], db_dir=self._folder / "spider" / "database")
        env.reset(question_id="peer")
        return env

    def accepts(self, case: Case) -> bool:
        with self.begin(case.gold) as env:
            env.step(SQLAction(action_type="QUERY", argument=case.query))
            seen = env.step(SQLAction(action_type="ANSWER", argument="@last"))
            return bool(seen.metadata["correct"])

    def query(self, gold: str, sql: str) -> tuple[float, str]:
        """The reward of a query and the text that comes back."""
        with self.begin(gold) as env:
            seen = env.step(SQLAction(action_type="QUERY", argument=sql))
            return seen.reward or 0.0, seen.error or seen.result

    def seconds(self, sql: str) -> float:
        with self.begin("SELECT 1") as env:
            begun = time.perf_counter()
            env.step(SQLAction(action_type="QUERY", argument=sql))
            return time.perf_counter() - begun


class SkyRL:
    """SkyRL-Gym: `<sql>` runs a query, `<solution>` is judged."""

    deadline_s = 5  # its tool's default

    def __init__(self, folder: Path) -> None:
        from skyrl_gym.envs.sql.env import SQLEnv, Text2SQLEnvConfig

        self._make = SQLEnv
        self._config = Text2SQLEnvConfig(db_path=str(folder))

    def begin(self, gold: str) -> Any:
        extras = {"db_id": "music", "reward_spec": {"ground_truth": gold}, "data": "spider"}
        return self._make(self._config, extras)

    def accepts(self, case: Case) -> bool:
        answer = f"<think>so</think><solution>{case.query}</solution>"
        return bool(self.begin(case.gold).step(answer)["reward"] == 1.0)

    def query(self, gold: str, sql: str) -> tuple[float, str]:
        done = self.begin(gold).step(f"<think>so</think><sql>{sql}</sql>")
        return done["reward"], done["observations"][0]["content"]

    def seconds(self, sql: str) -> float:
        env = self.begin("SELECT 1")
        begun = time.perf_counter()
        env.step(f"<think>so</think><sql>{sql}</sql>")
        return time.perf_counter() - begun


def main() -> None:
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "spider" / "database" / "music" / "music.sqlite"
        path.parent.mkdir(parents=True)
        with sqlite3.connect(path) as connection:
            connection.executescript(TABLES)
        connection.close()
        players: dict[str, Ours | SkyRL] = {"SQLEnv": Ours(folder)}
        try:
            players["SkyRL-Gym"] = SkyRL(folder)
        except ModuleNotFoundError:
            console.print("SkyRL-Gym is not installed: pip install '.[skyrl]'")

        table = Table("the agent's query", "is", *players)
        mistakes = dict.fromkeys(players, 0)
        for case in CASES:
            cells = []
            for player, environment in players.items():
                accepted = environment.accepts(case)
                mistakes[player] += accepted != case.right
                word = "accepted" if accepted else "refused"
                cells.append(word if accepted == case.right else f"[bold red]{word}[/]")
            table.add_row(case.what, "right" if case.right else "wrong", *cells)
        table.add_row("misjudged", "", *(f"{count} of {len(CASES)}" for count in mistakes.values()))
        gold = CASES[0].gold
        rewards = [environment.query(gold, gold)[0] for environment in players.values()]
        table.add_row("reward of a query that finds the answer", "", *map("{:.3f}".format, rewards))
        errors = [environment.query(gold, "SELECT nope")[1] for environment in players.values()]
        tells = ["yes" if str(folder) in error else "no" for error in errors]
        table.add_row("an error names the server's files", "", *tells)
        console.print(table)
        for player, environment in players.items():
            seconds = environment.seconds(SLOW)
            console.print(
                f"{player} (deadline {environment.deadline_s} s): back after {seconds:.2f} s "
                "from a query that spends its time inside one opcode"
            )
    if mistakes["SQLEnv"]:
        raise SystemExit("SQLEnv misjudged a case")


if __name__ == "__main__":
    main()
