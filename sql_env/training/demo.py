"""The whole story on two CPU cores: a model of our own, from random weights to a better player.

1. Make databases, questions, a tokenizer and an untrained transformer.
2. SFT: it imitates experts whose queries are right. Three of four are hasty: they answer with the
   first row, which is right where one value is asked for and wrong where a list is. The others
   hand over the whole result with `@last`.
3. GRPO on questions that SFT has not shown. Nobody tells the model which habit is better: it finds
   out by the rewards of its own episodes.
4. Let it play held-out questions after each phase, and write one report.

No gold query of a held-out question is among the questions it learns from.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from datasets import Dataset as RowDataset
from rich.console import Console

from sql_env.core.render import render_cell
from sql_env.evaluation.comparison import Comparison, compare
from sql_env.evaluation.green_agent import EvaluationResult
from sql_env.evaluation.report import write_report
from sql_env.evaluation.run_folder import RunConfig, RunFolder, dataset_hash, read_run
from sql_env.models import QuestionRecord
from sql_env.provenance import current_commit, current_machine, current_versions, now
from sql_env.training.callbacks import GRPO_NEWS, SFT_NEWS, ProgressCallback
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_training_questions, question_prompt
from sql_env.training.demonstrations import Demonstration
from sql_env.training.pipeline import build_trainer, evaluate_model, run_training_with_metrics
from sql_env.training.run_log import DEMONSTRATIONS, MODEL, RunLog
from sql_env.training.sft import play_demonstrations, train_on
from sql_env.training.tiny_model import TinyModelSize, train_tokenizer, untrained_model, words_of
from sql_env.training.visualization import LiveVisualizationCallback
from sql_env.worlds import generate_dataset
from sql_env.worlds.domain_files import own_domains

DOMAINS = ("library", "pet_clinic", "fitness_club", "hospital")
QUESTIONS = 4_800
HELD_OUT, PRACTISED = 240, 400
HASTY = 0.75  # of the demonstrations
SIZE = TinyModelSize(vocabulary=2048, width=128, layers=4, heads=4, window=1024)


@dataclass(frozen=True)
class DemoResult:
    """What the demonstration showed."""

    untrained: EvaluationResult
    after_sft: EvaluationResult
    trained: EvaluationResult
    report: Path
    seconds: dict[str, float]

    @property
    def added_by_reward(self) -> Comparison:
        """The same held-out questions before and after GRPO, in pairs."""
        return compare(self.after_sft.episodes, self.trained.episodes)


def run_demo(config: GRPOConfig, console: Console, questions: int = QUESTIONS) -> DemoResult:
    """Train a model from nothing in `config.output_dir` and show what it learns on the way.

    Args:
        questions: how many to make, over all splits and difficulties.
    """
    out = Path(config.output_dir)
    clock = _Clock()
    with clock.phase("questions"):
        config = with_dataset(config, out / "data", questions)
        held_out = balanced(about_one_table(config, config.eval_split), HELD_OUT)
        learned_from = about_one_table(config, config.train_split)
        practised = balanced(learned_from, PRACTISED)
        shown = imitated(config, [item for item in learned_from if item not in practised])
    console.print(
        f"{len(shown)} demonstrations, {len(practised)} questions to practise on, "
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
        system = config.prompt_of_run.system
        prompts = RowDataset.from_list([question_prompt(item, system) for item in practised])
        live = LiveVisualizationCallback(grpo, tokenizer, practised, held_out, console=console)
        trainer = build_trainer(grpo, model, tokenizer, prompts, callbacks=[bar, live])
        run_training_with_metrics(trainer, grpo)
    with clock.phase("trained"):
        trained = _evaluate("after-grpo", config, model, tokenizer, held_out)
    console.print(f"after GRPO: {_line(trained)}")

    evaluations = [read_run(out / name) for name in ("untrained", "after-sft", "after-grpo")]
    report = write_report(evaluations, [out / "sft", out / "grpo"], out / "report.html")
    return DemoResult(untrained, after_sft, trained, report, clock.seconds)


def with_dataset(config: GRPOConfig, folder: Path, questions: int) -> GRPOConfig:
    """Make four databases and questions about them; the same run with these."""
    domains = own_domains()
    generate_dataset(
        folder,
        databases=len(DOMAINS),
        questions=questions,
        eval_fraction=0.2,
        hardness_mix={},  # easy takes what the others leave: all
        domains=[domains[name] for name in DOMAINS],
    )
    return replace(
        config, questions_path=str(folder / "questions"), db_dir=str(folder / "databases")
    )


def about_one_table(config: GRPOConfig, split: str) -> list[QuestionRecord]:
    """The questions of a split whose query reads one table, for a value or a list of them."""
    several = (" JOIN ", " GROUP BY ", "(SELECT ")
    return [
        record
        for record in load_training_questions(config, split)
        if record.answer_type != "table" and not any(word in record.gold_sql for word in several)
    ]


def balanced(records: Sequence[QuestionRecord], count: int) -> list[QuestionRecord]:
    """At most `count`, a question about a list of several and one about a value in turns."""
    lists = [
        record for record in records if record.answer_type == "list" and len(record.gold_answer) > 1
    ]
    values = [record for record in records if record.answer_type != "list"]
    return [record for pair in zip(lists, values, strict=False) for record in pair][:count]


def imitated(config: GRPOConfig, questions: Sequence[QuestionRecord]) -> list[Demonstration]:
    """Demonstrations of careful and of hasty experts."""
    draw = random.Random(config.seed)
    answers = {record.question_id: record.gold_answer for record in questions}
    shown = []
    for one in play_demonstrations(config, questions):
        answer = answers[one.question_id]
        rows = answer if isinstance(answer, list) else [answer]
        if rows and draw.random() < HASTY:
            hasty = replace(one.turns[-1], action=f"ANSWER: {render_cell(rows[0])}")
            one = replace(one, turns=(*one.turns[:-1], hasty))
        shown.append(one)
    return shown


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
            dataset=str(Path(config.output_dir) / "data"),
            split=config.eval_split,
            n_questions=len(questions),
            seed=config.seed,
            samples=1,
            step_budget=config.step_budget,
            allow_last=True,
            prompt=config.prompt_of_run.version,
            max_new_tokens=config.max_new_tokens,
            device="cpu",
            dataset_hash=dataset_hash(questions, Path(config.dataset.db_dir)),
            commit=current_commit(),
            created=now(),
            versions=current_versions(),
            machine=current_machine(),
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
