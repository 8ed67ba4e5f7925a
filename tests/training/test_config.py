"""`GRPOConfig`: its defaults, its checks, its files and what TRL makes of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from sql_env.core.reward import RewardConfig
from sql_env.questions import Dataset
from sql_env.training.config import GRPOConfig
from sql_env.training.presets import PRESETS
from sql_env.training.settings import ConfigError


def test_the_defaults_are_the_published_ones() -> None:
    published = {
        "model_name": "Qwen/Qwen3-1.7B",
        "max_new_tokens": 256,
        "num_train_epochs": 1,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "learning_rate": 5e-6,
        "num_generations": 4,
        "step_budget": 10,
        "difficulty_filter": ["easy", "medium"],
        "seed": 42,
        "logging_steps": 10,
    }
    config = GRPOConfig()
    assert {name: getattr(config, name) for name in published} == published


def test_without_paths_the_embedded_data_is_used() -> None:
    assert GRPOConfig().dataset == Dataset.embedded()


def test_with_paths_those_are_used(tmp_path: Path) -> None:
    config = GRPOConfig(questions_path=str(tmp_path / "q"), db_dir=str(tmp_path / "d"))
    assert config.dataset == Dataset(tmp_path / "q", tmp_path / "d")


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("learning_rate", 0, "more than 0.0"),
        ("learning_rate", "quick", "a number"),
        ("learning_rate", float("nan"), "a number"),
        ("num_generations", 1, "2 or more"),
        ("num_generations", 2.5, "a whole number"),
        ("num_generations", True, "a whole number"),
        ("seed", -1, "0 or more"),
        ("step_budget", 0, "1 or more"),
        ("difficulty_filter", ["easy", "trivial"], "one of easy, medium, hard, extra"),
        ("difficulty_filter", [], "at least one of"),
        ("reward", "sparse", "one of dense, binary"),
        ("end_on_repeat", "maybe", "true or false"),
        ("trl", 3, "trl.field=value"),
        ("model_name", 7, "text"),
        ("lora", 16, "lora.field=value"),
        ("max_new_tokens", 4096, "less than max_context_tokens (4096)"),
    ],
)
def test_a_bad_value_names_field_value_and_what_is_allowed(
    field: str, value: object, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        GRPOConfig(**{field: value})  # type: ignore[arg-type]
    message = str(caught.value)
    assert field in message
    assert allowed in message
    assert str(value[-1] if isinstance(value, list) and value else value) in message


def test_groups_must_fill_the_round() -> None:
    with pytest.raises(ConfigError, match=r"num_generations is 3.*divisor of the 8 episodes"):
        GRPOConfig(num_generations=3)


def test_two_processes_share_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    config = GRPOConfig(
        per_device_train_batch_size=1, gradient_accumulation_steps=1, num_generations=2
    )
    assert config.episodes_per_round == 2
    with pytest.raises(ConfigError, match=r"retry_groups is 1: every process needs whole groups"):
        dataclasses.replace(config, retry_groups=1)


def test_one_path_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match="questions_path is set alone"):
        GRPOConfig(questions_path="questions.json")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_holds_together(name: str) -> None:
    assert GRPOConfig.preset(name) != GRPOConfig()


def test_the_colab_preset_fits_a_free_gpu() -> None:
    config = GRPOConfig.preset("colab")
    assert (config.model_name, config.num_generations, config.step_budget) == (
        "Qwen/Qwen3-0.6B",
        8,
        10,
    )
    assert config.to_trl().gradient_checkpointing and config.to_trl_sft("").gradient_checkpointing


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(ConfigError, match="'laptop': allowed is one of colab, cpu, gpu"):
        GRPOConfig.preset("laptop")


FILES = {
    "run.toml": "learning_rate = 1e-5\nseed = 7\n[sft]\nnum_train_epochs = 3\n[lora]\nr = 8\n",
    "run.yaml": "learning_rate: 1e-5\nseed: 7\nsft:\n  num_train_epochs: 3\nlora: {r: 8}\n",
    "run.json": '{"learning_rate": 1e-5, "seed": 7, "sft": {"num_train_epochs": 3}, '
    '"lora": {"r": 8}}',
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_every_kind_say_the_same(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name])
    config = GRPOConfig.from_file(tmp_path / name)
    assert (config.learning_rate, config.seed, config.sft.num_train_epochs) == (1e-5, 7, 3)
    assert config.lora is not None
    assert config.lora.r == 8


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("run.toml", "learning_rat = 1", "Did you mean learning_rate"),
        ("run.toml", "seed = ", "run.toml: Invalid"),
        ("run.yaml", "- 1", "found list"),
        ("run.yaml", "a: [", "run.yaml"),
        ("run.ini", "[a]", "use .toml, .yaml or .json"),
        ("run.toml", "[sft]\nepochs = 1", "no setting 'epochs'"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_named(
    name: str, text: str, complaint: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=r"run\.") as caught:
        GRPOConfig.from_file(tmp_path / name)
    assert complaint in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read"):
        GRPOConfig.from_file(tmp_path / "absent.toml")


def test_settings_win_over_the_file_and_the_file_over_the_preset(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("seed = 1\nmax_steps = 5\n[sft]\ndagger_weight = 2\n")
    config = GRPOConfig.load(
        "gpu", tmp_path / "run.toml", ["seed=2", "sft.learning_rate=1e-3", "lora.r=4"]
    )
    assert (config.seed, config.max_steps) == (2, 5)
    assert config.num_generations == PRESETS["gpu"]["num_generations"]
    assert (config.sft.dagger_weight, config.sft.learning_rate) == (2, 1e-3)
    assert config.sft.num_train_epochs == PRESETS["gpu"]["sft"]["num_train_epochs"]
    assert config.lora is not None
    assert config.lora.r == 4


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("difficulty_filter=easy,hard", "difficulty_filter", ["easy", "hard"]),
        ('difficulty_filter=["extra"]', "difficulty_filter", ["extra"]),
        ("max_steps=none", "max_steps", None),
        ("end_on_repeat=true", "end_on_repeat", True),
        ("model_name=some/model", "model_name", "some/model"),
        ("trl.temperature = 0.7", "temperature", 0.7),
    ],
)
def test_a_setting_becomes_its_fields_type(text: str, field: str, expected: object) -> None:
    assert getattr(GRPOConfig.load(settings=[text]), field) == expected


def test_a_setting_without_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="write field=value"):
        GRPOConfig.load(settings=["seed"])


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    config = GRPOConfig.preset("colab", seed=3)
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    assert GRPOConfig.from_file(tmp_path / "config.json") == config


def test_a_config_cannot_change_under_a_run() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        GRPOConfig().seed = 1  # type: ignore[misc]


def test_the_binary_reward_pays_only_the_answer() -> None:
    assert GRPOConfig(reward="binary").reward_config == RewardConfig.binary()


def test_trl_gets_the_same_run(tmp_path: Path) -> None:
    config = GRPOConfig.preset("cpu", output_dir=str(tmp_path), max_steps=7)
    theirs = config.to_trl()
    for name in (
        "learning_rate",
        "num_generations",
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "temperature",
        "max_steps",
        "seed",
        "logging_steps",
        "save_steps",
        "output_dir",
    ):
        assert getattr(theirs, name) == getattr(config, name), name
    assert theirs.generation_batch_size == config.episodes_per_round
    assert theirs.report_to == []
    assert not theirs.bf16
    assert theirs.reward_weights == [1.0, 0.15, 1.0]
    # Of the episode, by which dr_grpo divides; a turn has a limit of its own.
    assert theirs.max_completion_length == config.max_context_tokens
    assert theirs.max_tool_calling_iterations == config.step_budget
