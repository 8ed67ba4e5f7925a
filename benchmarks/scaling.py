"""What a second process adds: to the environment, to an evaluation, and to whole GRPO steps.

1. Processes that play gold queries through `SQLEnvironment.step`, one and two of them.
2. The second half of an evaluation of the oracle, when all workers run: in local processes, and on
   a Ray cluster of this machine.
3. `accelerate launch -m sql_env train` with one and with two ranks, each with the same number of
   episodes (so that two ranks play twice as many), on a model of two million random weights.

Every process gets one thread; a ratio of 2.0 is perfect. The first part counts processor time, so
that it shows what processes cost each other (caches, locks, files), whatever else the machine does.
The others count time on the wall and want two free cores.

    .venv/bin/python benchmarks/scaling.py
    .venv/bin/python benchmarks/scaling.py --parts environment
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sql_env import SQLAction, SQLEnvironment
from sql_env.agent.policies import OraclePolicy
from sql_env.evaluation.green_agent import plan_episodes
from sql_env.evaluation.ray_pool import Job, connect, play_on_ray
from sql_env.evaluation.worker_pool import play_in_processes

ENVIRONMENT_STEPS = 20_000
EVALUATION_SAMPLES = 20
EPISODES_PER_RANK = 32
TRAINING_STEPS = 6
WARM_STEPS = 2  # the first steps load and allocate
SETTINGS = {
    "device": "cpu",
    "num_generations": 4,
    "per_device_train_batch_size": EPISODES_PER_RANK,
    "gradient_accumulation_steps": 1,
    "max_new_tokens": 24,
    "max_context_tokens": 1024,
    "step_budget": 5,
    "max_steps": TRAINING_STEPS,
    "logging_steps": 1,
    "save_steps": 1000,
    "evaluate_every": 1000,
}
console = Console()


def play_steps(count: int) -> float:
    """Steps of gold queries, embedded data, in a second of this process's processor time."""
    with SQLEnvironment(step_budget=2) as env:
        questions = env.questions
        for question in questions:  # open every file, run every gold query once
            env.reset(question_id=question.question_id)
        spent = 0.0
        for number in range(count):
            question = questions[number % len(questions)]
            env.reset(question_id=question.question_id)
            action = SQLAction(action_type="QUERY", argument=question.gold_sql)
            begun = time.process_time()
            env.step(action)
            spent += time.process_time() - begun
    return count / spent


def measure_environment(processes: int) -> float:
    with ProcessPoolExecutor(processes) as pool:
        return sum(pool.map(play_steps, [ENVIRONMENT_STEPS] * processes))


def measure_evaluation(on: str | None, workers: int) -> float:
    """Episodes of the oracle in a second, when all workers have started."""
    with SQLEnvironment() as env:
        policy = OraclePolicy(env.questions)
        plan = plan_episodes(env.questions, None, seed=0, samples=EVALUATION_SAMPLES)
        if on is None:
            played = play_in_processes(env, policy, plan, 0, workers)
        else:
            connect(on)
            job = Job(env.another(), partial(OraclePolicy, env.questions), 0)
            played = play_on_ray(job, plan, workers)
        for _ in range(len(plan) // 2):
            next(played)
        begun = time.perf_counter()
        count = sum(1 for _ in played)
    return count / (time.perf_counter() - begun)


def make_model(folder: Path) -> None:
    from sql_env.agent.prompts import get_system_prompt
    from sql_env.questions import Dataset
    from sql_env.training.tiny_model import TinyModelSize, train_tokenizer, untrained_model

    size = TinyModelSize(width=192)
    texts = [record.question_text for record in Dataset.embedded().load()]
    tokenizer = train_tokenizer([get_system_prompt(), *texts], size)
    untrained_model(tokenizer, size).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def measure_training(model: Path, ranks: int, out: Path) -> float:
    """Episodes a second over whole GRPO steps."""
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", str(ranks)]
    launch += ["--multi_gpu"] if ranks > 1 else []  # accelerate's word for several processes
    launch += ["--num_machines", "1", "--main_process_port", "0"]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no"]
    settings = {"model_name": model, **SETTINGS}
    command = [*launch, "-m", "sql_env", "train", "--out", str(out)]
    command += [part for item in settings.items() for part in ("--set", f"{item[0]}={item[1]}")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    seconds = statistics.median(row["step_time"] for row in rows[WARM_STEPS:])
    return float(ranks * EPISODES_PER_RANK / seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=["environment", "evaluation", "training"])
    parts = parser.parse_args().parts
    table = Table("", "1 process", "2 processes", "ratio")

    def add(name: str, one: float, two: float) -> None:
        table.add_row(name, f"{one:,.1f}", f"{two:,.1f}", f"{two / one:.2f}")

    if "environment" in parts:
        add("environment steps/s (processor time)", measure_environment(1), measure_environment(2))
    if "evaluation" in parts:
        for name, on in (("local", None), ("Ray", "ray")):
            add(f"evaluation episodes/s, {name}", *(measure_evaluation(on, n) for n in (1, 2)))
    if "training" in parts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_model(folder / "model")
            rates = [
                measure_training(folder / "model", ranks, folder / f"run-{ranks}")
                for ranks in (1, 2)
            ]
        add("GRPO episodes/s", *rates)
    console.print(table)


if __name__ == "__main__":
    main()
