"""`--policy model:PATH`: a model folder, an adapter folder, an adapter with its base named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sql_env.agent.choice import ModelOptions, build_policy
from sql_env.agent.policies import BatchPolicy
from sql_env.agent.prompts import get_system_prompt
from sql_env.cli import app
from sql_env.environment import SQLEnvironment
from sql_env.evaluation.green_agent import evaluate as play_all
from sql_env.questions import Dataset
from sql_env.training.tiny_model import TinyModelSize, train_tokenizer, untrained_model

pytest.importorskip("torch")
SIZE = TinyModelSize(vocabulary=512, width=32, layers=2, heads=2, window=1024)


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = train_tokenizer([get_system_prompt(), "SELECT name FROM singer"], SIZE)
    model = untrained_model(tokenizer, SIZE)
    for weights in model.parameters():
        weights.data *= 0.1 if weights.dim() > 1 else 1  # so weak that it repeats itself
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def adapter_dir(model_dir: Path) -> Path:
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = model_dir.parent / "adapter"
    base = AutoModelForCausalLM.from_pretrained(model_dir)
    peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(
        folder
    )
    AutoTokenizer.from_pretrained(model_dir).save_pretrained(folder)
    return folder


def evaluate(music_dir: Path, out: Path, model: Path, *options: str) -> Any:
    command = ["eval", "--dataset", str(music_dir), "--split", "train", "--out", str(out), "--json"]
    limits = ["--step-budget", "2", "--max-new-tokens", "6", "--device", "cpu"]
    return CliRunner().invoke(app, [*command, "--policy", f"model:{model}", *limits, *options])


def steps_in(out: Path) -> list[Any]:
    (run,) = out.iterdir()
    lines = (run / "episodes.jsonl").read_text().splitlines()
    return [[step["trace"]["raw"] for step in json.loads(line)["steps"]] for line in lines]


def test_what_a_model_holds_can_be_given_back(music_dir: Path, model_dir: Path) -> None:
    dataset = Dataset.at(music_dir)
    env = SQLEnvironment(db_dir=dataset.db_dir, questions=dataset.load(), step_budget=3)
    options = ModelOptions(max_new_tokens=6, device="cpu")
    policy = build_policy(f"model:{model_dir}", env.questions, options)
    assert isinstance(policy, BatchPolicy)
    played = []
    for _ in range(2):
        played.append([episode.steps for episode in play_all(env, policy).episodes])
        policy.release()
    assert played[0] == played[1]


def test_episodes_that_broke_off_can_be_played_again(
    music_dir: Path, model_dir: Path, tmp_path: Path
) -> None:
    data = shutil.copytree(music_dir, tmp_path / "data")
    path = data / "questions" / "questions_train.json"
    records = json.loads(path.read_text())
    records[0]["question_text"] = "why " * 3000
    path.write_text(json.dumps(records))
    command = ["eval", "--dataset", str(data), "--split", "train", "--out", str(tmp_path / "runs")]
    limits = ["--step-budget", "2", "--max-new-tokens", "6", "--policy", f"model:{model_dir}"]
    done = CliRunner().invoke(app, [*command, *limits])
    (run,) = (tmp_path / "runs").iterdir()
    assert "1 of model:" in done.output
    assert f"--resume {run}" in done.output


def test_a_model_folder_is_played_and_its_libraries_recorded(
    music_dir: Path, model_dir: Path, tmp_path: Path
) -> None:
    done = evaluate(music_dir, tmp_path, model_dir)
    assert done.exit_code == 0, done.output
    (summary,) = json.loads(done.stdout)
    assert summary["n_completed"] == 3
    assert summary["parse_rate"] is not None
    assert summary["environment_share"] < 0.9
    config = json.loads((next(tmp_path.iterdir()) / "config.json").read_text())
    assert {"torch", "transformers"} <= set(config["versions"])


def test_greedy_does_not_depend_on_the_batch(
    music_dir: Path, model_dir: Path, tmp_path: Path
) -> None:
    evaluate(music_dir, tmp_path / "all", model_dir)
    evaluate(music_dir, tmp_path / "one", model_dir, "--batch-size", "1")
    assert steps_in(tmp_path / "all") == steps_in(tmp_path / "one")


def test_guided_decoding_replaces_turns_and_says_so(
    music_dir: Path, model_dir: Path, tmp_path: Path
) -> None:
    """An untrained model repeats itself."""
    plain = json.loads(evaluate(music_dir, tmp_path / "plain", model_dir).stdout)[0]
    done = evaluate(music_dir, tmp_path / "guided", model_dir, "--decoding", "guided")
    guided = json.loads(done.stdout)[0]
    assert plain["replaced"]["rate"] == 0.0 < guided["replaced"]["rate"]
    assert guided["extra_tokens"] > 0
    (run,) = (tmp_path / "guided").iterdir()
    assert json.loads((run / "config.json").read_text())["decoding"] == "guided"


def test_sampling_repeats_with_its_seed(music_dir: Path, model_dir: Path, tmp_path: Path) -> None:
    for name, seed in (("first", "1"), ("again", "1"), ("other", "2")):
        evaluate(
            music_dir, tmp_path / name, model_dir,
            "--temperature", "1", "--samples", "2", "--seed", seed,
        )  # fmt: skip
    assert steps_in(tmp_path / "first") == steps_in(tmp_path / "again")
    assert steps_in(tmp_path / "first") != steps_in(tmp_path / "other")
    assert len(steps_in(tmp_path / "first")) == 6


def test_an_adapter_folder_is_played(music_dir: Path, adapter_dir: Path, tmp_path: Path) -> None:
    done = evaluate(music_dir, tmp_path, adapter_dir)
    assert done.exit_code == 0, done.output


def test_the_base_that_an_adapter_lacks_can_be_named(
    music_dir: Path, model_dir: Path, adapter_dir: Path, tmp_path: Path
) -> None:
    moved = shutil.copytree(adapter_dir, tmp_path / "moved")
    config = json.loads((moved / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = str(tmp_path / "gone")
    (moved / "adapter_config.json").write_text(json.dumps(config))
    lost = evaluate(music_dir, tmp_path / "runs", moved)
    assert lost.exit_code == 2
    assert "gone" in lost.stderr
    named = ("--base", str(model_dir))
    found = evaluate(music_dir, tmp_path / "runs", moved, *named)
    assert found.exit_code == 0, found.output
    play = ["play", "--dataset", str(music_dir), "--policy", f"model:{moved}", "--step-budget", "1"]
    watched = CliRunner().invoke(app, [*play, *named])
    assert watched.exit_code == 0 and "reward" in watched.output, watched.output


def test_base_is_refused_for_what_is_no_adapter(
    music_dir: Path, model_dir: Path, tmp_path: Path
) -> None:
    done = evaluate(music_dir, tmp_path / "runs", tmp_path, "--base", str(model_dir))
    assert done.exit_code == 2
    assert "no adapter" in done.stderr


def test_a_model_can_be_watched_at_play(music_dir: Path, model_dir: Path) -> None:
    done = CliRunner().invoke(
        app,
        [
            "play",
            "--dataset",
            str(music_dir),
            "--policy",
            f"model:{model_dir}",
            "--step-budget",
            "1",
        ],
    )
    assert done.exit_code == 0, done.output
    assert "reward" in done.output


def config_of(out: Path) -> Any:
    (run,) = out.iterdir()
    return json.loads((run / "config.json").read_text())


def test_a_run_records_the_prompt_it_was_played_with(
    music_dir: Path, model_dir: Path, adapter_dir: Path, tmp_path: Path
) -> None:
    for number, (model, options, prompt) in enumerate(
        [(model_dir, [], "v2"), (adapter_dir, [], "v1"), (model_dir, ["--prompt", "v1"], "v1")]
    ):
        out = tmp_path / str(number)
        assert evaluate(music_dir, out, model, *options).exit_code == 0
        config = config_of(out)
        assert (config["prompt"], config["actions"]) == (prompt, "text")


def test_a_model_whose_template_has_no_tools_cannot_call_them(
    music_dir: Path, model_dir: Path, tmp_path: Path
) -> None:
    result = evaluate(music_dir, tmp_path / "out", model_dir, "--actions", "tools")
    assert result.exit_code == 2
    assert "has no tools: play with --actions text" in result.output.replace("\n", " ")
