"""One decode step of a Llama, Mistral, Qwen2 or Qwen3, in few operations.

A small model spends its steps on launching kernels: transformers' layers take 43 each, at two to
four microseconds even in a CUDA graph. Here torch fuses all that lies between two attentions into
one compiled function, which the layers share; and attention over a cache is two plain matrix
products, whose kernels spread the positions of few rows over a whole GPU, as the fused attention
kernels do not. On a CPU nothing is compiled: there the gain is in Python.

    step = LlamaStep(model)
    logits = step(tokens, positions, cache.aim(rows, positions, width), cache)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sql_env.agent.engine.slot_cache import SlotCache, grouped_attention

Weights = list[Tensor | None]
FAMILIES = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}


class LlamaStep:
    """The logits of every row's next token.

    Args:
        model: one that `fits`; its weights are used where they lie.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        attention = model.model.layers[0].self_attn
        self._scaling = attention.scaling
        self._head_size = attention.head_dim
        self._epsilon = model.model.norm.variance_epsilon
        on_gpu = model.device.type == "cuda"
        self._ask = _compiled(_projected) if on_gpu else _projected
        self._between = _compiled(_between) if on_gpu else _between
        self._end = _compiled(_end) if on_gpu else _end
        self._attend = _matrix_attention if on_gpu else _fused_attention
        layers = model.model.layers
        self._before: list[Weights] = [
            [
                layer.input_layernorm.weight,
                _norm_of(layer.self_attn, "q_norm"),
                _norm_of(layer.self_attn, "k_norm"),
                *_of(layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj),
            ]
            for layer in layers
        ]
        self._after: list[Weights] = [
            [
                layer.post_attention_layernorm.weight,
                *_of(layer.self_attn.o_proj),
                *_of(layer.mlp.gate_proj, layer.mlp.up_proj, layer.mlp.down_proj),
            ]
            for layer in layers
        ]

    @staticmethod
    def fits(model: Any) -> bool:
        """Whether a model is of a family known here, with plain layers.

        An adapter or a hook adds to its layers what is not among their weights.
        """
        if type(model).__name__ not in FAMILIES or model.config.hidden_act != "silu":
            return False
        parts = list(model.model.modules())
        projections = [part for part in parts if hasattr(part, "in_features")]
        return all(type(projection) is nn.Linear for projection in projections) and not any(
            part._forward_hooks or part._forward_pre_hooks for part in parts
        )

    def __call__(self, tokens: Tensor, positions: Tensor, mask: Tensor, cache: SlotCache) -> Tensor:
        """Read one token per row. `cache` has been aimed at their positions, which made `mask`."""
        model = self._model.model
        hidden = model.embed_tokens(tokens)
        cos, sin = (part[:, 0] for part in model.rotary_emb(hidden, position_ids=positions))
        hidden = hidden[:, 0]
        size, epsilon = self._head_size, self._epsilon
        query, key, value = self._ask(hidden, cos, sin, self._before[0], size, epsilon)
        for number, weights in enumerate(self._after):
            seen = self._attend(query, *cache.update(key, value, number), mask, self._scaling)
            if number + 1 < len(self._after):
                hidden, query, key, value = self._between(
                    seen, hidden, cos, sin, weights, self._before[number + 1], size, epsilon
                )
        hidden = self._end(seen, hidden, weights, model.norm.weight, epsilon)
        logits: Tensor = self._model.lm_head(hidden)
        return logits


def _of(*projections: nn.Linear) -> Weights:
    return [part for projection in projections for part in (projection.weight, projection.bias)]


def _norm_of(attention: Any, name: str) -> Tensor | None:
    """Qwen3 normalises each head's query and key."""
    return getattr(getattr(attention, name, None), "weight", None)


@functools.cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled once for all models, and for any number of rows."""
    compiled: Callable[..., Any] = torch.compile(function, dynamic=True)
    return compiled


# -- between two attentions ------------------------------------------------------------------


def _between(
    seen: Tensor,
    hidden: Tensor,
    cos: Tensor,
    sin: Tensor,
    weights: Weights,
    next_weights: Weights,
    head_size: int,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """From what a layer's attention saw to what the next one asks."""
    hidden = _digested(seen, hidden, weights, epsilon)
    return hidden, *_projected(hidden, cos, sin, next_weights, head_size, epsilon)


def _end(seen: Tensor, hidden: Tensor, weights: Weights, norm: Tensor, epsilon: float) -> Tensor:
    """From what the last attention saw to what the head reads."""
    return _normed(_digested(seen, hidden, weights, epsilon), norm, epsilon)


def _projected(
    hidden: Tensor, cos: Tensor, sin: Tensor, weights: Weights, head_size: int, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value, as rows x heads x 1 x head size."""
    norm, query_norm, key_norm, *projections = weights
    normed = _normed(hidden, norm, epsilon)
    query, key, value = (
        functional.linear(normed, weight, bias).unflatten(1, (-1, head_size))
        for weight, bias in zip(projections[::2], projections[1::2], strict=True)
    )
    if query_norm is not None:
        query, key = _normed(query, query_norm, epsilon), _normed(key, key_norm, epsilon)
    return (
        _turned(query, cos, sin)[:, :, None],
        _turned(key, cos, sin)[:, :, None],
        value[:, :, None],
    )


def _digested(seen: Tensor, hidden: Tensor, weights: Weights, epsilon: float) -> Tensor:
    norm, out, out_bias, gate, gate_bias, up, up_bias, down, down_bias = weights
    hidden = hidden + functional.linear(seen, out, out_bias)
    normed = _normed(hidden, norm, epsilon)
    opened = functional.silu(functional.linear(normed, gate, gate_bias))
    passed = opened * functional.linear(normed, up, up_bias)
    return hidden + functional.linear(passed, down, down_bias)


def _normed(hidden: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    exact = hidden.float()
    scale = torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + epsilon)
    return weight * (exact * scale).to(hidden.dtype)


def _turned(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = states.shape[-1] // 2
    rotated = torch.cat((-states[..., half:], states[..., :half]), dim=-1)
    return states * cos[:, None] + rotated * sin[:, None]


# -- attention -------------------------------------------------------------------------------


def _fused_attention(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scaling: float
) -> Tensor:
    seen, _ = grouped_attention(query, query, keys, values, mask, scaling)
    return seen.flatten(1)


def _matrix_attention(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scaling: float
) -> Tensor:
    """The heads of a group are rows of one matrix, so that keys and values are read once."""
    rows, _, _, size = query.shape
    # Scaled first, for the product may be too large for half precision.
    grouped = query.reshape(rows, keys.shape[1], -1, size) * scaling
    shares = _compiled(_shares)(grouped @ keys.transpose(2, 3), mask)
    return (shares @ values).reshape(rows, -1)


def _shares(scores: Tensor, mask: Tensor) -> Tensor:
    return (scores.float() + mask).softmax(dim=-1).to(scores.dtype)
