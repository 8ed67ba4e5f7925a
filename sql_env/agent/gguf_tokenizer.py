"""The tokenizer in a GGUF file's metadata, as transformers has them."""

from __future__ import annotations

from typing import Any

_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3 = _QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
# How text is cut before it is merged, by llama.cpp's names. None: as GPT-2 does.
_SPLITS = {
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "smollm": None,
    "gpt-2": None,
    "default": None,
}
_DIGIT_BY_DIGIT = {"smollm"}
_COMPOSED = {"qwen2", "deepseek-r1-qwen"}  # unicode in its composed form (NFC)
_UNMERGED = {"llama-bpe", "llama3", "llama-v3"}  # a whole word in the vocabulary is taken as it is
_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5
# The metadata name one end; these end a turn or a text wherever they are.
_ENDS = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>", "</s>"}


class TokenizerError(ValueError):
    """A tokenizer of a kind that is not known here."""


def tokenizer_of(meta: dict[str, Any]) -> Any:
    """The tokenizer that the metadata describe.

    Raises:
        TokenizerError: it is of another kind.
        KeyError: a part of it is missing.
    """
    from transformers import PreTrainedTokenizerFast

    kind = meta["tokenizer.ggml.model"]
    if kind != "gpt2":
        raise TokenizerError(
            f"its tokenizer is of the kind {kind!r}: only byte-level BPE (gpt2) can be read; take "
            "the authors' safetensors instead"
        )
    tokens = meta["tokenizer.ggml.tokens"]
    special = {
        name: tokens[meta[f"tokenizer.ggml.{key}_token_id"]]
        for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown"))
        if f"tokenizer.ggml.{key}_token_id" in meta
    }
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_byte_level(meta, tokens, special.get("bos")),
        padding_side="left",
        **{f"{name}_token": token for name, token in special.items()},
    )
    tokenizer.chat_template = meta.get("tokenizer.chat_template")
    return tokenizer


def end_tokens(meta: dict[str, Any]) -> list[int]:
    """Every token after which nothing more is to be read, the one of a turn first."""
    named = [meta.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    known = [
        number
        for number, (token, kind) in enumerate(_kinds(meta))
        if kind == _CONTROL and token in _ENDS
    ]
    return list(dict.fromkeys(number for number in [*named, *known] if number is not None))


def _byte_level(meta: dict[str, Any], tokens: list[str], bos: str | None) -> Any:
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
    )

    cut = meta.get("tokenizer.ggml.pre", "default")
    if cut not in _SPLITS:
        raise TokenizerError(
            f"its tokenizer cuts text like {cut!r}: known are {', '.join(_SPLITS)}; take the "
            "authors' safetensors instead"
        )
    kinds = _kinds(meta)
    merges = [tuple(merge.split(" ", 1)) for merge in meta["tokenizer.ggml.merges"]]
    vocabulary = {token: number for number, (token, kind) in enumerate(kinds) if kind != _UNUSED}
    inner = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=cut in _UNMERGED))
    split = _SPLITS[cut]
    steps: list[Any] = [pre_tokenizers.Digits(True)] if cut in _DIGIT_BY_DIGIT else []
    if split is not None:
        steps.append(pre_tokenizers.Split(Regex(split), behavior="isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None))
    inner.pre_tokenizer = pre_tokenizers.Sequence(steps)
    inner.decoder = decoders.ByteLevel()
    if cut in _COMPOSED:
        inner.normalizer = normalizers.NFC()
    for kind in (_CONTROL, _USER_DEFINED):
        added = [
            AddedToken(token, special=kind == _CONTROL, normalized=False)
            for token, its_kind in kinds
            if its_kind == kind
        ]
        inner.add_tokens(added)
    if bos and meta.get("tokenizer.ggml.add_bos_token"):
        inner.post_processor = processors.TemplateProcessing(
            single=[bos, "$A"],
            pair=[bos, "$A", bos, "$B:1"],
            special_tokens=[(bos, vocabulary[bos])],
        )
    return inner


def _kinds(meta: dict[str, Any]) -> list[tuple[str, int]]:
    """Each token and what kind it is of."""
    tokens = meta["tokenizer.ggml.tokens"]
    kinds = meta.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    return list(zip(tokens, kinds, strict=True))
