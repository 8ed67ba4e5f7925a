"""A copy of a model to sample from, in another precision than the one that is trained."""

from __future__ import annotations

import copy
from typing import Any

import torch


def shadow_of(model: Any, dtype: torch.dtype) -> Any:
    """A copy of `model` with its weights in another type; buffers keep their precision."""
    shadow = copy.deepcopy(model)
    # Accelerate wraps `forward` on the instance, and the wrapper would call the original model.
    shadow.__dict__.pop("forward", None)
    shadow.requires_grad_(False)
    for parameter in shadow.parameters():
        parameter.data = parameter.data.to(dtype)
    return shadow.eval()


def refresh(shadow: Any, source: Any) -> None:
    """Take over the weights of `source`; nothing moves, so captured graphs stay valid."""
    with torch.no_grad():
        torch._foreach_copy_(list(shadow.parameters()), list(source.parameters()))
