"""vLLM as a server and colocated, one rank and two: TRL's own code, a stand-in for vLLM."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from test_sharded import SETTINGS, weights
from vllm_on_cpu import JOURNAL
from vllm_server import ServedModel, serving

from sql_env.questions import Dataset
from sql_env.training.run_log import RunLog

SCRIPT = str(Path(__file__).with_name("vllm_on_cpu.py"))
ALONE = [sys.executable, SCRIPT]
TWO = [
    *(sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2", "--multi_gpu"),
    *("--num_machines", "1", "--main_process_port", "0", "--mixed_precision", "no"),
    *("--dynamo_backend", "no", SCRIPT),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def train_with(
    launch: list[str], vllm: dict[str, object], model: Path, dataset: Dataset, run: Path
) -> subprocess.CompletedProcess[str]:
    values = {
        **SETTINGS,
        "model_name": model,
        "max_steps": 2,
        "evaluate_every": 100,
        "learning_rate": 1e-2,
        "trl.use_vllm": "true",
        **{f"trl.vllm_{name}": value for name, value in vllm.items()},
    }
    settings = [f"{name}={value}" for name, value in values.items()]
    options = [part for setting in settings for part in ("--set", setting)]
    own = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", JOURNAL: str(run.parent)}
    return subprocess.run(
        [*launch, "train", "--dataset", str(dataset.db_dir.parent), "--out", str(run), *options],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def at(url: str) -> dict[str, object]:
    return {"mode": "server", "server_base_url": url, "group_port": free_port()}


@pytest.mark.parametrize(("launch", "ranks"), [(ALONE, 1), (TWO, 2)], ids=["one", "two"])
def test_ranks_play_through_a_server(
    launch: list[str],
    ranks: int,
    sft_model_dir: Path,
    tiny_dataset: Dataset,
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    with serving(sft_model_dir) as server:
        done = train_with(launch, at(server.url), sft_model_dir, tiny_dataset, run)
    assert done.returncode == 0, done.stderr[-3000:]
    log = RunLog(run)

    # The weights arrived before each round, and changed in between.
    assert server.updates == 2
    assert {answer.updates for answer in server.answered} == {1, 2}
    trained = weights(run / "model")
    start = weights(sft_model_dir)
    served = dict(server.served.model.named_parameters())
    changed = [n for n in served if not torch.allclose(served[n], start[n])]
    assert changed, "the second round was played with the first weights"
    assert any(not torch.equal(served[n], trained[n]) for n in changed)  # a step followed it

    assert len(list(run.glob("transcripts*.jsonl"))) == ranks
    check_turns(
        log.transcripts(),
        [(a.prompt, a.completion) for a in server.answered],
        server.served.tokenizer,
    )
    if ranks == 2:
        ends = {server.served.tokenizer.eos_token_id}
        assert any(set(a.prompt) == ends for a in server.answered), "no rank had fewer episodes"

    check_correction(log.metrics())


@pytest.mark.parametrize(
    ("launch", "ranks", "together"),
    [(ALONE, 1, 1), (TWO, 2, 1), (TWO, 2, 2)],
    ids=["one", "two", "two that share a model"],
)
def test_ranks_play_through_colocated_engines(
    launch: list[str],
    ranks: int,
    together: int,
    sft_model_dir: Path,
    tiny_dataset: Dataset,
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    vllm: dict[str, object] = {"mode": "colocate", "tensor_parallel_size": together}
    done = train_with(launch, vllm, sft_model_dir, tiny_dataset, run)
    assert done.returncode == 0, done.stderr[-3000:]
    tokenizer = ServedModel(sft_model_dir).tokenizer
    wrote_in = []
    for rank in range(ranks):
        first, *wrote = rows_of(tmp_path / f"rank-{rank}.jsonl")
        assert first["max_model_len"] == SETTINGS["max_context_tokens"]
        assert {row["loads"] for row in wrote} == {1, 2}  # new weights before each round
        wrote_in.append([(row["prompt"], row["completion"]) for row in wrote])
        name = f"transcripts-{rank}.jsonl" if rank else "transcripts.jsonl"
        check_turns(rows_of(run / name), wrote_in[-1], tokenizer)
    if together == 2:
        assert wrote_in[0] == wrote_in[1]
        ends = {tokenizer.eos_token_id}
        assert any(set(prompt) == ends for prompt, _ in wrote_in[0]), "no rank had fewer episodes"
    check_correction(RunLog(run).metrics())


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check_turns(
    transcripts: list[dict[str, Any]], wrote: list[tuple[list[int], list[int]]], tokenizer: Any
) -> None:
    """Every turn was written for its own question."""
    texts = {
        (tokenizer.decode(prompt), tokenizer.decode(written, skip_special_tokens=True).strip())
        for prompt, written in wrote
    }
    turns = [(row, step["trace"]) for row in transcripts for step in row["steps"]]
    said = [(row["question"], trace["raw"].strip()) for row, trace in turns if "raw" in trace]
    assert said
    for question, text in said:
        assert any(question in prompt and text == written for prompt, written in texts)


def check_correction(rows: list[dict[str, Any]]) -> None:
    """What was sampled is what is trained: so says TRL's correction, over all ranks."""
    assert [row["step"] for row in rows] == [1, 2]
    for row in rows:
        assert row["sampling/sampling_logp_difference/max"] < 1e-3
        assert row["sampling/importance_sampling_ratio/mean"] == pytest.approx(1.0, abs=1e-3)


def test_a_server_that_does_not_answer_is_one_line(
    sft_model_dir: Path, tiny_dataset: Dataset, tmp_path: Path
) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    vllm = at(nobody) | {"server_timeout": 0.1}
    done = train_with(ALONE, vllm, sft_model_dir, tiny_dataset, tmp_path / "run")
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert f"trl.use_vllm: The vLLM server can't be reached at {nobody}" in last
