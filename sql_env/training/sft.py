"""Supervised fine-tuning (SFT) on demonstrations, before learning from reward.

A small model that has never seen the game earns nothing, and GRPO learns nothing from nothing. SFT
shows it whole multi-turn episodes, with loss on the model's own turns only (single-turn examples
teach it to DESCRIBE and stop there). A second stage (DAgger) adds expert corrections of the errors
that the model makes by itself.

    sql-env sft --preset gpu --dataset data/spider --out runs/sft
    sql-env sft --resume runs/sft
"""

from __future__ import annotations

import dataclasses
import gc
import json
import random
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sql_env.agent.conversation import ChatLayout, Conversation
from sql_env.agent.parsing import parse_model_output
from sql_env.agent.prompts import Prompt, tool_call
from sql_env.environment import SQLEnvironment
from sql_env.models import QuestionRecord
from sql_env.questions import QuestionLoadError
from sql_env.training.config import GRPOConfig, is_main
from sql_env.training.dagger import corrections
from sql_env.training.data_loading import load_splits
from sql_env.training.demonstrations import Demonstration, Demonstrations, Turn
from sql_env.training.run_log import (
    CORRECTIONS_FILE,
    DAGGER,
    DEMONSTRATIONS,
    DEMONSTRATIONS_FILE,
)
from sql_env.training.settings import ConfigError

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

IGNORED = -100  # the label that carries no loss


def train_sft(
    config: GRPOConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    callbacks: Sequence[TrainerCallback] = (),
    resume: bool = False,
) -> list[dict[str, Any]]:
    """Fine-tune `model` in place; returns the log entries of the stages, one after the other.

    What each stage adds to the demonstrations is kept in `config.output_dir` before training.

    Args:
        config: `config.sft` says how long and on what.
        callbacks: passed to TRL's trainer.
        resume: go on with what a killed run left in `config.output_dir`: on the same episodes,
            from the last whole checkpoint.
    """
    settings = config.sft
    folder = Path(config.output_dir)
    # A split that is not there is refused now, not after hours of SFT.
    to_play = (
        load_splits(config, settings.dagger_split or settings.split)
        if settings.dagger_epochs
        else []
    )
    if not resume and is_main():
        _clear(folder)

    def first() -> list[Demonstration]:
        if settings.demonstrations is not None:
            return load_demonstrations(settings.demonstrations)
        return play_demonstrations(config, load_splits(config, settings.split))

    shown = _kept(folder / DEMONSTRATIONS_FILE, first, resume)
    log = train_on(shown, DEMONSTRATIONS, config, model, tokenizer, callbacks, resume=resume)
    if settings.dagger_epochs:
        corrections = _kept(
            folder / CORRECTIONS_FILE,
            lambda: correct_own_errors(config, model, tokenizer, to_play),
            resume,
        )
        again = [*shown, *corrections * settings.dagger_weight]
        log += train_on(again, DAGGER, config, model, tokenizer, callbacks, resume=resume)
    return log


def play_demonstrations(
    config: GRPOConfig, questions: Sequence[QuestionRecord]
) -> list[Demonstration]:
    """What the first stage shows, in variants drawn from the seed."""
    source = Demonstrations(
        _environments(config, questions), config.sft.mix, config.seed, config.prompt_of_run
    )
    shown = list(source.play(questions))
    source.close()
    return shown


def correct_own_errors(
    config: GRPOConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    questions: Sequence[QuestionRecord],
) -> list[Demonstration]:
    """Let the model play, and let the expert take over where a query failed."""
    from transformers import set_seed

    from sql_env.training.rollout import play_questions

    # The same play whether the stage before was trained in this process or in an earlier one.
    set_seed(config.seed)
    draw = random.Random(config.seed)
    wanted = config.sft.dagger_questions or len(questions)
    chosen = draw.sample(list(questions), min(wanted, len(questions)))
    # At a temperature of 1 most errors are accidents of sampling: here it plays what it believes.
    played = play_questions(chosen, model, tokenizer, config, temperature=0.0)
    release_memory()
    environments = _environments(config, questions)
    return list(
        corrections(
            zip(chosen, played, strict=True), environments, config.seed, config.prompt_of_run
        )
    )


def release_memory() -> None:
    """Give the engine's cache and graphs back to the GPU before the next stage needs the room."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def train_on(
    demonstrations: Sequence[Demonstration],
    stage: str,
    config: GRPOConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    callbacks: Sequence[TrainerCallback] = (),
    *,
    resume: bool = False,
) -> list[dict[str, Any]]:
    """One stage of supervised training with TRL's `SFTTrainer`."""
    from sql_env.training.stages import train_stage

    examples = partial(as_examples, demonstrations, tokenizer, config)
    rows = train_stage(examples, stage, config, model, tokenizer, callbacks, resume=resume)
    release_memory()
    return [{"stage": stage, **row} for row in rows]


