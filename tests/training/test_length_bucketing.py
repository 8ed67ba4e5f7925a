from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from trl import GRPOTrainer, SFTConfig, SFTTrainer

from sql_env.training.config import GRPOConfig
from sql_env.training.length_bucketing import BucketedSFTTrainer, by_length, trimmed
from sql_env.training.pipeline import build_trainer


def test_only_columns_that_are_padding_everywhere_go() -> None:
    inputs = {
        "prompt_ids": torch.tensor([[0, 0, 5, 6], [0, 7, 8, 9]]),
        "prompt_mask": torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]]),
        "completion_ids": torch.tensor([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0]]),
        "completion_mask": torch.tensor([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]),
        "tool_mask": torch.tensor([[1, 0, 1, 1, 1], [1, 1, 1, 1, 1]]),
        "advantages": torch.tensor([0.5, -0.5]),
        "num_items_in_batch": torch.tensor(4),
    }
    cut = trimmed(inputs)
    assert cut["prompt_ids"].tolist() == [[0, 5, 6], [7, 8, 9]]
    assert cut["prompt_mask"].tolist() == [[0, 1, 1], [1, 1, 1]]
    assert cut["completion_ids"].tolist() == [[1, 2, 3], [4, 0, 0]]
    assert cut["completion_mask"].sum() == inputs["completion_mask"].sum()
    assert cut["tool_mask"].tolist() == [[1, 0, 1], [1, 1, 1]]
    assert cut["advantages"] is inputs["advantages"]


def test_nothing_goes_where_nothing_is_padding() -> None:
    full = torch.ones((2, 3), dtype=torch.long)
    names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
    inputs = dict.fromkeys(names, full)
    assert all(value.shape == full.shape for value in trimmed(inputs).values())


def test_rows_of_like_length_share_a_micro_batch_and_none_is_lost() -> None:
    def batch(*lengths: int) -> dict[str, Any]:
        mask = torch.tensor([[1] * length + [0] * (5 - length) for length in lengths])
        return {
            "prompt_mask": torch.ones((len(lengths), 2), dtype=torch.long),
            "completion_mask": mask,
            "completion_ids": mask * torch.tensor(lengths)[:, None],
            "advantages": torch.tensor([float(length) for length in lengths]),
            "num_items_in_batch": torch.tensor(15),
            "names": [str(length) for length in lengths],
        }

    first, second = by_length([batch(1, 4), batch(5, 2)])
    assert first["names"] == ["5", "4"]
    assert second["advantages"].tolist() == [2.0, 1.0]
    assert second["completion_ids"].tolist() == [[2, 2, 0, 0, 0], [1, 0, 0, 0, 0]]
    assert first["num_items_in_batch"] == second["num_items_in_batch"] == 15


def test_rows_without_an_advantage_only_fill_up() -> None:
    def batch(*advantages: float) -> dict[str, Any]:
        ones = torch.ones((len(advantages), 2), dtype=torch.long)
        return {
            "prompt_mask": ones,
            "completion_mask": ones,
            "advantages": torch.tensor(advantages),
            "num_items_in_batch": torch.tensor(16),
        }

    dealt = by_length([batch(0.0, 0.5, 1e-9, 0.25), batch(-0.5, 0.0, 0.0, 0.0)], drop_idle=True)
    assert [part["advantages"].tolist() for part in dealt] == [[0.5, 0.25], [-0.5, 0.0]]
    assert dealt[0]["num_items_in_batch"] == 16
    none = by_length([batch(0.0, 0.0), batch(0.0, 0.0)], drop_idle=True)
    assert [len(part["advantages"]) for part in none] == [1, 1]


