"""While an episode runs, no byte that is served holds its gold query, its gold answer or a path.

Every question of the embedded data is walked through every endpoint, twice: with its own gold query
searched for in the bytes, and with a gold query and answer that are a secret word, so that finding
it can be no accident.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Running, Wire, start_server

from sql_env.questions import Dataset
from sql_env.server.settings import ServerSettings

SECRET = "xyzzy-secret-"
ACTION = ("action_type", "argument")
PAGES = (
    "/web",
    "/web/login",
    "/web/catalogue",
    "/web/static/page.js",
    "/health",
    "/metadata",
    "/schema",
    "/state",
    "/openapi.json",
    "/docs",
    "/list_environments",
    "/sql_env/splits",
)


class Walk:
    """Everything a server says, kept as one text per question."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.paths = (server.settings.dataset or "sql_env", str(Path(__file__).parents[2]))

    def episode(self, wire: Wire, question_id: str) -> str:
        """All that an agent can ask for without querying the data itself."""
        heard = [wire.reset(question_id=question_id, details=True)]
        tables = heard[0]["data"]["observation"]["table_names"]
        actions = [("DESCRIBE", name) for name in tables[:4]] + [
            ("QUERY", "SELECT no_such_column FROM nowhere"),
            ("QUERY", "SELECT 1"),
            ("QUERY", "ATTACH 'x' AS y"),
            ("JUMP", "high"),
            ("DESCRIBE", "no_such_table"),
            ("ANSWER", "[unfinished"),
        ]
        heard += wire.exchange(
            [
                *(
                    {"type": "step", "data": dict(zip(ACTION, pair, strict=True))}
                    for pair in actions
                ),
                {"type": "state"},
                {"type": "mcp", "data": {"jsonrpc": "2.0", "method": "tools/list", "id": 1}},
                {"type": "step", "data": {"sql": 1}},
            ]
        )
        assert not any(message["data"].get("done") for message in heard)
        return json.dumps(heard, ensure_ascii=False) + self._over_http(question_id)

    def _over_http(self, question_id: str) -> str:
        return self.server.post("/reset", json={"question_id": question_id, "details": True}).text

    def pages(self) -> str:
        texts = [self.server.get(path).text for path in PAGES]
        for split in ("train", "eval"):
            texts.append(self.server.post("/sql_env/tasks", json={"split": split}).text)
            for name in ("num_tasks", "task_range"):
                texts.append(self.server.post(f"/sql_env/{name}", json={"split": split}).text)
            texts.append(self.server.post("/sql_env/task", json={"split": split, "index": 0}).text)
        action = {"action_type": "QUERY", "argument": "SELECT 1"}
        texts.append(self.server.post("/step", json={"action": action}).text)
        texts.append(self.server.post("/mcp", json={"method": "tools/list"}).text)
        return "\n".join(texts)


@pytest.fixture(scope="module")
def embedded() -> Iterator[Walk]:
    server = start_server(ServerSettings(messages_per_second=1e6))
    yield Walk(server)
    server.stop()


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """The embedded questions, with a gold query and an answer that hold a secret word."""
    folder = tmp_path_factory.mktemp("marked")
    source = Dataset.embedded()
    shutil.copytree(source.db_dir, folder / "databases")
    (folder / "questions").mkdir()
    for file in source.questions_path.glob("questions_*.json"):
        records = json.loads(file.read_text(encoding="utf-8"))
        for record in records:
            word = SECRET + record["question_id"]
            record["gold_sql"] = f"SELECT '{word}' AS \"{word}\""
            record["gold_answer"] = word
        (folder / "questions" / file.name).write_text(json.dumps(records), encoding="utf-8")
    server = start_server(ServerSettings(dataset=str(folder), messages_per_second=1e6))
    yield Walk(server)
    server.stop()


def squeeze(text: str) -> str:
    """Without blanks and escapes, so that no spelling of the same query is missed."""
    return "".join(text.replace("\\", "").lower().split())


def test_no_gold_query_and_no_path_is_served_with_the_embedded_data(embedded: Walk) -> None:
    records = Dataset.embedded().load()
    pages = squeeze(embedded.pages())
    with embedded.server.session() as wire:
        for record in records:
            heard = embedded.episode(wire, record.question_id)
            gold = squeeze(record.gold_sql)
            assert gold not in squeeze(heard), record.question_id
            assert gold not in pages, record.question_id
            for path in embedded.paths:
                assert f"{path}/" not in heard
            assert ".sqlite" not in heard
    assert ".sqlite" not in pages and squeeze(embedded.paths[1]) not in pages


def test_no_gold_answer_is_served_before_the_end(marked: Walk) -> None:
    assert SECRET not in marked.pages()
    with marked.server.session() as wire:
        for record in Dataset.at(marked.paths[0]).load():
            heard = marked.episode(wire, record.question_id)
            assert SECRET not in heard, record.question_id
            assert marked.paths[0] not in heard


def test_after_the_end_the_gold_answer_is_shown_to_who_asked_for_details(marked: Walk) -> None:
    with marked.server.session() as wire:
        wire.reset(split="eval", index=0, details=True)
        assert SECRET in json.dumps(wire.step("ANSWER", "wrong"))
        assert SECRET not in json.dumps(wire.send({"type": "state"}))
        assert SECRET not in json.dumps(wire.reset(split="eval", index=0, details=True))
        wire.reset(split="eval", index=0)
        assert SECRET not in json.dumps(wire.step("ANSWER", "wrong"))


def test_a_server_can_keep_the_gold_answer_for_good(marked: Walk) -> None:
    server = start_server(ServerSettings(dataset=marked.paths[0], hide_gold=True))
    try:
        with server.session() as wire:
            wire.reset(split="eval", index=0, details=True)
            assert SECRET not in json.dumps(wire.step("ANSWER", "wrong"))
    finally:
        server.stop()
