"""Models from folders, adapters and nowhere; questions as prompts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sql_env.agent.prompts import get_system_prompt
from sql_env.questions import QuestionLoadError, load_questions
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import (
    load_for_training,
    load_question_prompts,
    load_training_questions,
    schedule_prompts,
    split_weights,
    weighted_questions,
)
from sql_env.training.settings import ConfigError

MakeConfig = Callable[..., GRPOConfig]


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
    assert "there are easy, medium" in str(caught.value)


def test_a_missing_question_file_is_named(tmp_path: Path) -> None:
    config = GRPOConfig(questions_path=str(tmp_path / "absent.json"), db_dir=str(tmp_path))
    with pytest.raises(QuestionLoadError, match=r"absent\.json"):
        load_training_questions(config)


def test_a_split_can_count_several_times(tiny_config: MakeConfig) -> None:
    records = load_questions(tiny_config().dataset.questions_path)
    train = [item.question_id for item in records if item.split == "train"]
    evals = [item.question_id for item in records if item.split == "eval"]

    def chosen(split: str) -> list[str]:
        return [item.question_id for item in weighted_questions(records, split)]

    assert sorted(chosen("train*4+eval")) == sorted(train * 4 + evals)
    assert chosen("train+eval") == chosen("eval*1+train") == [item.question_id for item in records]
    assert sorted(chosen("eval*3+unseen*2")) == sorted(evals * 3)


def test_an_old_name_of_a_split_is_answered_by_the_new_one(tiny_config: MakeConfig) -> None:
    with pytest.raises(QuestionLoadError, match="the split 'reserve' is called 'rl_core' now"):
        load_training_questions(tiny_config(), "train+reserve*7")


def test_a_split_may_have_a_weight() -> None:
    assert split_weights("train*4+wide") == {"train": 4, "wide": 1}
    assert split_weights("eval") == {"eval": 1}


@pytest.mark.parametrize("weight", ["x", "0", "", "-1", "1.5", "²", "2*2"])
def test_a_weight_that_is_no_number_of_times(weight: str) -> None:
    with pytest.raises(QuestionLoadError) as caught:
        split_weights(f"wide+train*{weight}")
    assert f"split 'wide+train*{weight}': {weight!r} is not a number of times" in str(caught.value)
    assert "train*4" in str(caught.value)


def test_four_bits_without_bitsandbytes_are_one_line(
    model_dir: Path, tiny_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sql_env.training.data_loading.find_spec", lambda _: None)
    config = tiny_config(model_name=str(model_dir), lora={"load_in_4bit": True})
    with pytest.raises(ConfigError, match=r"^lora.load_in_4bit is true: .*pip install"):
        load_for_training(config)
