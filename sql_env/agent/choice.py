"""From `--policy` to a policy: `random`, `oracle`, `constant:TEXT`, `model:PATH`, `endpoint:…`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

from sql_env.agent.policies import BatchPolicy, ConstantPolicy, OraclePolicy, Policy, RandomPolicy
from sql_env.agent.prompts import (
    NEWEST,
    Actions,
    Prompt,
    PromptError,
    PromptVersion,
    prompt_of_model,
)
from sql_env.core.errors import UserError
from sql_env.models import QuestionRecord

if TYPE_CHECKING:
    from sql_env.agent.chat_client import Price
    from sql_env.agent.generation import Generator

POLICY_HELP = (
    "random, oracle, constant (answers 0), constant:TEXT (constant:[] answers empty), "
    "model:PATH (a model, adapter or delta folder, a GGUF file, or a hub id), "
    "endpoint:MODEL@URL (OpenAI-compatible)"
)
# As in training: a longer conversation is cut to its first turn and its last few.
LONGEST_CONVERSATION = 4096
DTYPES = ("float32", "bfloat16", "float16", "auto")

Decoding = Literal["plain", "guided"]


class PolicyChoiceError(UserError, ValueError):
    """`--policy` names nothing that can play."""


@dataclass(frozen=True)
class ModelOptions:
    """What a model needs besides its name.

    Attributes:
        base: the base model of an adapter.
        prompt, actions: how the model is spoken to and how it writes its actions; None takes what
            it was trained with.
        dtype: of the weights; `auto` is the checkpoint's own on a GPU, float32 on a CPU.
        decoding: `guided` draws turns again that are bound to fail.
        body: further fields of an endpoint's requests.
        price: what a million tokens cost there, read and written: `IN:OUT`.
        concurrency, timeout, retries: of an endpoint's requests; seconds for each of them.
        at_once: how many tokens of a turn a model writes before others hear of it.
    """

    base: str | None = None
    prompt: str | None = None
    actions: str | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    decoding: Decoding = "plain"
    max_new_tokens: int = 256
    device: str | None = None
    dtype: str = "auto"
    seed: int = 0
    body: Mapping[str, Any] = field(default_factory=dict)
    price: str | None = None
    concurrency: int = 16
    timeout: float = 120.0
    retries: int = 5
    at_once: int | None = None


def build_policy(
    choice: str, questions: Sequence[QuestionRecord], options: ModelOptions
) -> Policy | BatchPolicy:
    """The policy that `choice` names.

    Raises:
        PolicyChoiceError: there is no such policy, or it cannot be had here.
    """
    kind, _, rest = choice.partition(":")
    if choice == "random":
        return RandomPolicy(options.seed)
    if choice == "oracle":
        return OraclePolicy(questions)
    if kind == "constant":
        return ConstantPolicy(rest or "0")
    prompt = prompt_of(choice, options)
    if kind == "model" and rest and prompt:
        return _model_policy(rest, prompt, options)
    if kind == "endpoint" and rest and prompt:
        return _endpoint_policy(rest, prompt, options)
    raise PolicyChoiceError(f"unknown policy {choice!r}: use one of {POLICY_HELP}")


def prompt_of(choice: str, options: ModelOptions) -> Prompt | None:
    """How the policy that `choice` names is spoken to; None for one that is no language model.

    Raises:
        PolicyChoiceError: there is no such prompt.
    """
    kind, _, name = choice.partition(":")
    if kind not in ("model", "endpoint"):
        return None
    try:
        own = prompt_of_model(name) if kind == "model" else NEWEST
        return Prompt(
            cast(PromptVersion, options.prompt or own.version),
            cast(Actions, options.actions or own.actions),
        )
    except PromptError as error:
        raise PolicyChoiceError(str(error)) from error


def _model_policy(name: str, prompt: Prompt, options: ModelOptions) -> BatchPolicy:
    try:
        from sql_env.agent.conversation import ChatLayout, ChatTemplateError
        from sql_env.agent.generation import conversations_that_fit
        from sql_env.agent.guided import TEMPERATURE
        from sql_env.agent.loading import ModelLoadError
        from sql_env.agent.model_policy import ModelPolicy

        model, tokenizer = _load(name, options)
        if hasattr(model, "merge_and_unload"):  # an adapter: here it is played, not trained
            model = model.merge_and_unload()
        window = getattr(model.config, "max_position_embeddings", None) or LONGEST_CONVERSATION
        window = min(window, LONGEST_CONVERSATION)

        def generator(temperature: float) -> Generator:
            import torch

            from sql_env.agent.generation import Sampling, make_generator

            torch.manual_seed(options.seed)
            sampling = Sampling(options.max_new_tokens, temperature, options.top_p)
            return make_generator(
                model, tokenizer, sampling, max_length=window, at_once=options.at_once
            )

        return ModelPolicy(
            generator(options.temperature),
            ChatLayout.of(tokenizer, model, **prompt.for_template),
            prompt=prompt,
            max_tokens=window,
            max_new_tokens=options.max_new_tokens,
            room=conversations_that_fit(model, window),
            resampler=generator(TEMPERATURE) if options.decoding == "guided" else None,
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

    from sql_env.agent.loading import default_device, load_model_and_tokenizer, with_adapter

    if options.dtype not in DTYPES:
        raise PolicyChoiceError(f"--dtype is {options.dtype!r}: use {', '.join(DTYPES)}")
    try:
        torch.zeros(1, device=options.device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise PolicyChoiceError(f"--device {options.device} cannot be used: {reason}") from error
    disable_progress_bar()
    on_cpu = (options.device or default_device()).startswith("cpu")
    dtype = "float32" if options.dtype == "auto" and on_cpu else options.dtype
    if options.base is None:
        return load_model_and_tokenizer(name, dtype=dtype, device=options.device)
    model, tokenizer = load_model_and_tokenizer(options.base, dtype=dtype, device=options.device)
    return with_adapter(model, name, options.base), tokenizer


def _endpoint_policy(address: str, prompt: Prompt, options: ModelOptions) -> BatchPolicy:
    model, _, url = address.rpartition("@")
    if not (model and _is_address(url)):
        raise PolicyChoiceError(
            f"endpoint:{address} lacks its address: "
            "write endpoint:MODEL@http://localhost:8000/v1 (a key is read from OPENAI_API_KEY)"
        )
    try:
        from sql_env.agent.chat_client import EndpointError, EndpointSettings
        from sql_env.agent.endpoint import EndpointPolicy
    except ModuleNotFoundError as error:
        raise PolicyChoiceError("an endpoint needs httpx: pip install httpx") from error
    settings = EndpointSettings(
        base_url=url,
        model=model,
        api_key=os.environ.get("OPENAI_API_KEY"),
        temperature=options.temperature,
        top_p=options.top_p,
        max_new_tokens=options.max_new_tokens,
        body=options.body,
        concurrency=options.concurrency,
        retries=options.retries,
        timeout=options.timeout,
        price=_price(options.price),
    )
    policy = EndpointPolicy(settings, prompt=prompt, guided=options.decoding == "guided")
    try:
        # Said at once, not after the retries of every episode.
        policy.check()
    except EndpointError as error:
        policy.close()
        raise PolicyChoiceError(str(error)) from error
    return policy


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port, or the brackets of IPv6
        return False


def parse_body(given: Iterable[str]) -> dict[str, Any]:
    """`key=value`, several of them, as fields of a request; values are JSON or else text.

    Raises:
        PolicyChoiceError: one of them is not of that form, or not for us to change.
    """
    fields: dict[str, Any] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not (name and equals):
            raise PolicyChoiceError(f"--body {item!r} is not key=value: write --body top_k=20")
        if name in ("model", "messages", "tools", "stream", "n"):
            raise PolicyChoiceError(f"--body cannot set {name!r}: sql-env writes that field itself")
        try:
            fields[name] = json.loads(value)
        except ValueError as error:
            if value[:1] in ("{", "[", '"'):
                raise PolicyChoiceError(f"--body {name} is no JSON: {value} ({error})") from error
            fields[name] = value
    return fields


def _price(given: str | None) -> Price | None:
    from sql_env.agent.chat_client import Price

    if given is None:
        return None
    try:
        prompt, completion = map(float, given.split(":"))
        if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
            raise ValueError
    except ValueError:
        raise PolicyChoiceError(
            f"--price {given!r} is not IN:OUT: write --price 0.15:0.60, for a million tokens each"
        ) from None
    return Price(prompt, completion)
