"""What every test may ask for: the embedded data, a Spider copy, a browser."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from dataset_layouts import spider_copy
from handmade import handmade_episode
from hypothesis import settings

from sql_env.agent.episodes import EpisodeResult
from sql_env.environment import SQLEnvironment
from sql_env.questions import Dataset

pytest_plugins = ["small_models"]

CHECKOUT = Path(__file__).resolve().parent.parent

# How long an example takes depends on who else uses the machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Tests that a script runs in the background ignore interrupts, and so would what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def spider_dir() -> Path:
    """A Spider copy in the official layout; tests that need it are skipped where there is none."""
    return spider_copy()


@pytest.fixture(scope="session")
def chat_server() -> Iterator[str]:
    """The address of a small OpenAI-compatible server, a process of its own."""
    httpx = pytest.importorskip("httpx")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = Path(__file__).parent / "agent" / "chat_endpoint.py"
    process = subprocess.Popen([sys.executable, str(script), str(port)])
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            try:
                httpx.get(f"{address}/statistics")
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """A Chromium that Playwright can drive."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    return found


@pytest.fixture(scope="session")
def music_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset small enough to know by heart: singers, concerts, and who sang where."""
    folder = tmp_path_factory.mktemp("music")
    path = folder / "databases" / "music" / "music.sqlite"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """
            CREATE TABLE Singer (Singer_ID INTEGER PRIMARY KEY, Name TEXT, Country TEXT, Age INT);
            CREATE TABLE Concert (Concert_ID INTEGER PRIMARY KEY, Theme TEXT, Year INT);
            CREATE TABLE Performance (
                Singer_ID INTEGER REFERENCES Singer, Concert_ID INTEGER REFERENCES Concert);
            INSERT INTO Singer VALUES (1,'Ann','France',30),(2,'Bob','France',41),
                (3,'Cem','Turkey',25),(4,'Dee',NULL,52);
            INSERT INTO Concert VALUES (1,'Spring',2014),(2,'Autumn',2014),(3,'Winter',2015);
            INSERT INTO Performance VALUES (1,1),(1,2),(2,2),(3,3);
            """
        )
    golds = {
        "count": ("How many singers are there?", "SELECT count(*) FROM singer", "easy"),
        "french": (
            "Which singers come from France?",
            'SELECT name FROM singer WHERE country  =  "France"',
            "easy",
        ),
        "join": (
            "Which themes did Ann sing at, newest first?",
            "SELECT T3.theme FROM singer AS t1 JOIN performance AS t2 JOIN concert AS t3 ON "
            "t1.singer_id = t2.singer_id AND t2.concert_id = t3.concert_id "
            "WHERE t1.name = 'Ann' ORDER BY t3.concert_id DESC",
            "hard",
        ),
        "nobody": (
            "Who comes from Chile?",
            "SELECT name FROM singer WHERE country = 'Chile'",
            "easy",
        ),
    }
    records = [
        {
            "question_id": f"music_{key}",
            "question_text": text,
            "database_name": "music",
            "gold_sql": sql,
            "gold_answer": {"count": 4, "french": ["Ann", "Bob"]}.get(key, []),
            "answer_type": "integer" if key == "count" else "list",
            "difficulty": difficulty,
            "tables_involved": ["Singer", "Performance", "Concert"]
            if key == "join"
            else ["Singer"],
            "split": "train" if key != "nobody" else "eval",
        }
        for key, (text, sql, difficulty) in golds.items()
    ]
    (folder / "questions").mkdir()
    for split in ("train", "eval"):
        rows = [record for record in records if record["split"] == split]
        (folder / "questions" / f"questions_{split}.json").write_text(json.dumps(rows))
    return folder


@pytest.fixture
def music(music_dir: Path) -> Iterator[SQLEnvironment]:
    """An environment over that dataset."""
    dataset = Dataset.at(music_dir)
    with SQLEnvironment(db_dir=dataset.db_dir, questions=dataset.load()) as env:
        yield env


@pytest.fixture(scope="session")
def make_episode() -> Callable[..., EpisodeResult]:
    """Makes an episode by hand."""
    return handmade_episode
