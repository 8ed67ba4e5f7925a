"""Models from folders, adapters and nowhere; questions as prompts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sql_env.agent.loading import ModelLoadError, load_model_and_tokenizer
from sql_env.agent.prompts import get_system_prompt
from sql_env.questions import QuestionLoadError, load_questions
from sql_env.training.config import GRPOConfig, LoraSettings
from sql_env.training.data_loading import (
    load_for_training,
    load_question_prompts,
    load_training_questions,
    schedule_prompts,
    split_weights,
    weighted_questions,
)

MakeConfig = Callable[..., GRPOConfig]


@pytest.fixture(scope="session")
def model_dir(
    tmp_path_factory: pytest.TempPathFactory, make_llama: Callable[..., Any], chat_tokenizer: Any
) -> Path:
    folder = tmp_path_factory.mktemp("model")
    make_llama().save_pretrained(folder)
    chat_tokenizer.save_pretrained(folder)
    return folder


def test_a_folder_gives_a_model_and_its_tokenizer(model_dir: Path, chat_tokenizer: Any) -> None:
    model, tokenizer = load_model_and_tokenizer(str(model_dir))
    assert str(model.dtype) == "torch.float32"
    assert tokenizer.chat_template == chat_tokenizer.chat_template
    assert tokenizer.padding_side == "left"


def test_an_adapter_folder_gives_its_base_with_the_adapter_on_it(
    model_dir: Path, tmp_path: Path
) -> None:
    import torch

    model, tokenizer = load_model_and_tokenizer(str(model_dir), lora=LoraSettings(r=2))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)

    again, _ = load_model_and_tokenizer(str(tmp_path))
    ids = torch.tensor([[5, 6, 7]])
    base, _ = load_model_and_tokenizer(str(model_dir))
    assert torch.allclose(again(ids).logits, model(ids).logits)
    assert not torch.allclose(again(ids).logits, base(ids).logits)
    trained = [name for name, item in again.named_parameters() if item.requires_grad]
    assert trained
    assert all("lora" in name for name in trained)


def test_full_training_keeps_float32_weights_and_an_adapters_base_may_be_smaller(
    model_dir: Path, tiny_config: MakeConfig
) -> None:
    config = tiny_config(model_name=str(model_dir), precision="bf16")
    assert str(load_for_training(config)[0].dtype) == "torch.float32"
    with_adapter = tiny_config(model_name=str(model_dir), precision="bf16", lora={"r": 2})
    kinds = {
        ("adapter" if "lora" in name else "base"): str(item.dtype)
        for name, item in load_for_training(with_adapter)[0].named_parameters()
    }
    assert kinds == {"base": "torch.bfloat16", "adapter": "torch.float32"}


def test_a_hub_id_that_cannot_be_had_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelLoadError) as caught:
        load_model_and_tokenizer("nobody/no-such-model")
    message = str(caught.value)
    for part in ("nobody/no-such-model", "folder of that name", "hub", "smollm2-135m"):
        assert part in message


@pytest.mark.parametrize("name", ["/no/such/folder", "./nowhere", "a/b/c"])
def test_a_path_that_is_not_there_is_no_hub_id(name: str) -> None:
    with pytest.raises(ModelLoadError, match="no such folder"):
        load_model_and_tokenizer(name)


def test_a_misspelt_folder_is_not_asked_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoints" / "small").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelLoadError, match=r"no such folder .*; checkpoints holds small"):
        load_model_and_tokenizer("checkpoints/smal")


def test_a_run_folder_points_to_the_models_in_it(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(ModelLoadError, match="holds models in model"):
        load_model_and_tokenizer(str(tmp_path))


def test_a_damaged_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ModelLoadError, match="tried the folder"):
        load_model_and_tokenizer(str(tmp_path))


def test_prompts_carry_the_question_and_its_id(tiny_config: MakeConfig) -> None:
    rows = load_question_prompts(tiny_config())
    assert len(rows) == 6
    system, user = rows[0]["prompt"]
    assert system["content"] == get_system_prompt()
    assert user["question_id"] == rows[0]["question_id"]
    assert "?" in user["content"]


def test_the_difficulty_filter_holds(tiny_config: MakeConfig) -> None:
    rows = load_question_prompts(tiny_config(difficulty_filter=["medium"]))
    assert set(rows["difficulty"]) == {"medium"}
    assert len(rows) == 2


def test_the_seed_sets_the_order(tiny_config: MakeConfig) -> None:
    def order(seed: int) -> list[str]:
        return [item.question_id for item in load_training_questions(tiny_config(seed=seed))]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == sorted(order(2))


def test_max_questions_limits_training_only(tiny_config: MakeConfig) -> None:
    config = tiny_config(max_questions=2)
    assert len(load_training_questions(config)) == 2
    assert len(load_training_questions(config, "eval")) == 6


def test_passes_are_shuffled_anew_and_the_last_round_is_filled(tiny_config: MakeConfig) -> None:
    config = tiny_config(num_train_epochs=1.5)  # two questions a round, six in all
    ids = schedule_prompts(load_question_prompts(config), config)["question_id"]
    assert len(ids) == 10
    assert set(ids[:6]) == {f"train_{number}" for number in range(6)}
    assert ids[6:] != ids[:4]


def test_a_longer_run_begins_like_a_shorter_one(tiny_config: MakeConfig) -> None:
    def order(steps: int) -> list[str]:
        config = tiny_config(max_steps=steps)
        ids: list[str] = schedule_prompts(load_question_prompts(config), config)["question_id"]
        return list(ids)

    assert len(order(20)) == 40
    assert order(20)[:14] == order(7)


def test_a_round_may_ask_more_questions_than_there_are(tiny_config: MakeConfig) -> None:
    config = tiny_config(per_device_train_batch_size=16)
    assert len(schedule_prompts(load_question_prompts(config), config)) == 8


def test_no_question_left_names_the_path_and_what_there_is(tiny_config: MakeConfig) -> None:
    config = tiny_config(difficulty_filter=["extra"])
    with pytest.raises(QuestionLoadError) as caught:
        load_training_questions(config)
    assert str(config.questions_path) in str(caught.value)
    assert "12 questions in the splits eval, train" in str(caught.value)


def test_a_missing_question_file_is_named(tmp_path: Path) -> None:
    config = GRPOConfig(questions_path=str(tmp_path / "absent.json"), db_dir=str(tmp_path))
    with pytest.raises(QuestionLoadError, match=r"absent\.json"):
        load_training_questions(config)


def test_a_split_can_count_several_times(tiny_config: MakeConfig) -> None:
    records = load_questions(tiny_config().dataset.questions_path)
    train = [item.question_id for item in records if item.split == "train"]
    evals = [item.question_id for item in records if item.split == "eval"]

    def chosen(split: str, *difficulties: str) -> list[str]:
        return [
            item.question_id for item in weighted_questions(records, split, difficulties or None)
        ]

    assert sorted(chosen("train*4+eval")) == sorted(train * 4 + evals)
    assert chosen("train+eval") == chosen("eval*1+train") == [item.question_id for item in records]
    assert len(chosen("train*2", "easy")) == 2 * len(chosen("train", "easy")) > 0
    assert sorted(chosen("eval*3+unseen*2")) == sorted(evals * 3)


def test_weights_of_splits() -> None:
    assert split_weights("train*4+wide") == {"train": 4, "wide": 1}
    assert split_weights("eval") == {"eval": 1}


@pytest.mark.parametrize("weight", ["x", "0", "", "-1", "1.5", "²", "2*2"])
def test_a_weight_that_is_no_number_of_times(weight: str) -> None:
    with pytest.raises(QuestionLoadError) as caught:
        split_weights(f"wide+train*{weight}")
    assert f"split 'wide+train*{weight}': {weight!r} is not a number of times" in str(caught.value)
    assert "train*4" in str(caught.value)
