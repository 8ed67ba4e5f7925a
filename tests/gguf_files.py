"""Writes GGUF files as llama.cpp does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Packing

NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    **{f"{one}_proj": f"attn_{one}" for one in "qkv"},
    "o_proj": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    **{f"{one}_proj": f"ffn_{one}" for one in ("gate", "up", "down")},
}


def tensors_of(model: Any, family: str) -> dict[str, np.ndarray]:
    """The weights by the names that llama.cpp's converter gives them, q and k as it turns them."""
    found = {}
    for name, weight in model.state_dict().items():
        *path, module, which = name.split(".")
        if module == "lm_head" and model.config.tie_word_embeddings:
            continue
        values = weight.float().numpy()
        if family == "llama" and module in ("q_proj", "k_proj"):
            size = model.config.head_dim
            halves = values.reshape(-1, 2, size // 2, *values.shape[1:])
            values = halves.swapaxes(1, 2).reshape(values.shape)
        block = f"blk.{path[2]}." if "layers" in path else ""
        found[f"{block}{NAMES[module]}.{which}"] = values
    return found


def write_gguf(
    path: Path,
    model: Any,
    tokenizer: Any,
    family: str,
    packing: Packing = Packing.F32,
    tensors: dict[str, tuple[np.ndarray, Packing]] | None = None,
    **fields: Any,
) -> Path:
    """A file as llama.cpp writes it. Norms and biases are never packed."""
    writer = gguf.GGUFWriter(path, family)
    config = model.config
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if family == "qwen3":
        writer.add_key_length(config.head_dim)
    inner = json.loads(tokenizer.backend_tokenizer.to_str())
    special = {item["content"] for item in inner["added_tokens"] if item["special"]}
    words = sorted(inner["model"]["vocab"].items(), key=lambda item: item[1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2" if family == "llama" else "qwen2")
    writer.add_token_list([word for word, _ in words])
    writer.add_token_types([3 if word in special else 1 for word, _ in words])
    writer.add_token_merges([" ".join(merge) for merge in inner["model"]["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_chat_template(tokenizer.chat_template)
    for key, value in fields.items():
        if isinstance(value, str):
            writer.add_string(key.replace("__", "."), value)
        else:
            writer.add_uint32(key.replace("__", "."), value)
    packed = {
        name: (values, packing if values.ndim == 2 else Packing.F32)
        for name, values in tensors_of(model, family).items()
    }
    for name, (values, kind) in {**packed, **(tensors or {})}.items():
        data = values if kind is Packing.F32 else gguf.quants.quantize(values, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
