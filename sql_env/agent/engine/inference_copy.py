"""A copy of a model to sample from, in another precision than the one that is trained."""

from __future__ import annotations

import copy
from typing import Any

import torch


def inference_copy(model: Any, dtype: torch.dtype) -> Any:
    """A copy of `model` with its weights in another type; buffers keep their precision."""
    copied = copy.deepcopy(model)
    # Accelerate wraps `forward` on the instance, and the wrapper would call the original model.
    copied.__dict__.pop("forward", None)
    copied.requires_grad_(False)
    for parameter in copied.parameters():
        parameter.data = parameter.data.to(dtype)
    return copied.eval()


def refresh(copied: Any, source: Any) -> None:
    """Take over the weights of `source`; nothing moves, so captured graphs stay valid."""
    with torch.no_grad():
        torch._foreach_copy_(list(copied.parameters()), list(source.parameters()))
