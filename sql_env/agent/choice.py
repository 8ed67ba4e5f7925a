"""From `--policy` to a policy: `random`, `oracle`, `constant:TEXT`, `model:PATH`, `endpoint:…`."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sql_env.agent.dialogue import Dialogue
    from sql_env.agent.policies import BatchPolicy, Policy
    from sql_env.agent.second_thoughts import TokenGenerator
    from sql_env.models import QuestionRecord

logger = logging.getLogger(__name__)

POLICY_HELP = (
    "random, oracle, constant (answers 0), constant:TEXT (constant:[] answers empty), "
    "model:PATH (a model, adapter or delta folder, or a hub id), "
    "endpoint:MODEL@URL (OpenAI-compatible)"
)
# As in training: a longer conversation is cut to its first turn and its last few.
LONGEST_CONVERSATION = 4096
# The likeliest other turns often lead nowhere either; more tries cost time on a CPU.
REDRAWS = 8
CHOICES = 4  # a fifth at one place is nearly always less likely than a second at another
SECONDS_TO_CONNECT = 10
DTYPES = ("float32", "bfloat16", "float16")


class PolicyChoiceError(ValueError):
    """`--policy` names nothing that can play."""


@dataclass(frozen=True)
class ModelOptions:
    """What a model needs besides its name."""

    base: str | None = None
    temperature: float = 0.0
    redraws: int = REDRAWS
    max_new_tokens: int = 256
    device: str | None = None
    dtype: str = "float32"
    seed: int = 0
    concurrency: int = 16


def build_policy(
    choice: str, questions: Sequence[QuestionRecord], options: ModelOptions
) -> Policy | BatchPolicy:
    """The policy that `choice` names.

    Raises:
        PolicyChoiceError: there is no such policy.
    """
    from sql_env.agent.policies import ConstantPolicy, OraclePolicy, RandomPolicy

    kind, _, rest = choice.partition(":")
    if choice == "random":
        return RandomPolicy(options.seed)
    if choice == "oracle":
        return OraclePolicy(questions)
    if kind == "constant":
        return ConstantPolicy(rest or "0")
    if kind == "model" and rest:
        return _model_policy(rest, options)
    if kind == "endpoint" and rest:
        return _endpoint_policy(rest, options)
    raise PolicyChoiceError(f"unknown policy {choice!r}: use one of {POLICY_HELP}")


def _dialogue() -> Dialogue:
    from sql_env.agent.dialogue import Dialogue
    from sql_env.agent.prompts import format_observation, get_system_prompt
    from sql_env.training import parsing

    # Every episode records what did not parse; a warning for each would break the progress bar.
    parsing.logger.setLevel(logging.ERROR)
    return Dialogue(get_system_prompt(), format_observation, parsing.parse_model_output)


def _model_policy(name: str, options: ModelOptions) -> BatchPolicy:
    try:
        from sql_env.agent.conversation import ChatTemplateError
        from sql_env.agent.engine.lockstep import LockstepEngine
        from sql_env.agent.generation import stop_ids_of
        from sql_env.agent.loading import ModelLoadError
        from sql_env.agent.model_policy import ModelPolicy
        from sql_env.agent.second_thoughts import SecondThoughts

        model, tokenizer = _load(name, options)
        window = getattr(model.config, "max_position_embeddings", None) or LONGEST_CONVERSATION
        window = min(window, LONGEST_CONVERSATION)
        thinks_twice = options.temperature == 0 and options.redraws > 0
        choices = CHOICES if thinks_twice else 0
        player = _generator(model, tokenizer, options, window, choices=choices)
        writer, thoughts = None, None
        if thinks_twice and isinstance(player, LockstepEngine):  # `generate` notes no choices
            writer = _generator(model, tokenizer, options, window)
            thoughts = SecondThoughts(
                player,
                writer,
                stop_ids=stop_ids_of(model, tokenizer),
                max_new_tokens=options.max_new_tokens,
            )

        def release() -> None:
            for generator in (player, writer):
                if isinstance(generator, LockstepEngine):  # `generate` keeps nothing
                    generator.release()

        return ModelPolicy(
            player,
            tokenizer,
            _dialogue(),
            max_tokens=window,
            max_new_tokens=options.max_new_tokens,
            second_thoughts=thoughts,
            redraws=options.redraws,
            release=release,
        )
    except ModuleNotFoundError as error:
        raise PolicyChoiceError(
            f"a model needs the training extra ({error.name} is missing): "
            "pip install '.[training]' in the project's folder"
        ) from error
    except (ModelLoadError, ChatTemplateError) as error:
        raise PolicyChoiceError(str(error)) from error


def _load(name: str, options: ModelOptions) -> tuple[Any, Any]:
    import torch
    from transformers.utils.logging import disable_progress_bar

    from sql_env.agent.loading import load_model_and_tokenizer

    if options.dtype not in DTYPES:
        raise PolicyChoiceError(f"--dtype is {options.dtype!r}: use {', '.join(DTYPES)}")
    try:
        torch.zeros(1, device=options.device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise PolicyChoiceError(f"--device {options.device} cannot be used: {reason}") from error
    disable_progress_bar()
    if options.base is None:
        return load_model_and_tokenizer(name, dtype=options.dtype, device=options.device)
    from peft import PeftModel

    model, tokenizer = load_model_and_tokenizer(
        options.base, dtype=options.dtype, device=options.device
    )
    try:
        return PeftModel.from_pretrained(model, name), tokenizer
    except (OSError, ValueError) as error:
        raise PolicyChoiceError(f"no adapter for {options.base} in {name}: {error}") from error


def _generator(
    model: Any, tokenizer: Any, options: ModelOptions, window: int, *, choices: int = 0
) -> TokenGenerator:
    """The fast engine, or `generate` for models that it cannot run."""
    import torch

    from sql_env.agent.engine.lockstep import LockstepEngine, UnsupportedModelError
    from sql_env.agent.generation import Sampling, stop_ids_of
    from sql_env.agent.model_policy import HFGenerator

    torch.manual_seed(options.seed)
    stop_ids = stop_ids_of(model, tokenizer)
    try:
        sampling = Sampling(options.max_new_tokens, options.temperature, choices=choices)
        return LockstepEngine(model, stop_ids=stop_ids, sampling=sampling, max_length=window)
    except UnsupportedModelError as error:
        logger.warning("%s: it plays through generate, more slowly and without redraws", error)
        return HFGenerator(
            model,
            stop_ids=stop_ids,
            pad_id=tokenizer.pad_token_id,
            max_new_tokens=options.max_new_tokens,
            temperature=options.temperature,
            seed=options.seed,
        )


def _endpoint_policy(address: str, options: ModelOptions) -> BatchPolicy:
    model, at, url = address.rpartition("@")
    if not at or not url.startswith(("http://", "https://")):
        raise PolicyChoiceError(
            f"endpoint:{address} lacks its address: "
            "write endpoint:MODEL@http://localhost:8000/v1 (a key is read from OPENAI_API_KEY)"
        )
    try:
        import httpx

        from sql_env.agent.endpoint import EndpointPolicy, EndpointSettings
    except ModuleNotFoundError as error:
        raise PolicyChoiceError("an endpoint needs httpx: pip install httpx") from error
    try:
        # Said at once, not after the retries of every episode. Any answer at all will do.
        httpx.get(url, timeout=SECONDS_TO_CONNECT)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL) as error:
        raise PolicyChoiceError(
            f"nothing answers at {url} ({error}): start the server, or check the address"
        ) from error
    except httpx.HTTPError:
        pass

    settings = EndpointSettings(
        base_url=url,
        model=model,
        api_key=os.environ.get("OPENAI_API_KEY"),
        temperature=options.temperature,
        max_new_tokens=options.max_new_tokens,
        concurrency=options.concurrency,
        seed=options.seed,
    )
    return EndpointPolicy(settings, _dialogue())
