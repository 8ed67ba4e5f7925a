"""The decode loop: one token for every conversation per step, sampled on the device.

All state lives in tensors that never move (tokens, positions, what was written), so that one step
is a fixed sequence of kernels. On a GPU it is captured as a CUDA graph for each pair of batch size
and cache width that occurs, and replayed; on a CPU the same function runs eagerly. Conversations
that finish their turn drop out: the others are moved together and the batch shrinks.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from sql_env.agent.engine.slot_cache import WIDTH_UNIT, SlotCache
from sql_env.agent.generation import Completion, Sampling

logger = logging.getLogger(__name__)

Forward = Callable[[Tensor, Tensor, slice, int], Tensor]
"""Tokens, positions, slots and cache width in; the logits of the last position out."""

_SMALLEST_GRAPH = 8
_DOUBLED_UP_TO = 64
_NOTHING = -1


class DecodeLoop:
    """Decodes from filled cache slots until every conversation has ended its turn.

    Args:
        device: where it runs.
        stop_ids: tokens that end a turn.
        sampling: how tokens are drawn, and how many at most.
        use_graphs: capture the step as a CUDA graph.
    """

    def __init__(
        self,
        device: torch.device,
        stop_ids: Sequence[int],
        sampling: Sampling,
        *,
        use_graphs: bool,
    ) -> None:
        self._device = device
        self._stop_ids = torch.tensor(sorted(stop_ids), device=device)
        self._sampling = sampling
        self._use_graphs = use_graphs
        # Looking at who is done makes the GPU wait, so it is not done after every step.
        self._steps_between_looks = 2 if device.type == "cuda" else 1
        self._width_unit = 2 * WIDTH_UNIT if use_graphs else WIDTH_UNIT
        self._capacity = 0
        self._graphs: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}
        self._pool = torch.cuda.graph_pool_handle() if use_graphs else None
        self._stream: Any = torch.cuda.Stream(device) if use_graphs else None
        self._warm: set[int] = set()  # batch sizes that ran once: what is compiled, is compiled

    def forget_graphs(self) -> None:
        """The cache or the weights have moved: captured addresses are stale."""
        self._graphs.clear()
        # A pool whose graphs are all gone cannot be captured into again.
        self._pool = torch.cuda.graph_pool_handle() if self._use_graphs else None

    def slots_for(self, count: int) -> int:
        """How many slots a batch of `count` takes: graphs exist for a few sizes only."""
        if not self._use_graphs:
            return count
        size = _SMALLEST_GRAPH
        while size < min(count, _DOUBLED_UP_TO):
            size *= 2
        # Twice as many again would be too much memory for rows that nobody reads.
        return size if size >= count else -(-count // _DOUBLED_UP_TO) * _DOUBLED_UP_TO

    def run(
        self,
        forward: Forward,
        tokens: Sequence[int],
        positions: Sequence[int],
        limits: Sequence[int],
        cache: SlotCache,
        *,
        leave: int = 0,
        most: int | None = None,
    ) -> tuple[list[Completion], list[int]]:
        """Go on from the last token of each conversation; slot i holds conversation i.

        Args:
            forward: the model, over the cache. It is not kept: whoever owns it owns this loop.
            tokens, positions: the last token of each, and where it stands.
            limits: how many more tokens each turn may have.
            cache: what was read before.
            leave: stop when no more turns than this go on.
            most: stop after so many tokens.

        Returns:
            The completions, and in which slot each conversation lies afterwards.
        """
        count = len(tokens)
        rows = self.slots_for(count)
        self._reserve(rows)
        self._load(tokens, positions, limits)
        order = list(range(rows))  # which conversation lies in each slot
        lengths = [position + 1 for position in positions] + [0] * (rows - count)
        active = list(range(count))
        limit = max(limits) if most is None else min(max(limits), most)
        step = 0
        while len(active) > leave and step < limit:
            longest = max(lengths[order[slot]] for slot in active)
            until = min(step + self._steps_between_looks, limit)
            while step < until:
                self._advance(forward, rows, self._width_for(longest + step, cache))
                step += 1
            going = self._active[:rows].tolist()
            active = [slot for slot in range(rows) if going[slot]]
            fewer = self.slots_for(len(active))
            if active and fewer < rows:
                high = [slot for slot in active if slot >= fewer]
                low = [slot for slot in range(fewer) if not going[slot]][: len(high)]
                self._exchange(high, low)
                cache.swap(high, low, self._width_for(max(lengths) + step, cache))
                for one, other in zip(high, low, strict=True):
                    order[one], order[other] = order[other], order[one]
                active = sorted({*active, *low} - {*high})
                rows = fewer
        return self._collect(count, order, step, {order[slot] for slot in active})

    # -- inside ------------------------------------------------------------------------------

    def _reserve(self, rows: int) -> None:
        if rows <= self._capacity:
            return
        self._capacity = rows
        self.forget_graphs()
        device, limit = self._device, self._sampling.max_new_tokens
        self._tokens = torch.zeros(rows, dtype=torch.long, device=device)
        self._positions = torch.zeros(rows, dtype=torch.long, device=device)
        self._left = torch.zeros(rows, dtype=torch.long, device=device)
        self._active = torch.zeros(rows, dtype=torch.bool, device=device)
        self._written = torch.zeros((rows, limit), dtype=torch.long, device=device)
        self._logprobs = torch.zeros((rows, limit), dtype=torch.float32, device=device)
        self._column = torch.zeros(1, dtype=torch.long, device=device)

    def _load(self, tokens: Sequence[int], positions: Sequence[int], limits: Sequence[int]) -> None:
        # Slots beyond the conversations are played along, but write nothing anyone reads.
        padding = [0] * (self._capacity - len(tokens))
        self._tokens.copy_(torch.tensor([*tokens, *padding]))
        self._positions.copy_(torch.tensor([*positions, *padding]))
        self._left.copy_(torch.tensor([*limits, *padding]))
        self._active.copy_(torch.tensor([True] * len(tokens) + [False] * len(padding)))
        self._written.fill_(_NOTHING)
        self._column.zero_()

    def _exchange(self, some: list[int], others: list[int]) -> None:
        here = torch.tensor([*some, *others], dtype=torch.long, device=self._device)
        there = torch.tensor([*others, *some], dtype=torch.long, device=self._device)
        for state in (
            self._tokens,
            self._positions,
            self._left,
            self._active,
            self._written,
            self._logprobs,
        ):
            state[there] = state[here]

    def _collect(
        self, count: int, order: list[int], steps: int, unfinished: set[int]
    ) -> tuple[list[Completion], list[int]]:
        slots = sorted(range(len(order)), key=order.__getitem__)[:count]
        written = self._written[:, :steps].tolist()
        logprobs = self._logprobs[:, :steps].tolist()
        completions = []
        for conversation, slot in enumerate(slots):
            ids = [token for token in written[slot] if token != _NOTHING]
            finished = conversation not in unfinished
            completions.append(Completion(ids, logprobs[slot][: len(ids)], finished))
        return completions, slots

    def _width_for(self, length: int, cache: SlotCache) -> int:
        return min(-(-length // self._width_unit) * self._width_unit, cache.length)

    def _advance(self, forward: Forward, rows: int, width: int) -> None:
        """One step of all rows: replayed, captured first, or eager."""
        if not self._use_graphs:
            self._step(forward, rows, width)
            return
        if rows not in self._warm:
            with self._on_own_stream():
                self._step(forward, rows, width)
            self._warm.add(rows)
            return
        if (rows, width) not in self._graphs:
            try:
                self._graphs[rows, width] = self._capture(forward, rows, width)
            except RuntimeError as error:
                logger.warning("no CUDA graph for the decode step, running it eagerly: %s", error)
                self._use_graphs = False
                self._step(forward, rows, width)
                return
        self._graphs[rows, width].replay()

    def _capture(self, forward: Forward, rows: int, width: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        # `torch.cuda.graph` would collect garbage and empty the allocator for every graph. A
        # collection during capture could free device memory, which a capture does not survive.
        gc.disable()
        try:
            with self._on_own_stream():
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    self._step(forward, rows, width)
                finally:
                    graph.capture_end()
        finally:
            gc.enable()
        return graph

    @contextmanager
    def _on_own_stream(self) -> Iterator[None]:
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            yield
        current.wait_stream(self._stream)

    def _step(self, forward: Forward, rows: int, width: int) -> None:
        tokens, positions = self._tokens[:rows], self._positions[:rows]
        active = self._active[:rows]
        logits = forward(tokens[:, None], positions[:, None], slice(0, rows), width)
        drawn, logprobs = draw_tokens(logits.float(), self._sampling)
        self._written[:rows].index_copy_(
            1, self._column, torch.where(active, drawn, _NOTHING)[:, None]
        )
        self._logprobs[:rows].index_copy_(1, self._column, logprobs[:, None])
        tokens.copy_(torch.where(active, drawn, tokens))
        positions.add_(active)
        left = self._left[:rows].sub_(1)
        active.logical_and_((drawn[:, None] != self._stop_ids).all(dim=1) & (left > 0))
        self._column.add_(1)


def draw_tokens(logits: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Draw a token per row, with its log-probability at the temperature before any top-p cut.

    That is what a trainer computes for it. Everything stays on the device.
    """
    if sampling.temperature == 0:
        drawn = logits.argmax(dim=-1)
        logprobs = torch.log_softmax(logits, dim=-1)
    else:
        logprobs = torch.log_softmax(logits / sampling.temperature, dim=-1)
        kept = _likeliest(logprobs, sampling.top_p) if sampling.top_p < 1 else logprobs
        # The exponential race: the same distribution as multinomial, without its host checks.
        race = torch.empty_like(kept).exponential_()
        drawn = (kept - race.log_()).argmax(dim=-1)
    return drawn, logprobs.gather(-1, drawn[:, None]).squeeze(-1)


def _likeliest(logprobs: Tensor, top_p: float) -> Tensor:
    """Without the tail beyond the likeliest tokens that make up `top_p`."""
    ordered, places = logprobs.sort(dim=-1, descending=True)
    share = ordered.exp()
    before = share.cumsum(dim=-1) - share
    cut = torch.zeros_like(before, dtype=torch.bool).scatter(-1, places, before >= top_p)
    return logprobs.masked_fill(cut, float("-inf"))
