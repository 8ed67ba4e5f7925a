"""Weights that a trainer saved, put into a model: those of one folder, or the mean of several.

Models that were trained from one start on the same task mostly lie in one valley of the loss. Each
of them ends somewhere on its slope, where the last batches pushed it; their mean lies nearer the
bottom.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


def load_weights(model: PreTrainedModel, *folders: Path) -> None:
    """Put the mean of the weights in `folders` into `model`: of all weights, or of an adapter's."""
    first, *others = folders
    total = _saved(model, first)
    for folder in others:
        # Not in place: tied weights are two names of one tensor, and would be added twice.
        total = {name: total[name] + item for name, item in _saved(model, folder).items()}
    mean = {name: item / len(folders) for name, item in total.items()}
    if _holds_adapter(first):
        from peft import set_peft_model_state_dict

        set_peft_model_state_dict(model, mean)
    else:
        model.load_state_dict(mean)


def _saved(model: PreTrainedModel, folder: Path) -> dict[str, Tensor]:
    import torch

    if _holds_adapter(folder):
        from peft import load_peft_weights

        return dict(load_peft_weights(str(folder), device=str(model.device)))
    return dict(type(model).from_pretrained(folder, dtype=torch.float32).state_dict())


def _holds_adapter(folder: Path) -> bool:
    return (folder / "adapter_config.json").is_file()
