"""From `--policy` to a policy: `random`, `oracle`, `constant:TEXT`, `model:PATH`, `endpoint:…`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sql_env.evaluation.dialogue import Dialogue
    from sql_env.evaluation.policies import BatchPolicy, Policy
    from sql_env.models import QuestionRecord

POLICY_HELP = (
    "random, oracle, constant (answers 0), constant:TEXT (constant:[] answers empty), "
    "model:PATH (a model or adapter folder, or a hub id), endpoint:MODEL@URL (OpenAI-compatible)"
)


class PolicyChoiceError(ValueError):
    """`--policy` names nothing that can play."""


@dataclass(frozen=True)
class ModelOptions:
    """What a model needs besides its name."""

    base: str | None = None
    temperature: float = 0.0
    max_new_tokens: int = 256
    device: str | None = None
    seed: int = 0
    concurrency: int = 16


def build_policy(
    choice: str, questions: Sequence[QuestionRecord], options: ModelOptions
) -> Policy | BatchPolicy:
    """The policy that `choice` names.

    Raises:
        PolicyChoiceError: there is no such policy.
    """
    from sql_env.evaluation.policies import ConstantPolicy, OraclePolicy, RandomPolicy

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
    from sql_env.evaluation.dialogue import Dialogue
    from sql_env.training.parsing import parse_action
    from sql_env.training.prompts import format_observation, get_system_prompt

    return Dialogue(get_system_prompt(), format_observation, parse_action)


def _model_policy(name: str, options: ModelOptions) -> BatchPolicy:
    try:
        from sql_env.training.data_loading import load_model_and_tokenizer
    except ModuleNotFoundError as error:
        raise PolicyChoiceError(
            f"a model needs the training extra ({error.name} is missing): "
            "pip install 'sql_env[training]'"
        ) from error
    from sql_env.evaluation.model_policy import HFGenerator, ModelPolicy

    model, tokenizer = load_model_and_tokenizer(name, device=options.device)
    generate = HFGenerator(
        model,
        stop_ids=[tokenizer.eos_token_id],
        pad_id=tokenizer.pad_token_id,
        max_new_tokens=options.max_new_tokens,
        temperature=options.temperature,
        seed=options.seed,
    )
    return ModelPolicy(
        generate,
        tokenizer,
        _dialogue(),
        max_tokens=_window(model),
        max_new_tokens=options.max_new_tokens,
    )


def _window(model: Any) -> int | None:
    window: int | None = getattr(model.config, "max_position_embeddings", None)
    return window


def _endpoint_policy(address: str, options: ModelOptions) -> BatchPolicy:
    model, at, url = address.rpartition("@")
    if not at or not url.startswith(("http://", "https://")):
        raise PolicyChoiceError(
            f"endpoint:{address} lacks its address: "
            "write endpoint:MODEL@http://localhost:8000/v1 (a key is read from OPENAI_API_KEY)"
        )
    try:
        from sql_env.evaluation.endpoint_policy import EndpointPolicy, EndpointSettings
    except ModuleNotFoundError as error:
        raise PolicyChoiceError("an endpoint needs httpx: pip install httpx") from error

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
