"""TRL's `GRPOTrainer`, without the padding that its micro-batches do not need.

TRL pads all episodes of a round to the longest of them and then cuts the round into micro-batches;
one long episode makes every micro-batch as wide. Columns that are padding in all rows of a
micro-batch change nothing, so they are cut off before the forward pass.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from trl import GRPOTrainer


class TrimmingGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """`GRPOTrainer` on micro-batches that are only as wide as their own longest episode."""

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        loss: Tensor = super()._compute_loss(model, trimmed(inputs))
        return loss


def trimmed(inputs: dict[str, Any]) -> dict[str, Any]:
    """`inputs` without the columns left of every prompt and right of every completion."""
    first = int(inputs["prompt_mask"].any(dim=0).int().argmax())
    width = inputs["completion_mask"].shape[1]
    last = width - int(inputs["completion_mask"].any(dim=0).flip(0).int().argmax())
    cut = dict(inputs)
    for name, value in inputs.items():
        if not isinstance(value, Tensor) or value.dim() != 2:
            continue
        if name in ("prompt_ids", "prompt_mask"):
            cut[name] = value[:, first:]
        elif value.shape[1] == width:
            cut[name] = value[:, :last]
    return cut
