"""Load a model and its tokenizer: a hub id, a folder, a GGUF file, an adapter, a packed delta."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sql_env.agent import smollm2
from sql_env.agent.delta import ADAPTER_CONFIG, DELTA_CONFIG, apply_delta, read_delta_config
from sql_env.agent.gguf_file import SUFFIX, load_gguf
from sql_env.core.errors import UserError

if TYPE_CHECKING:
    from peft import LoraConfig

MODEL_CONFIGS = ("config.json", ADAPTER_CONFIG, DELTA_CONFIG)


class ModelLoadError(UserError, RuntimeError):
    """A model that cannot be loaded; the message names it and says what was tried."""


def load_model_and_tokenizer(
    model_name: str,
    *,
    dtype: str = "float32",
    device: str | None = None,
    lora: LoraConfig | None = None,
    load_in_4bit: bool = False,
) -> tuple[Any, Any]:
    """Load a causal language model and its tokenizer, ready to train.

    Args:
        model_name: a hub id, a model folder, a GGUF file, a PEFT adapter folder, a delta folder
            (what `sql-env pack` writes), or `smollm2-135m`.
        dtype: of the weights; `auto` is the checkpoint's own. Full fine-tuning wants float32 even
            where the arithmetic is bf16: a small update vanishes in a bf16 weight.
        device: where to put the model; None is this process's GPU if there is one.
        lora: put a new adapter on the model, so that only that is trained.
        load_in_4bit: keep the weights under an adapter in 4 bits; needs bitsandbytes.

    Raises:
        ModelLoadError: names the model and says what was tried.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = _resolve(model_name)
    where = device or default_device()
    options = _four_bits(source, model_name, dtype, where) if load_in_4bit else {}
    try:
        if isinstance(source, Path) and source.suffix == SUFFIX:
            model, tokenizer = load_gguf(source, dtype)
        elif isinstance(source, Path) and (source / DELTA_CONFIG).is_file():
            model, tokenizer = _load_delta(source, dtype)
        else:
            if isinstance(source, Path) and _is_adapter(source):
                model, tokenizer = _load_adapter(source, dtype, device, load_in_4bit)
            else:
                kind = "auto" if dtype == "auto" else getattr(torch, dtype)
                model = AutoModelForCausalLM.from_pretrained(source, dtype=kind, **options)
                tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left")
    except (OSError, ValueError) as error:
        raise _load_error(model_name, source, error) from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if lora is not None and not (isinstance(source, Path) and _is_adapter(source)):
        from peft import get_peft_model

        model = get_peft_model(model, lora)
    return model.to(where), tokenizer


def _four_bits(source: Path | str, model_name: str, dtype: str, device: str) -> dict[str, Any]:
    """What transformers needs to be told to load a model in 4 bits."""
    import torch
    from transformers import BitsAndBytesConfig

    if isinstance(source, Path) and (source.suffix == SUFFIX or (source / DELTA_CONFIG).is_file()):
        raise ModelLoadError(
            f"cannot load {model_name!r} in 4 bits: GGUF files and packed models are not; take the "
            "authors' safetensors"
        )
    wanted = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=getattr(torch, dtype),
    )
    return {"quantization_config": wanted, "device_map": {"": device}}


def _resolve(model_name: str) -> Path | str:
    """A folder, a file, or a hub id."""
    if model_name.lower() == smollm2.NAME:
        try:
            return smollm2.model_folder()
        except smollm2.DownloadError as error:
            raise ModelLoadError(f"cannot load {model_name!r}: {error}") from error
    folder = Path(model_name).expanduser()
    if folder.suffix == SUFFIX:
        return _gguf_file(folder, model_name)
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


def _gguf_file(path: Path, model_name: str) -> Path:
    if path.is_file():
        return path
    beside = sorted(other.name for other in path.parent.glob(f"*{SUFFIX}"))
    there = f"; {path.parent} holds {', '.join(beside)}" if beside else ""
    raise ModelLoadError(f"cannot load {model_name!r}: there is no such file{there}")


def default_device() -> str:
    """This process's GPU if there is one."""
    import torch

    # Each process that `accelerate launch` starts has a GPU of its own.
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"


def _is_adapter(folder: Path) -> bool:
    return (folder / ADAPTER_CONFIG).is_file()


def _load_adapter(
    folder: Path, dtype: str, device: str | None, load_in_4bit: bool
) -> tuple[Any, Any]:
    from transformers import AutoTokenizer

    settings = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    base_name = settings["base_model_name_or_path"]
    base, tokenizer = load_model_and_tokenizer(
        base_name,
        dtype=dtype,
        device=device if load_in_4bit else "cpu",
        load_in_4bit=load_in_4bit,
    )
    if (folder / "tokenizer_config.json").is_file():  # one that was packed takes its base's
        tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    return with_adapter(base, str(folder), base_name), tokenizer


def with_adapter(base: Any, folder: str, base_name: str) -> Any:
    """A model with the adapter in `folder` on it.

    Raises:
        ModelLoadError: there is none, or it was trained on another model.
    """
    from peft import PeftModel

    try:
        return PeftModel.from_pretrained(base, folder, is_trainable=True)
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelLoadError(f"no adapter for {base_name} in {folder}: {reason}") from error
    except RuntimeError as error:
        if "size mismatch" not in str(error):
            raise
        raise ModelLoadError(
            f"the adapter in {folder} was trained on a model of another size than {base_name}: "
            "name that one in its adapter_config.json, or with --base"
        ) from error


def _load_delta(folder: Path, dtype: str) -> tuple[Any, Any]:
    import torch

    base_name = read_delta_config(folder)["base_model"]
    base, tokenizer = load_model_and_tokenizer(base_name, device="cpu")
    apply_delta(base, folder)
    return base if dtype == "auto" else base.to(getattr(torch, dtype)), tokenizer


def _load_error(model_name: str, source: Path | str, error: Exception) -> ModelLoadError:
    reason = str(error).strip().splitlines()[0]
    if isinstance(source, Path) and source.suffix == SUFFIX:
        return ModelLoadError(f"cannot load {model_name!r}: {reason}")
    if isinstance(source, Path) and (source / "model").is_dir():
        return ModelLoadError(f"cannot load {model_name!r}: this run's model is {source}/model")
    if isinstance(source, Path):
        return ModelLoadError(f"cannot load {model_name!r}: tried the folder {source}: {reason}")
    return ModelLoadError(
        f"cannot load {model_name!r}: tried a folder of that name (there is none) and the Hugging "
        f"Face hub ({reason}). Check the spelling and the network, give a folder, or take "
        f"{smollm2.NAME}, which needs no hub"
    )
