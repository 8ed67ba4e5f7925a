"""TRL's own settings: `trl: {…}` in a configuration reaches TRL's dataclass and is checked."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from sql_env.core.suggestions import nearest
from sql_env.training.settings import ConfigError, number

Arguments = TypeVar("Arguments")

# What a field of TRL's is called here, where the names differ.
OURS = {
    "max_length": "max_context_tokens",
    "max_completion_length": "max_context_tokens",
    "max_tool_calling_iterations": "step_budget",
    "bf16": "precision",
    "fp16": "precision",
    "use_cpu": "device",
    "data_seed": "seed",
}
FIXED = ("shuffle_dataset", "remove_unused_columns", "save_strategy")  # the run depends on it
# The engine samples by temperature and top_p alone.
_SAMPLING = ("top_k", "min_p", "repetition_penalty", "generation_kwargs")


def build_trl(
    kind: type[Arguments],
    decided: Mapping[str, Any],
    defaults: Mapping[str, Any],
    given: Mapping[str, Any],
    name: str,
) -> Arguments:
    """TRL's arguments: `decided` by settings of ours, `given` by the user, else our `defaults`.

    Args:
        name: of the setting that holds `given`.

    Raises:
        ConfigError: one line that names the field.
    """
    hints = get_type_hints(kind)
    known = {item.name for item in dataclasses.fields(kind) if item.init}  # type: ignore[arg-type]
    quiet = {"report_to": "none", "disable_tqdm": True}
    # TRL's default is to recompute; where the memory is enough that only takes time.
    values: dict[str, Any] = {**quiet, "gradient_checkpointing": False, **defaults}
    for field, value in given.items():
        setting = f"{name}.{field}"
        if field not in known:
            near = nearest(field, known)
            hint = f"the nearest field is {name}.{near[0]}" if near else "see TRL's documentation"
            raise ConfigError(f"TRL's {kind.__name__} has no field {field!r}: {hint}")
        if field in FIXED:
            raise ConfigError(f"{setting}: the run depends on {decided[field]!r}: leave it out")
        if field in decided:
            prefix = "sft." if name == "sft.trl" and field in _SFT_OWN else ""
            raise ConfigError(f"{setting}: set {prefix}{OURS.get(field, field)} instead")
        if field in _SAMPLING and not given.get("use_vllm"):
            raise ConfigError(f"{setting}: only vLLM samples so (trl.use_vllm=true): leave it out")
        values[field] = _typed(setting, value, hints[field])
    _check(values, name)
    try:
        return kind(**{**values, **decided})
    except (ValueError, TypeError, ImportError, RuntimeError) as error:
        raise ConfigError(f"{name}: {' '.join(str(error).split())}") from error


_OF_BITSANDBYTES = re.compile("adamw_8bit|.*_bnb.*|(paged_|lion|ademamix).*")
_SFT_OWN = ("num_train_epochs", "learning_rate", "per_device_train_batch_size")


def _check(values: Mapping[str, Any], name: str) -> None:
    """What TRL finds out only when the model is loaded, or not at all."""
    from importlib.util import find_spec

    if values.get("use_vllm") and find_spec("vllm") is None:
        raise ConfigError(
            f"{name}.use_vllm is true: vLLM is not installed (pip install 'trl[vllm]', or leave "
            "it out: the built-in engine needs nothing)"
        )
    optimiser = str(values.get("optim", ""))
    if _OF_BITSANDBYTES.fullmatch(optimiser) and find_spec("bitsandbytes") is None:
        raise ConfigError(
            f"{name}.optim is {optimiser!r}: bitsandbytes is not installed (pip install "
            "bitsandbytes, or leave it out)"
        )
    if values["save_total_limit"] is not None and int(values["save_total_limit"]) < 2:
        raise ConfigError(
            f"{name}.save_total_limit is {values['save_total_limit']}: allowed is 2 or more, for "
            "the newest checkpoint may be half written when a run is killed"
        )
    asked = values["report_to"]
    for logger in asked if isinstance(asked, list) else [asked]:
        if logger not in ("none", "all"):
            _check_logger(logger, name)


def _check_logger(logger: str, name: str) -> None:
    from transformers.integrations import get_available_reporting_integrations
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    if logger not in INTEGRATION_TO_CALLBACK:
        known = ", ".join(sorted(INTEGRATION_TO_CALLBACK))
        raise ConfigError(f"{name}.report_to is {logger!r}: allowed is none or one of {known}")
    if logger not in get_available_reporting_integrations():
        raise ConfigError(f"{name}.report_to is {logger!r}, which is not installed: install it")


def _typed(name: str, value: Any, hint: Any) -> Any:
    """What a command line or YAML left as text, as the field's type; TRL does not look at it."""
    union = get_origin(hint) in (Union, types.UnionType)
    kinds = set(get_args(hint)) if union else {hint}
    if value is None and type(None) not in kinds and str in kinds:
        return "none"  # a word of its own there
    if kinds & {int, float} and not kinds - {int, float, bool, type(None)}:
        if value is None or isinstance(value, bool):
            return value
        return number(name, value, float if float in kinds else int)
    if kinds <= {bool, type(None)} and not isinstance(value, bool | None):
        raise ConfigError(f"{name} is {value!r}: allowed is true or false")
    return value
