"""Where completions come from: transformers' `generate`, TRL's own backend, or our engine.

All of them turn a batch of contexts into completions; `begin` says that new episodes start and that
the weights may have changed since the last ones.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sql_env.agent.conversation import ChatLayout
from sql_env.agent.model_policy import HFGenerator
from sql_env.agent.second_thoughts import Choices

if TYPE_CHECKING:
    from trl import GRPOTrainer

    from sql_env.training.config import GRPOConfig

logger = logging.getLogger(__name__)

# Most turns name a table; the few long queries go on beside the next turns of the others.
_STRAGGLERS = 0.2


class Completion(NamedTuple):
    """What a model wrote in one turn, and how likely each token was when it was sampled.

    `choices` are the likeliest tokens at each place, where `Sampling` asks for them. A turn that is
    not `finished` goes on when its context is asked about again, with these tokens at its end.
    """

    ids: list[int]
    logprobs: list[float] | None
    choices: Choices | None = None
    finished: bool = True

    def then(self, rest: Completion) -> Completion:
        """The same turn, with what was written later."""
        return Completion(
            self.ids + rest.ids,
            None if rest.logprobs is None else (self.logprobs or []) + rest.logprobs,
            None if rest.choices is None else (self.choices or []) + rest.choices,
            rest.finished,
        )


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn. A temperature of 0 takes the likeliest.

    At each place the `choices` likeliest tokens are noted; 0 notes none.
    """

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    choices: int = 0


class Backend(Protocol):
    """Generates one turn for many conversations."""

    def begin(self) -> None:
        """New episodes start, perhaps with new weights."""

    def generate(self, contexts: Sequence[list[int]]) -> list[Completion]:
        """One completion per context, each with at least one token."""
        ...


class GenerateBackend:
    """`model.generate`, which reads every context from its beginning in every turn."""

    def __init__(
        self, model: Any, *, stop_ids: Sequence[int], pad_id: int, sampling: Sampling
    ) -> None:
        self._generate = HFGenerator(
            model,
            stop_ids=stop_ids,
            pad_id=pad_id,
            max_new_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=None,
        )

    def begin(self) -> None:
        pass

    def generate(self, contexts: Sequence[list[int]]) -> list[Completion]:
        import torch

        # Layers compiled for training would be compiled anew for every length.
        with torch.compiler.set_stance("force_eager"):
            return [Completion(ids, None) for ids in self._generate(list(contexts))]


class TrainerBackend:
    """Whatever TRL's trainer is set up with: vLLM, continuous batching or `generate`.

    The only place that calls a private method of TRL.
    """

    def __init__(self, trainer: GRPOTrainer, max_new_tokens: int) -> None:
        self._trainer = trainer
        trainer.generation_config.max_new_tokens = max_new_tokens

    def begin(self) -> None:
        pass

    def generate(self, contexts: Sequence[list[int]]) -> list[Completion]:
        self._any_rank_plays(True)
        ids, logprobs = self._trainer._generate_single_turn(list(contexts), None, {}, 1)
        each = logprobs if logprobs is not None else [None] * len(ids)
        return [Completion(list(turn), known) for turn, known in zip(ids, each, strict=True)]

    def keep_company(self) -> None:
        """Take part in the turns of ranks that still play, until none does.

        Sharded weights and a vLLM server are used by all ranks at once: one that left when its own
        episodes were over would keep the others waiting for ever.
        """
        idle = [self._trainer.processing_class.eos_token_id]
        while self._any_rank_plays(False):
            self._trainer._generate_single_turn([idle], None, {}, 1)

    def _any_rank_plays(self, this_one: bool) -> bool:
        import torch

        accelerator = self._trainer.accelerator
        if accelerator.num_processes == 1:
            return this_one
        plays = torch.tensor([int(this_one)], device=accelerator.device)
        return bool(accelerator.reduce(plays, "sum").item())


def choose_backend(model: Any, tokenizer: Any, config: GRPOConfig) -> Backend:
    """The engine where it can run this model and the config does not forbid it."""
    sampling = Sampling(config.max_new_tokens, config.temperature, config.top_p)
    stop_ids = stop_ids_of(model, tokenizer)
    if config.engine == "auto":
        from sql_env.agent.engine.lockstep import LockstepEngine, UnsupportedModelError

        try:
            return LockstepEngine(
                model,
                stop_ids=stop_ids,
                sampling=sampling,
                max_length=config.max_context_tokens,
                shadow_dtype=_shadow_dtype(model, config),
                stragglers=_STRAGGLERS,
            )
        except UnsupportedModelError as error:
            logger.warning("%s; playing through generate instead", error)
    pad_id = tokenizer.pad_token_id
    return GenerateBackend(
        model,
        stop_ids=stop_ids,
        pad_id=tokenizer.eos_token_id if pad_id is None else pad_id,
        sampling=sampling,
    )


def _shadow_dtype(model: Any, config: GRPOConfig) -> Any:
    """On a GPU, weights that training casts in every forward are cast once per rollout."""
    import torch

    wanted = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(config.resolved_precision())
    return wanted if model.device.type == "cuda" and model.dtype != wanted else None


def stop_ids_of(model: Any, tokenizer: Any) -> list[int]:
    """Every token that ends a turn: the tokenizer's, and those of the generation config."""
    configured = model.generation_config.eos_token_id if model.generation_config else None
    listed = configured if isinstance(configured, list) else [configured]
    return sorted({tokenizer.eos_token_id, *listed} - {None})


def layout_of(tokenizer: Any, config: GRPOConfig) -> ChatLayout:
    """The chat layout that rollouts and the warm-up share."""
    return ChatLayout.of(tokenizer, enable_thinking=config.enable_thinking)
