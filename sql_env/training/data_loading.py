"""What a run begins with: a model with its tokenizer, and the questions as chat prompts."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sql_env.agent.conversation import ChatLayout
from sql_env.agent.loading import load_model_and_tokenizer
from sql_env.models import QuestionRecord
from sql_env.questions import (
    QuestionLoadError,
    check_split_name,
    filter_questions,
    load_questions,
)
from sql_env.training.config import GRPOConfig
from sql_env.training.settings import ConfigError

if TYPE_CHECKING:
    from datasets import Dataset as RowDataset


def load_for_training(config: GRPOConfig) -> tuple[Any, Any]:
    """The model and tokenizer of a run, in the precision and on the device it asks for.

    Raises:
        ChatTemplateError: the tokenizer has no template that the run could play with.
    """
    if config.lora:
        import torch

        # A new adapter begins with what is drawn: that must be the same when a run is resumed.
        torch.manual_seed(config.seed)
        if config.lora.load_in_4bit and find_spec("bitsandbytes") is None:
            raise ConfigError(
                "lora.load_in_4bit is true: bitsandbytes is not installed (pip install "
                "bitsandbytes, or leave it out: the model is then kept in 16 bits)"
            )
    # Weights that are trained stay float32; those under an adapter may be as small as they like.
    kinds = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
    model, tokenizer = load_model_and_tokenizer(
        config.model_name,
        dtype=kinds[config.resolved_precision()] if config.lora else "float32",
        device="cpu" if config.device == "cpu" else None,
        lora=config.lora.to_peft() if config.lora else None,
        load_in_4bit=config.lora is not None and config.lora.load_in_4bit,
    )
    # A template that is of no use is refused now, not after demonstrations are played.
    ChatLayout.of(tokenizer, model, **config.prompt_of_run.for_template, **config.template_kwargs)
    if config.compile_layers:
        for layer in model.get_decoder().layers:
            # One layer is compiled, for any batch and length, and all others share it: seconds,
            # where compiling the model as a whole takes minutes.
            layer.compile(dynamic=True)
    return model, tokenizer


def load_training_questions(config: GRPOConfig, split: str | None = None) -> list[QuestionRecord]:
    """The questions of a split that pass the difficulty filter, in the order of the seed.

    Raises:
        QuestionLoadError: names the path when it cannot be read or nothing passes the filter.
    """
    split = split or config.train_split
    questions = load_splits(config, split)
    chosen = filter_questions(questions, difficulties=config.difficulty_filter)
    if not chosen:
        raise QuestionLoadError(
            f"{config.dataset.questions_path}: no question of {split!r} has the difficulty "
            f"{' or '.join(config.difficulty_filter)} (difficulty_filter); there are "
            f"{', '.join(sorted({record.difficulty for record in questions}))}"
        )
    random.Random(config.seed).shuffle(chosen)
    return chosen


def load_splits(config: GRPOConfig, split: str) -> list[QuestionRecord]:
    """The questions of `train*4+wide`, as `weighted_questions` has them.

    Raises:
        QuestionLoadError: names the path, or the split that is not there.
    """
    path = config.dataset.questions_path
    records = load_questions(path)
    check_splits(records, split, path)
    return weighted_questions(records, split)


def weighted_questions(records: Iterable[QuestionRecord], split: str) -> list[QuestionRecord]:
    """The records of `train+wide`, in their order; of `train*4+wide` those of `train` four times.

    Raises:
        QuestionLoadError: a weight is not a whole number above zero.
    """
    weights = split_weights(split)
    return [record for record in records for _ in range(weights.get(record.split, 0))]


def split_weights(split: str) -> dict[str, int]:
    """`train*4+wide` as {"train": 4, "wide": 1}.

    Raises:
        QuestionLoadError: a weight is not a whole number above zero.
    """
    weights = {}
    for part in split.split("+"):
        name, star, times = part.partition("*")
        if star and not (times.isascii() and times.isdigit() and int(times)):
            raise QuestionLoadError(
                f"split {split!r}: {times!r} is not a number of times; write {name}*4, for example"
            )
        weights[name] = int(times) if star else 1
    return weights


def check_splits(records: Iterable[QuestionRecord], split: str, path: Path) -> None:
    """See that every split that is named has questions: one that is not there is easily missed.

    Raises:
        QuestionLoadError: names the split and those there are.
    """
    there = {record.split for record in records}
    for name in split_weights(split):
        if name not in there:
            check_split_name(name, there)
            raise QuestionLoadError(
                f"{path}: no question has split {name!r}, which {split!r} asks for; there are "
                f"{', '.join(sorted(there)) or 'none'}. Make it (docs/training.md, The data of the "
                "recipe), or ask for others: --set train_split=train --set sft.split=train "
                "--set sft.dagger_split=none"
            )


def load_question_prompts(config: GRPOConfig, split: str | None = None) -> RowDataset:
    """The questions as rows for TRL: `prompt` (chat messages), `question_id`, `difficulty`.

    TRL hands `rollout_func` the messages and nothing else of a row, so the question's id lies on
    the user message too.
    """
    from datasets import Dataset as RowDataset

    system = config.prompt_of_run.system
    return RowDataset.from_list(
        [question_prompt(record, system) for record in load_training_questions(config, split)]
    )


def schedule_prompts(prompts: RowDataset, config: GRPOConfig) -> RowDataset:
    """The rows in the order in which they are trained on, pass after pass, each pass shuffled.

    TRL's own sampler shuffles every pass with a generator that a resumed run starts afresh, so the
    questions would come in another order than without the interruption. One long list does not
    depend on when a process was started. Its last round is filled up with the next pass.
    """
    questions_per_round = config.episodes_per_round // config.num_generations
    if config.max_steps is not None:
        rounds = math.ceil(config.max_steps / config.steps_per_round)
    else:
        rounds = math.ceil(len(prompts) * config.num_train_epochs / questions_per_round)
    order: list[int] = []
    while len(order) < rounds * questions_per_round:
        one_pass = list(range(len(prompts)))
        random.Random(f"{config.seed}/{len(order)}").shuffle(one_pass)
        order += one_pass
    return prompts.select(order[: rounds * questions_per_round])


def question_prompt(record: QuestionRecord, system: str) -> dict[str, Any]:
    """One row of the training set."""
    return {
        "prompt": [
            {"role": "system", "content": system},
            {
                "role": "user",
                "content": record.question_text,
                "question_id": record.question_id,
            },
        ],
        "question_id": record.question_id,
        "difficulty": record.difficulty,
    }
