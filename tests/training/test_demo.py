"""The demonstration in small: every phase, the files it leaves, and no held-out query learned."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sql_env.agent.loading import load_model_and_tokenizer
from sql_env.evaluation.run_folder import read_run
from sql_env.models import QuestionRecord, SQLAction
from sql_env.questions import Dataset, load_questions
from sql_env.sql.leak_key import leak_key
from sql_env.training.config import GRPOConfig
from sql_env.training.demo import (
    HASTY,
    HELD_OUT,
    PRACTISED,
    about_one_table,
    balanced,
    imitated,
    run_demo,
)
from sql_env.training.run_log import RunLog
from sql_env.training.tiny_model import TinyModelSize, train_tokenizer, untrained_model


@pytest.fixture
def config(tmp_path: Path) -> GRPOConfig:
    return GRPOConfig.load(
        "demo",
        output_dir=str(tmp_path / "demo"),
        max_steps=2,
        max_new_tokens=12,
        evaluate_every=2,
        num_generations=2,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=1,
        sft={"trl": {"max_steps": 3, "logging_steps": 1}},
    )


@pytest.fixture(scope="module")
def questions() -> list[QuestionRecord]:
    """Those of the package about a value or a list."""
    return [
        record
        for record in load_questions(Dataset.embedded().questions_path)
        if record.answer_type != "table" and " JOIN " not in record.gold_sql
    ]


@pytest.mark.slow
def test_the_demonstration_runs_through_and_leaves_a_report(config: GRPOConfig) -> None:
    console = Console(file=io.StringIO(), width=120)
    result = run_demo(config, console, questions=400)
    out = Path(config.output_dir)
    data = Dataset(out / "data" / "questions", out / "data" / "databases")
    config = replace(config, questions_path=str(data.questions_path), db_dir=str(data.db_dir))
    held_out = balanced(about_one_table(config, "eval"), HELD_OUT)
    learned_from = about_one_table(config, "train")
    for name, played in (
        ("untrained", result.untrained),
        ("after-sft", result.after_sft),
        ("after-grpo", result.trained),
    ):
        run = read_run(out / name)
        assert [item.question_id for item in run.episodes] == [q.question_id for q in held_out]
        assert [item.correct for item in run.episodes] == [e.correct for e in played.episodes]
    queries = {leak_key(item.gold_sql) for item in held_out}
    assert not queries & {leak_key(item.gold_sql) for item in learned_from}
    practised = {item.question_id for item in balanced(learned_from, PRACTISED)}
    assert {row["question_id"] for row in RunLog(out / "grpo").transcripts()} <= practised

    assert [row["phase"] for row in RunLog(out / "sft").metrics()] == ["sft"] * 3
    assert [row["phase"] for row in RunLog(out / "grpo").metrics()] == ["grpo"] * 2
    curve = RunLog(out / "grpo").success()
    assert [row["step"] for row in curve] == [0, 2]
    assert [row["eval"]["n"] for row in curve] == [len(held_out)] * 2
    assert curve[0]["eval"]["rate"] == result.after_sft.summary.success.rate
    assert curve[-1]["eval"]["rate"] == result.trained.summary.success.rate
    assert result.added_by_reward.n_questions == len(held_out)
    page = result.report.read_text(encoding="utf-8")
    assert held_out[0].question_text[:30] in page
    tutorial = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
    for name in re.findall(r"runs/demo/([\w./-]*\w)", tutorial):
        assert (out / name).exists(), name
    model, _ = load_model_and_tokenizer(str(out / "grpo" / "model"))
    weights = sum(item.numel() for item in model.parameters())
    assert weights == pytest.approx(1_000_000, rel=0.1), "the texts say: a million"
    for part in ("held out", "random weights", "after SFT", "after GRPO"):
        assert part in console.file.getvalue()  # type: ignore[attr-defined]


def test_values_and_lists_come_in_turns(questions: list[QuestionRecord]) -> None:
    chosen = balanced(questions, 51)
    kinds = [record.answer_type == "list" for record in chosen]
    assert kinds == [place % 2 == 0 for place in range(51)]
    assert len({record.question_id for record in chosen}) == 51


def test_most_experts_are_hasty_and_right_about_values_only(
    config: GRPOConfig, questions: list[QuestionRecord]
) -> None:
    gold = {record.question_id: record for record in balanced(questions, 200)}
    shown = imitated(config, list(gold.values()))
    answers = {item.question_id: item.turns[-1].action for item in shown}
    hasty = {name: answer for name, answer in answers.items() if answer != "ANSWER: @last"}
    assert len(hasty) == pytest.approx(HASTY * len(shown), rel=0.15)
    with config.environment(list(gold.values())) as env:
        for name, answer in answers.items():
            env.reset(question_id=name)
            seen = env.step(SQLAction(action_type="QUERY", argument=gold[name].gold_sql))
            seen = env.step(SQLAction(action_type="ANSWER", argument=answer.split(": ", 1)[1]))
            is_value = gold[name].answer_type != "list"
            assert seen.metadata["correct"] == (is_value or name not in hasty), (name, answer)


def test_the_tokenizer_spells_a_name_alike_everywhere() -> None:
    size = TinyModelSize(vocabulary=600, width=32, layers=1, heads=2)
    texts = ["Which ships sail to Nairobi?", "home_port text\nNairobi"] * 20
    tokenizer = train_tokenizer(texts, size)

    def tokens(text: str) -> list[str]:
        return list(tokenizer.tokenize(text))

    (name,) = tokens("Nairobi")
    for text in (" to Nairobi?", "QUERY: SELECT home_port FROM ships WHERE home_port = 'Nairobi'"):
        assert name in tokens(text)
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokens("home_port") == ["home_port"]


def test_the_same_seed_makes_the_same_model() -> None:
    import torch

    size = TinyModelSize(vocabulary=400, width=32, layers=1, heads=2)
    tokenizer = train_tokenizer(["a b c"], size)
    first, second, other = (untrained_model(tokenizer, size, seed) for seed in (1, 1, 2))
    ids = torch.tensor([[5, 6, 7]])
    assert torch.equal(first(ids).logits, second(ids).logits)
    assert not torch.equal(first(ids).logits, other(ids).logits)
