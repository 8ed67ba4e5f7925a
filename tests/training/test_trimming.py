from __future__ import annotations

import torch

from sql_env.training.trimming import trimmed


def test_only_columns_that_are_padding_everywhere_go() -> None:
    inputs = {
        "prompt_ids": torch.tensor([[0, 0, 5, 6], [0, 7, 8, 9]]),
        "prompt_mask": torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]]),
        "completion_ids": torch.tensor([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0]]),
        "completion_mask": torch.tensor([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]),
        "tool_mask": torch.tensor([[1, 0, 1, 1, 1], [1, 1, 1, 1, 1]]),
        "advantages": torch.tensor([0.5, -0.5]),
        "num_items_in_batch": torch.tensor(4),
    }
    cut = trimmed(inputs)
    assert cut["prompt_ids"].tolist() == [[0, 5, 6], [7, 8, 9]]
    assert cut["prompt_mask"].tolist() == [[0, 1, 1], [1, 1, 1]]
    assert cut["completion_ids"].tolist() == [[1, 2, 3], [4, 0, 0]]
    assert cut["completion_mask"].sum() == inputs["completion_mask"].sum()
    assert cut["tool_mask"].tolist() == [[1, 0, 1], [1, 1, 1]]
    assert cut["advantages"] is inputs["advantages"]


def test_nothing_goes_where_nothing_is_padding() -> None:
    full = torch.ones((2, 3), dtype=torch.long)
    names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
    inputs = dict.fromkeys(names, full)
    assert all(value.shape == full.shape for value in trimmed(inputs).values())
