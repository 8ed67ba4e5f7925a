"""A GGUF file gives the model that was written into it, as one that trains and can be saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Packing
from gguf_files import write_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Tokenizer

from sql_env.agent.gguf_file import GGUFError, load_gguf
from sql_env.agent.loading import ModelLoadError, load_model_and_tokenizer

PROMPT = torch.tensor([[41, 42, 43, 44, 45]])


def greedy(model: Any) -> list[int]:
    out = model.generate(PROMPT, max_new_tokens=24, do_sample=False, eos_token_id=None)
    return out[0].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_a_file_gives_back_the_model_and_survives_saving(
    make_family: Callable[..., Any], chat_tokenizer: Any, tmp_path: Path, family: str, tied: bool
) -> None:
    model = make_family(family, tie_word_embeddings=tied)
    path = write_gguf(tmp_path / "tiny.gguf", model, chat_tokenizer, family)
    loaded, tokenizer = load_model_and_tokenizer(str(path), device="cpu")
    assert type(loaded) is type(model)
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name
    torch.testing.assert_close(loaded(PROMPT).logits, model(PROMPT).logits)

    loaded.save_pretrained(tmp_path / "folder")
    tokenizer.save_pretrained(tmp_path / "folder")
    converted = AutoModelForCausalLM.from_pretrained(tmp_path / "folder")
    assert greedy(loaded) == greedy(converted) == greedy(model)
    again = AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert tokenizer.encode(TEXT) == again.encode(TEXT)
    assert again.chat_template == chat_tokenizer.chat_template


TEXT = "<|im_start|>How many students are  in the red house?   2014 cafe\u0301\n\n\tIt's 3.50|'x'"


def test_text_is_cut_as_the_family_cuts_it(
    make_family: Callable[..., Any], chat_tokenizer: Any, tmp_path: Path
) -> None:
    path = write_gguf(tmp_path / "llama.gguf", make_family("llama"), chat_tokenizer, "llama")
    _, tokenizer = load_gguf(path, "float32")
    assert tokenizer.encode(TEXT) == chat_tokenizer.encode(TEXT)
    path = write_gguf(tmp_path / "qwen.gguf", make_family("qwen2"), chat_tokenizer, "qwen2")
    _, tokenizer = load_gguf(path, "float32")
    inner = json.loads(chat_tokenizer.backend_tokenizer.to_str())["model"]
    merges = [tuple(merge) for merge in inner["merges"]]
    real = Qwen2Tokenizer(vocab=inner["vocab"], merges=merges)
    text = TEXT.removeprefix("<|im_start|>")
    assert tokenizer.encode(text) == real.encode(text) != chat_tokenizer.encode(text)


@pytest.mark.parametrize(
    "packing", [Packing.F16, Packing.BF16, Packing.Q8_0, Packing.Q5_1, Packing.Q4_0], ids=str
)
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_packed_weights_come_out_as_gguf_unpacks_them(
    make_family: Callable[..., Any],
    chat_tokenizer: Any,
    tmp_path: Path,
    family: str,
    packing: Packing,
) -> None:
    model = make_family(family)
    path = write_gguf(tmp_path / "tiny.gguf", model, chat_tokenizer, family, packing)
    loaded, _ = load_gguf(path, "float32")
    for name, weight in model.state_dict().items():
        expected = weight.numpy()
        if expected.ndim == 2:
            expected = gguf.quants.dequantize(gguf.quants.quantize(expected, packing), packing)
        np.testing.assert_array_equal(loaded.state_dict()[name].numpy(), expected)
    half, _ = load_gguf(path, "auto")
    assert half.dtype == torch.bfloat16


def test_of_two_copies_of_a_tied_embedding_the_finer_is_taken(
    make_family: Callable[..., Any], chat_tokenizer: Any, tmp_path: Path
) -> None:
    model = make_family("qwen2", tie_word_embeddings=True)
    weight = model.model.embed_tokens.weight.detach().numpy()
    copies = {
        "token_embd.weight": (weight, Packing.Q4_0),
        "output.weight": (weight, Packing.Q8_0),
    }
    path = write_gguf(tmp_path / "two.gguf", model, chat_tokenizer, "qwen2", tensors=copies)
    loaded, _ = load_gguf(path, "float32")
    assert loaded.config.tie_word_embeddings
    finer = gguf.quants.dequantize(gguf.quants.quantize(weight, Packing.Q8_0), Packing.Q8_0)
    np.testing.assert_array_equal(loaded.lm_head.weight.detach().numpy(), finer)
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight


def test_two_different_matrices_are_not_tied_however_coarse(
    make_family: Callable[..., Any], chat_tokenizer: Any, tmp_path: Path
) -> None:
    model = make_family("qwen2", tie_word_embeddings=False)
    path = write_gguf(tmp_path / "two.gguf", model, chat_tokenizer, "qwen2", Packing.Q4_0)
    loaded, _ = load_gguf(path, "float32")
    assert not loaded.config.tie_word_embeddings
    assert not torch.equal(loaded.lm_head.weight, loaded.model.embed_tokens.weight)


def test_llama_3s_stretched_rotation_is_read_off_its_factors(
    make_family: Callable[..., Any], chat_tokenizer: Any, tmp_path: Path
) -> None:
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    model = make_family("llama", rope_parameters=rope)
    plain = 1 / 500000.0 ** (torch.arange(0, 16, 2) / 16)
    factors = (plain / model.model.rotary_emb.inv_freq).numpy().astype(np.float32)
    assert factors.max() > 1
    tensors = {"rope_freqs.weight": (factors, Packing.F32)}
    path = write_gguf(tmp_path / "l3.gguf", model, chat_tokenizer, "llama", tensors=tensors)
    loaded, _ = load_gguf(path, "float32")
    assert greedy(loaded) == greedy(model)
    tensors = {"rope_freqs.weight": (factors**2, Packing.F32)}
    path = write_gguf(tmp_path / "other.gguf", model, chat_tokenizer, "llama", tensors=tensors)
    with pytest.raises(GGUFError, match="rotary factors"):
        load_gguf(path, "float32")


def test_stop_tokens_are_those_that_end_a_turn_or_a_text(
    make_family: Callable[..., Any], chat_tokenizer: Any, tmp_path: Path
) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", make_family("qwen2"), chat_tokenizer, "qwen2")
    model, tokenizer = load_gguf(path, "float32")
    ends = [chat_tokenizer.convert_tokens_to_ids(e) for e in ("<|im_end|>", "<|endoftext|>")]
    assert model.generation_config.eos_token_id == ends
    assert tokenizer.eos_token == "<|im_end|>"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"qwen2__expert_count": 8}, "with experts"),
        ({"qwen2__rope__scaling__type": "yarn"}, "yarn scaling"),
        ({"split__count": 3}, "llama-gguf-split"),
    ],
    ids=["experts", "yarn", "part"],
)
def test_what_is_not_known_is_refused_in_one_line(
    make_family: Callable[..., Any],
    chat_tokenizer: Any,
    tmp_path: Path,
    fields: dict[str, Any],
    message: str,
) -> None:
    model = make_family("qwen2")
    path = write_gguf(tmp_path / "tiny.gguf", model, chat_tokenizer, "qwen2", **fields)
    assert message in refusal(path)


def test_other_families_are_refused(
    make_family: Callable[..., Any], chat_tokenizer: Any, tmp_path: Path
) -> None:
    path = write_gguf(tmp_path / "g.gguf", make_family("llama"), chat_tokenizer, "gemma2")
    assert "family 'gemma2'" in refusal(path)


def test_tensors_that_do_not_fit_are_named(
    make_family: Callable[..., Any], chat_tokenizer: Any, tmp_path: Path
) -> None:
    model = make_family("qwen3")
    odd = {"blk.0.attn_sinks.weight": (np.ones(4, dtype=np.float32), Packing.F32)}
    path = write_gguf(tmp_path / "odd.gguf", model, chat_tokenizer, "qwen3", tensors=odd)
    assert "blk.0.attn_sinks.weight" in refusal(path)
    short = {"blk.0.ffn_up.weight": (np.ones((4, 64), dtype=np.float32), Packing.F32)}
    path = write_gguf(tmp_path / "short.gguf", model, chat_tokenizer, "qwen3", tensors=short)
    assert "do not fit its settings" in refusal(path)


def test_a_damaged_file_is_refused_wherever_it_is_cut(
    make_family: Callable[..., Any], chat_tokenizer: Any, tmp_path: Path
) -> None:
    path = write_gguf(tmp_path / "whole.gguf", make_family("llama"), chat_tokenizer, "llama")
    whole = path.read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in [0, 3, 20, 100, 5_000, len(whole) // 2, len(whole) - 40]:
        cut.write_bytes(whole[:size])
        assert "no whole GGUF file" in refusal(cut)
    cut.write_bytes(b"<html>not found</html>" * 500)
    assert "no whole GGUF file" in refusal(cut)


def test_a_file_that_is_not_there_is_no_hub_id(tmp_path: Path) -> None:
    (tmp_path / "there.gguf").touch()
    message = refusal(tmp_path / "missing.gguf")
    assert "no such file" in message and "there.gguf" in message


def refusal(path: Path) -> str:
    """The one line that a file is refused with."""
    with pytest.raises(ModelLoadError) as caught:
        load_model_and_tokenizer(str(path), device="cpu")
    message = str(caught.value)
    assert str(path) in message and "\n" not in message
    return message
