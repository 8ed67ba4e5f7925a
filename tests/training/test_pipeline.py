"""Real GRPO runs on a tiny model: metrics, transcripts, repeatability, running out of memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_for_training, load_training_questions
from sql_env.training.pipeline import (
    TrainingMemoryError,
    build_trainer,
    evaluate_model,
    run_training_with_metrics,
    sample_random_baseline,
)
from sql_env.training.run_log import RunLog
from sql_env.training.settings import ConfigError

MakeConfig = Callable[..., GRPOConfig]
CLOCKS = ("step_time", "seconds/")


@pytest.fixture
def config(tiny_config: MakeConfig, sft_model_dir: Path) -> GRPOConfig:
    """Four steps of eight episodes, on a model that succeeds now and then."""
    return tiny_config(
        model_name=str(sft_model_dir),
        max_new_tokens=16,
        step_budget=4,
        num_generations=4,
        per_device_train_batch_size=8,
        max_steps=4,
        save_steps=2,
    )


def run(config: GRPOConfig, callbacks: Any = ()) -> list[Any]:
    model, tokenizer = load_for_training(config)
    trainer = build_trainer(config, model, tokenizer, callbacks=callbacks)
    return run_training_with_metrics(trainer, config)


def without_clocks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if not k.startswith(CLOCKS)} for row in rows]


def test_the_random_baseline_plays_eight_episodes(tiny_config: MakeConfig) -> None:
    episodes = sample_random_baseline(tiny_config()).episodes
    again = sample_random_baseline(tiny_config()).episodes
    assert len(episodes) == 8
    assert [episode.steps for episode in episodes] == [episode.steps for episode in again]


def test_a_run_trains_the_weights_and_keeps_what_happened(config: GRPOConfig) -> None:
    import torch

    before = load_for_training(config)[0].state_dict()
    points = run(config)
    log = RunLog(config.output_dir)
    rows = log.metrics()

    assert [point.step for point in points] == [1, 2, 3, 4]
    assert points == [(row["step"], row["reward"]) for row in rows]
    assert all(row["phase"] == "grpo" for row in rows)
    assert any(row["reward_std"] > 0 for row in rows), "no episode differed from another"
    after = load_for_training(replace(config, model_name=f"{config.output_dir}/model"))[0]
    changed = [
        name for name, weight in after.state_dict().items() if not torch.equal(weight, before[name])
    ]
    assert changed

    episodes = log.transcripts()
    assert [row["step"] for row in episodes] == [step for step in (1, 2, 3, 4) for _ in range(8)]
    for row in rows:
        played = [item for item in episodes if item["step"] == row["step"]]
        share = sum(item["correct"] for item in played) / len(played)
        assert row["rewards/reward_correctness/mean"] == pytest.approx(share)
        reward = sum(sum(sum(step["reward"]) for step in item["steps"]) for item in played)
        assert row["reward"] == pytest.approx(reward / len(played), abs=1e-4)
        assert len({item["question_id"] for item in played}) == 2, "two groups of four"
    assert log.last_checkpoint() == log.path / "checkpoint-4"
    assert log.config() == config


def test_the_same_seed_gives_the_same_metrics_twice(config: GRPOConfig, tmp_path: Path) -> None:
    logs = []
    for name in ("first", "second"):
        again = replace(config, output_dir=str(tmp_path / name), max_steps=3)
        run(again)
        logs.append(RunLog(again.output_dir))
    first, second = logs
    assert without_clocks(first.metrics()) == without_clocks(second.metrics())
    assert any(row["grad_norm"] > 0 for row in first.metrics()), "nothing was learned"


def test_running_out_of_memory_says_what_to_lower_and_keeps_the_checkpoint(
    config: GRPOConfig,
) -> None:
    import torch
    from transformers import TrainerCallback

    class Hog(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 3:
                torch.empty(2**50)  # more than any machine has

    with pytest.raises(TrainingMemoryError) as caught:
        run(config, [Hog()])
    message = str(caught.value)
    for part in (
        "per_device_train_batch_size (now 8",
        "num_generations (now 4)",
        "max_context_tokens (now 1024)",
        "max_new_tokens (now 16)",
        "checkpoint-2, is whole",
    ):
        assert part in message
    assert RunLog(config.output_dir).last_checkpoint() is not None


def test_greedy_training_is_refused(config: GRPOConfig) -> None:
    model, tokenizer = load_for_training(config)
    with pytest.raises(ConfigError, match=r"trl\.temperature is 0\.0"):
        build_trainer(replace(config, trl={"temperature": 0.0}), model, tokenizer)


def test_evaluating_leaves_model_and_randomness_as_they_were(config: GRPOConfig) -> None:
    import torch

    model, tokenizer = load_for_training(config)
    model.train()
    state = torch.random.get_rng_state()
    questions = load_training_questions(config, "eval")
    result = evaluate_model(config, model, tokenizer, questions, temperature=1.0)
    assert [episode.question_id for episode in result.episodes] == [
        record.question_id for record in questions
    ]
    assert model.training
    assert torch.equal(state, torch.random.get_rng_state())


def test_an_adapter_can_be_trained(config: GRPOConfig) -> None:
    adapter = replace(config, lora={"r": 4}, max_steps=1)  # type: ignore[arg-type]
    run(adapter)
    folder = Path(config.output_dir) / "model"
    assert (folder / "adapter_config.json").is_file()
    model, _ = load_for_training(replace(config, model_name=str(folder)))
    assert model.peft_config


def test_an_adapter_on_four_bits_can_be_trained(config: GRPOConfig) -> None:
    pytest.importorskip("bitsandbytes")
    import torch

    from sql_env.training.sft import train_sft

    settings = {"r": 4, "load_in_4bit": True}
    sft = {"trl": {"max_steps": 1}}
    first = replace(config, lora=settings, sft=sft, max_steps=1)  # type: ignore[arg-type]
    model, tokenizer = load_for_training(first)
    assert any(type(part).__name__ == "Linear4bit" for part in model.modules())
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    train_sft(first, model, tokenizer)
    run_training_with_metrics(build_trainer(first, model, tokenizer), first)
    moved = {n for n, w in model.named_parameters() if not torch.equal(w, before[n])}
    assert moved and all("lora" in name for name in moved)
    # It goes on from the adapter, and plays without bitsandbytes too.
    folder = str(Path(config.output_dir) / "model")
    again, _ = load_for_training(replace(first, model_name=folder))
    assert any(type(part).__name__ == "Linear4bit" for part in again.modules())
    plain, _ = load_for_training(replace(config, model_name=folder))
    questions = load_training_questions(config, "eval")[:1]
    assert evaluate_model(config, plain, tokenizer, questions).episodes


def test_an_evaluation_is_not_cut_short_by_repetitions(
    tiny_config: Callable[..., GRPOConfig], make_llama: Callable[..., Any], chat_tokenizer: Any
) -> None:
    """A model without weights says the same in every turn."""
    config = tiny_config(step_budget=4, max_new_tokens=2, end_on_repeat=True)
    model = make_llama()
    for parameter in model.parameters():
        parameter.data.zero_()
    questions = load_training_questions(config, "eval")[:2]
    result = evaluate_model(config, model, chat_tokenizer, questions)
    assert [len(episode.steps) for episode in result.episodes] == [4, 4]
    assert {len({step.argument for step in episode.steps}) for episode in result.episodes} == {1}
    assert "repeated" not in {episode.stop_reason for episode in result.episodes}


def test_an_evaluation_beside_a_trainer_takes_the_memory_of_its_rollouts(
    config: GRPOConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the notebook, whose trainer is still there when the model is looked at."""
    from sql_env.agent.model_policy import ModelPolicy
    from sql_env.training import rollout

    adapter = replace(config, lora={"r": 4}, max_steps=1)  # type: ignore[arg-type]
    model, tokenizer = load_for_training(adapter)
    trainer = build_trainer(adapter, model, tokenizer)
    run_training_with_metrics(trainer, adapter)
    played = trainer.rollout_func._policy._generator
    assert played._cache.size and played._copy is not None
    held: list[tuple[bool, int]] = []
    make = ModelPolicy.__init__

    def noted(policy: ModelPolicy, generator: Any, *arguments: Any, **options: Any) -> None:
        held.append((generator._copy is played._copy, played._cache.size))
        make(policy, generator, *arguments, **options)

    def room(*_: Any) -> None:
        held.append((True, played._cache.size))

    monkeypatch.setattr(ModelPolicy, "__init__", noted)
    monkeypatch.setattr(rollout, "conversations_that_fit", room)
    questions = load_training_questions(config, "eval")
    evaluate_model(adapter, model, tokenizer, questions)
    assert held == [(True, 0)] * 2, "room is counted, and a policy is made"
    # The next round of the same trainer.
    prompts = [
        [{"role": "user", "content": "", "question_id": one.question_id}] for one in questions
    ]
    assert trainer.rollout_func(prompts, trainer)["completion_ids"]
    assert played._cache.size
