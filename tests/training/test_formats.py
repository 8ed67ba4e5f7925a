"""SFT and training under every way of speaking to a model, and models that cannot be spoken to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sql_env.agent.prompts import Prompt, prompt_of_model
from sql_env.cli import app
from sql_env.questions import Dataset, load_questions
from sql_env.training.config import GRPOConfig
from sql_env.training.pipeline import evaluate_model
from sql_env.training.sft import train_sft


@pytest.mark.parametrize("actions", ["text", "tools"])
def test_sft_teaches_the_actions_that_are_played(
    actions: str,
    tiny_config: Callable[..., GRPOConfig],
    make_llama: Callable[..., Any],
    qwen_tokenizer: Any,
) -> None:
    config = tiny_config(
        prompt="v2",
        actions=actions,
        max_new_tokens=48,
        max_context_tokens=2048,
        sft={
            "trl": {"max_steps": 80},
            "learning_rate": 3e-3,
            "per_device_train_batch_size": 6,
            "mix": {"extra_table": 0.0, "sample": 0.0, "corrupt": 0.0, "typed_answer": 0.0},
        },
    )
    model = make_llama(initializer_range=0.1)
    questions = load_questions(config.dataset.questions_path)[:4]

    def understood() -> list[str]:
        played = evaluate_model(config, model, qwen_tokenizer, questions)
        turns = [step.trace for episode in played.episodes for step in episode.steps]
        written.extend(turn["raw"] for turn in turns if "raw" in turn)
        return [turn["raw"] for turn in turns if "raw" in turn and turn["parsed"]]

    written: list[str] = []
    assert understood() == []
    train_sft(config, model, qwen_tokenizer)
    written.clear()
    meant = understood()
    assert len(meant) > len(written) / 2
    assert {"<tool_call>" in text for text in meant} == {actions == "tools"}
    saved = Path(config.output_dir) / "demonstrations"
    assert prompt_of_model(str(saved)) == Prompt("v2", actions)  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["sft", "train"])
@pytest.mark.parametrize(
    ("template", "actions", "complaint"),
    [
        (None, "text", "has no chat template: take an instruction-tuned model"),
        ("{{ messages[-1]['content'] }}", "text", "the chat template of"),
        ("chatml", "tools", "has no tools: play with"),
    ],
    ids=["no template", "a template that drops turns", "no tools"],
)
def test_a_template_that_is_refused_is_one_line(
    template: str | None,
    actions: str,
    complaint: str,
    command: str,
    make_llama: Callable[..., Any],
    chat_tokenizer: Any,
    tiny_dataset: Dataset,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "model"
    make_llama().save_pretrained(folder)
    chat_tokenizer.save_pretrained(folder)
    if template != "chatml":
        (folder / "chat_template.jinja").unlink()
        if template:
            (folder / "chat_template.jinja").write_text(template)
    settings = [f"model_name={folder}", f"actions={actions}", "device=cpu", "max_steps=1"]
    options = [part for setting in settings for part in ("--set", setting)]
    data = str(tiny_dataset.db_dir.parent)
    run = ["--preset", "cpu", "--dataset", data, "--out", str(tmp_path / "run")]
    outcome = CliRunner().invoke(app, [command, *run, *options])
    assert outcome.exit_code == 2, outcome.output
    (line,) = [line for line in outcome.output.splitlines() if "error:" in line]
    assert complaint in line
    assert not list((tmp_path / "run").rglob("demonstrations.jsonl"))
