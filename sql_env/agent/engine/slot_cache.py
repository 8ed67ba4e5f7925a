"""A static key-value cache with one slot per conversation, each filled to its own length.

Transformers' `StaticCache` writes every row of a batch at the same position. Conversations that
live through several turns have different lengths, so this cache is told a position for every token.
Row i holds its tokens at positions 0, 1, 2, …: there is no padding inside, and a causal mask by
position hides whatever lies behind a row's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface, Cache, DynamicCache

ATTENTION = "sql_env_lockstep"
WIDTH_UNIT = 64  # the cache is read in multiples of this: attention kernels want aligned masks
_FIRST_LENGTH = 1024  # a cache grows when a conversation gets longer
_SLOTS_AT_ONCE = 64  # bounds the copy that a move holds for a moment


def grouped_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention over a cache whose heads are shared by groups of query heads.

    The queries of a group become rows of one query, so that keys and values are read once and
    never copied: with a mask, transformers' own path repeats the whole cache in every step.
    """
    for kind in ("softcap", "s_aux", "position_bias"):
        if options.get(kind) is not None:
            raise ValueError(f"its attention uses {kind}")
    batch, heads, length, size = query.shape
    key_heads = key.shape[1]
    group = heads // key_heads
    if length > 1 and group > 1:
        attention_mask = attention_mask.repeat(1, 1, group, 1)
    output = functional.scaled_dot_product_attention(
        query.reshape(batch, key_heads, group * length, size),
        key,
        value,
        attn_mask=attention_mask.to(query.dtype),
        scale=scaling,
    )
    return output.reshape(batch, heads, length, -1).transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, grouped_attention)


