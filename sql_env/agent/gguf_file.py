"""Load a GGUF file of the Llama, Qwen2 or Qwen3 family as a plain transformers model.

Newer versions of transformers keep GGUF weights packed and refuse to save them, so the tensors are
taken apart here: what comes out trains, takes an adapter and is saved like any other model.

    model, tokenizer = load_gguf(Path("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"), "bfloat16")

Some files hold a tied embedding twice, in different precision. Where the two matrices differ by no
more than their rounding, the embedding is tied and the more precise of the two is taken.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sql_env.agent.gguf_tokenizer import end_tokens, tokenizer_of

if TYPE_CHECKING:
    import torch
    from gguf import GGUFReader

SUFFIX = ".gguf"
FAMILIES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}
_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_EMBEDDING, _HEAD, _NORM = "token_embd.weight", "output.weight", "output_norm.weight"
_ROPE_FACTORS = "rope_freqs.weight"
# How far two roundings of one matrix lie apart, relative to its size: 4 bits take 0.08, 2 bits 0.3.
_ROUNDING, _NO_ROUNDING = 0.4, 0.01
_ROWS_COMPARED = _ROWS_AT_ONCE = 1024
# Llama 3.1 stretches the slow rotations of a model that was trained on this many tokens.
_LLAMA3 = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


class GGUFError(ValueError):
    """A GGUF file that cannot be loaded; the message says why and what to do."""


def load_gguf(path: Path, dtype: str) -> tuple[Any, Any]:
    """The model and the tokenizer in a GGUF file.

    Args:
        path: the file.
        dtype: of the weights, as torch calls it. The file's own is packed; `auto` is bfloat16.

    Raises:
        GGUFError: the file is damaged, or of a kind that is not known here.
    """
    import torch
    import transformers

    reader = _opened(path)
    meta = {name: field.contents() for name, field in reader.fields.items()}
    try:
        family = _family(meta)
        tokenizer = tokenizer_of(meta)
        kind = torch.bfloat16 if dtype == "auto" else getattr(torch, dtype)
        weights = _weights(reader, meta, kind)
        config_class = getattr(transformers, f"{family}Config")
        config = config_class(**_settings(reader, meta, weights))
        model = _filled(getattr(transformers, f"{family}ForCausalLM"), config, weights, kind)
    except KeyError as error:
        raise GGUFError(f"it has no {error}: get a whole file") from error
    except NotImplementedError as error:
        raise GGUFError(f"{error}: take a file with another quantisation") from error
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=end_tokens(meta),
        pad_token_id=tokenizer.pad_token_id,
    )
    model.config._name_or_path = model.name_or_path = str(path.absolute())
    tokenizer.name_or_path = str(path)
    return model, tokenizer


def _opened(path: Path) -> GGUFReader:
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
    # The reader checks little: what it trips over depends on which bytes are wrong.
    except (ValueError, IndexError, KeyError, OverflowError, TypeError) as error:
        raise GGUFError(
            f"it is no whole GGUF file ({error}): compare its size and SHA-256 with those that "
            "its authors publish"
        ) from error
    if int(reader.fields["split.count"].contents() if "split.count" in reader.fields else 1) > 1:
        raise GGUFError("it is one part of several: join them with llama-gguf-split --merge")
    return reader


def _family(meta: dict[str, Any]) -> str:
    name = meta["general.architecture"]
    if name not in FAMILIES or meta.get(f"{name}.expert_count"):
        experts = " with experts" if name in FAMILIES else ""
        raise GGUFError(
            f"it is a model of the family {name!r}{experts}: what can be read is "
            f"{', '.join(FAMILIES)}; take the authors' safetensors instead"
        )
    return FAMILIES[name]


def _settings(
    reader: GGUFReader, meta: dict[str, Any], weights: dict[str, torch.Tensor]
) -> dict[str, Any]:
    """The model's configuration, in transformers' words."""
    import numpy

    family = meta["general.architecture"]

    def of(name: str) -> Any:
        return meta[f"{family}.{name}"]

    heads, width = of("attention.head_count"), of("embedding_length")
    head_size = meta.get(f"{family}.attention.key_length", width // heads)
    biased = "model.layers.0.self_attn.q_proj.bias" in weights
    return {
        "vocab_size": weights["model.embed_tokens.weight"].shape[0],
        "hidden_size": width,
        "intermediate_size": of("feed_forward_length"),
        "num_hidden_layers": of("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": meta.get(f"{family}.attention.head_count_kv", heads),
        "head_dim": head_size,
        "max_position_embeddings": of("context_length"),
        # As it was before it was put into 32 bits: 1e-06 and not 9.99e-07.
        "rms_norm_eps": float(str(numpy.float32(of("attention.layer_norm_rms_epsilon")))),
        "rope_parameters": _rope(reader, meta, head_size),
        "tie_word_embeddings": "lm_head.weight" not in weights,
        "bos_token_id": meta.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "pad_token_id": meta.get("tokenizer.ggml.padding_token_id"),
        **({} if family == "qwen2" else {"attention_bias": biased}),
    }


def _rope(reader: GGUFReader, meta: dict[str, Any], head_size: int) -> dict[str, Any]:
    """How positions turn queries and keys."""
    import numpy

    family = meta["general.architecture"]
    base = float(meta.get(f"{family}.rope.freq_base", 10_000.0))
    turned = meta.get(f"{family}.rope.dimension_count", head_size)
    scaling = meta.get(f"{family}.rope.scaling.type", "none")
    if turned != head_size or scaling != "none":
        what = (
            f"{scaling} scaling" if turned == head_size else f"{turned} of {head_size} dimensions"
        )
        raise GGUFError(f"its rotary embedding has {what}, which is not known here")
    factors = next((t.data for t in reader.tensors if t.name == _ROPE_FACTORS), None)
    if factors is None:
        return {"rope_type": "default", "rope_theta": base}
    factor = float(factors.max())
    wave = 2 * numpy.pi * base ** (numpy.arange(0, head_size, 2) / head_size)
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    smooth = (_LLAMA3["original_max_position_embeddings"] / wave - low) / (high - low)
    smooth = smooth.clip(0, 1)
    if not numpy.allclose(factors, 1 / ((1 - smooth) / factor + smooth), rtol=1e-3):
        raise GGUFError(
            "its rotary factors are not those of Llama 3, which are the only known ones"
        )
    return {"rope_type": "llama3", "rope_theta": base, "factor": factor, **_LLAMA3}


# -- the weights -----------------------------------------------------------------------------


def _weights(
    reader: GGUFReader, meta: dict[str, Any], dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    """The state dict, unpacked."""
    packed = {tensor.name: tensor for tensor in reader.tensors}
    packed.pop(_ROPE_FACTORS, None)
    for name in (_EMBEDDING, _NORM):
        if name not in packed:
            raise KeyError(name)
    names = {_EMBEDDING: "model.embed_tokens.weight", _NORM: "model.norm.weight"}
    if _HEAD in packed:
        if _are_one(packed[_EMBEDDING], packed[_HEAD]):
            coarse = min(packed[_EMBEDDING], packed[_HEAD], key=_bits)
            del packed[coarse.name]
            names[_HEAD] = names[_EMBEDDING]
        else:
            names[_HEAD] = "lm_head.weight"

    def unpacked(name: str) -> tuple[str, torch.Tensor]:
        weight = _unpacked(packed[name], dtype)
        if meta["general.architecture"] == "llama":
            weight = _as_halves(name, weight, meta)
        return names.get(name) or _layer_name(name), weight

    # numpy lets go of the interpreter while it unpacks.
    with ThreadPoolExecutor() as pool:
        return dict(pool.map(unpacked, packed))


def _layer_name(name: str) -> str:
    block, _, rest = name.partition(".")
    number, _, rest = rest.partition(".")
    part, _, which = rest.partition(".")
    if block != "blk" or part not in _TENSORS or which not in ("weight", "bias"):
        raise GGUFError(f"its tensor {name} belongs to no layer that is known here")
    return f"model.layers.{number}.{_TENSORS[part]}.{which}"


def _unpacked(tensor: Any, dtype: torch.dtype, rows: int | None = None) -> torch.Tensor:
    """A tensor, or its first rows; a few rows at a time, for they take several times their size."""
    import torch
    from gguf.quants import dequantize

    data = tensor.data[:rows]
    shape = [len(data), *tensor.shape.tolist()[:-1][::-1]]
    weight = torch.empty(shape, dtype=dtype)
    for part in range(0, len(data), _ROWS_AT_ONCE):
        some = dequantize(data[part : part + _ROWS_AT_ONCE], tensor.tensor_type)
        weight[part : part + _ROWS_AT_ONCE] = torch.tensor(some)
    return weight


def _as_halves(name: str, weight: torch.Tensor, meta: dict[str, Any]) -> torch.Tensor:
    """Llama files turn neighbouring dimensions of q and k; transformers turns two halves."""
    if ".attn_q." not in name and ".attn_k." not in name:
        return weight
    which = "head_count" if ".attn_q." in name else "head_count_kv"
    heads = meta.get(f"llama.attention.{which}", meta["llama.attention.head_count"])
    pairs = weight.reshape(heads, -1, 2, *weight.shape[1:])
    return pairs.transpose(1, 2).reshape(weight.shape)


def _are_one(embedding: Any, head: Any) -> bool:
    """Whether the two are the same matrix but for rounding."""
    import torch

    if embedding.shape.tolist() != head.shape.tolist():
        return False
    left, right = (_unpacked(tensor, torch.float32, _ROWS_COMPARED) for tensor in (embedding, head))
    tolerance = _NO_ROUNDING if min(_bits(embedding), _bits(head)) >= 16 else _ROUNDING
    return float((left - right).norm()) <= tolerance * float(right.norm())


def _bits(tensor: Any) -> float:
    return float(8 * tensor.n_bytes / tensor.n_elements)


def _filled(
    model_class: Any, config: Any, weights: dict[str, torch.Tensor], dtype: torch.dtype
) -> Any:
    model, seen = model_class.from_pretrained(
        None,
        config=config,
        state_dict=weights,
        dtype=dtype,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
    )
    wrong = [*seen["mismatched_keys"], *seen["missing_keys"], *seen["unexpected_keys"]]
    if wrong:
        raise GGUFError(f"its tensors do not fit its settings: {wrong[0]} (of {len(wrong)})")
    return model
