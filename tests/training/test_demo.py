"""The demonstration in small: every phase, the files it leaves, and no held-out query learned."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from sql_env.agent.loading import load_model_and_tokenizer
from sql_env.evaluation.run_folder import read_run
from sql_env.questions import Dataset
from sql_env.sql.leak_key import leak_key
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_training_questions
from sql_env.training.demo import further_questions, run_demo
from sql_env.training.run_log import RunLog
from sql_env.training.tiny_model import TinyModelSize, train_tokenizer, untrained_model


@pytest.fixture
def config(tmp_path: Path) -> GRPOConfig:
    return GRPOConfig.load(
        "demo",
        output_dir=str(tmp_path / "demo"),
        max_steps=2,
        max_new_tokens=12,
        num_generations=2,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=1,
        sft={"trl": {"max_steps": 3, "logging_steps": 1}},
    )


def test_no_held_out_query_is_among_the_further_questions(config: GRPOConfig) -> None:
    asked = further_questions(config, 300)
    held_out = {leak_key(item.gold_sql) for item in load_training_questions(config, "eval")}
    assert len(asked) > 150
    assert not held_out & {leak_key(item.gold_sql) for item in asked}
    assert {item.difficulty for item in asked} == {"easy"}


def test_databases_that_were_changed_are_refused(config: GRPOConfig, tmp_path: Path) -> None:
    import dataclasses
    import shutil

    embedded = Dataset.embedded()
    shutil.copytree(embedded.db_dir, tmp_path / "databases")
    victim = next((tmp_path / "databases").glob("*/*.sqlite"))
    victim.write_bytes(victim.read_bytes() + b"\0")
    changed = dataclasses.replace(
        config, questions_path=str(embedded.questions_path), db_dir=str(tmp_path / "databases")
    )
    with pytest.raises(RuntimeError, match=victim.name):
        further_questions(changed, 20)


@pytest.mark.slow
def test_the_demonstration_runs_through_and_leaves_a_report(config: GRPOConfig) -> None:
    console = Console(file=io.StringIO(), width=120)
    result = run_demo(config, console, further=100)
    out = Path(config.output_dir)
    held_out = load_training_questions(config, "eval")
    for name, played in (
        ("untrained", result.untrained),
        ("after-sft", result.after_sft),
        ("after-grpo", result.trained),
    ):
        run = read_run(out / name)
        assert [item.question_id for item in run.episodes] == [q.question_id for q in held_out]
        assert [item.correct for item in run.episodes] == [e.correct for e in played.episodes]
    assert [row["phase"] for row in RunLog(out / "sft").metrics()] == ["sft"] * 3
    assert [row["phase"] for row in RunLog(out / "grpo").metrics()] == ["grpo"] * 2
    page = result.report.read_text(encoding="utf-8")
    assert held_out[0].question_text[:30] in page
    tutorial = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
    for name in re.findall(r"runs/demo/([\w./-]*\w)", tutorial):
        assert (out / name).exists(), name
    model, _ = load_model_and_tokenizer(str(out / "grpo" / "model"))
    weights = sum(item.numel() for item in model.parameters())
    assert weights == pytest.approx(1_000_000, rel=0.1), "the texts say: a million"
    assert len(result.reward_by_pass) >= 1
    for part in ("held out", "random weights", "after SFT", "after GRPO"):
        assert part in console.file.getvalue()  # type: ignore[attr-defined]


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
