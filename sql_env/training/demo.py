"""The whole story on two CPU cores: a model of our own, from random weights to a better player.

1. Make a tokenizer and an untrained transformer; let it play held-out questions.
2. SFT: demonstrations of further questions about the same databases.
3. Train it with GRPO on the training split.
4. Let it play the held-out questions after each phase, and write one report.

No gold query of a held-out question is among the questions it learns from.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console

from sql_env.evaluation.green_agent import EvaluationResult
from sql_env.evaluation.report import write_report
from sql_env.evaluation.run_folder import RunConfig, RunFolder, read_run
from sql_env.models import Difficulty, QuestionRecord
from sql_env.provenance import current_commit, now
from sql_env.questions import load_questions
from sql_env.sql.leak_key import leak_key
from sql_env.training.callbacks import GRPO_NEWS, SFT_NEWS, ProgressCallback
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_training_questions
from sql_env.training.pipeline import build_trainer, evaluate_model, run_training_with_metrics
from sql_env.training.plots import RewardPoint, reward_figure, save_figure
from sql_env.training.run_log import DEMONSTRATIONS, MODEL, PLOTS, RunLog
from sql_env.training.sft import play_demonstrations, train_on
from sql_env.training.tiny_model import TinyModelSize, train_tokenizer, untrained_model, words_of
from sql_env.worlds import generate_dataset

FURTHER_QUESTIONS = 4_000
SIZE = TinyModelSize(vocabulary=2048, width=128, layers=4, heads=4, window=1024)


@dataclass(frozen=True)
class DemoResult:
    """What the demonstration showed."""

    untrained: EvaluationResult
    after_sft: EvaluationResult
    trained: EvaluationResult
    rewards: list[RewardPoint]
    steps_per_pass: int
    report: Path
    seconds: dict[str, float]

    @property
    def reward_by_pass(self) -> list[float]:
        """The mean training reward of every pass of GRPO: each asks the same questions once."""
        rewards = [point.reward for point in self.rewards]
        passes = [
            rewards[start : start + self.steps_per_pass]
            for start in range(0, len(rewards), self.steps_per_pass)
        ]
        return [sum(one) / len(one) for one in passes]


def run_demo(config: GRPOConfig, console: Console, further: int = FURTHER_QUESTIONS) -> DemoResult:
    """Train a model from nothing in `config.output_dir` and show what it learns on the way.

    Args:
        further: how many questions to make for SFT.
    """
    out = Path(config.output_dir)
    clock = _Clock()
    with clock.phase("questions"):
        held_out = load_training_questions(config, config.eval_split)
        trained_on = load_training_questions(config)
        shown = play_demonstrations(config, further_questions(config, further))
    console.print(
        f"{len(shown)} demonstrations, {len(trained_on)} questions to train on, "
        f"{len(held_out)} held out"
    )
    with clock.phase("untrained"):
        tokenizer = train_tokenizer(words_of(shown), SIZE)
        model = untrained_model(tokenizer, SIZE, config.seed)
        untrained = _evaluate("untrained", config, model, tokenizer, held_out)
    parameters = sum(item.numel() for item in model.parameters())
    console.print(f"a transformer of {parameters / 1e6:.1f} M random weights: {_line(untrained)}")

    with clock.phase("SFT"), _bar(console, "SFT", SFT_NEWS) as bar:
        log = RunLog(out / "sft")
        log.begin(replace(config, output_dir=str(log.path)))
        for row in train_on(shown, DEMONSTRATIONS, config, model, tokenizer, [bar]):
            if "loss" in row:
                log.add_metrics({"phase": "sft", **row})
        model.save_pretrained(log.path / MODEL)
        tokenizer.save_pretrained(log.path / MODEL)
        config.prompt_of_run.save(log.path / MODEL)
    with clock.phase("after SFT"):
        after_sft = _evaluate("after-sft", config, model, tokenizer, held_out)
    console.print(f"after SFT: {_line(after_sft)}")

    with clock.phase("GRPO"), _bar(console, "GRPO", GRPO_NEWS) as bar:
        grpo = replace(config, output_dir=str(out / "grpo"))
        trainer = build_trainer(grpo, model, tokenizer, callbacks=[bar])
        rewards = run_training_with_metrics(trainer, grpo)
    save_figure(reward_figure(rewards), out / "grpo" / PLOTS / "reward.png")
    with clock.phase("trained"):
        trained = _evaluate("after-grpo", config, model, tokenizer, held_out)
    console.print(f"after GRPO: {_line(trained)}")

    evaluations = [read_run(out / name) for name in ("untrained", "after-sft", "after-grpo")]
    report = write_report(evaluations, [out / "sft", out / "grpo"], out / "report.html")
    questions_per_step = config.episodes_per_round // config.num_generations
    steps_per_pass = max(1, len(trained_on) // questions_per_step)
    return DemoResult(untrained, after_sft, trained, rewards, steps_per_pass, report, clock.seconds)


def further_questions(config: GRPOConfig, count: int) -> list[QuestionRecord]:
    """Procedural questions about the embedded databases, none of them a held-out one.

    The generator makes the embedded databases again, byte for byte, and asks more about them.
    """
    gold = {leak_key(record.gold_sql) for record in load_questions(config.dataset.questions_path)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Easy takes what the others leave.
        share = 100 // len(config.difficulty_filter)
        mix: dict[Difficulty, int] = {
            level: share for level in config.difficulty_filter if level != "easy"
        }
        generate_dataset(folder, questions=count, hardness_mix=mix)
        for path in sorted((folder / "databases").glob("*/*.sqlite")):
            same = config.dataset.db_dir / path.relative_to(folder / "databases")
            if not same.is_file() or same.read_bytes() != path.read_bytes():
                raise RuntimeError(
                    f"{same} is not what the generator makes: restore data/, or write it anew with "
                    "`sql-env data generate`"
                )
        asked = load_questions(folder / "questions")
    return [
        record
        for record in asked
        if record.difficulty in config.difficulty_filter and leak_key(record.gold_sql) not in gold
    ]


def _evaluate(
    name: str,
    config: GRPOConfig,
    model: Any,
    tokenizer: Any,
    questions: Sequence[QuestionRecord],
) -> EvaluationResult:
    """Greedy play, kept as a run that reports can read."""
    result = evaluate_model(config, model, tokenizer, questions)
    folder = RunFolder.at(
        Path(config.output_dir) / name,
        RunConfig(
            policy=name,
            dataset="embedded",
            split=config.eval_split,
            n_questions=len(questions),
            seed=config.seed,
            samples=1,
            step_budget=config.step_budget,
            allow_last=True,
            max_new_tokens=config.max_new_tokens,
            device="cpu",
            commit=current_commit(),
            created=now(),
        ),
    )
    folder.finish(result)
    return result


@contextmanager
def _bar(console: Console, what: str, news: dict[str, str]) -> Iterator[ProgressCallback]:
    bar = ProgressCallback(console, what, news)
    try:
        yield bar
    finally:
        bar.stop()


def _line(result: EvaluationResult) -> str:
    return f"success {result.summary.success}, reward {result.avg_reward:.3f}"


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Book the time of a phase under its name."""
        started = monotonic()
        yield
        self.seconds[name] = round(monotonic() - started, 1)
