"""Inspect plays: its own models, its own log, our verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval as inspect_eval
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from sql_env.agent.prompts import Actions
from sql_env.integrations.inspect import spider

TEXT = (
    "DESCRIBE: Singer",
    "QUERY: SELECT count(*) FROM singer",
    "ANSWER: @last",
)
CALLS = (
    ("describe", {"table": "Singer"}),
    ("query", {"sql": "SELECT count(*) FROM singer"}),
    ("answer", {"value": "@last"}),
)


def played(music_dir: Path, tmp_path: Path, outputs: list[ModelOutput], **options: Any) -> EvalLog:
    for output in outputs:
        output.usage = ModelUsage()  # or a tokenizer would have to count
    model = get_model("mockllm/model", custom_outputs=outputs)
    task = spider(dataset=str(music_dir), split="train", **options)
    (log,) = inspect_eval(
        task, model=model, sample_id="music_count", log_dir=str(tmp_path), display="none"
    )
    assert log.status == "success", log.error
    return log


def written(*turns: str) -> list[ModelOutput]:
    return [ModelOutput.from_content("mockllm/model", turn) for turn in turns]


def called(*calls: tuple[str, dict[str, str]]) -> list[ModelOutput]:
    return [
        ModelOutput.for_tool_call("mockllm/model", name, arguments) for name, arguments in calls
    ]


@pytest.mark.parametrize("actions", ["text", "tools"])
def test_a_right_episode_is_scored_as_correct(
    music_dir: Path, tmp_path: Path, actions: str
) -> None:
    outputs = written(*TEXT) if actions == "text" else called(*CALLS)
    log = played(music_dir, tmp_path, outputs, actions=actions)
    assert log.samples is not None
    assert log.results is not None
    (sample,) = log.samples
    (score,) = (sample.scores or {}).values()
    assert score.value == "C"
    assert score.answer == "@last"
    assert score.metadata is not None
    assert (score.metadata["stop_reason"], score.metadata["difficulty"]) == ("correct", "easy")
    assert score.metadata["terminal"] == 1.0
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
    roles = [message.role for message in sample.messages][-6:]
    answers = "user" if actions == "text" else "tool"
    assert roles == ["assistant", answers] * 3


@pytest.mark.parametrize(("model", "actions"), [("actor", "text"), ("caller", "tools")])
def test_a_model_behind_an_endpoint_plays(
    music_dir: Path, tmp_path: Path, chat_server: str, model: str, actions: Actions
) -> None:
    pytest.importorskip("openai")  # Inspect's way to it
    (log,) = inspect_eval(
        spider(dataset=str(music_dir), split="train", actions=actions),
        model=get_model(f"openai-api/local/{model}", base_url=f"{chat_server}/v1", api_key="none"),
        log_dir=str(tmp_path),
        display="none",
    )
    assert log.status == "success", log.error
    assert log.samples is not None
    verdicts = {s.id: score.value for s in log.samples for score in (s.scores or {}).values()}
    assert verdicts == {"music_count": "C", "music_french": "I", "music_join": "I"}


def test_a_wrong_answer_and_a_spent_budget_are_incorrect(music_dir: Path, tmp_path: Path) -> None:
    wrong = played(music_dir, tmp_path / "a", written("ANSWER: 5"))
    spent = played(music_dir, tmp_path / "b", written("SAMPLE: Singer"), step_budget=1)
    for log, reason in ((wrong, "wrong_answer"), (spent, "out_of_budget")):
        assert log.samples is not None
        (score,) = (log.samples[0].scores or {}).values()
        assert score.value == "I"
        assert score.metadata is not None
        assert score.metadata["stop_reason"] == reason


def test_what_inspect_cuts_off_is_incorrect(music_dir: Path, tmp_path: Path) -> None:
    outputs = written("SAMPLE: Singer", "SAMPLE: Concert", "SAMPLE: Performance", *TEXT)
    for output in outputs:
        output.usage = ModelUsage()
    task = spider(dataset=str(music_dir), split="train")
    (log,) = inspect_eval(
        task,
        model=get_model("mockllm/model", custom_outputs=outputs),
        sample_id="music_count",
        message_limit=12,
        log_dir=str(tmp_path),
        display="none",
    )
    assert log.samples is not None
    assert log.samples[0].limit is not None
    (score,) = (log.samples[0].scores or {}).values()
    assert score.value == "I"
    assert score.explanation == "the episode was cut off before its end"


def test_the_log_holds_nothing_of_the_gold_query(music_dir: Path, tmp_path: Path) -> None:
    played(music_dir, tmp_path, written("SAMPLE: Singer", "ANSWER: 5"))
    (path,) = tmp_path.glob("*.eval")
    shown = subprocess.run(
        [sys.executable, "-m", "inspect_ai", "log", "dump", str(path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert json.loads(shown)["status"] == "success"
    assert "from singer" not in shown.lower()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("split=jazz", "there is no split 'jazz'; choose from eval, train"),
        ("actions=mime", "'mime' is none of text, tools"),
        ("step_budget=0", "step_budget is 0: an episode needs at least one step"),
        ("dataset=/nowhere", "/nowhere/questions: no such file: make a dataset with"),
    ],
)
def test_a_wrong_argument_is_one_line(music_dir: Path, argument: str, said: str) -> None:
    command = ["eval", "sql_env/spider", "--model", "mockllm/model", "--display", "plain"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "inspect_ai", *command),
            *("-T", f"dataset={music_dir}", "-T", argument),
        ],
        env={**os.environ, "COLUMNS": "500"},
        capture_output=True,
        text=True,
    )
    (line,) = filter(None, done.stdout.splitlines() + done.stderr.splitlines())
    assert line.startswith("error: ")
    assert said in line


@pytest.mark.slow
def test_inspect_finds_the_tasks_by_their_name(music_dir: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "inspect_ai", "eval", "sql_env/spider",
            "--model", "mockllm/model", "-T", f"dataset={music_dir}", "-T", "split=eval",
            "-T", "step_budget=1",
            "--display", "plain", "--log-dir", str(tmp_path),
        ],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert list(tmp_path.glob("*.eval")), done.stdout + done.stderr
