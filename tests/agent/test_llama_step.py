"""The short cut through a Llama's layers: the same logits, or it is not taken."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

from sql_env.agent.engine import llama_step
from sql_env.agent.engine.llama_step import LlamaStep
from sql_env.agent.engine.lockstep import LockstepEngine
from sql_env.agent.generation import Sampling, TransformersGenerator

GREEDY = Sampling(12, temperature=0)
TALKS = [[41, 42, 43], list(range(50, 90)), [44] * 17]


def engine_over(model: Any) -> LockstepEngine:
    return LockstepEngine(model, stop_ids=[2], sampling=GREEDY, max_length=256)


def written_by(model: Any) -> list[list[int]]:
    reference = TransformersGenerator(model, stop_ids=[2], pad_id=0, sampling=GREEDY)
    return [turn.ids for turn in reference.generate(TALKS)]


@pytest.mark.parametrize(
    "kind",
    [
        {"num_hidden_layers": 1},
        {"attention_bias": True, "mlp_bias": True},
        {"tie_word_embeddings": True},
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}},
    ],
    ids=lambda kind: next(iter(kind)),
)
def test_every_kind_of_llama_writes_what_it_writes_by_itself(
    make_llama: Callable[..., Any], kind: dict[str, Any]
) -> None:
    model = make_llama(**kind)
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        if "bias" in name or "norm" in name:  # transformers begins with zeros and ones
            torch.nn.init.normal_(parameter, mean=1.0, std=0.5)
    engine = engine_over(model)
    assert engine._llama_step is not None
    assert [turn.ids for turn in engine.generate(TALKS)] == written_by(model)


def test_weights_that_were_put_elsewhere_are_found(make_llama: Callable[..., Any]) -> None:
    model, other = make_llama(seed=1), make_llama(seed=2)
    engine = engine_over(model)
    before = [turn.ids for turn in engine.generate(TALKS)]
    model.load_state_dict(other.state_dict(), assign=True)
    engine.begin()
    assert [turn.ids for turn in engine.generate(TALKS)] == written_by(other) != before


def test_a_model_that_only_looks_like_a_llama_takes_the_long_way(
    make_llama: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    model = make_llama(initializer_range=0.5)
    for layer in model.model.layers:
        layer.mlp.act_fn = torch.nn.Tanh()
    with caplog.at_level(logging.WARNING):
        engine = engine_over(model)
    assert "logits differ" in caplog.text
    assert [turn.ids for turn in engine.generate(TALKS)] == written_by(model)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("family", ["qwen2", "qwen3", "mistral"])
def test_other_families_write_what_they_write_by_themselves(
    make_family: Callable[..., Any], family: str, tied: bool
) -> None:
    model = make_family(family, tie_word_embeddings=tied, num_attention_heads=8)
    for name, parameter in model.named_parameters():
        if "norm" in name:  # transformers begins with ones
            torch.nn.init.normal_(parameter.data, mean=1.0, std=0.5)
    engine = engine_over(model)
    assert engine._llama_step is not None
    assert [turn.ids for turn in engine.generate(TALKS)] == written_by(model)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_an_adapter_is_merged_into_a_copy_that_follows_it(
    make_family: Callable[..., Any], family: str
) -> None:
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(
        r=4, target_modules="all-linear", init_lora_weights=False, use_rslora=True
    )
    model = get_peft_model(make_family(family), settings)
    kept = {name: weight.clone() for name, weight in model.state_dict().items()}
    engine = engine_over(model)
    assert engine._llama_step is not None
    before = [turn.ids for turn in engine.generate(TALKS)]
    assert before == written_by(model)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, kept[name]), "the model that is trained was touched"
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight.data)
    engine.begin()
    assert [turn.ids for turn in engine.generate(TALKS)] == written_by(model) != before


def test_an_adapter_that_is_more_than_a_product_plays_through_its_own_layers(
    make_llama: Callable[..., Any],
) -> None:
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(r=4, target_modules=["q_proj"], use_dora=True, init_lora_weights=False)
    model = get_peft_model(make_llama(), settings)
    engine = engine_over(model)
    assert engine._llama_step is None
    assert [turn.ids for turn in engine.generate(TALKS)] == written_by(model)


def test_a_hook_takes_the_long_way(make_llama: Callable[..., Any]) -> None:
    hooked = make_llama()
    assert LlamaStep.fits(hooked)
    hooked.model.layers[0].register_forward_hook(lambda *_: None)
    assert not LlamaStep.fits(hooked)


def test_an_adapter_that_comes_later_is_not_left_out(make_llama: Callable[..., Any]) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    model = make_llama()
    engine = engine_over(model)
    before = [turn.ids for turn in engine.generate(TALKS)]
    inject_adapter_in_model(
        LoraConfig(target_modules=["q_proj", "down_proj"], init_lora_weights=False), model
    )
    engine.begin()
    assert [turn.ids for turn in engine.generate(TALKS)] == written_by(model) != before


def test_both_kinds_of_attention_agree() -> None:
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(5, 6, 1, 16, generator=draw)
    store = torch.randn(2, 5, 3, 40, 16, generator=draw)
    keys, values = store[:, :, :, :32]
    lengths = torch.tensor([1, 7, 32, 20, 31])
    beyond = torch.arange(32) >= lengths[:, None, None, None]
    mask = torch.zeros(5, 1, 1, 32).masked_fill_(beyond, float("-inf"))
    with torch.compiler.set_stance("force_eager"):
        matrix = llama_step._matrix_attention(query, keys, values, mask, 0.25)
    fused = llama_step._fused_attention(query, keys, values, mask, 0.25)
    torch.testing.assert_close(matrix, fused)
