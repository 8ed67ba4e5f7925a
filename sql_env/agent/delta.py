"""Trained weights as a small difference to a base model that everybody can get.

A full fine-tune moves every weight, but not far and not precisely: two bits and a bit for each
difference keep what was learned. Such a *delta* is a folder:

    delta_config.json   the base model, the checksum of its weights, what the numbers below were
    delta.safetensors   for each weight matrix NAME
                          NAME.codes   one code from 0 to 14 per weight, row by row; two codes make
                                       a byte (15 · first + second), and the bytes are deflated
                          NAME.levels  what each of the 15 codes adds to the weight of the base
                          NAME.far     which weights moved further than that, and
                          NAME.further by how much
                        and every other tensor, in full, as NAME.exact
    README.md           the model card, written by hand

All matrices are cut with the same step, which spends the bits where the differences are large, and
the step is the finest with which the file fits into its size. Small differences are the most
frequent, and deflate (Huffman coding only) makes the codes of frequent bytes short: a matrix that
hardly moved costs next to nothing. The tokenizer is the base's.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sql_env.provenance import current_versions

DELTA_CONFIG, DELTA_WEIGHTS = "delta_config.json", "delta.safetensors"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
FORMAT = 1
LEVELS = 15  # odd, so that one of them is zero; two codes still fit into a byte
HIGHEST = LEVELS // 2
# A little more goes to zero than the nearest would: shorter codes allow a finer step.
ROUNDING = 0.45
LARGEST = 38_000_000
SEARCHES = 12
CLOSE = 0.996  # of the size that is allowed: near enough to stop searching


class DeltaError(ValueError):
    """A delta that cannot be made, or not be put on this base; the message says why."""


@dataclass(frozen=True)
class PackedDelta:
    """What was written, and how far it is from what was learned."""

    size: int  # of delta.safetensors, in bytes
    bits_per_weight: float
    step: float
    relative_error: float  # of the differences: the error's root mean square over theirs


def pack_delta(
    base: Any, trained: Any, folder: Path, *, base_name: str, largest: int = LARGEST
) -> PackedDelta:
    """Write what `trained` adds to `base`, as finely as `largest` bytes allow.

    Args:
        base: a transformers model, as it will be loaded by its name again.
        trained: a model of the same shape.
        folder: is made if need be; what else lies in it stays.
        base_name: what to load the base by: `smollm2-135m`, a hub id, a folder.
        largest: how many bytes `delta.safetensors` may have.

    Raises:
        DeltaError: the models do not fit together, or `largest` is too small for any step.
    """
    from safetensors.torch import save_file

    differences = dict(_differences(base, trained))
    matrices = {name: item for name, item in differences.items() if item.ndim == 2}
    weights = dict(trained.named_parameters())
    exact = {f"{n}.exact": weights[n].detach().float() for n in differences if n not in matrices}
    step, tensors = _finest(matrices, exact, largest)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / DELTA_WEIGHTS)
    size = (folder / DELTA_WEIGHTS).stat().st_size
    packed = PackedDelta(
        size=size,
        bits_per_weight=round(8 * size / sum(item.numel() for item in differences.values()), 4),
        step=step,
        relative_error=round(_relative_error(matrices, tensors), 4),
    )
    about = {"format": FORMAT, "base_model": base_name, "base_sha256": weights_sha256(base)}
    text = json.dumps({**about, **asdict(packed), "versions": current_versions()}, indent=2)
    (folder / DELTA_CONFIG).write_text(text + "\n", encoding="utf-8")
    return packed


def pack_adapter(adapter: Path, folder: Path, *, base_name: str, largest: int = LARGEST) -> int:
    """Write a PEFT adapter, which is a difference already, in half the size; returns its bytes.

    Args:
        adapter: the folder that training wrote.
        folder: is made if need be; what else lies in it stays.
        base_name: what others load the base by.
        largest: how many bytes the weights may have.

    Raises:
        DeltaError: they have more.
    """
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(adapter / ADAPTER_WEIGHTS)
    halved = {name: weight.to(torch.bfloat16) for name, weight in weights.items()}
    size = int(sum(weight.nbytes for weight in halved.values()))
    if size > largest:
        raise DeltaError(
            f"the adapter has {size / 1e6:.1f} MB in bfloat16 and {largest / 1e6:.1f} MB are "
            "allowed: train one of a lower rank (lora.r)"
        )
    folder.mkdir(parents=True, exist_ok=True)
    save_file(halved, folder / ADAPTER_WEIGHTS, metadata={"format": "pt"})
    about = json.loads((adapter / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    about["base_model_name_or_path"] = base_name
    (folder / ADAPTER_CONFIG).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return size


def apply_delta(base: Any, folder: Path) -> None:
    """Turn `base`, in place and in float32, into the trained model.

    Raises:
        DeltaError: the base has other weights than the one that the delta was made for.
    """
    import torch
    from safetensors.torch import load_file

    about = read_delta_config(folder)
    found = weights_sha256(base)
    if found != about["base_sha256"]:
        raise DeltaError(
            f"the base model {about['base_model']} has weights with the SHA-256 {found[:16]}…, "
            f"and the delta was made for {about['base_sha256'][:16]}…: get that version of the "
            "base (smollm2-135m is built again when its cache folder is deleted)"
        )
    tensors = load_file(folder / DELTA_WEIGHTS)
    with torch.no_grad():
        for name, weight in base.named_parameters():
            if f"{name}.exact" in tensors:
                weight.copy_(tensors[f"{name}.exact"])
            else:
                weight.add_(_unpacked(tensors, name, weight.shape))


def read_delta_config(folder: Path) -> dict[str, Any]:
    """What `delta_config.json` says.

    Raises:
        DeltaError: it is damaged, or of a format that this version does not know.
    """
    path = folder / DELTA_CONFIG
    try:
        about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DeltaError(f"{path} is damaged: {error}") from error
    if about.get("format") != FORMAT:
        raise DeltaError(
            f"{path} has format {about.get('format')}, and this version of sql_env reads {FORMAT}: "
            "take the version that its README names"
        )
    return about


def weights_sha256(model: Any) -> str:
    """Of all weights as float32, whatever file they came from."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.named_parameters()):
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _differences(base: Any, trained: Any) -> Iterator[tuple[str, Any]]:
    old, new = dict(base.named_parameters()), dict(trained.named_parameters())
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new or old[name].shape != new[name].shape:
            shapes = [tuple(side[name].shape) if name in side else "none" for side in (old, new)]
            raise DeltaError(
                f"the trained model is not one of this base: {name} is {shapes[0]} in the base "
                f"and {shapes[1]} in the trained model. Name the base that it was trained from"
            )
        yield name, new[name].detach().float() - old[name].detach().float()


