"""The server as any OpenEnv client sees it: WebSocket, plain HTTP, the Task API."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from openenv.cli.__main__ import app as openenv_command
from serving import Running
from typer.testing import CliRunner

ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"


def test_an_episode_over_websocket(music_server: Running) -> None:
    with music_server.session() as wire:
        first = wire.reset(question_id="music_count")["data"]
        assert first["observation"]["question"] == "How many singers are there?"
        assert first["observation"]["table_names"] == ["Singer", "Concert", "Performance"]
        described = wire.step("DESCRIBE", "Singer")["data"]
        assert "Country" in described["observation"]["result"]
        assert "grid" not in described["observation"]["metadata"].get("details", {})
        wire.step("QUERY", "SELECT count(*) FROM Singer")
        state = wire.send({"type": "state"})["data"]
        assert (state["step_count"], state["described_tables"]) == (2, ["Singer"])
        last = wire.step("ANSWER", "@last")["data"]
        assert last["done"] and last["reward"] > 0.9
        assert last["observation"]["metadata"]["correct"] is True


def test_openenv_finds_nothing_wrong_with_the_running_server(music_server: Running) -> None:
    command = ["validate", "--url", music_server.url, "--json"]
    result = CliRunner().invoke(openenv_command, command)
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert report["summary"]["failed_criteria"] == []
    assert report["summary"]["passed_count"] == 6
    assert report["passed"] and report["mode"] == "simulation"


def test_tasks_can_be_listed_and_then_asked_for_by_split_and_index(music_server: Running) -> None:
    splits = music_server.get("/sql_env/splits").json()
    assert [split["name"] for split in splits] == ["eval", "train"]
    assert music_server.post("/sql_env/num_tasks", json={"split": "train"}).json() == {
        "num_tasks": 3
    }
    tasks = music_server.post("/sql_env/tasks", json={"split": "train"}).json()["tasks"]
    with music_server.session() as wire:
        for index, task in enumerate(tasks):
            assert task["index"] == index
            observation = wire.reset(split="train", index=index)["data"]["observation"]
            assert observation["question"] == task["question"]
            assert observation["metadata"]["question_id"] == task["id"]
    one = music_server.post("/sql_env/task", json={"split": "train", "index": 1}).json()
    assert one["task"] == tasks[1]
    some = music_server.post("/sql_env/task_range", json={"split": "train", "start": 1}).json()
    assert some["tasks"] == tasks[1:]


@pytest.mark.parametrize("index", [3, -1])
def test_a_task_that_is_not_there_is_a_bad_request(music_server: Running, index: int) -> None:
    answer = music_server.post("/sql_env/task", json={"split": "train", "index": index})
    assert answer.status_code == 400


def test_an_unknown_split_names_those_there_are(music_server: Running) -> None:
    answer = music_server.post("/sql_env/tasks", json={"split": "dev"})
    assert answer.status_code == 404
    assert answer.json() == {"detail": "no split 'dev': there are eval, train"}


@pytest.mark.parametrize("split", ["train*400000", "train+eval", "train*2", "Train", ""])
@pytest.mark.parametrize("route", ["num_tasks", "tasks", "task_range", "task"])
def test_a_split_is_a_name_and_not_a_grammar(music_server: Running, route: str, split: str) -> None:
    body = {"split": split} | ({"index": 0} if route == "task" else {})
    answer = music_server.post(f"/sql_env/{route}", json=body)
    assert answer.status_code == 404
    with music_server.session() as wire:
        refused = wire.reset(split=split, difficulty="easy")
        assert refused["type"] == "error" and "no question with" in refused["data"]["message"]


def test_plain_http_resets_and_says_why_it_cannot_step(music_server: Running) -> None:
    reset = music_server.post("/reset", json={"question_id": "music_join"}).json()
    assert reset["observation"]["question"] == "Which themes did Ann sing at, newest first?"
    step = music_server.post("/step", json={"action": {"action_type": "QUERY", "argument": "x"}})
    assert step.status_code == 409
    assert "reset() before step()" in step.json()["detail"] and "/ws" in step.json()["detail"]
    malformed = music_server.post("/step", json={"action": {"sql": "SELECT 1"}})
    assert malformed.status_code == 422


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"question_id": "nope"}, "no question 'nope' among 4"),
        ({"split": "train", "index": 9}, "index 9 is outside 0..2"),
        ({"split": "dev"}, "no questions in split 'dev'"),
        ({"index": "two"}, "index: Input should be a valid integer"),
        ({"questionid": "music_join"}, "questionid: Extra inputs"),
        ({"difficulty": "extra"}, "no question with"),
    ],
)
def test_a_reset_that_cannot_be_done_says_what_there_is(
    music_server: Running, options: dict[str, object], part: str
) -> None:
    with music_server.session() as wire:
        answer = wire.reset(**options)
        assert answer["type"] == "error"
        assert part in answer["data"]["message"]
        assert wire.reset(seed=1)["type"] == "observation", "the session goes on"
    assert music_server.post("/reset", json=options).status_code in (404, 422)


def test_a_step_without_an_episode_is_answered(music_server: Running) -> None:
    with music_server.session() as wire:
        assert "call reset() before step()" in wire.step("QUERY", "SELECT 1")["data"]["message"]
        wire.reset(question_id="music_count")
        wire.step("ANSWER", "4")
        assert "the episode is over" in wire.step("ANSWER", "4")["data"]["message"]


@pytest.mark.parametrize("message", ["{", '{"type": "jump"}', '{"type": "step", "data": 3}'])
def test_a_malformed_message_costs_nothing(music_server: Running, message: str) -> None:
    with music_server.session() as wire:
        wire.reset(question_id="music_count")
        assert wire.send(message)["type"] == "error"
        assert wire.send({"type": "state"})["data"]["step_count"] == 0


def test_equal_seeds_draw_equal_questions(music_server: Running) -> None:
    with music_server.session() as one, music_server.session() as two:
        for seed in range(8):
            drawn = [
                wire.reset(seed=seed)["data"]["observation"]["question"] for wire in (one, two)
            ]
            assert drawn[0] == drawn[1]


def test_details_carry_a_grid_and_at_the_end_the_gold_answer(music_server: Running) -> None:
    with music_server.session() as wire:
        wire.reset(question_id="music_french", details=True)

        def details(kind: str, argument: str) -> dict[str, object]:
            return wire.step(kind, argument)["data"]["observation"]["metadata"]["details"]

        (schema,) = details("DESCRIBE", "Concert")["schemas"]  # type: ignore[misc]
        assert [column["name"] for column in schema["columns"]] == ["Concert_ID", "Theme", "Year"]
        assert schema["columns"][0]["sql"] == "Concert_ID"
        assert details("SAMPLE", "Singer")["grid"]["row_count"] == 4  # type: ignore[index]
        shown = details("QUERY", "SELECT NULL, x'00ff', 1e999, 9007199254740993, 'é'")["grid"]
        assert shown["rows"] == [[None, "x'00ff'", "inf", "9007199254740993", "é"]]  # type: ignore[index]
        assert details("QUERY", "SELECT nope") == {}
        gold = details("ANSWER", "nobody")["gold"]
        assert gold["sql"].startswith("SELECT name FROM singer")  # type: ignore[index]
        assert gold["rows"] == [["Ann"], ["Bob"]]  # type: ignore[index]


def test_a_reset_may_play_actions_at_once(music_server: Running) -> None:
    played = [("DESCRIBE", "Singer"), ("QUERY", "SELECT count(*) FROM Singer")]
    actions = [{"action_type": kind, "argument": argument} for kind, argument in played]
    with music_server.session() as wire, music_server.session() as other:
        seen = wire.reset(question_id="music_count", actions=actions, details=True)["data"]
        other.reset(question_id="music_count", details=True)
        other.step(*played[0])
        assert seen == other.step(*played[1])["data"], "as if they had been played one by one"
        assert seen["observation"]["metadata"]["details"]["grid"]["rows"] == [[4]]
        assert wire.step("ANSWER", "@last")["data"]["observation"]["metadata"]["correct"]
        plain = wire.reset(question_id="music_count", actions=actions)["data"]["observation"]
        assert "details" not in plain["metadata"]
        end = {"action_type": "ANSWER", "argument": "4"}
        refused = wire.reset(question_id="music_count", actions=[end, end])
        assert "the episode is over" in refused["data"]["message"]
        refused = wire.reset(question_id="music_count", actions=["DESCRIBE Singer"])
        assert "actions.0" in refused["data"]["message"]
        assert wire.reset(question_id="music_count")["type"] == "observation"


def test_the_actions_of_a_reset_have_the_time_of_one_query(music_server: Running) -> None:
    endless = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"
    slow = {"action_type": "QUERY", "argument": endless}
    with music_server.session() as wire:
        seen = wire.reset(question_id="music_count", actions=[slow])["data"]["observation"]
        assert seen["metadata"]["error_kind"] == "timeout"
        refused = wire.reset(question_id="music_count", actions=[slow, slow])
        assert "one by one" in refused["data"]["message"]
        assert wire.reset(question_id="music_count")["type"] == "observation"


def test_a_question_can_be_drawn_by_difficulty_and_database(music_server: Running) -> None:
    with music_server.session() as wire:
        for _ in range(4):
            drawn = wire.reset(difficulty="hard", database="music")["data"]["observation"]
            assert drawn["metadata"]["question_id"] == "music_join"
        ids = [
            wire.reset(difficulty="easy")["data"]["observation"]["metadata"]["question_id"]
            for _ in range(6)
        ]
    assert all(one != two for one, two in pairwise(ids)), "never twice in a row"


def test_a_query_that_needs_longer_is_played_in_full(music_server: Running) -> None:
    """Longer than the event loop would spend on it, far shorter than its deadline."""
    sql = (
        "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t WHERE x < 100000) "
        "SELECT count(*), max(x) FROM t"
    )
    with music_server.session() as wire:
        wire.reset(question_id="music_count", details=True)
        observation = wire.step("QUERY", sql)["data"]["observation"]
        assert observation["metadata"]["details"]["grid"]["rows"] == [[100000, 100000]]
        assert observation["action_history"] == [f"QUERY: {sql}"]
        many = wire.step("QUERY", sql.replace("count(*), max(x)", "x").replace("100000", "5000"))
        assert many["data"]["observation"]["metadata"]["details"]["grid"]["row_count"] == 5000


def test_an_action_without_an_argument_leaves_nothing_for_the_next(music_server: Running) -> None:
    with music_server.session() as wire:
        wire.reset(question_id="music_count", details=True)
        assert wire.step("QUERY", "  ")["data"]["observation"]["error"]
        shown = wire.step("QUERY", "SELECT 7")["data"]["observation"]
        assert shown["metadata"]["details"]["grid"]["rows"] == [[7]]


def test_a_query_into_its_deadline_keeps_nobody_waiting(music_server: Running) -> None:
    with music_server.session() as slow, music_server.session() as quick:
        slow.reset(question_id="music_count")
        answers: list[dict[str, object]] = []
        thread = threading.Thread(target=lambda: answers.append(slow.step("QUERY", ENDLESS)))
        thread.start()
        played = 0
        while thread.is_alive():
            quick.reset(question_id="music_join")
            quick.step("QUERY", "SELECT count(*) FROM Concert")
            played += 1
            time.sleep(0.01)
    assert answers[0]["data"]["observation"]["metadata"]["error_kind"] == "timeout"  # type: ignore[index]
    assert played > 20


def test_a_database_that_is_gone_is_told_without_its_path(
    serve: Callable[..., Running], music_dir: Path, tmp_path: Path
) -> None:
    data = shutil.copytree(music_dir, tmp_path / "copy")
    server = serve(dataset=str(data))
    shutil.rmtree(data / "databases")
    with server.session() as wire:
        answer = wire.reset(question_id="music_count")
    assert "cannot be played" in answer["data"]["message"]
    assert str(tmp_path) not in str(answer) and ".sqlite" not in str(answer)
    over_http = server.post("/reset", json={"question_id": "music_count"})
    assert over_http.status_code == 409 and ".sqlite" not in over_http.text


def test_the_application_can_be_imported_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import sql_env.server.app as module

    assert module.app.title  # what openenv.yaml names
    with pytest.raises(AttributeError):
        _ = module.nothing


def test_openenvs_own_page_never_takes_the_place_of_ours(
    serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENABLE_WEB_INTERFACE", "true")
    assert "/web/static/page.js" in serve().get("/web").text
