"""Where completions come from: our engine, or transformers' `generate`.

Both turn a batch of contexts into completions. Training adds a third, TRL's own (vLLM and the
like), in `sql_env.training.rollout`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from sql_env.agent.conversation import ChatLayout

logger = logging.getLogger(__name__)

READING = 2**31  # what a GPU needs while contexts are read, and for kernels and graphs


class Completion(NamedTuple):
    """What a model wrote in one turn, and how likely each token was when it was sampled.

    A turn that is not `finished` goes on when its context is asked about again, with these tokens
    at its end.
    """

    ids: list[int]
    logprobs: list[float] | None
    finished: bool = True

    def then(self, rest: Completion) -> Completion:
        """The same turn, with what was written later."""
        return Completion(
            self.ids + rest.ids,
            None if rest.logprobs is None else (self.logprobs or []) + rest.logprobs,
            rest.finished,
        )


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn. A temperature of 0 takes the likeliest."""

    max_new_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0


class Generator(Protocol):
    """Generates one turn for many conversations."""

    def begin(self) -> None:
        """New episodes start, perhaps with new weights."""

    def generate(self, contexts: Sequence[list[int]]) -> list[Completion]:
        """One completion per context, each with at least one token."""
        ...

    def release(self) -> None:
        """Give back the memory that is held from call to call."""


class TransformersGenerator:
    """`model.generate` over a left-padded batch: it reads every context anew in every turn.

    Args:
        model: a transformers causal language model, with or without a PEFT adapter.
        stop_ids: tokens that end a turn.
        pad_id: fills the shorter contexts.
        sampling: how tokens are drawn, and how many at most.
    """

    def __init__(
        self, model: Any, *, stop_ids: Sequence[int], pad_id: int, sampling: Sampling
    ) -> None:
        from transformers import GenerationConfig

        self._model = model
        self._stop_ids = frozenset(stop_ids)
        self._pad_id = pad_id
        drawn = {
            "do_sample": True,
            "temperature": sampling.temperature,
            "top_k": 0,
            "top_p": sampling.top_p,
        }
        self._config = GenerationConfig(
            max_new_tokens=sampling.max_new_tokens,
            eos_token_id=sorted(self._stop_ids),
            pad_token_id=pad_id,
            **(drawn if sampling.temperature > 0 else {"do_sample": False}),
        )

    def begin(self) -> None:
        pass

    def release(self) -> None:
        pass

    def generate(self, contexts: Sequence[list[int]]) -> list[Completion]:
        import torch

        width = max(map(len, contexts))
        padded = [[self._pad_id] * (width - len(ids)) + ids for ids in contexts]
        mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids in contexts]
        device = self._model.device
        was_training = self._model.training
        self._model.eval()
        # Layers compiled for training would be compiled anew for every length. Not inference mode:
        # sharded weights that were gathered in it cannot be trained.
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            output = self._model.generate(
                input_ids=torch.tensor(padded, device=device),
                attention_mask=torch.tensor(mask, device=device),
                generation_config=self._config,
            )
        self._model.train(was_training)
        return [Completion(self._until_stop(ids), None) for ids in output[:, width:].tolist()]

    def _until_stop(self, ids: list[int]) -> list[int]:
        """Without the padding that a batch appends to those that stopped early."""
        for position, token in enumerate(ids):
            if token in self._stop_ids:
                return ids[: position + 1]
        return ids


def make_generator(
    model: Any,
    tokenizer: Any,
    sampling: Sampling,
    *,
    max_length: int,
    engine: bool = True,
    copy_dtype: Any = None,
    stragglers: float = 0.0,
    at_once: int | None = None,
) -> Generator:
    """The engine where it can run this model, `generate` where it cannot.

    Args:
        max_length: the longest conversation, completion included.
        engine: False always takes `generate`.
        copy_dtype: let the engine sample from a copy of the weights in this type.
        stragglers: the share of the turns that the engine may leave unfinished in a call.
        at_once: how many tokens of a turn the engine writes in a call; `generate` writes it whole.
    """
    stop_ids = sorted(ChatLayout.of(tokenizer, model).stop_ids)
    if engine:
        from sql_env.agent.engine.lockstep import LockstepEngine, UnsupportedModelError

        try:
            return LockstepEngine(
                model,
                stop_ids=stop_ids,
                sampling=sampling,
                max_length=max_length,
                copy_dtype=copy_dtype,
                stragglers=stragglers,
                at_once=at_once,
            )
        except UnsupportedModelError as error:
            logger.warning("%s; it plays through generate, more slowly", error)
    pad_id = tokenizer.pad_token_id
    return TransformersGenerator(
        model,
        stop_ids=stop_ids,
        pad_id=tokenizer.eos_token_id if pad_id is None else pad_id,
        sampling=sampling,
    )


def conversations_that_fit(model: Any, max_length: int) -> int | None:
    """How many conversations of full length the memory holds that is left on the model's GPU.

    At least one; None on a CPU, whose memory others want as well.
    """
    import torch

    device = model.device
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    # What torch keeps for itself is free to it; and it may be allowed a part of the GPU only.
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    share = getattr(torch.cuda, "get_per_process_memory_fraction", lambda _: 1.0)(device)
    allowed = int(share * total) - torch.cuda.memory_allocated(device)
    left = int(min(free, allowed)) - READING
    return max(1, left // bytes_of_conversation(model, max_length))


def bytes_of_conversation(model: Any, max_length: int) -> int:
    """What a conversation of full length takes on a GPU: keys and values, and its logits."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cached = 2 * config.num_hidden_layers * heads * size * model.dtype.itemsize
    # As the model gives them, in float32, as log-probabilities, and as what is drawn from.
    logits = config.vocab_size * (model.dtype.itemsize + 3 * 4)
    return int(cached * max_length + logits)