def _finest(
    matrices: dict[str, Any], exact: dict[str, Any], largest: int
) -> tuple[float, dict[str, Any]]:
    """About the smallest step that fits, and the tensors that it gives."""
    from safetensors.torch import save

    count = sum(item.numel() for item in matrices.values())
    squares = sum(float(item.double().square().sum()) for item in matrices.values())
    step = spread = (squares / count) ** 0.5
    if not spread:
        raise DeltaError("there is nothing to pack: the trained matrices are those of the base")
    too_fine, fits = spread / 1e4, spread * 1e4
    tensors: dict[str, Any] | None = None
    for _ in range(SEARCHES):
        trial = dict(exact)
        for name, difference in matrices.items():
            trial |= _packed(name, difference, step)
        size = len(save(trial))
        if size <= largest:
            fits, tensors = step, trial
            if size >= CLOSE * largest:
                break
        else:
            too_fine = step
        # Half the step is one bit more for a weight, or nearly so.
        step *= 2 ** (8 * (size - (1 + CLOSE) / 2 * largest) / count)
        if not too_fine < step < fits:
            step = (too_fine * fits) ** 0.5
    if tensors is None:
        raise DeltaError(f"no delta of this model fits into {largest:,} bytes: allow more")
    return fits, tensors


def _packed(name: str, difference: Any, step: float) -> dict[str, Any]:
    import torch

    values = difference.flatten()
    steps = (values.abs() / step + ROUNDING).floor()
    far = (steps > HIGHEST).nonzero().flatten()
    steps[far] = 0.0
    codes = (steps * values.sign()).long() + HIGHEST
    # The mean of the differences that have a code is the best value for it.
    counts = torch.bincount(codes, minlength=LEVELS)
    levels = torch.bincount(codes, values.double(), minlength=LEVELS) / counts.clamp(min=1)
    levels[HIGHEST] = 0.0
    if codes.numel() % 2:
        codes = torch.cat([codes, codes.new_tensor([HIGHEST])])
    pairs = (LEVELS * codes[0::2] + codes[1::2]).to(torch.uint8)
    deflated = bytearray(_deflate(pairs.numpy().tobytes()))
    return {
        f"{name}.codes": torch.frombuffer(deflated, dtype=torch.uint8),
        f"{name}.levels": levels.float(),
        f"{name}.far": far.int(),
        f"{name}.further": values[far],
    }


def _deflate(content: bytes) -> bytes:
    coder = zlib.compressobj(9, strategy=zlib.Z_HUFFMAN_ONLY)
    return coder.compress(content) + coder.flush()


def _unpacked(tensors: dict[str, Any], name: str, shape: Any) -> Any:
    import torch

    content = bytearray(zlib.decompress(tensors[f"{name}.codes"].numpy().tobytes()))
    pairs = torch.frombuffer(content, dtype=torch.uint8).long()
    # Both halves of every byte at once: a table with two levels per byte.
    levels = tensors[f"{name}.levels"]
    table = torch.stack([levels.repeat_interleave(LEVELS), levels.repeat(LEVELS)], dim=1)
    values = table[pairs].flatten()[: shape.numel()]
    values[tensors[f"{name}.far"].long()] = tensors[f"{name}.further"]
    return values.view(shape)


def _relative_error(matrices: dict[str, Any], tensors: dict[str, Any]) -> float:
    error = sum(
        float((item - _unpacked(tensors, name, item.shape)).double().square().sum())
        for name, item in matrices.items()
    )
    total = sum(float(item.double().square().sum()) for item in matrices.values())
    return float((error / total) ** 0.5)