def as_examples(
    demonstrations: Iterable[Demonstration], tokenizer: PreTrainedTokenizerBase, config: GRPOConfig
) -> Dataset:
    """Token ids and labels, in the very layout in which rollouts are sampled.

    Episodes longer than the context window are left out rather than cut: a cut one has no answer.
    """
    from datasets import Dataset

    prompt = config.prompt_of_run
    layout = ChatLayout.of(tokenizer, **prompt.for_template, **config.template_kwargs)
    demonstrations = list(demonstrations)
    if not demonstrations:
        raise ConfigError(
            f"the expert answers no question within step_budget={config.step_budget}: raise it"
        )
    if prompt.actions == "tools":
        demonstrations = [_with_calls(item, layout, prompt) for item in demonstrations]
    texts = {text for item in demonstrations for turn in item.turns for text in turn.texts}
    ids_of = dict(zip(texts, layout.encode_all(list(texts)), strict=True))
    rows = []
    for demonstration in demonstrations:
        ids, labels = tokens_and_labels(demonstration, layout, ids_of, prompt)
        if len(ids) <= config.max_context_tokens:
            rows.append({"input_ids": ids, "labels": labels, "length": len(ids)})
    if not rows:
        raise ConfigError(
            f"no demonstration fits in max_context_tokens={config.max_context_tokens}: raise it"
        )
    return Dataset.from_list(rows)


def tokens_and_labels(
    demonstration: Demonstration,
    layout: ChatLayout,
    ids_of: Mapping[str, list[int]],
    prompt: Prompt,
) -> tuple[list[int], list[int]]:
    """One demonstration as (input ids, labels).

    Args:
        ids_of: the tokens of every observation and action in it.
    """
    end = layout.end_id
    talk = Conversation(layout, prompt.system, ids_of[demonstration.turns[0].observation])
    learned: list[bool] = []
    for number, turn in enumerate(demonstration.turns):
        if number and prompt.actions == "tools":
            talk.add_tool_results([turn.observation])
        elif number:
            talk.add_observation(ids_of[turn.observation])
        if number:
            learned += [False] * (len(talk.completion_ids) - len(learned))
        action = [*ids_of[turn.action], end]
        talk.add_completion(action)
        learned += [turn.trained] * len(action)
    labels = [
        token if learn else IGNORED
        for token, learn in zip(talk.completion_ids, learned, strict=True)
    ]
    return talk.prompt_ids + talk.completion_ids, [IGNORED] * len(talk.prompt_ids) + labels


def _with_calls(demonstration: Demonstration, layout: ChatLayout, prompt: Prompt) -> Demonstration:
    """The same, with actions as the calls of tools that the chat template writes."""
    turns = tuple(
        dataclasses.replace(
            turn,
            action=layout.written_call(tool_call(parse_model_output(turn.action)), prompt.tools),
        )
        for turn in demonstration.turns
    )
    return dataclasses.replace(demonstration, turns=turns)


def save_demonstrations(demonstrations: Iterable[Demonstration], path: Path) -> None:
    """One JSON line per demonstration: to read what a model is taught, or to play them only once.

    The file appears when it is whole.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.part")
    with unfinished.open("w", encoding="utf-8") as file:
        for demonstration in demonstrations:
            file.write(json.dumps(dataclasses.asdict(demonstration), ensure_ascii=False) + "\n")
    unfinished.replace(path)


def load_demonstrations(path: Path | str) -> list[Demonstration]:
    """What `save_demonstrations` wrote.

    Raises:
        QuestionLoadError: the file is missing, or a line of it is no demonstration.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise QuestionLoadError(
            f"{path}: cannot be read ({error.strerror}): write it with sql-env demonstrations"
        ) from error
    # Not splitlines: a value in a database may hold one of the other line separators.
    lines = text.removesuffix("\n").split("\n") if text else []
    return [
        _demonstration_of(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)
    ]


def _clear(folder: Path) -> None:
    """Remove what an earlier run left, so that nothing goes on from it by mistake."""
    for stage in (folder / DEMONSTRATIONS, folder / DAGGER):
        shutil.rmtree(stage, ignore_errors=True)
    for name in (DEMONSTRATIONS_FILE, CORRECTIONS_FILE):
        (folder / name).unlink(missing_ok=True)


def _kept(path: Path, make: Callable[[], list[Demonstration]], resume: bool) -> list[Demonstration]:
    """What a killed run kept in `path`, or what `make` gives, kept there."""
    if resume and path.is_file():
        return load_demonstrations(path)
    made = make()
    if is_main():
        save_demonstrations(made, path)
    return made


def _demonstration_of(line: str, place: str) -> Demonstration:
    try:
        row = json.loads(line)
        return Demonstration(row["question_id"], tuple(Turn(**turn) for turn in row["turns"]))
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise QuestionLoadError(
            f"{place}: not a demonstration ({error}): write the file again with "
            "sql-env demonstrations"
        ) from error


def _environments(
    config: GRPOConfig, questions: Sequence[QuestionRecord]
) -> Callable[[bool], SQLEnvironment]:
    """Makes the environments that demonstrations are played in."""
    return lambda allow_last: config.environment(questions, allow_last=allow_last)
