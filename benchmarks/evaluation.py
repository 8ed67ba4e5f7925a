"""What evaluating costs on top of the environment itself.

    python benchmarks/evaluation.py [--dataset DIR] [--split eval] [--rounds 25]

The random policy plays every question once. Its actions are then played again in a bare loop of
`reset` and `step`, without a policy and without keeping anything. The ratio of the two is what
choosing, timing and recording cost. Seconds are of the processor, not of the clock, so that other
work on the machine counts less.
"""

from __future__ import annotations

import argparse
import gc
from pathlib import Path
from statistics import median
from time import process_time
from typing import NamedTuple

from sql_env.agent.episodes import EpisodeResult
from sql_env.agent.policies import RandomPolicy
from sql_env.environment import SQLEnvironment
from sql_env.evaluation.green_agent import evaluate
from sql_env.models import SQLAction
from sql_env.questions import Dataset, filter_questions

TARGET = 1.3
SPIDER = Path(__file__).resolve().parent.parent / "data" / "spider"


def bare_loop(env: SQLEnvironment, script: list[tuple[str, list[SQLAction]]]) -> float:
    """Processor seconds to play the same actions with nothing around them."""
    started = process_time()
    for question_id, actions in script:
        env.reset(question_id=question_id)
        for action in actions:
            env.step(action)
    return process_time() - started


def evaluated(env: SQLEnvironment) -> tuple[float, tuple[EpisodeResult, ...]]:
    """Processor seconds that `evaluate` takes, and the episodes."""
    started = process_time()
    result = evaluate(env, RandomPolicy(), seed=0)
    return process_time() - started, result.episodes


class Measured(NamedTuple):
    """Processor seconds of the bare loop and of `evaluate`, and the steps that both took."""

    bare: float
    whole: float
    ratio: float
    steps: int


def measure(env: SQLEnvironment, rounds: int) -> Measured:
    """Both in turns. The ratio is the median over rounds: whatever else runs slows both of one."""
    _, episodes = evaluated(env)  # warms up databases and gold results
    script = [
        (
            episode.question_id,
            [SQLAction(action_type=s.action_type, argument=s.argument) for s in episode.steps],
        )
        for episode in episodes
    ]
    bare, whole = [], []
    for _ in range(rounds):
        gc.collect()
        bare.append(bare_loop(env, script))
        gc.collect()
        whole.append(evaluated(env)[0])
    ratio = median(w / b for w, b in zip(whole, bare, strict=True))
    steps = sum(len(episode.steps) for episode in episodes)
    return Measured(median(bare), median(whole), ratio, steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", type=Path, default=SPIDER if SPIDER.is_dir() else None)
    parser.add_argument("--split", default="eval")
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    dataset = Dataset.at(options.dataset)
    questions = filter_questions(dataset.load(), split=options.split)
    with SQLEnvironment(db_dir=dataset.db_dir, questions=questions) as env:
        bare, whole, ratio, steps = measure(env, options.rounds)
        print(f"dataset        {options.dataset or 'embedded'}: {len(env.questions)} questions")
    print(f"steps          {steps:,}")
    print(f"bare loop      {1e6 * bare / steps:8.1f} us a step")
    print(f"evaluate()     {1e6 * whole / steps:8.1f} us a step, the policy included")
    print(f"ratio          {ratio:8.2f}   (target: at most {TARGET})")


if __name__ == "__main__":
    main()
