"""The lock-step engine: fast rollouts with the trainer's own weights and no inference server.

`generate` reads every conversation from its beginning in every turn, and on a GPU a small model
spends its time launching kernels. This engine keeps one static key-value cache over all turns of an
episode, so that a turn costs only its new tokens; it decodes all conversations in lock-step, one
token each per step, with the step captured as a CUDA graph on a GPU and run eagerly on a CPU.

    engine = LockstepEngine(model, stop_ids=[2], sampling=Sampling(64), max_length=1024)
    engine.begin()                       # new episodes, perhaps new weights
    turn = engine.generate(contexts)     # token ids and their log-probabilities
    turn = engine.generate(longer)       # contexts that go on from there reuse the cache

A context belongs to the conversation whose cached tokens it begins with; conversations must keep
their order from call to call, and one that is not asked about any more is forgotten. One that takes
another turn than the one written here is read from where it parts. Contexts that begin alike (a
system prompt, several samples of one question) are read once.

Most turns are short and a few are long. With `stragglers` the last of a call are left unfinished,
so that the others need not wait for them: ask again with what was written, and they go on in
company.

No copy of the weights is made, except on request: under bf16 autocast every step would cast all
fp32 master weights anew, so `copy_dtype=torch.bfloat16` keeps a bf16 copy that `begin` refreshes
in place; and a LoRA adapter is merged into a copy, so that it costs nothing in a step. Sampling
from it differs from training by rounding only.

Engines over one model share the copy. One that is made or begins takes the caches of the others:
what is under way there is read anew when it goes on, with the weights of that moment.
"""

from __future__ import annotations

import gc
import inspect
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from sql_env.agent.engine.decode_loop import DecodeLoop
from sql_env.agent.engine.inference_copy import can_be_merged, can_become, inference_copy, refresh
from sql_env.agent.engine.llama_step import LlamaStep
from sql_env.agent.engine.slot_cache import ATTENTION, WIDTH_UNIT, SlotCache, cache_for
from sql_env.agent.generation import Completion, Sampling

logger = logging.getLogger(__name__)

# cuDNN's attention plans anew for every shape, which costs more than it saves here.
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_GROWTH = 128
# Relative to the largest logit. Rounding alone moves a bf16 model by up to a tenth on a text that
# means nothing to it; another kind of attention differs by far more.
_LARGEST_DIFFERENCE = {torch.float32: 0.01, torch.float64: 0.01}
_LARGEST_HALF_DIFFERENCE = 0.25
# So many keep a GPU busy; what a layer holds for them meanwhile is a gigabyte for a model of 1.5B.
_PREFILL_TOKENS = {"cuda": 16_384, "cpu": 2_048}
_WASTED_TOKENS = {"cuda": 4_096, "cpu": 64}  # padding that costs no more than another forward
_WORTH_SHARING = 16


class UnsupportedModelError(ValueError):
    """The engine cannot run this model; `generate` can."""


