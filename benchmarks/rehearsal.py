"""Does the notebook fit a small GPU, and how long does it take? Its cells, with random weights.

    python benchmarks/rehearsal.py                                           # CPU, a minute
    python benchmarks/rehearsal.py --device cuda --model-shape qwen3-0.6b    # as on a free T4
    python benchmarks/rehearsal.py --device cuda --model-shape qwen3-1.7b

A model with random weights in the shape that is named goes through the notebook with the preset
`colab`: before, SFT, GRPO and after, a few steps of each, in fp16 as on a T4. On a GPU no more
memory can be had than `--gigabytes`. Random weights write nonsense up to the token limit and use up
every step, so a real model is faster. Needs the extras `training` and `notebook`, and no download.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch
from rich.console import Console
from rich.table import Table
from rollout import SHAPES, made

from sql_env.questions import Dataset
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_training_questions

NOTEBOOK = Path(__file__).resolve().parents[1] / "notebooks" / "train_grpo.ipynb"
# So that a CPU is done in a minute.
SHORT = ("step_budget=4", "max_new_tokens=8", "evaluate_episodes=1")


class Cell(NamedTuple):
    """What one cell took: seconds, seconds until it said something, the most GB it held."""

    title: str
    seconds: float
    heard_after: float
    gigabytes: float


class Listening:
    """Standard output that remembers when it was first written to."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.heard_at: float | None = None

    def write(self, text: str) -> int:
        self.heard_at = self.heard_at or time.perf_counter()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def main() -> None:
    options = parse_options()
    on_gpu = options.device == "cuda"
    if on_gpu:
        total = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(min(1.0, options.gigabytes * 1e9 / total))
    with tempfile.TemporaryDirectory() as folder:
        config = prepared(options, Path(folder))
        names: dict[str, Any] = {}
        cells = [run_cell(title, code, names) for title, code in code_cells()]
    report(cells, names, config, options)


def prepared(options: argparse.Namespace, folder: Path) -> GRPOConfig:
    """A saved model with random weights, and the settings that the notebook is told to take."""
    torch.manual_seed(0)
    dataset = Dataset.embedded()
    model, tokenizer = made(options, dataset)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    del model
    settings = [
        f"model_name={folder / 'model'}",
        f"output_dir={folder / 'run'}",
        f"max_steps={options.steps}",
        f"sft.trl.max_steps={options.steps}",
        *(["precision=fp16"] if options.device == "cuda" else ["device=cpu", *SHORT]),
        *options.settings,
    ]
    config = GRPOConfig.load("colab", settings=settings)
    path = folder / "settings.json"
    path.write_text(json.dumps(config.to_dict()), encoding="utf-8")
    os.environ["SQL_ENV_NOTEBOOK_CONFIG"] = str(path)
    return config


def code_cells() -> list[tuple[str, str]]:
    """The notebook's cells under their headings, without the one that installs."""
    title, found = "", []
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            title = text.partition("\n")[0].lstrip("# ")
        elif "!pip" not in text:
            found.append((title, text))
    return found


def run_cell(title: str, code: str, names: dict[str, Any]) -> Cell:
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    listening = Listening(sys.stdout)
    sys.stdout = listening
    started = time.perf_counter()
    try:
        exec(compile(code, f"<{title}>", "exec"), names)
    finally:
        sys.stdout = sys.__stdout__
    if on_gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    heard = seconds if listening.heard_at is None else listening.heard_at - started
    held = torch.cuda.max_memory_reserved() / 1e9 if on_gpu else 0.0
    print(f"{title}: {seconds:.1f} s, {held:.2f} GB", file=sys.stderr)
    return Cell(title, seconds, heard, held)


def report(
    cells: Sequence[Cell], names: dict[str, Any], config: GRPOConfig, options: argparse.Namespace
) -> None:
    console = Console()
    table = Table("cell", "seconds", "first output after", "GB")
    for cell in cells:
        table.add_row(
            cell.title, f"{cell.seconds:.1f}", f"{cell.heard_after:.1f}", f"{cell.gigabytes:.2f}"
        )
    console.print(table)
    logged = names["trainer"].state.log_history
    steps = [round(row["step_time"], 2) for row in logged if "step_time" in row]
    asked = len(load_training_questions(config)) * config.num_generations
    whole = asked * config.num_train_epochs / config.episodes_per_round
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    console.print(
        f"{options.model_shape} on {where}: seconds a GRPO step {steps}; the whole run of "
        f"{whole:.0f} steps takes {whole * steps[-1] / 3600:.1f} hours at the last one's pace"
    )
    print(json.dumps({"cells": [cell._asdict() for cell in cells], "step_seconds": steps}))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--model-shape", choices=SHAPES, help="default: small, on a GPU qwen3-0.6b")
    parser.add_argument("--gigabytes", type=float, default=15.0, help="of a GPU that may be used")
    parser.add_argument("--steps", type=int, default=3, help="of SFT and of GRPO")
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="FIELD=VALUE"
    )
    options = parser.parse_args()
    on_cpu = options.device == "cpu"
    options.model_shape = options.model_shape or ("small" if on_cpu else "qwen3-0.6b")
    options.dtype = "float32" if on_cpu else "float16"
    return options


if __name__ == "__main__":
    main()
