"""A model behind a chat endpoint, tested against a server process."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

from sql_env.agent.endpoint import EndpointPolicy, EndpointSettings  # noqa: E402
from sql_env.agent.prompts import V1, Prompt  # noqa: E402
from sql_env.environment import SQLEnvironment  # noqa: E402
from sql_env.evaluation.green_agent import EvaluationResult, evaluate  # noqa: E402


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = Path(__file__).parent / "chat_endpoint.py"
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


def play(
    env: SQLEnvironment,
    server: str,
    model: str,
    *,
    prompt: Prompt = V1,
    guided: bool = False,
    **settings: Any,
) -> EvaluationResult:
    questions = [q for q in env.questions if q.question_id == "music_count"]
    one = SQLEnvironment(db_dir=env.db_dir, questions=questions)
    endpoint = EndpointSettings(f"{server}/v1", model, first_pause=0.01, **settings)
    policy = EndpointPolicy(endpoint, prompt=prompt, guided=guided)
    try:
        return evaluate(one, policy, samples=6)
    finally:
        policy.close()


def test_plays_and_counts_tokens(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "actor", temperature=0.5, max_new_tokens=99, seed=3)
    assert result.success_rate == 1.0
    assert result.summary.tokens == {
        "prompt_tokens": 6 * (100 + 101 + 102),
        "completion_tokens": 6 * 3 * 5,
    }
    body = httpx.get(f"{server}/statistics").json()["last_body"]
    assert (body["temperature"], body["max_tokens"], body["seed"]) == (0.5, 99, 3)
    assert [message["role"] for message in body["messages"]] == [
        "system", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip


def test_asks_for_all_episodes_at_once(music: SQLEnvironment, server: str) -> None:
    play(music, server, "actor", concurrency=6)
    assert httpx.get(f"{server}/statistics").json()["most_at_once"] >= 3


def test_tries_again_when_the_endpoint_is_busy(music: SQLEnvironment, server: str) -> None:
    # One at a time: the server refuses every other request, whoever asks.
    assert play(music, server, "busy", concurrency=1).success_rate == 1.0


def test_gives_up_in_the_end(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "broken", retries=2)
    assert result.n_completed == 0
    error = result.episodes[0].error
    assert "gave no answer in 3 tries: status 503: overloaded" in error


def test_a_refusal_is_not_tried_again(music: SQLEnvironment, server: str) -> None:
    before = httpx.get(f"{server}/statistics").json()["requests"]
    result = play(music, server, "locked")
    assert "refused the request: status 401" in result.episodes[0].error
    assert httpx.get(f"{server}/statistics").json()["requests"] == before + 6


def test_sends_its_key(music: SQLEnvironment, server: str) -> None:
    assert play(music, server, "locked", api_key="secret").success_rate == 1.0


def test_does_not_wait_for_ever(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "slow", timeout=0.2, retries=0, concurrency=6)
    assert "ReadTimeout" in result.episodes[0].error


def test_an_answer_that_is_no_chat_completion(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "nonsense")
    assert "not with a chat completion: <html>hello</html>" in result.episodes[0].error


def test_nobody_there(music: SQLEnvironment) -> None:
    result = play(music, "http://127.0.0.1:9", "actor", retries=1)
    assert "ConnectError" in result.episodes[0].error


def test_one_slow_answer_keeps_no_other_episode_waiting(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "uneven", concurrency=6)
    assert result.success_rate == 1.0
    answered = httpx.get(f"{server}/statistics").json()["answered"]["uneven"]
    last_first_turn = len(answered) - 1 - answered[::-1].index(0)
    assert 2 in answered[:last_first_turn], "somebody finished before the slow one began"


def test_guided_decoding_asks_again_at_a_temperature(music: SQLEnvironment, server: str) -> None:
    plain = play(music, server, "stubborn")
    assert plain.summary.stop_reasons == {"out_of_budget": 6}
    guided = play(music, server, "stubborn", guided=True)
    assert guided.success_rate == 1.0
    replaced = [s.trace["replaced"] for s in guided.episodes[0].steps if "replaced" in s.trace]
    assert {item["reason"] for item in replaced} == {"repeated"}
    assert all(item["extra_tokens"] == 5 for item in replaced)


def test_several_actions_of_a_turn_cost_one_request(music: SQLEnvironment, server: str) -> None:
    before = httpx.get(f"{server}/statistics").json()["requests"]
    result = play(music, server, "planner", prompt=Prompt("v2"))
    assert result.success_rate == 1.0
    statistics = httpx.get(f"{server}/statistics").json()
    assert statistics["requests"] == before + 6 * 2
    assert [step.trace["turn"] for step in result.episodes[0].steps] == [1, 1, 2]
    assert result.summary.tokens["completion_tokens"] == 6 * 2 * 5
    read = statistics["last_body"]["messages"][-1]
    assert read["role"] == "user"
    assert read["content"].startswith("Singer (4 rows)")
    assert read["content"].endswith("Not played: ANSWER (look at the result first)")


def test_tools_are_called_and_each_call_has_its_result(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "caller", prompt=Prompt("v2", "tools"))
    assert result.success_rate == 1.0
    assert [(s.action_type, s.argument) for s in result.episodes[0].steps] == [
        ("DESCRIBE", "Singer"),
        ("QUERY", "SELECT count(*) FROM singer"),
        ("ANSWER", "@last"),
    ]
    body = httpx.get(f"{server}/statistics").json()["last_body"]
    assert [tool["function"]["name"] for tool in body["tools"]] == [
        "describe", "sample", "query", "answer",
    ]  # fmt: skip
    *_, turn, described, counted = body["messages"]
    ids = [call["id"] for call in turn["tool_calls"]]
    assert [described["tool_call_id"], counted["tool_call_id"]] == ids
    assert (described["content"][:6], counted["content"]) == ("Singer", "count(*)\n4")
    calls = [m for m in body["messages"] if m.get("tool_calls")]
    asked = [call["id"] for message in calls for call in message["tool_calls"]]
    answered = [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"]
    assert set(answered) <= set(asked) and len(set(asked)) == len(asked)