class LockstepEngine:
    """Generates turns for many conversations at once.

    Args:
        model: a transformers causal language model, with or without a PEFT adapter.
        stop_ids: tokens that end a turn.
        sampling: how tokens are drawn, and how many per turn.
        max_length: the longest conversation, completion included.
        copy_dtype: sample from a copy of the weights in this type, refreshed by `begin`.
        cuda_graphs: capture the decode step on a GPU.
        short_cut: take it through the layers of the families that have one.
        stragglers: the share of the turns that a call may leave unfinished.
        at_once: how many tokens of a turn a call writes at most, for who wants to see it written.

    Raises:
        UnsupportedModelError: the model's attention or cache is of a kind the engine lacks.
    """

    def __init__(
        self,
        model: Any,
        *,
        stop_ids: Sequence[int],
        sampling: Sampling,
        max_length: int,
        copy_dtype: torch.dtype | None = None,
        cuda_graphs: bool = True,
        short_cut: bool = True,
        stragglers: float = 0.0,
        at_once: int | None = None,
    ) -> None:
        self._source = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._take_caches_of_others()
        if copy_dtype is None and can_be_merged(self._source):
            copy_dtype = self._source.dtype
        self._copy = None if copy_dtype is None else self._shared_copy(copy_dtype)
        self._model = self._source if self._copy is None else self._copy
        self._max_length = max_length
        self._max_new_tokens = sampling.max_new_tokens
        self._stragglers = stragglers
        self._at_once = at_once
        self._held: list[_Held] = []
        self._weights_at = self._addresses()
        device = self._model.device
        self._loop = DecodeLoop(
            device,
            stop_ids,
            sampling,
            use_graphs=cuda_graphs and device.type == "cuda",
        )
        self._prefill_tokens = _PREFILL_TOKENS.get(device.type, _PREFILL_TOKENS["cpu"])
        self._wasted_tokens = _WASTED_TOKENS.get(device.type, _WASTED_TOKENS["cpu"])
        takes = inspect.signature(type(self._model).forward).parameters
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
        self._llama_step: LlamaStep | None = None
        self._cache = self._fitting_cache()
        self._llama_step = self._trusted_step() if short_cut else None
        _ENGINES.add(self)

    def begin(self) -> None:
        """Forget all conversations, and take over new weights."""
        self._held = []
        self._take_caches_of_others()
        if self._copy is not None:
            refresh(self._copy, self._source)
        elif self._addresses() != self._weights_at:
            self._weights_at = self._addresses()
            self._loop.forget_graphs()
            # The new weights may lie in other layers, those of an adapter for instance.
            if self._llama_step is not None:
                self._llama_step = self._trusted_step()

    def release(self) -> None:
        """Forget all conversations, and give back the memory that was taken for them."""
        self._held = []
        # What ran out of memory may be held by a cycle through the error that said so.
        gc.collect()
        self._give_back()

    def generate(self, contexts: Sequence[list[int]]) -> list[Completion]:
        """One completion per context, up to and with its stop token unless it is a straggler.

        Raises:
            ValueError: a context and its completion would not fit into `max_length`.
        """
        known = self._recognise(contexts)
        self._held = []  # until all is done
        begun = [
            held.begun_in(context) if held else 0
            for held, context in zip(known, contexts, strict=True)
        ]
        limits = [self._max_new_tokens - written for written in begun]
        if not self._cache.slots:  # it was given back in the middle of their turns
            known = [None for _ in known]
        longest = max(len(context) + limit for context, limit in zip(contexts, limits, strict=True))
        if longest > self._max_length:
            raise ValueError(
                f"a context of {longest - self._max_new_tokens} tokens and a completion of "
                f"{self._max_new_tokens} do not fit into max_length {self._max_length}"
            )
        with self._ready():
            slots = self._place(known, longest)
            self._prefill(
                contexts,
                slots,
                [
                    held.shared_with(context) if held else 0
                    for held, context in zip(known, contexts, strict=True)
                ],
            )
            in_slots = sorted(range(len(contexts)), key=slots.__getitem__)
            completions, places = self._loop.run(
                self._forward,
                [contexts[i][-1] for i in in_slots],
                [len(contexts[i]) - 1 for i in in_slots],
                [limits[i] for i in in_slots],
                self._cache,
                leave=int(len(contexts) * self._stragglers),
                most=self._at_once,
            )
        outcome = dict(zip(in_slots, zip(completions, places, strict=True), strict=True))
        for i, context in enumerate(contexts):
            completion, slot = outcome[i]
            *read, drawn = completion.ids  # the last token was drawn but never read
            written = 0 if completion.finished else begun[i] + len(completion.ids)
            self._held.append(_Held([*context, *read], slot, drawn, written))
        return [outcome[i][0] for i in range(len(contexts))]

    # -- other engines over the same model ---------------------------------------------------

    def _others(self) -> list[LockstepEngine]:
        return [one for one in _ENGINES if one is not self and one._source is self._source]

    def _take_caches_of_others(self) -> None:
        for other in self._others():
            if other._cache.size:
                other._give_back()

    def _give_back(self) -> None:
        """Hold no memory for conversations until the next turn; what was begun is remembered."""
        self._loop.forget_graphs()
        self._cache.empty()
        if self._model.device.type == "cuda":
            torch.cuda.empty_cache()

    def _shared_copy(self, dtype: torch.dtype) -> Any:
        """The copy that another engine plays from, or a new one."""
        for copied in (other._copy for other in self._others()):
            if copied is not None and can_become(copied, self._source, dtype):
                refresh(copied, self._source)
                return copied
        return inference_copy(self._source, dtype)

    # -- which conversation lies where -------------------------------------------------------

    def _recognise(self, contexts: Sequence[list[int]]) -> list[_Held | None]:
        """The cached conversation that each context goes on from, looked for in order.

        Then, for those that go on from none, one that has at least their first half.
        """
        found: list[_Held | None] = []
        first = 0
        for context in contexts:
            match = next(
                (n for n in range(first, len(self._held)) if self._held[n].begins(context)), None
            )
            found.append(None if match is None else self._held[match])
            first = first if match is None else match + 1
        taken = {held.slot for held in found if held}
        left = [held for held in self._held if held.slot not in taken]
        for i, context in enumerate(contexts):
            if found[i] is None and left:
                near = next((n for n, held in enumerate(left) if held.resembles(context)), None)
                found[i] = None if near is None else left.pop(near)
        return found

    def _place(self, known: Sequence[_Held | None], length: int) -> list[int]:
        """A slot among the first for every conversation; those not asked about are dropped."""
        count, cache = len(known), self._cache
        rows = self._loop.slots_for(count)
        fits = rows <= cache.slots and length <= cache.length
        stay = {held.slot for held in known if held and held.slot < count} if fits else set()
        free = iter([slot for slot in range(count) if slot not in stay])
        slots = [held.slot if held and held.slot in stay else next(free) for held in known]
        moves = {
            slot: held
            for held, slot in zip(known, slots, strict=True)
            if held and (held.slot != slot or not fits)
        }
        sources, targets = [held.slot for held in moves.values()], list(moves)
        if not fits:
            # Some room to spare, for growing drops the captured graphs; not much, for the cache
            # of many conversations is what fills a GPU. Nor is there a slot more than is needed
            # now: the last few conversations are the longest.
            longer = min(length + _GROWTH, self._max_length) if length > cache.length else 0
            self._loop.forget_graphs()
            cache.resize(rows, max(longer, cache.length), sources, targets)
        elif moves:
            cache.copy(sources, targets, max(len(held.ids) for held in moves.values()))
        return slots

    # -- reading -----------------------------------------------------------------------------

    def _prefill(self, contexts: Sequence[list[int]], slots: list[int], starts: list[int]) -> None:
        """Read all of every context that is not cached yet, but its last token."""
        fresh = [i for i, start in enumerate(starts) if start == 0]
        shared = _shared_length([contexts[i][:-1] for i in fresh])
        if len(fresh) > 1 and shared >= _WORTH_SHARING:
            first, *others = fresh
            self._read([(slots[first], 0, contexts[first][:shared])])
            self._cache.copy([slots[first]] * len(others), [slots[i] for i in others], shared)
            starts = [shared if i in set(fresh) else start for i, start in enumerate(starts)]
        first_of: dict[tuple[int, ...], int] = {}
        twins = []
        for i in fresh:
            original = first_of.setdefault(tuple(contexts[i]), i)
            if original != i:
                twins.append((original, i))
        copied = {i for _, i in twins}
        self._read(
            [
                (slots[i], starts[i], context[starts[i] : -1])
                for i, context in enumerate(contexts)
                if i not in copied
            ]
        )
        if twins:
            self._cache.copy(
                [slots[original] for original, _ in twins],
                [slots[i] for _, i in twins],
                max(len(contexts[i]) for _, i in twins),
            )

    def _read(self, parts: Sequence[tuple[int, int, list[int]]]) -> None:
        """Read (slot, first position, tokens), those of similar length together."""
        waiting = sorted((part for part in parts if part[2]), key=lambda part: -len(part[2]))
        while waiting:
            width = len(waiting[0][2])
            size = self._alike([len(ids) for _, _, ids in waiting[: self._prefill_tokens // width]])
            batch, waiting = waiting[:size], waiting[size:]
            # Padding is written to the position behind the last, where nobody looks.
            bin_position = self._cache.length
            tokens = [ids + [0] * (width - len(ids)) for _, _, ids in batch]
            positions = [
                [*range(start, start + len(ids)), *[bin_position] * (width - len(ids))]
                for _, start, ids in batch
            ]
            reach = max(start + len(ids) for _, start, ids in batch)
            device = self._model.device
            self._forward(
                torch.tensor(tokens, device=device),
                torch.tensor(positions, device=device),
                torch.tensor([slot for slot, _, _ in batch], device=device),
                min(-(-reach // WIDTH_UNIT) * WIDTH_UNIT, self._cache.length),
            )

    def _alike(self, lengths: Sequence[int]) -> int:
        """How many of some parts, longest first, are best padded to the length of the first."""
        padding = 0
        for number, length in enumerate(lengths):
            padding += lengths[0] - length
            if 2 * length < lengths[0] and padding > self._wasted_tokens:
                return number
        return max(1, len(lengths))

    def _forward(
        self, tokens: Tensor, positions: Tensor, rows: slice | Tensor, width: int
    ) -> Tensor:
        mask = self._cache.aim(rows, positions, width)
        if self._llama_step is not None and isinstance(rows, slice) and isinstance(mask, Tensor):
            return self._llama_step(tokens, positions, mask, self._cache)
        with _uncompiled():
            output = self._model(
                input_ids=tokens,
                position_ids=positions,
                attention_mask=mask,
                past_key_values=self._cache,
                use_cache=True,
                **self._options,
            )
        logits: Tensor = output.logits[:, -1]
        return logits

    # -- the model ---------------------------------------------------------------------------

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Evaluation mode, no gradients, our attention; all of it put back afterwards."""
        model, config = self._model, self._model.config
        was_training, attention = model.training, config._attn_implementation
        model.eval()
        config._attn_implementation = ATTENTION
        try:
            with torch.no_grad(), sdpa_kernel(_KERNELS):
                yield
        finally:
            config._attn_implementation = attention
            model.train(was_training)

    def _fitting_cache(self) -> SlotCache:
        """A cache of the model's shape, once the engine has been seen to agree with the model."""
        name = type(self._model).__name__
        try:
            with _uncompiled():
                cache = self._cache = cache_for(self._model, self._max_length)
            difference = self._difference_from_model()
        except torch.OutOfMemoryError:
            raise
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
            raise UnsupportedModelError(f"the engine cannot run {name}: {error}") from error
        if not difference < self._largest_difference():
            raise UnsupportedModelError(
                f"the engine does not agree with {name}: logits differ by {difference:.1%}"
            )
        return cache

    def _trusted_step(self) -> LlamaStep | None:
        """The short cut through a Llama's layers, where it leads to the same logits."""
        if not LlamaStep.fits(self._model) or not (
            self._cache.window is None or self._cache.all_slide
        ):
            return None
        try:
            self._llama_step = step = LlamaStep(self._model)
            difference = self._difference_from_model()
        except torch.OutOfMemoryError:
            raise
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            # It may not compile here.
            reason = str(error).partition("\n")[0]
        else:
            if difference < self._largest_difference():
                return step
            reason = f"logits differ by {difference:.1%}"
        logger.warning("no short cut through the model's layers: %s", reason)
        return None

    def _largest_difference(self) -> float:
        return _LARGEST_DIFFERENCE.get(self._model.dtype, _LARGEST_HALF_DIFFERENCE)

    def _difference_from_model(self) -> float:
        """The largest difference of a logit, relative to the largest logit.

        Of two short texts the one with the smaller counts: rounding may move one of them far, a
        model of another kind moves both. Each is read in both rows. Tokens with low numbers are
        left out, for they are special to a model, and those it moves farthest.
        """
        if self._cache.slots < 2:  # given back, or cut to one conversation
            self._cache.resize(2, self._cache.length, [], [])
        device = self._model.device
        vocabulary = self._model.get_input_embeddings().num_embeddings
        numbers = torch.arange(1, 10, device=device)
        texts = torch.stack([numbers * (vocabulary // share) for share in (11, 13)])
        was_training = self._model.training
        self._model.eval()
        with torch.no_grad(), _uncompiled():
            expected = self._model(input_ids=texts).logits[:, -1].float()
        self._model.train(was_training)
        last = torch.full((2, 1), texts.shape[1] - 1, device=device)
        seen = []
        with self._ready():
            for order in ([0, 1], [1, 0]):
                rows = texts[order]
                self._read([(slot, 0, ids[:-1]) for slot, ids in enumerate(rows.tolist())])
                logits = self._forward(rows[:, -1:], last, slice(0, 2), WIDTH_UNIT).float()
                seen.append((logits[order] - expected).abs().amax(dim=1))
        differences = torch.stack(seen).amax(dim=0) / expected.abs().amax(dim=1)
        return float(differences.min())

    def _addresses(self) -> list[int]:
        return [parameter.data_ptr() for parameter in self._model.parameters()]


_ENGINES: WeakSet[LockstepEngine] = WeakSet()  # all that are alive


@dataclass(frozen=True)
class _Held:
    """A conversation in the cache, and the token that comes next.

    `unfinished` tokens at its end, that one included, are of a turn that goes on.
    """

    ids: list[int]
    slot: int
    drawn: int
    unfinished: int

    def begins(self, context: list[int]) -> bool:
        size = len(self.ids)
        return (
            size < len(context)
            and context[size - 1] == self.ids[-1]
            and (context[:size] == self.ids)
        )

    def begun_in(self, context: list[int]) -> int:
        """How many tokens of the turn that a context asks for are written already."""
        return self.unfinished if context == [*self.ids, self.drawn] else 0

    def resembles(self, context: list[int]) -> bool:
        """Whether at least half of a context is cached here."""
        half = (len(context) + 1) // 2
        return half >= _WORTH_SHARING and self.ids[:half] == context[:half]

    def shared_with(self, context: list[int]) -> int:
        """How many tokens of a context need not be read again. Its last one always has to be."""
        if self.begins(context):
            return len(self.ids)
        return min(_shared_length([self.ids, context]), len(context) - 1)


def _uncompiled() -> Any:
    """Layers compiled for training would be compiled anew for every shape of the cache."""
    return torch.compiler.set_stance("force_eager")


def _shared_length(sequences: Sequence[list[int]]) -> int:
    """How many tokens all sequences begin with."""
    if not sequences:
        return 0
    first, last = min(sequences), max(sequences)  # what these two share, all in between share
    pairs = enumerate(zip(first, last, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(last)))
