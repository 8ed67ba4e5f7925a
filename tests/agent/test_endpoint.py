"""A model behind a chat endpoint, tested against a server process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

from sql_env.agent.chat_client import (  # noqa: E402
    LONGEST_PAUSE,
    ChatClient,
    EndpointError,
    EndpointSettings,
    Price,
    Reply,
    asked_pause,
)
from sql_env.agent.endpoint import EndpointPolicy  # noqa: E402
from sql_env.agent.prompts import V1, Prompt  # noqa: E402
from sql_env.cli import app  # noqa: E402
from sql_env.environment import SQLEnvironment  # noqa: E402
from sql_env.evaluation.green_agent import EvaluationResult, evaluate  # noqa: E402


@pytest.fixture(scope="module")
def server(chat_server: str) -> str:
    return chat_server


def play(
    env: SQLEnvironment,
    server: str,
    model: str,
    *,
    prompt: Prompt = V1,
    guided: bool = False,
    step_budget: int = 15,
    **settings: Any,
) -> EvaluationResult:
    questions = [q for q in env.questions if q.question_id == "music_count"]
    one = SQLEnvironment(db_dir=env.db_dir, questions=questions, step_budget=step_budget)
    endpoint = EndpointSettings(f"{server}/v1", model, first_pause=0.01, **settings)
    policy = EndpointPolicy(endpoint, prompt=prompt, guided=guided)
    try:
        return evaluate(one, policy, samples=6)
    finally:
        policy.close()


def test_every_episode_is_played_and_its_tokens_counted(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "actor", temperature=0.5, max_new_tokens=99, top_p=0.9)
    assert result.success_rate == 1.0
    assert result.summary.tokens == {
        "prompt_tokens": 6 * (100 + 101 + 102),
        "completion_tokens": 6 * 3 * 5,
    }
    body = httpx.get(f"{server}/statistics").json()["last_body"]
    assert (body["temperature"], body["max_tokens"], body["top_p"]) == (0.5, 99, 0.9)
    assert [message["role"] for message in body["messages"]] == [
        "system", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip


def test_asks_for_all_episodes_at_once(music: SQLEnvironment, server: str) -> None:
    play(music, server, "actor", concurrency=6)
    assert httpx.get(f"{server}/statistics").json()["most_at_once"] >= 3


@pytest.mark.parametrize("model", ["busy", "overloaded"])
def test_tries_again_when_the_endpoint_is_busy(
    music: SQLEnvironment, server: str, model: str
) -> None:
    # One at a time: the server refuses every other request, whoever asks.
    assert play(music, server, model, concurrency=1).success_rate == 1.0


def test_a_server_that_stays_overloaded_is_given_up(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "broken", retries=2)
    assert result.n_completed == 0
    error = result.episodes[0].error
    assert "gave no answer in 3 tries: status 503: overloaded" in error


def test_a_refusal_is_not_tried_again(music: SQLEnvironment, server: str) -> None:
    before = httpx.get(f"{server}/statistics").json()["requests"]
    result = play(music, server, "locked")
    assert "refused the request: status 401" in result.episodes[0].error
    assert "OPENAI_API_KEY, which is not set" in result.episodes[0].error
    # One for every episode, or fewer: whoever has not asked yet need not.
    assert httpx.get(f"{server}/statistics").json()["requests"] <= before + 6


def test_a_refusal_says_what_to_do(music: SQLEnvironment, server: str) -> None:
    warm = play(music, server, "warm").episodes[0].error
    assert warm.endswith("with this model.; --body temperature=null leaves it out")
    assert play(music, server, "warm", body={"temperature": None}).success_rate == 1.0
    moved = play(music, server, "moved").episodes[0].error
    assert moved.endswith("status 308: (nothing); it points to /v2/chat/completions")


def test_as_many_requests_at_once_as_are_asked_for() -> None:
    many = 120  # httpx alone would send a hundred

    async def answers() -> list[Reply]:
        all_there = asyncio.Barrier(many)
        reply = json.dumps({"choices": [{"message": {"content": "ANSWER: 4"}}]})

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"}]")
            await all_there.wait()
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(reply)}\r\n\r\n"
            writer.write((head + reply).encode())

        listener = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        settings = EndpointSettings(
            f"http://127.0.0.1:{port}/v1", "m", concurrency=many, retries=0, timeout=10
        )
        client = ChatClient(settings)
        try:
            question = [{"role": "user", "content": "?"}]
            return await asyncio.gather(*(client.ask(question, seed=n) for n in range(many)))
        finally:
            await client.close()
            listener.close()

    assert {reply.text for reply in asyncio.run(answers())} == {"ANSWER: 4"}


def test_a_pause_is_a_number_of_seconds() -> None:
    def asked(value: str) -> float | None:
        return asked_pause(httpx.Response(429, headers={"Retry-After": value}))

    assert [asked("2"), asked("100")] == [2, LONGEST_PAUSE]
    assert [asked(value) for value in ("-5", "nan", "0", "Wed, 21 Oct 2015 07:28:00 GMT")] == [
        None
    ] * 4


def test_the_key_is_sent_as_a_bearer_token(music: SQLEnvironment, server: str) -> None:
    assert play(music, server, "locked", api_key="secret").success_rate == 1.0


def test_a_slow_answer_is_not_waited_for(music: SQLEnvironment, server: str) -> None:
    for model in ("slow", "trickle"):
        result = play(music, server, model, timeout=0.2, retries=0, concurrency=6)
        said = "gave no answer in 1 try: no whole response in 0.2 s (--timeout)"
        assert said in result.episodes[0].error


def test_an_answer_that_is_no_chat_completion(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "nonsense")
    assert "not with a chat completion: <html>hello</html>" in result.episodes[0].error


def test_an_answer_of_another_form_ends_its_own_episode(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "garbled")
    assert "not with a chat completion" in result.episodes[0].error


def test_half_a_character_can_be_sent_back(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "half")
    assert not result.summary.episode_errors
    assert result.success_rate == 1.0


def test_an_episode_without_a_server_says_so(music: SQLEnvironment) -> None:
    result = play(music, "http://127.0.0.1:9", "actor", retries=1)
    assert "ConnectError: All connection attempts failed" in result.episodes[0].error


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


def seeds_of(server: str, model: str) -> list[tuple[int, int]]:
    """The turn and the seed of every request."""
    return list(map(tuple, httpx.get(f"{server}/statistics").json()["seeds"].get(model, [])))


def test_every_sample_has_a_seed_and_keeps_it_when_a_run_goes_on(
    music: SQLEnvironment, server: str
) -> None:
    questions = [q for q in music.questions if q.question_id == "music_count"]
    one = SQLEnvironment(db_dir=music.db_dir, questions=questions)

    def played(done: Any = (), seed: int = 0) -> tuple[EvaluationResult, list[tuple[int, int]]]:
        before = len(seeds_of(server, "actor"))
        policy = EndpointPolicy(EndpointSettings(f"{server}/v1", "actor"), prompt=V1)
        try:
            result = evaluate(one, policy, samples=4, seed=seed, done=done)
        finally:
            policy.close()
        return result, seeds_of(server, "actor")[before:]

    whole, asked = played()
    first_turns = [seed for turn, seed in asked if turn == 0]
    assert len(set(first_turns)) == 4
    assert all(0 <= seed < 2**31 for seed in first_turns)
    _, rest = played(done=whole.episodes[:3])
    missing = [seed for turn, seed in rest if turn == 0]
    assert len(missing) == 1 and missing[0] in first_turns
    _, repeated = played()
    assert {seed for _, seed in repeated} == set(first_turns)
    _, other = played(seed=1)
    assert not {seed for _, seed in other} & set(first_turns)


def test_the_limit_takes_the_name_that_the_server_knows(music: SQLEnvironment, server: str) -> None:
    before = httpx.get(f"{server}/statistics").json()["requests"]
    result = play(music, server, "new", max_new_tokens=77, concurrency=1)
    assert result.success_rate == 1.0
    statistics = httpx.get(f"{server}/statistics").json()
    assert statistics["requests"] == before + 6 * 3 + 1, "it asks with the old name once"
    body = statistics["last_body"]
    assert body["max_completion_tokens"] == 77 and "max_tokens" not in body


def test_further_fields_are_sent_and_fields_can_be_left_out(
    music: SQLEnvironment, server: str
) -> None:
    fields = {"chat_template_kwargs": {"enable_thinking": False}, "temperature": None}
    play(music, server, "actor", body=fields)
    body = httpx.get(f"{server}/statistics").json()["last_body"]
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "temperature" not in body


def test_a_thought_that_fills_the_limit_is_counted(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "thinker")
    assert result.success_rate == 1.0, "it may go on"
    assert result.summary.cut_off == 6 * 2
    traces = [step.trace for step in result.episodes[0].steps]
    assert [trace.get("cut_off") for trace in traces] == [True, True, None]
    assert {trace["reasoning"] for trace in traces} == {"Let me think."}


def test_an_episode_that_ends_in_a_thought_is_not_merely_wrong(
    music: SQLEnvironment, server: str
) -> None:
    result = play(music, server, "thinker", step_budget=2)
    assert result.summary.failures == {"no answer: last turn cut off": 6}


def test_tokens_have_a_price(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "actor", price=Price(1.0, 10.0))
    tokens = result.summary.tokens
    expected = (tokens["prompt_tokens"] + 10 * tokens["completion_tokens"]) / 1_000_000
    assert result.summary.cost == pytest.approx(expected)
    assert play(music, server, "actor").summary.cost is None


def test_the_command_records_what_was_asked_and_what_it_cost(
    music_dir: Path, server: str, tmp_path: Path
) -> None:
    command = ["eval", "--policy", f"endpoint:thinker@{server}/v1", "--id", "music_count"]
    options = ["--dataset", str(music_dir), "--split", "train", "--out", str(tmp_path)]
    asked = ["--top-p", "0.8", "--body", "reasoning_effort=low", "--body", "top_k=20"]
    limits = ["--price", "1:10", "--max-new-tokens", "30", "--concurrency", "2", "--retries", "1"]
    done = CliRunner().invoke(app, [*command, *options, *asked, *limits], env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    body = httpx.get(f"{server}/statistics").json()["last_body"]
    assert (body["top_p"], body["reasoning_effort"], body["top_k"]) == (0.8, "low", 20)
    (run,) = tmp_path.iterdir()
    summary = json.loads((run / "summary.json").read_text())
    assert summary["tokens"] == {"prompt_tokens": 303, "completion_tokens": 15}
    assert summary["cost"] == pytest.approx((303 + 150) / 1e6)
    assert summary["cut_off"] == 2
    assert json.loads((run / "config.json").read_text())["body"]["top_k"] == 20
    shown = " ".join(done.output.split())
    assert "how it plays endpoint:thinker" in shown
    for line in ("tokens read 303", "tokens written 15", "cost 0.0005", "turns cut off 2"):
        assert line in shown
    assert "were cut off at 30 tokens: raise --max-new-tokens" in shown


def check(address: str, model: str) -> None:
    policy = EndpointPolicy(EndpointSettings(address, model))
    try:
        policy.check()
    finally:
        policy.close()


def test_what_would_fail_every_episode_is_found_before(server: str) -> None:
    check(f"{server}/v1", "actor")
    check(f"{server}/v1", "planner")  # it is not listed, but it answers
    check(f"{server}/v1", "new")  # it wants the limit by another name
    check(f"{server}/v1", "broken")  # that may pass
    with pytest.raises(EndpointError) as unknown:
        check(f"{server}/v1", "absent")
    assert str(unknown.value) == (
        f"{server}/v1/chat/completions refused the request: status 404: The model `absent` does "
        "not exist or you have no access to it; models there: actor, caller, new, locked, broken"
    )
    with pytest.raises(EndpointError, match=r"refused .* status 404: .*; check the address, .*"):
        check(server, "actor")  # without the /v1
    with pytest.raises(EndpointError, match=r"401: .*no such key.*; the key is read"):
        check(f"{server}/v1", "locked")  # although everybody may read its list of models
    with pytest.raises(EndpointError, match="--body temperature=null leaves it out"):
        check(f"{server}/v1", "warm")
    with pytest.raises(EndpointError, match="--body temperature=null leaves it out"):
        check(f"{server}/v1", "reasoner")  # which wants the limit by another name as well
    with pytest.raises(EndpointError, match="not with a chat completion: <html>"):
        check(f"{server}/v1", "nonsense")
    with pytest.raises(EndpointError, match=r"nothing answers at http://127.0.0.1:9/v1 .*start"):
        check("http://127.0.0.1:9/v1", "actor")


def test_an_unknown_model_is_asked_for_once(music: SQLEnvironment, server: str) -> None:
    result = play(music, server, "absent", concurrency=1)
    assert result.n_completed == 0
    assert len(result.summary.episode_errors) == 1