def test_a_step_moves_the_weights_as_if_all_rows_had_been_computed(
    make_llama: Callable[..., Any],
    tiny_config: Callable[..., GRPOConfig],
    chat_tokenizer: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def after_a_step(drop_idle: bool) -> tuple[torch.Tensor, int]:
        computed = 0

        def deal(batches: list[Any], **_: Any) -> list[Any]:
            nonlocal computed
            dealt = by_length(batches, drop_idle=drop_idle)
            computed = sum(len(part["advantages"]) for part in dealt)
            return dealt

        monkeypatch.setattr("sql_env.training.length_bucketing.by_length", deal)
        config = tiny_config(
            max_steps=1,
            gradient_accumulation_steps=4,
            learning_rate=1e-2,
            trl={"scale_rewards": "none"},
        )
        trainer = build_trainer(config, make_llama(), chat_tokenizer)

        def first_of_its_question(completions: Any, **about: Any) -> list[float]:
            """Nothing for the episodes of the first two questions, so that they are alike."""
            each = config.num_generations
            return [float(row % each == 0 and row >= 2 * each) for row in range(len(completions))]

        trainer.reward_funcs = [first_of_its_question] * len(trainer.reward_funcs)
        trainer.train()
        return torch.cat([p.detach().flatten() for p in trainer.model.parameters()]), computed

    (whole, all_rows), (short, some) = after_a_step(False), after_a_step(True)
    assert some < all_rows
    before = torch.cat([p.detach().flatten() for p in make_llama().parameters()])
    assert (whole - before).abs().max() > 5e-3
    # Adam makes steps of about the learning rate even of gradients that are all but rounding.
    torch.testing.assert_close(short, whole, atol=2e-4, rtol=0)


def test_rows_that_begin_at_the_left_score_as_padded_ones(
    make_llama: Callable[..., Any], tiny_config: Callable[..., GRPOConfig], chat_tokenizer: Any
) -> None:
    trainer = build_trainer(tiny_config(max_steps=1), make_llama(), chat_tokenizer)
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(3, 300, (3, 12), generator=draw)
    mask = torch.tensor([[0] * 4 + [1] * 8, [0] * 1 + [1] * 8 + [0] * 3, [1] * 7 + [0] * 5])
    own = trainer._get_per_token_logps_and_entropies(
        trainer.model, ids, mask, 6, compute_entropy=True
    )
    trls = GRPOTrainer._get_per_token_logps_and_entropies(
        trainer, trainer.model, ids, mask, 6, compute_entropy=True
    )
    counted = mask[:, -6:].bool()
    for ours, theirs in zip(own[:2], trls[:2], strict=True):
        torch.testing.assert_close(ours[counted], theirs[counted], atol=1e-5, rtol=1e-5)
        assert theirs[counted].std() > 0.01  # not all alike


def test_sft_learns_the_same_with_and_without_a_mask(
    make_llama: Callable[..., Any], chat_tokenizer: Any, tmp_path: Path
) -> None:
    rows = Dataset.from_list(
        [
            {"input_ids": ids, "labels": [-100, *ids[1:]]}
            for ids in ([5, 6, 7, 8, 9, 10, 11], [12, 13, 14], [15, 16, 17, 18, 19])
        ]
    )
    losses = []
    for kind in (SFTTrainer, BucketedSFTTrainer):
        arguments = SFTConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=3,
            num_train_epochs=3,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
        )
        trainer = kind(
            model=make_llama(), args=arguments, train_dataset=rows, processing_class=chat_tokenizer
        )
        trainer.train()
        history = [entry for entry in trainer.state.log_history if "loss" in entry]
        losses.append([entry["loss"] for entry in history])
        assert history[-1]["num_tokens"] == 3 * 15
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][0] != losses[0][-1]


def mismatch_of_a_step(trainer: Any) -> dict[str, float]:
    trainer.train()
    row = next(row for row in trainer.state.log_history if "reward" in row)
    return {name: row[f"sampling/{name}"] for name in MISMATCH}


MISMATCH = (
    *("sampling_logp_difference/mean", "sampling_logp_difference/max"),
    "importance_sampling_ratio/mean",
)


def test_sampling_and_training_agree_in_fp32_and_differ_in_bf16(
    make_llama: Callable[..., Any], tiny_config: Callable[..., GRPOConfig], chat_tokenizer: Any
) -> None:
    exact = mismatch_of_a_step(
        build_trainer(tiny_config(max_steps=1), make_llama(), chat_tokenizer)
    )
    assert exact["sampling_logp_difference/max"] < 1e-4
    assert exact["importance_sampling_ratio/mean"] == pytest.approx(1.0, abs=1e-4)
    config = tiny_config(max_steps=1, precision="bf16")  # the engine plays in fp32 on a CPU
    rounded = mismatch_of_a_step(build_trainer(config, make_llama(), chat_tokenizer))
    assert 1e-4 < rounded["sampling_logp_difference/mean"] < 0.1


@pytest.mark.parametrize(("corrected", "factor"), [(True, 1.1), (False, 1.0)])
def test_a_token_sampled_too_rarely_weighs_more(
    corrected: bool,
    factor: float,
    make_llama: Callable[..., Any],
    tiny_config: Callable[..., GRPOConfig],
    chat_tokenizer: Any,
) -> None:
    trl = {"vllm_importance_sampling_correction": corrected}
    trainer = build_trainer(tiny_config(max_steps=1, trl=trl), make_llama(), chat_tokenizer)
    trainer.reward_funcs = [
        lambda completions, **_: [float(row % 2) for row in range(len(completions))]
    ] * len(trainer.reward_funcs)
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = trainer._generate_and_score_completions(next(iter(trainer.get_train_dataloader())))

    def gradient(shift: float) -> torch.Tensor:
        trainer.model.zero_grad()
        shifted = batch["sampling_per_token_logps"] - shift
        trainer.compute_loss(
            trainer.model, {**batch, "sampling_per_token_logps": shifted}
        ).backward()
        return torch.cat([p.grad.flatten() for p in trainer.model.parameters()])

    once, shifted = gradient(0.0), gradient(math.log(1.1))
    assert once.abs().max() > 0
    torch.testing.assert_close(shifted, factor * once, rtol=1e-3, atol=1e-6)