class SlotCache(Cache):  # type: ignore[misc]
    """Keys and values: for each layer one tensor with all slots.

    Args:
        layers, heads, head_size: the model's shape.
        slots: how many conversations fit.
        length: how many tokens of each fit, rounded up; the position behind them is a bin for
            padding.
        window: how far back its sliding layers look; None where it has none.
        all_slide: whether those are all of its layers.
    """

    def __init__(
        self,
        *,
        layers: int,
        heads: int,
        head_size: int,
        slots: int,
        length: int,
        dtype: torch.dtype,
        device: torch.device,
        window: int | None = None,
        all_slide: bool = False,
    ) -> None:
        super().__init__(layers=[])
        self.length = self._first_length = -(-length // WIDTH_UNIT) * WIDTH_UNIT
        self.slots = slots
        self.window, self.all_slide = window, all_slide
        self.stores = [
            _empty((2, slots, heads, self.length + 8, head_size), dtype, device)
            for _ in range(layers)
        ]
        self._heads = torch.arange(heads, device=device)

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(store.nbytes for store in self.stores)

    def aim(
        self, rows: slice | Tensor, positions: Tensor, width: int
    ) -> Tensor | dict[str, Tensor]:
        """Say where the next forward writes and reads; returns its attention mask.

        A model with layers of two kinds gets one for each.

        Args:
            rows: the slots of the batch: a slice (read in place) or indices (gathered).
            positions: for each row and token, its position in the slot.
            width: how many positions are read.
        """
        store = self.stores[0]
        span = store.shape[3]
        numbers = (
            torch.arange(rows.start, rows.stop, device=store.device)
            if isinstance(rows, slice)
            else rows
        )
        heads = numbers[:, None, None] * store.shape[2] + self._heads[None, :, None]
        self._targets = (heads * span + positions[:, None, :]).reshape(-1)
        self._rows, self._width = rows, width
        back = positions[:, None, :, None] - torch.arange(width, device=store.device)
        mask = torch.zeros(back.shape, dtype=store.dtype, device=store.device)
        mask.masked_fill_(back < 0, float("-inf"))
        if self.window is None:
            return mask
        # Padding looks everywhere, for it must not look nowhere.
        beyond = (back >= self.window) & (positions < self.length)[:, None, :, None]
        sliding = mask.masked_fill(beyond, float("-inf"))
        return sliding if self.all_slide else {"full_attention": mask, "sliding_attention": sliding}

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write a layer's new keys and values, and return all that the batch may read."""
        read = []
        for which, states in enumerate((key_states, value_states)):
            layer = self.stores[layer_idx][which]
            size = layer.shape[-1]
            layer.view(-1, size).index_copy_(
                0, self._targets, states.reshape(-1, size).to(layer.dtype)
            )
            read.append(layer[:, :, : self._width][self._rows])
        return read[0], read[1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Rows have lengths of their own; positions are always passed explicitly."""
        return 0

    def copy(self, sources: Sequence[int], targets: Sequence[int], width: int) -> None:
        """Copy the first `width` positions of some slots over others."""
        for begin in range(0, len(sources), _SLOTS_AT_ONCE):
            end = begin + _SLOTS_AT_ONCE
            self._move(sources[begin:end], targets[begin:end], width)

    def swap(self, some: Sequence[int], others: Sequence[int], width: int) -> None:
        """Exchange slots, up to `width` positions."""
        for begin in range(0, len(some), _SLOTS_AT_ONCE // 2):
            end = begin + _SLOTS_AT_ONCE // 2
            pair = [*some[begin:end], *others[begin:end]], [*others[begin:end], *some[begin:end]]
            self._move(*pair, width)

    def resize(
        self, slots: int, length: int, sources: Sequence[int], targets: Sequence[int]
    ) -> None:
        """Take another size and keep some slots, in others perhaps.

        One layer after the other, so that old and new are never there together.
        """
        old, self.slots = self.length, 0  # until all is done: the memory may not suffice
        self.length = -(-length // WIDTH_UNIT) * WIDTH_UNIT
        kept = min(old, self.length)
        for number, store in enumerate(self.stores):
            _, _, heads, _, size = store.shape
            shape = (2, slots, heads, self.length + 8, size)
            taken = _empty(shape, store.dtype, store.device)
            for begin in range(0, len(sources), _SLOTS_AT_ONCE):
                some = slice(begin, begin + _SLOTS_AT_ONCE)
                taken[:, list(targets[some]), :, :kept] = store[:, list(sources[some]), :, :kept]
            self.stores[number] = taken
            if store.device.type == "cuda":
                # What was given back is too small for the next layer.
                del store
                torch.cuda.empty_cache()
        self.slots = slots

    def empty(self) -> None:
        """Hold nothing until the next `resize`."""
        self.slots, self.length = 0, self._first_length
        self.stores = [store[:, :0].clone() for store in self.stores]

    def _move(self, sources: Sequence[int], targets: Sequence[int], width: int) -> None:
        device = self.stores[0].device
        here, there = (torch.tensor(slots, device=device) for slots in (sources, targets))
        for store in self.stores:
            part = store[:, :, :, :width]
            part[:, there] = part[:, here]


def _empty(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    # Zeros, because masked positions are multiplied by 0 and 0 times NaN is NaN.
    return torch.zeros(tuple(shape), dtype=dtype, device=device)


def cache_for(model: Any, max_length: int) -> SlotCache:
    """An empty cache for two slots, shaped like the one the model fills by itself.

    Raises:
        ValueError: the model's layers cache what slots cannot hold.
    """
    probe = DynamicCache(config=model.config)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        model(
            input_ids=torch.zeros((1, 1), dtype=torch.long, device=model.device),
            past_key_values=probe,
            use_cache=True,
        )
    model.train(was_training)
    slide = [layer for layer in probe.layers if getattr(layer, "is_sliding", False)]
    windows = {layer.sliding_window for layer in slide}
    if len(windows) > 1 or "chunked_attention" in (
        getattr(model.config, "layer_types", None) or ()
    ):
        raise ValueError(f"its layers look back in chunks, or differently far: {sorted(windows)}")
    shapes = {
        tuple(states.shape) for layer in probe.layers for states in (layer.keys, layer.values)
    }
    if len(shapes) != 1:
        raise ValueError(f"its layers cache different shapes: {sorted(shapes)}")
    _, heads, _, head_size = shapes.pop()
    return SlotCache(
        layers=len(probe.layers),
        heads=heads,
        head_size=head_size,
        slots=2,
        length=min(max_length, _FIRST_LENGTH),
        dtype=probe.layers[0].keys.dtype,
        device=probe.layers[0].keys.device,
        window=min(windows, default=None),
        all_slide=len(slide) == len(probe.layers),
    )
