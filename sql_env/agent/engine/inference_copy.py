"""A copy of a model to sample from: in another precision, or with its adapter merged into it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn


def inference_copy(model: Any, dtype: torch.dtype) -> Any:
    """A copy of `model` with its weights in another type; buffers keep their precision.

    Where an adapter is on it that `can_be_merged`, the copy is a plain model.
    """
    # What is known already is not copied: so the whole model is never there a second time.
    known = {
        id(weight): nn.Parameter(weight.detach().to(dtype, copy=True), requires_grad=False)
        for weight in model.parameters()
    }
    copied = copy.deepcopy(model, known)
    # Accelerate wraps `forward` on the instance, and the wrapper would call the original model.
    copied.__dict__.pop("forward", None)
    if can_be_merged(model):
        for name, layer in _adapted(copied).items():
            parent, _, child = name.rpartition(".")
            setattr(copied.get_submodule(parent), child, layer.get_base_layer())
    refresh(copied, model)
    return copied.eval()


def can_become(copied: Any, model: Any, dtype: torch.dtype) -> bool:
    """Whether `refresh` makes of `copied` what `inference_copy` would make of `model`.

    A copy that has its adapter still is never taken: it may differ in more than its weights.
    """
    if has_adapter(copied) or (has_adapter(model) and not can_be_merged(model)):
        return False
    wanted = {
        name.replace(".base_layer.", "."): (weight.shape, weight.device, dtype)
        for name, weight in model.named_parameters()
        if ".lora_" not in name
    }
    return wanted == {
        name: (weight.shape, weight.device, weight.dtype)
        for name, weight in copied.named_parameters()
    }


def refresh(copied: Any, source: Any) -> None:
    """Take over the weights of `source`; nothing moves, so captured graphs stay valid."""
    weights = {
        name.replace(".base_layer.", "."): weight for name, weight in source.named_parameters()
    }
    with torch.no_grad():
        if not can_be_merged(source):
            torch._foreach_copy_(list(copied.parameters()), list(weights.values()))
            return
        names, mine = zip(*copied.named_parameters(), strict=True)
        torch._foreach_copy_(mine, [weights[name] for name in names])
        for name, layer in _adapted(source).items():
            merged = layer.get_base_layer().weight.to(torch.float32, copy=True)
            for adapter in layer.active_adapters:
                merged += layer.get_delta_weight(adapter)
            copied.get_submodule(name).weight.copy_(merged)


def has_adapter(model: Any) -> bool:
    """Whether some layers of a model have more weights than it was made with."""
    return any(hasattr(part, "base_layer") for part in model.modules())


def can_be_merged(model: Any) -> bool:
    """Whether a model has an adapter that only adds low-rank products to plain linear layers.

    What is not seen here, such as a quantised base or another kind of adapter, stays as it is.
    """
    if not has_adapter(model):
        return False
    from peft.tuners.lora import Linear
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils import ModulesToSaveWrapper

    return not any(isinstance(part, ModulesToSaveWrapper) for part in model.modules()) and all(
        type(part) is Linear
        and type(part.get_base_layer()) is nn.Linear
        and not part.merged
        and not part.disable_adapters
        and not any(part.lora_bias.values())
        and not part.lora_variant
        for part in model.modules()
        if isinstance(part, BaseTunerLayer)
    )


def _adapted(model: Any) -> dict[str, Any]:
    return {name: part for name, part in model.named_modules() if hasattr(part, "base_layer")}
