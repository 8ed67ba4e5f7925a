"""The supervised warm-up: imitate an analyst before learning from reward.

A small model that has never seen the game earns nothing, and GRPO learns nothing from nothing. The
warm-up shows it whole multi-turn episodes, with loss on the model's own turns only (single-turn
examples teach it to DESCRIBE and stop there). A second stage adds episodes in which its own failed
queries are mended.

    sql-env warmup --preset gpu --dataset data/spider --out runs/warmup
    sql-env warmup --resume runs/warmup
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import random
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sql_env.agent.conversation import ChatLayout, Conversation
from sql_env.agent.prompts import get_system_prompt
from sql_env.environment import SQLEnvironment
from sql_env.models import QuestionRecord
from sql_env.questions import QuestionLoadError, load_questions
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import check_splits, weighted_questions
from sql_env.training.recovery import recoveries
from sql_env.training.trajectories import Trajectories, Trajectory, Turn
from sql_env.training.weights import load_weights

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

IGNORED = -100  # the label that carries no loss
IMITATE, RECOVER = "imitate", "recover"  # the stages
IMITATED, MENDED = "imitate.jsonl", "mended.jsonl"  # what they show
_NEXT_COPY = 1000  # how far the seeds of two copies lie apart; the epochs of one count on by one


def warm_up(
    config: GRPOConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    questions: Sequence[QuestionRecord] | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    resume: bool = False,
) -> list[dict[str, Any]]:
    """Warm `model` up in place; returns the log entries of the stages, one after the other.

    What each stage adds to imitate is kept in `config.output_dir` before it is trained on.

    Args:
        config: `config.warmup` says how long and on what.
        questions: what to imitate; default: `config.warmup.split` of the configured dataset.
        callbacks: passed to TRL's trainer.
        resume: go on with what a killed warm-up left in `config.output_dir`: on the same episodes,
            from the last whole checkpoint.
    """
    settings = config.warmup
    asked = _Questions(config, questions)
    folder = Path(config.output_dir)
    # A split that is not there is refused now, not after hours of imitation.
    to_play = asked.to_play if settings.recovery_epochs else ()
    if not resume and _is_main():
        _clear(folder)

    def first() -> list[Trajectory]:
        if settings.trajectories is not None:
            return load_trajectories(settings.trajectories)
        return play_trajectories(config, asked.all)

    shown = _kept(folder / IMITATED, first, resume)
    log = imitate(shown, config, model, tokenizer, callbacks, resume=resume)
    if settings.recovery_epochs:
        mended = _kept(
            folder / MENDED,
            lambda: mend_own_mistakes(config, model, tokenizer, to_play),
            resume,
        )
        again = [*shown, *mended * settings.recovery_weight]
        log += train_on(again, RECOVER, config, model, tokenizer, callbacks, resume=resume)
    return log


def play_trajectories(config: GRPOConfig, questions: Sequence[QuestionRecord]) -> list[Trajectory]:
    """What the first stage imitates, in shapes drawn from the seed."""
    source = Trajectories(_environments(config, questions), config.warmup.mix, config.seed)
    shown = list(source.play(questions, config.warmup.trajectories_per_question))
    source.close()
    return shown


def mend_own_mistakes(
    config: GRPOConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    questions: Sequence[QuestionRecord],
) -> list[Trajectory]:
    """Let the model play, and mend the queries that failed."""
    from transformers import set_seed

    from sql_env.training.rollout import play_questions

    # The same play whether the stage before was trained in this process or in an earlier one.
    set_seed(config.seed)
    draw = random.Random(config.seed)
    wanted = config.warmup.recovery_questions or len(questions)
    chosen = draw.sample(list(questions), min(wanted, len(questions)))
    playing = dataclasses.replace(config, temperature=config.warmup.recovery_temperature)
    played = play_questions(chosen, model, tokenizer, playing)
    release_memory()
    environments = _environments(config, questions)
    return list(recoveries(zip(chosen, played, strict=True), environments, config.seed))


def release_memory() -> None:
    """Give the engine's cache and graphs back to the GPU before the next stage needs the room."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def imitate(
    trajectories: Sequence[Trajectory],
    config: GRPOConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    callbacks: Sequence[TrainerCallback] = (),
    *,
    resume: bool = False,
) -> list[dict[str, Any]]:
    """The first stage: `copies` times from the same start; `model` becomes their mean."""
    if config.warmup.copies == 1:
        return train_on(trajectories, IMITATE, config, model, tokenizer, callbacks, resume=resume)
    stages = [IMITATE, *(f"{IMITATE}-{number}" for number in range(2, config.warmup.copies + 1))]
    trained = [item for item in model.named_parameters() if item[1].requires_grad]
    start = {name: weight.detach().to("cpu", copy=True) for name, weight in trained}
    examples = cache(lambda: as_examples(trajectories, tokenizer, config))
    log = []
    for number, stage in enumerate(stages):
        if number:
            model.load_state_dict(start, strict=False)
        one = dataclasses.replace(config, seed=config.seed + _NEXT_COPY * number)
        log += _train(examples, stage, one, model, tokenizer, callbacks, resume)
    load_weights(model, *(Path(config.output_dir) / stage for stage in stages))
    return log


def train_on(
    trajectories: Sequence[Trajectory],
    stage: str,
    config: GRPOConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    callbacks: Sequence[TrainerCallback] = (),
    *,
    resume: bool = False,
) -> list[dict[str, Any]]:
    """One stage of supervised training with TRL's `SFTTrainer`."""

    def examples() -> Dataset:
        return as_examples(trajectories, tokenizer, config)

    return _train(examples, stage, config, model, tokenizer, callbacks, resume)


