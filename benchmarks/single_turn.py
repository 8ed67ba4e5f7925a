"""What people do without an environment: the whole schema in one prompt, one query, no second look.

    python benchmarks/single_turn.py MODEL --dataset data/spider --split unseen --out runs/single
    python benchmarks/single_turn.py MODEL --dataset data/spider --train wide+rl --out runs/single

With `--train` the model first learns from the gold queries of those splits (one epoch, LoRA). The
query is played through the environment, so the same verifier judges it, and the folder is a run
like any other: `sql-env compare` sets it beside a model that explores.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset as RowDataset

from sql_env.agent.conversation import ChatLayout, Conversation
from sql_env.agent.generation import (
    Completion,
    Generator,
    Sampling,
    conversations_that_fit,
    make_generator,
)
from sql_env.agent.loading import load_model_and_tokenizer
from sql_env.agent.parsing import parse_model_output
from sql_env.environment import SQLEnvironment
from sql_env.evaluation.green_agent import evaluate
from sql_env.evaluation.run_folder import RunConfig, RunFolder, dataset_hash
from sql_env.models import QuestionRecord, SQLAction, SQLObservation
from sql_env.provenance import current_commit, current_machine, current_versions, now
from sql_env.questions import Dataset, filter_questions, load_questions
from sql_env.training.config import GRPOConfig, LoraSettings
from sql_env.training.data_loading import weighted_questions
from sql_env.training.length_bucketing import BucketedSFTTrainer

SYSTEM = "Answer the question about this SQLite database with one SQLite query. Write SQL only."
MOST_TABLES = 100
WINDOW, LONGEST_QUERY = 4096, 256
LORA = LoraSettings(r=8, alpha=32)


def prompt_text(schemas: Iterable[str], question: str) -> str:
    return "\n".join([*schemas, f"Question: {question}"])


class SingleTurn:
    """Describes every table itself, has the model write one query, and answers with its result."""

    def __init__(self, generator: Generator, layout: ChatLayout, room: int | None) -> None:
        self.room = room
        self._generator = generator
        self._layout = layout
        self._begun: dict[int, tuple[str, list[str], list[str]]] = {}

    def act(self, new: Mapping[int, SQLObservation]) -> dict[int, SQLAction | Exception]:
        chosen: dict[int, SQLAction | Exception] = {}
        asked: dict[int, Conversation] = {}
        for episode, seen in new.items():
            if not seen.step_count:
                self._begun[episode] = (seen.question, list(seen.table_names), [])
            question, tables, schemas = self._begun[episode]
            if seen.step_count and len(schemas) < len(tables):
                schemas.append(seen.result)
            if seen.step_count > len(tables):
                chosen[episode] = SQLAction(action_type="ANSWER", argument="@last")
            elif len(schemas) < len(tables):
                chosen[episode] = SQLAction(action_type="DESCRIBE", argument=tables[len(schemas)])
            else:
                text = prompt_text(schemas, question)
                asked[episode] = Conversation(self._layout, SYSTEM, text)
        if asked:
            contexts = [talk.context_ids for talk in asked.values()]
            for episode, turn in zip(asked, self._generator.generate(contexts), strict=True):
                chosen[episode] = self._query(asked[episode], turn)
        return chosen

    def _query(self, talk: Conversation, turn: Completion) -> SQLAction:
        text = talk.add_completion(turn.ids)
        trace = {"raw": text, "completion_tokens": len(turn.ids)}
        # Fences are taken off as everywhere; whatever else it may look like, it is a query.
        sql = parse_model_output(text).argument
        return SQLAction(action_type="QUERY", argument=sql or text, metadata=trace)

    def end(self, episode: int) -> None:
        self._begun.pop(episode, None)

    def release(self) -> None:
        self._generator.release()


def train(model: Any, tokenizer: Any, dataset: Dataset, split: str, out: Path) -> None:
    """One epoch on (schema and question, gold query) pairs."""
    records = weighted_questions(load_questions(dataset.questions_path), split)
    layout = ChatLayout.of(tokenizer, model)
    rows = []
    with environment(dataset, records) as env:
        for record in records:
            seen = env.reset(question_id=record.question_id)
            schemas = [
                env.step(SQLAction(action_type="DESCRIBE", argument=table)).result
                for table in seen.table_names
            ]
            talk = Conversation(layout, SYSTEM, prompt_text(schemas, record.question_text))
            shown = talk.context_ids
            learned = [*layout.encode(record.gold_sql), layout.end_id]
            if len(shown) + len(learned) <= WINDOW:
                labels = [-100] * len(shown) + learned
                rows.append({"input_ids": shown + learned, "labels": labels})
    config = GRPOConfig.load(
        settings=[
            f"output_dir={out}",
            f"max_context_tokens={WINDOW}",
            "sft.num_train_epochs=1.0",
            "sft.learning_rate=3e-4",
            "sft.per_device_train_batch_size=16",
            "sft.trl.gradient_checkpointing=true",
            "sft.trl.logging_steps=50",
        ]
    )
    trainer = BucketedSFTTrainer(
        model=model,
        args=config.to_trl_sft("single", save_strategy="no"),
        train_dataset=RowDataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.train()


def environment(dataset: Dataset, records: list[QuestionRecord]) -> SQLEnvironment:
    return SQLEnvironment(
        db_dir=dataset.db_dir, questions=records, step_budget=MOST_TABLES, allow_last=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--split", action="append", help="of the questions; repeatable")
    parser.add_argument("--train", help="splits to learn from first")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--out", type=Path, required=True, help="a run for each split: OUT-SPLIT")
    options = parser.parse_args()
    dataset = Dataset.at(options.dataset)
    torch.manual_seed(42)
    on_gpu = torch.cuda.is_available()
    model, tokenizer = load_model_and_tokenizer(
        options.model,
        dtype="bfloat16" if on_gpu else "float32",
        lora=LORA.to_peft() if options.train else None,
    )
    if options.train:
        train(model, tokenizer, dataset, options.train, options.out)
        model = model.merge_and_unload()
    generator = make_generator(model.eval(), tokenizer, Sampling(LONGEST_QUERY), max_length=WINDOW)
    policy = SingleTurn(
        generator, ChatLayout.of(tokenizer, model), conversations_that_fit(model, WINDOW)
    )
    for split in options.split or ["unseen"]:
        records = filter_questions(load_questions(dataset.questions_path), split=split)
        config = RunConfig(
            policy=f"single-turn:{options.model}" + (f"+{options.train}" if options.train else ""),
            dataset=options.dataset,
            split=split,
            n_questions=options.limit,
            seed=0,
            samples=1,
            step_budget=MOST_TABLES,
            allow_last=True,
            prompt=None,
            actions=None,
            max_new_tokens=LONGEST_QUERY,
            dtype=str(model.dtype).removeprefix("torch."),
            dataset_hash=dataset_hash(records, dataset.db_dir),
            commit=current_commit(),
            created=now(),
            versions=current_versions(),
            machine=current_machine(),
        )
        folder = RunFolder.at(options.out.with_name(f"{options.out.name}-{split}"), config)
        with environment(dataset, records) as env:
            result = evaluate(env, policy, options.limit, on_episode=folder.append, batch_size=128)
        folder.finish(result)
        print(f"{folder.path}: {result.summary.success}")


if __name__ == "__main__":
    main()
