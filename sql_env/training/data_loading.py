"""What a run begins with: a model with its tokenizer, and the questions as chat prompts."""

from __future__ import annotations

import json
import math
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sql_env.models import QuestionRecord
from sql_env.questions import QuestionLoadError, check_splits, filter_questions, load_questions
from sql_env.training import smollm2
from sql_env.training.config import GRPOConfig, LoraSettings
from sql_env.training.delta import DELTA_CONFIG, apply_delta, read_delta_config
from sql_env.training.prompts import get_system_prompt, get_tool_system_prompt

if TYPE_CHECKING:
    from datasets import Dataset as RowDataset


MODEL_CONFIGS = ("config.json", "adapter_config.json", DELTA_CONFIG)


class ModelLoadError(RuntimeError):
    """A model that cannot be loaded; the message names it and says what was tried."""


def load_for_training(config: GRPOConfig) -> tuple[Any, Any]:
    """The model and tokenizer of a run, in the precision and on the device it asks for."""
    if config.lora:
        import torch

        # A new adapter begins with what is drawn: that must be the same when a run is resumed.
        torch.manual_seed(config.seed)
    # Weights that are trained stay float32; those under an adapter may be as small as they like.
    kinds = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
    model, tokenizer = load_model_and_tokenizer(
        config.model_name,
        dtype=kinds[config.resolved_precision()] if config.lora else "float32",
        device="cpu" if config.device == "cpu" else None,
        lora=config.lora,
    )
    if config.compile_layers:
        for layer in model.get_decoder().layers:
            # One layer is compiled, for any batch and length, and all others share it: seconds,
            # where compiling the model as a whole takes minutes.
            layer.compile(dynamic=True)
    return model, tokenizer


def load_model_and_tokenizer(
    model_name: str,
    *,
    dtype: str = "float32",
    device: str | None = None,
    lora: LoraSettings | None = None,
) -> tuple[Any, Any]:
    """Load a causal language model and its tokenizer, ready to train.

    Args:
        model_name: a hub id, a model folder, a PEFT adapter folder, a delta folder (what
            `sql-env pack` writes), or `smollm2-135m`.
        dtype: of the weights. Full fine-tuning wants float32 even where the arithmetic is bf16:
            a small update vanishes in a bf16 weight.
        device: where to put the model; None is this process's GPU if there is one.
        lora: put a new adapter on the model, so that only that is trained.

    Raises:
        ModelLoadError: names the model and says what was tried.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = _resolve(model_name)
    try:
        if isinstance(source, Path) and (source / DELTA_CONFIG).is_file():
            model, tokenizer = _load_delta(source, dtype)
        else:
            if isinstance(source, Path) and _is_adapter(source):
                model = _load_adapter(source, dtype)
            else:
                model = AutoModelForCausalLM.from_pretrained(source, dtype=getattr(torch, dtype))
            tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left")
    except (OSError, ValueError) as error:
        raise _load_error(model_name, source, error) from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if lora is not None and not (isinstance(source, Path) and _is_adapter(source)):
        from peft import get_peft_model

        model = get_peft_model(model, lora.to_peft())
    return model.to(device or _own_device()), tokenizer


def load_training_questions(config: GRPOConfig, split: str | None = None) -> list[QuestionRecord]:
    """The questions of a split that pass the difficulty filter, in the order of the seed.

    Raises:
        QuestionLoadError: names the path when it cannot be read or nothing passes the filter.
    """
    split = split or config.train_split
    path = config.dataset.questions_path
    records = load_questions(path)
    check_splits(records, split, path)
    chosen = filter_questions(records, split=split, difficulties=config.difficulty_filter)
    if not chosen:
        splits = ", ".join(sorted({record.split for record in records})) or "none"
        raise QuestionLoadError(
            f"{path}: no question has split {split!r} and difficulty "
            f"{' or '.join(config.difficulty_filter)}; it holds {len(records)} questions in the "
            f"splits {splits}"
        )
    random.Random(config.seed).shuffle(chosen)
    return chosen[: config.max_questions] if split == config.train_split else chosen


def load_question_prompts(config: GRPOConfig, split: str | None = None) -> RowDataset:
    """The questions as rows for TRL: `prompt` (chat messages), `question_id`, `difficulty`.

    TRL hands `rollout_func` the messages and nothing else of a row, so the question's id lies on
    the user message too.
    """
    from datasets import Dataset as RowDataset

    plays_with_tools = config.adapter == "environment_factory"
    system = get_tool_system_prompt() if plays_with_tools else get_system_prompt()
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


def _resolve(model_name: str) -> Path | str:
    """A folder, or a hub id."""
    if model_name.lower() == smollm2.NAME:
        try:
            return smollm2.model_folder()
        except smollm2.DownloadError as error:
            raise ModelLoadError(f"cannot load {model_name!r}: {error}") from error
    folder = Path(model_name).expanduser()
    if folder.is_dir():
        if not any((folder / name).is_file() for name in MODEL_CONFIGS):
            inside = sorted(path.parent.name for path in folder.glob("*/config.json"))
            hint = f"; it holds models in {', '.join(inside)}" if inside else ""
            raise ModelLoadError(
                f"cannot load {model_name!r}: the folder has no {', '.join(MODEL_CONFIGS)}{hint}"
            )
        return folder
    # `checkpoints/misspelt` has the form of a hub id, but people mean the folder they have.
    beside = folder.parent != Path() and folder.parent.is_dir()
    is_path = folder.is_absolute() or model_name.startswith((".", "~")) or model_name.count("/") > 1
    if is_path or beside:
        others = sorted(path.name for path in folder.parent.glob("*/")) if beside else []
        there = f"; {folder.parent} holds {', '.join(others)}" if others else ""
        raise ModelLoadError(
            f"cannot load {model_name!r}: there is no such folder (a run keeps its model in "
            f"model/){there}"
        )
    return model_name


def _own_device() -> str:
    import torch

    # Each process that `accelerate launch` starts has a GPU of its own.
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"


def _is_adapter(folder: Path) -> bool:
    return (folder / "adapter_config.json").is_file()


def _load_adapter(folder: Path, dtype: str) -> Any:
    from peft import PeftModel

    settings = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    base, _ = load_model_and_tokenizer(
        settings["base_model_name_or_path"], dtype=dtype, device="cpu"
    )
    return PeftModel.from_pretrained(base, folder, is_trainable=True)


def _load_delta(folder: Path, dtype: str) -> tuple[Any, Any]:
    import torch

    base_name = read_delta_config(folder)["base_model"]
    base, tokenizer = load_model_and_tokenizer(base_name, device="cpu")
    apply_delta(base, folder)
    return base.to(getattr(torch, dtype)), tokenizer


def _load_error(model_name: str, source: Path | str, error: Exception) -> ModelLoadError:
    reason = str(error).strip().splitlines()[0]
    if isinstance(source, Path):
        return ModelLoadError(f"cannot load {model_name!r}: tried the folder {source}: {reason}")
    return ModelLoadError(
        f"cannot load {model_name!r}: tried a folder of that name (there is none) and the Hugging "
        f"Face hub ({reason}). Check the spelling and the network, give a folder, or take "
        f"{smollm2.NAME}, which needs no hub"
    )