def _train(
    make_examples: Callable[[], Dataset],
    stage: str,
    config: GRPOConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    callbacks: Sequence[TrainerCallback],
    resume: bool,
) -> list[dict[str, Any]]:
    from sql_env.training.stages import train_stage

    rows = train_stage(make_examples, stage, config, model, tokenizer, callbacks, resume=resume)
    release_memory()
    return [{"stage": stage, **row} for row in rows]


def as_examples(
    trajectories: Iterable[Trajectory], tokenizer: PreTrainedTokenizerBase, config: GRPOConfig
) -> Dataset:
    """Token ids and labels, in the very layout in which rollouts are sampled.

    Episodes longer than the context window are left out rather than cut: a cut one has no answer.
    """
    from datasets import Dataset

    layout = ChatLayout.of(tokenizer, enable_thinking=config.enable_thinking)
    trajectories = list(trajectories)
    texts = {text for item in trajectories for turn in item.turns for text in turn.texts}
    ids_of = dict(zip(texts, layout.encode_all(list(texts)), strict=True))
    rows = []
    for trajectory in trajectories:
        ids, labels = tokens_and_labels(trajectory, layout, ids_of)
        if len(ids) <= config.max_context_tokens:
            rows.append({"input_ids": ids, "labels": labels, "length": len(ids)})
    if not rows:
        raise ValueError(
            f"no trajectory fits in max_context_tokens={config.max_context_tokens}: raise it"
        )
    return Dataset.from_list(rows)


def tokens_and_labels(
    trajectory: Trajectory, layout: ChatLayout, ids_of: Mapping[str, list[int]]
) -> tuple[list[int], list[int]]:
    """One trajectory as (input ids, labels).

    Args:
        ids_of: the tokens of every observation and action in it.
    """
    end = layout.tokenizer.eos_token_id
    talk = Conversation(layout, get_system_prompt(), ids_of[trajectory.turns[0].observation])
    learned: list[bool] = []
    for number, turn in enumerate(trajectory.turns):
        if number:
            talk.add_observation(ids_of[turn.observation])
            learned += [False] * (len(talk.completion_ids) - len(learned))
        action = [*ids_of[turn.action], end]
        talk.add_completion(action)
        learned += [turn.imitated] * len(action)
    labels = [
        token if learn else IGNORED
        for token, learn in zip(talk.completion_ids, learned, strict=True)
    ]
    return talk.prompt_ids + talk.completion_ids, [IGNORED] * len(talk.prompt_ids) + labels


def save_trajectories(trajectories: Iterable[Trajectory], path: Path) -> None:
    """One JSON line per trajectory: to read what a model is taught, or to play them only once.

    The file appears when it is whole.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.part")
    with unfinished.open("w", encoding="utf-8") as file:
        for trajectory in trajectories:
            file.write(json.dumps(dataclasses.asdict(trajectory), ensure_ascii=False) + "\n")
    unfinished.replace(path)


def load_trajectories(path: Path | str) -> list[Trajectory]:
    """What `save_trajectories` wrote.

    Raises:
        QuestionLoadError: the file is missing, or a line of it is no trajectory.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise QuestionLoadError(
            f"{path}: cannot be read ({error.strerror}): write it with sql-env trajectories"
        ) from error
    # Not splitlines: a value in a database may hold one of the other line separators.
    lines = text.removesuffix("\n").split("\n") if text else []
    return [_trajectory_of(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]


def _clear(folder: Path) -> None:
    """Remove what an earlier warm-up left, so that nothing goes on from it by mistake."""
    for stage in (folder / IMITATE, *folder.glob(f"{IMITATE}-*"), folder / RECOVER):
        shutil.rmtree(stage, ignore_errors=True)
    for name in (IMITATED, MENDED):
        (folder / name).unlink(missing_ok=True)


def _is_main() -> bool:
    """Under `accelerate launch` the first process writes."""
    return os.environ.get("RANK", "0") == "0"


def _kept(path: Path, make: Callable[[], list[Trajectory]], resume: bool) -> list[Trajectory]:
    """What a killed run kept in `path`, or what `make` gives, kept there."""
    if resume and path.is_file():
        return load_trajectories(path)
    made = make()
    if _is_main():
        save_trajectories(made, path)
    return made


def _trajectory_of(line: str, place: str) -> Trajectory:
    try:
        row = json.loads(line)
        return Trajectory(row["question_id"], tuple(Turn(**turn) for turn in row["turns"]))
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise QuestionLoadError(
            f"{place}: not a trajectory ({error}): write the file anew with sql-env trajectories"
        ) from error


class _Questions:
    """The questions of a warm-up, read when they are needed."""

    def __init__(self, config: GRPOConfig, given: Sequence[QuestionRecord] | None) -> None:
        self._config, self._given = config, given

    @cached_property
    def all(self) -> Sequence[QuestionRecord]:
        if self._given is not None:
            return self._given
        return self._of(self._config.warmup.split)

    @property
    def to_play(self) -> Sequence[QuestionRecord]:
        """Where the model's own mistakes are looked for."""
        split = self._config.warmup.recovery_split
        return self.all if split is None else self._of(split)

    def _of(self, split: str) -> Sequence[QuestionRecord]:
        path = self._config.dataset.questions_path
        loaded = load_questions(path)
        check_splits(loaded, split, path)
        return weighted_questions(loaded, split)


def _environments(
    config: GRPOConfig, questions: Sequence[QuestionRecord]
) -> Callable[[bool], SQLEnvironment]:
    """Makes the environments that trajectories are played in."""
    return lambda allow_last: config.environment(questions, allow_last=allow_last)
