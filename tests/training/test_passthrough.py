"""TRL's own fields through `trl: {…}`: they reach TRL's arguments, and TRL's trainer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from sql_env.cli import app
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_for_training
from sql_env.training.pipeline import build_trainer, run_training_with_metrics
from sql_env.training.run_log import RunLog
from sql_env.training.settings import ConfigError
from sql_env.training.sft import train_sft

MakeConfig = Callable[..., GRPOConfig]


@pytest.mark.parametrize(
    ("setting", "field", "value"),
    [
        ("trl.epsilon_high=0.28", "epsilon_high", 0.28),
        ("trl.beta=1e-3", "beta", 1e-3),
        ("trl.scale_rewards=none", "scale_rewards", "none"),
        ("trl.loss_type=dr_grpo", "loss_type", "dr_grpo"),
        ("trl.optim=adafactor", "optim", "adafactor"),
        ("trl.push_to_hub=true", "push_to_hub", True),
        ("trl.hub_model_id=me/model", "hub_model_id", "me/model"),
        ("trl.reward_weights=[1,0,0]", "reward_weights", [1, 0, 0]),
        ("trl.mask_truncated_completions=true", "mask_truncated_completions", True),
    ],
)
def test_a_field_of_trl_reaches_it(setting: str, field: str, value: object) -> None:
    theirs = GRPOConfig.load("cpu", settings=[setting]).to_trl()
    assert getattr(theirs, field) == value


def test_fields_of_sft_trl_reach_sfts_configuration() -> None:
    config = GRPOConfig.load("cpu", settings=["sft.trl.weight_decay=0.1", "sft.trl.save_steps=7"])
    theirs = config.to_trl_sft("demonstrations")
    assert (theirs.weight_decay, theirs.save_steps) == (0.1, 7)
    assert theirs.learning_rate == config.sft.learning_rate


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("trl.epsilon_hihg=1", "no field 'epsilon_hihg': the nearest field is trl.epsilon_high"),
        ("trl.epsilon_high=wide", "trl.epsilon_high is 'wide': allowed is a number"),
        ("trl.log_completions=often", "trl.log_completions is 'often': allowed is true or false"),
        ("trl.learning_rate=1", "trl.learning_rate: set learning_rate instead"),
        ("trl.max_completion_length=1", "set max_context_tokens instead"),
        ("trl.bf16=true", "trl.bf16: set precision instead"),
        ("trl.shuffle_dataset=true", "trl.shuffle_dataset: the run depends on False"),
        ("trl.top_k=5", "trl.top_k: only vLLM samples so"),
        ("trl.optim=paged_adamw_8bit", "'paged_adamw_8bit': bitsandbytes is not installed"),
        ("trl.use_vllm=true", "trl.use_vllm is true: vLLM is not installed"),
        ("trl.report_to=wandb", "trl.report_to is 'wandb', which is not installed"),
        ("trl.report_to=paper", "trl.report_to is 'paper': allowed is none or one of"),
        ("trl.save_total_limit=1", "trl.save_total_limit is 1: allowed is 2 or more"),
        ("trl.optim=magic", "trl: magic is not a valid OptimizerNames"),
        ("trl.temperature=0", "trl.temperature is 0.0: allowed is more than 0"),
        ("sft.trl.learning_rate=1", "sft.trl.learning_rate: set sft.learning_rate instead"),
        ("sft.trl.weight_decy=1", "the nearest field is sft.trl.weight_decay"),
        ("trl=7", "trl is 7: allowed is fields such as trl.field=value"),
    ],
)
def test_what_trl_would_not_take_is_one_line(setting: str, complaint: str, tmp_path: Path) -> None:
    command = "sft" if setting.startswith("sft") else "train"
    run = ["--preset", "cpu", "--set", setting, "--out", str(tmp_path / "run")]
    outcome = CliRunner().invoke(app, [command, *run])
    assert outcome.exit_code == 2, outcome.output
    (line,) = [line for line in outcome.output.splitlines() if "error" in line]
    assert complaint in line
    assert not (tmp_path / "run").exists()


def test_trls_trainers_run_with_fields_of_their_own(
    tiny_config: MakeConfig, sft_model_dir: Path
) -> None:
    """Another optimiser, another loss and a schedule, in both stages."""
    config = tiny_config(
        model_name=str(sft_model_dir),
        max_steps=2,
        trl={
            "optim": "adafactor",
            "loss_type": "dr_grpo",
            "epsilon_high": 0.28,
            "lr_scheduler_type": "linear",
        },
        sft={"trl": {"optim": "sgd", "max_steps": 1}},
    )
    model, tokenizer = load_for_training(config)
    train_sft(config, model, tokenizer)
    seen: list[Any] = []
    from transformers import TrainerCallback

    class Look(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, optimizer: Any, lr_scheduler: Any, **__: Any) -> None:
            seen.append((type(optimizer.optimizer).__name__, lr_scheduler.get_last_lr()[0]))

    trainer = build_trainer(config, model, tokenizer, callbacks=[Look()])
    run_training_with_metrics(trainer, config)
    assert (trainer.epsilon_low, trainer.epsilon_high) == (0.2, 0.28)
    assert trainer.max_completion_length == config.max_context_tokens  # by which dr_grpo divides
    assert [name for name, _ in seen] == ["Adafactor", "Adafactor"]
    assert seen[0][1] > seen[1][1]
    assert len(RunLog(config.output_dir).metrics()) == 2


def test_a_conflict_is_found_when_the_config_is_used_in_python(tiny_config: MakeConfig) -> None:
    with pytest.raises(ConfigError, match=r"^trl\.seed: set seed instead$"):
        tiny_config(trl={"seed": 3}).to_trl()


def test_the_hub_gets_the_model_and_the_run_stays_as_it_was(
    tiny_config: MakeConfig, sft_model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the network is replaced: what transformers would send is looked at."""
    sent: list[set[str]] = []

    class Hub:
        def create_repo(self, name: str, **_: Any) -> Any:
            return SimpleNamespace(repo_id=name)

        def upload_folder(self, *, folder_path: str, **_: Any) -> Any:
            sent.append({path.name for path in Path(folder_path).rglob("*")})
            return Future()

    monkeypatch.setattr("transformers.trainer.hf_api", Hub)
    config = tiny_config(
        model_name=str(sft_model_dir),
        max_steps=1,
        save_steps=1,
        trl={"push_to_hub": True, "hub_model_id": "me/model", "hub_always_push": True},
    )
    trainer = build_trainer(config, *load_for_training(config))
    monkeypatch.setattr(trainer, "_finish_current_push", lambda: None)  # waits for the network
    run_training_with_metrics(trainer, config)
    assert len(sent) >= 2  # a checkpoint, and the end
    for names in sent:
        assert {"model.safetensors", "config.json", "tokenizer.json", "sql_env.json"} <= names
        assert not {"transcripts.jsonl", "COMPLETE"} & names
    assert RunLog(config.output_dir).config() == config
