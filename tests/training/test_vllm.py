"""vLLM's server mode, with one rank and two: TRL's own client, and a stand-in for the server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_sharded import SETTINGS, weights
from vllm_server import serving

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
    launch: list[str], server: str, model: Path, dataset: Dataset, run: Path, *more: str
) -> subprocess.CompletedProcess[str]:
    values = {
        **SETTINGS,
        "model_name": model,
        "max_steps": 2,
        "evaluate_every": 100,
        "learning_rate": 1e-2,
        "trl.use_vllm": "true",
        "trl.vllm_mode": "server",
        "trl.vllm_server_base_url": server,
        "trl.vllm_group_port": free_port(),
    }
    settings = [f"{name}={value}" for name, value in values.items()]
    options = [part for setting in [*settings, *more] for part in ("--set", setting)]
    return subprocess.run(
        [*launch, "train", "--dataset", str(dataset.db_dir.parent), "--out", str(run), *options],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize(("launch", "ranks"), [(ALONE, 1), (TWO, 2)], ids=["one", "two"])
def test_ranks_play_through_a_server(
    launch: list[str],
    ranks: int,
    warm_model_dir: Path,
    tiny_dataset: Dataset,
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    with serving(warm_model_dir) as server:
        done = train_with(launch, server.url, warm_model_dir, tiny_dataset, run)
    assert done.returncode == 0, done.stderr[-3000:]
    log = RunLog(run)

    # The weights arrived before each round, and changed in between.
    assert server.updates == 2
    assert {answer.updates for answer in server.answered} == {1, 2}
    trained = weights(run / "model")
    start = weights(warm_model_dir)
    served = dict(server.served.model.named_parameters())
    changed = [n for n in served if not torch.allclose(served[n], start[n])]
    assert changed, "the second round was played with the first weights"
    assert any(not torch.equal(served[n], trained[n]) for n in changed)  # a step followed it

    # Every rank's turns are those that the server wrote for its own questions.
    decode = server.served.tokenizer.decode
    wrote = {
        (decode(a.prompt), decode(a.completion, skip_special_tokens=True)) for a in server.answered
    }
    files = sorted(run.glob("transcripts*.jsonl"))
    assert len(files) == ranks
    for row in log.transcripts():
        for step in row["steps"]:
            if "raw" in step["trace"]:
                assert any(
                    row["question"] in prompt and text.strip() == step["trace"]["raw"].strip()
                    for prompt, text in wrote
                )
    if ranks == 2:
        ends = {server.served.tokenizer.eos_token_id}
        assert any(set(a.prompt) == ends for a in server.answered), "no rank had fewer episodes"

    # What was sampled is what is trained: so says TRL's correction, over all ranks.
    rows = log.metrics()
    assert [row["step"] for row in rows] == [1, 2]
    for row in rows:
        assert row["sampling/sampling_logp_difference/max"] < 1e-3
        assert row["sampling/importance_sampling_ratio/mean"] == pytest.approx(1.0, abs=1e-3)


def test_a_server_that_does_not_answer_is_one_line(
    warm_model_dir: Path, tiny_dataset: Dataset, tmp_path: Path
) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    wait = "trl.vllm_server_timeout=0.1"
    done = train_with(ALONE, nobody, warm_model_dir, tiny_dataset, tmp_path / "run", wait)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert f"trl.use_vllm: The vLLM server can't be reached at {nobody}" in last
