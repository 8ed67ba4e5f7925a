"""How fast are rollouts? Five ways to play the same questions with the same model, in one run.

(a) one episode at a time with `generate`      (b) all episodes together with `generate`
(c) TRL's `environment_factory` loop           (d) the lock-step engine
(e) the engine without its short cut through a Llama's layers

    python benchmarks/rollout.py                                  # CPU, 16 episodes
    python benchmarks/rollout.py --device cuda --episodes 256     # a GPU
    python benchmarks/rollout.py --model smollm2-135m             # real weights instead of random

By default the model has random weights in SmolLM2-135M's shape (on a CPU a smaller one), so that
nothing must be downloaded: it writes nonsense up to the token limit, and every episode takes all
its steps, which makes the work equal. First the engine's greedy tokens are compared with those of
`generate`; then turns of many lengths show what it saves to leave stragglers for later; last, whole
GRPO steps show the environment's share of the time.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
from rich.console import Console
from rich.table import Table

from sql_env.agent.engine.lockstep import LockstepEngine
from sql_env.agent.generation import Backend, GenerateBackend, Sampling, layout_of, stop_ids_of
from sql_env.agent.parsing import parse_model_output
from sql_env.agent.prompts import get_system_prompt
from sql_env.models import QuestionRecord
from sql_env.questions import Dataset, load_questions
from sql_env.training.config import GRPOConfig
from sql_env.training.rewards import REWARD_FUNCTIONS
from sql_env.training.rollout import TRLRollout, play
from sql_env.training.tool_environment import SQLToolEnvironment

SHAPES = {
    "smollm2-shaped": {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
    },
    "small": {
        "hidden_size": 192,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
}
CHATML = (
    "{% for message in messages %}"
    "{% set role = 'user' if message['role'] == 'tool' else message['role'] %}"
    "{{ '<|im_start|>' + role + '\n' + message['content'] }}"
    "{% for call in message['tool_calls'] or [] %}{{ call | tojson }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
console = Console()


class Played(NamedTuple):
    """What one way of playing did, and how long it took."""

    episodes: int
    turns: int
    tokens: int
    seconds: float


@dataclass
class CountingBackend:
    """Counts the turns and tokens that pass through a backend."""

    inner: Backend
    turns: int = 0
    tokens: int = 0

    def begin(self) -> None:
        self.inner.begin()

    def generate(self, contexts: Any) -> Any:
        completions = self.inner.generate(contexts)
        self.turns += sum(completion.finished for completion in completions)
        self.tokens += sum(len(completion.ids) for completion in completions)
        return completions


def main() -> None:
    options = parse_options()
    torch.manual_seed(0)
    dataset = Dataset.at(options.dataset) if options.dataset else Dataset.embedded()
    model, tokenizer = load(options, dataset)
    config = GRPOConfig(
        questions_path=str(dataset.questions_path),
        db_dir=str(dataset.db_dir),
        max_new_tokens=options.max_new_tokens,
        max_context_tokens=options.window,
        step_budget=options.steps,
        device="cpu" if options.device == "cpu" else "auto",
        precision="fp32" if options.device == "cpu" else "bf16",
        difficulty_filter=["easy", "medium", "hard", "extra"],
    )
    records = load_questions(dataset.questions_path)
    records = (records * (options.episodes // len(records) + 1))[: options.episodes]
    print_setting(options, model)
    if "check" in options.parts:
        compare_greedy(model, tokenizer, config, records[:16])
    if "speed" in options.parts:
        compare_speed(model, tokenizer, config, records, options)
    if "uneven" in options.parts:
        compare_waiting(model, tokenizer, config, records, options)
    if "step" in options.parts:
        measure_step(model, tokenizer, config, records, options)


# -- the same tokens ---------------------------------------------------------------------------


def compare_greedy(
    model: Any, tokenizer: Any, config: GRPOConfig, records: list[QuestionRecord]
) -> None:
    """Whole greedy episodes through both backends, token by token, in fp32."""
    import copy

    exact = copy.deepcopy(model).float()
    sampling = Sampling(config.max_new_tokens, temperature=0)
    layout = layout_of(tokenizer, config)
    played = []
    for backend in (generate_of(exact, tokenizer, sampling), engine_of(exact, config, sampling)):
        rollouts = play(records, layout, backend, config)
        played.append([rollout.conversation.completion_ids for rollout in rollouts])
    pairs = list(zip(*played, strict=True))
    same = sum(left == right for left, right in pairs)
    console.print(f"greedy tokens equal generate's: {same} of {len(pairs)} episodes (fp32)")
    for left, right in pairs:
        if left != right:
            first = next(
                (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
                min(len(left), len(right)),
            )
            console.print(f"  first difference at token {first} of {len(left)}")


# -- the five ways -----------------------------------------------------------------------------


def compare_speed(
    model: Any,
    tokenizer: Any,
    config: GRPOConfig,
    records: list[QuestionRecord],
    options: argparse.Namespace,
) -> None:
    sampling = Sampling(config.max_new_tokens, temperature=1.0)
    together = generate_of(model, tokenizer, sampling)
    engine = engine_of(model, config, sampling, options.graphs)
    longer = engine_of(model, config, sampling, options.graphs, short_cut=False)
    alone = records[: options.alone]
    ways: dict[str, Callable[[], Played]] = {
        "a": lambda: one_by_one(alone, tokenizer, together, config),
        "b": lambda: all_together(records, tokenizer, together, config),
        "c": lambda: through_trl(records, model, tokenizer, config),
        "d": lambda: all_together(records, tokenizer, engine, config),
        "e": lambda: all_together(records, tokenizer, longer, config),
    }
    names = {
        "a": f"one at a time, generate ({len(alone)} episodes)",
        "b": "together, generate",
        "c": "TRL environment_factory",
        "d": "lock-step engine",
        "e": "… through transformers' layers",
    }
    measured: dict[str, Played] = {}
    for way in options.ways:
        if way in "de" and options.device == "cuda":
            started = time.perf_counter()
            ways[way]()
            console.print(
                f"({way}) first round, graphs captured: {time.perf_counter() - started:.1f} s"
            )
        measured[way] = ways[way]()
    table = Table("", "", "episodes/s", "tokens/s", "turns", "seconds", "x (a)", "x (b)")
    for way, seen in measured.items():
        rate = seen.tokens / seen.seconds
        ratios = [
            f"{rate / (measured[base].tokens / measured[base].seconds):.2f}"
            if base in measured
            else ""
            for base in ("a", "b")
        ]
        table.add_row(
            f"({way})",
            names[way],
            f"{seen.episodes / seen.seconds:.2f}",
            f"{rate:,.0f}",
            str(seen.turns),
            f"{seen.seconds:.1f}",
            *ratios,
        )
    console.print(table)
    print(json.dumps({way: seen._asdict() for way, seen in measured.items()}))


def one_by_one(
    records: list[QuestionRecord], tokenizer: Any, backend: Backend, config: GRPOConfig
) -> Played:
    counting = CountingBackend(backend)
    layout = layout_of(tokenizer, config)
    seconds = timed(lambda: [play([record], layout, counting, config) for record in records])
    return Played(len(records), counting.turns, counting.tokens, seconds)


def all_together(
    records: list[QuestionRecord], tokenizer: Any, backend: Backend, config: GRPOConfig
) -> Played:
    counting = CountingBackend(backend)
    layout = layout_of(tokenizer, config)
    seconds = timed(lambda: play(records, layout, counting, config))
    return Played(len(records), counting.turns, counting.tokens, seconds)


def through_trl(
    records: list[QuestionRecord], model: Any, tokenizer: Any, config: GRPOConfig
) -> Played:
    """TRL's own tool loop. The tokenizer is taught to read our actions as tool calls.

    So the model writes the very same turns. TRL has no sign that an episode is over; it stops
    after as many rounds as the longest episode may have.
    """
    import copy

    from trl import GRPOTrainer

    parameter = {"DESCRIBE": "table", "SAMPLE": "table", "QUERY": "sql", "ANSWER": "value"}

    def read(ids: Any, **_: Any) -> dict[str, Any]:
        action = parse_model_output(speaking.decode(ids, skip_special_tokens=True))
        arguments = {parameter[action.action_type]: action.argument}
        call = {"name": action.action_type.lower(), "arguments": arguments}
        calls = [{"type": "function", "function": call}]
        return {"role": "assistant", "content": "", "tool_calls": calls}

    speaking = copy.deepcopy(tokenizer)
    speaking.chat_template = CHATML
    speaking.response_schema = {"type": "object"}
    speaking.parse_response = read
    system = get_system_prompt()
    rows = [
        {
            "prompt": [
                {"role": "system", "content": system},
                {"role": "user", "content": f"Question: {record.question_text}"},
            ],
            "question_id": record.question_id,
        }
        for record in records
    ]
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            args=replace(config, adapter="environment_factory", output_dir=folder).to_trl(
                max_tool_calling_iterations=config.step_budget - 1,
                max_completion_length=config.max_context_tokens,
                bf16=False,
            ),
            train_dataset=dataset_of(rows),
            processing_class=speaking,
            reward_funcs=list(REWARD_FUNCTIONS),
            environment_factory=partial(SQLToolEnvironment, config),
        )
    trainer.generation_config.max_new_tokens = config.max_new_tokens
    turns = tokens = 0
    single_turn = trainer._generate_single_turn

    def count(*arguments: Any, **keywords: Any) -> Any:
        nonlocal turns, tokens
        ids, logprobs = single_turn(*arguments, **keywords)
        turns += len(ids)
        tokens += sum(map(len, ids))
        return ids, logprobs

    trainer._generate_single_turn = count
    model.train()
    seconds = timed(lambda: trainer._generate_and_score_completions([dict(row) for row in rows]))
    model.eval()
    return Played(len(rows), turns, tokens, seconds)


# -- turns of many lengths ---------------------------------------------------------------------


def compare_waiting(
    model: Any,
    tokenizer: Any,
    config: GRPOConfig,
    records: list[QuestionRecord],
    options: argparse.Namespace,
) -> None:
    """The engine where one token in thirty ends a turn: waiting for the longest turn, or not."""
    vocabulary = model.get_input_embeddings().num_embeddings
    rates = []
    for stragglers in (0.0, 0.2):
        engine = LockstepEngine(
            model,
            stop_ids=range(0, vocabulary, 30),
            sampling=Sampling(128, temperature=1.0),
            max_length=config.max_context_tokens,
            cuda_graphs=options.graphs,
            stragglers=stragglers,
        )
        longer = replace(config, max_new_tokens=128)
        all_together(records, tokenizer, engine, longer)  # graphs are captured
        seen = all_together(records, tokenizer, engine, longer)
        rates.append(seen.tokens / seen.seconds)
    waiting, going_on = rates
    console.print(
        f"turns of many lengths: {waiting:,.0f} tokens/s waiting for the last of a turn, "
        f"{going_on:,.0f} going on without a fifth of them: {going_on / waiting:.2f} x"
    )


# -- a whole step ------------------------------------------------------------------------------


def measure_step(
    model: Any,
    tokenizer: Any,
    config: GRPOConfig,
    records: list[QuestionRecord],
    options: argparse.Namespace,
) -> None:
    """GRPO steps with the engine: where the time goes."""
    from trl import GRPOTrainer

    rows = [
        {
            "prompt": [
                {"role": "system", "content": get_system_prompt()},
                {
                    "role": "user",
                    "content": record.question_text,
                    "question_id": record.question_id,
                },
            ]
        }
        for record in records
    ]
    batch = min(len(records), 64)
    with tempfile.TemporaryDirectory() as folder:
        config = replace(
            config,
            output_dir=folder,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=len(records) // batch,
            num_generations=8,
            max_steps=3,
            logging_steps=1,
            save_steps=1000,
        )
        rollout = TRLRollout(config)
        seconds: list[dict[str, float]] = []

        def play_and_note(prompts: Any, trainer: Any) -> dict[str, Any]:
            before = dict(rollout.seconds)
            rows = rollout(prompts, trainer)
            seconds.append({name: rollout.seconds[name] - before[name] for name in before})
            return rows

        trainer = GRPOTrainer(
            model=model.float(),
            args=config.to_trl(),
            train_dataset=dataset_of(rows),
            processing_class=tokenizer,
            reward_funcs=list(REWARD_FUNCTIONS),
            rollout_func=play_and_note,
        )
        trainer.train()
    logged = [row["step_time"] for row in trainer.state.log_history if "step_time" in row]
    table = Table("GRPO step", "seconds", "generate", "environment", "other", "environment's share")
    for number, (whole, parts) in enumerate(zip(logged, seconds, strict=False)):
        table.add_row(
            str(number + 1),
            f"{whole:.2f}",
            *(f"{parts[name]:.3f}" for name in ("generate", "environment", "other")),
            f"{parts['environment'] / whole:.1%}",
        )
    console.print(table)


# -- what it takes -----------------------------------------------------------------------------


def timed(work: Callable[[], Any]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def generate_of(model: Any, tokenizer: Any, sampling: Sampling) -> Backend:
    return GenerateBackend(
        model,
        stop_ids=stop_ids_of(model, tokenizer),
        pad_id=tokenizer.pad_token_id,
        sampling=sampling,
    )


def engine_of(
    model: Any,
    config: GRPOConfig,
    sampling: Sampling,
    graphs: bool = True,
    short_cut: bool = True,
) -> Backend:
    return LockstepEngine(
        model,
        stop_ids=[model.config.eos_token_id],
        sampling=sampling,
        max_length=config.max_context_tokens,
        cuda_graphs=graphs,
        short_cut=short_cut,
    )


def dataset_of(rows: list[dict[str, Any]]) -> Any:
    from datasets import Dataset as RowDataset

    return RowDataset.from_list(rows)


def load(options: argparse.Namespace, dataset: Dataset) -> tuple[Any, Any]:
    dtype = torch.float32 if options.device == "cpu" else torch.bfloat16
    if options.model not in SHAPES:
        from sql_env.agent.loading import load_model_and_tokenizer

        name = str(dtype).removeprefix("torch.")
        model, tokenizer = load_model_and_tokenizer(
            options.model, dtype=name, device=options.device
        )
        return model.eval(), tokenizer
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = plain_tokenizer(dataset)
    shape = LlamaConfig(
        **SHAPES[options.model],
        vocab_size=49_152 if options.model == "smollm2-shaped" else len(tokenizer),
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(shape).to(device=options.device, dtype=dtype)
    # Tokens that the tokenizer does not have would not decode.
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model.eval(), tokenizer


def plain_tokenizer(dataset: Dataset) -> Any:
    """A byte-level tokenizer of the questions' words, with ChatML turns."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    records = load_questions(dataset.questions_path)
    texts = [text for record in records for text in (record.question_text, record.gold_sql)]
    inner.train_from_iterator(
        [get_system_prompt()] * 10 + texts,
        trainers.BpeTrainer(
            vocab_size=4096,
            special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
    )
    tokenizer.chat_template = CHATML
    return tokenizer


def print_setting(options: argparse.Namespace, model: Any) -> None:
    size = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    console.print(
        f"{options.model}, {size:.1f} M parameters, {model.dtype}, {where}, torch "
        f"{torch.__version__}, {torch.get_num_threads()} threads; {options.episodes} episodes of "
        f"{options.steps} steps, {options.max_new_tokens} tokens each"
    )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a folder, smollm2-135m, or a shape: " + ", ".join(SHAPES))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dataset", help="a folder with questions/ and databases/")
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--alone", type=int, default=4, help="episodes played by (a)")
    parser.add_argument("--steps", type=int, default=5, help="actions per episode")
    parser.add_argument("--max-new-tokens", type=int, default=32)
    parser.add_argument("--window", type=int, default=1024)
    parser.add_argument("--ways", default="abcde", help="which of the five to time")
    parser.add_argument("--parts", nargs="+", default=["check", "speed", "uneven", "step"])
    parser.add_argument("--no-graphs", dest="graphs", action="store_false")
    options = parser.parse_args()
    if options.model is None:
        options.model = "small" if options.device == "cpu" else "smollm2-shaped"
    return options


if __name__ == "__main__":
    # Untrained models write no actions; the warnings would be longer than the results.
    import logging

    logging.getLogger("sql_env.agent.parsing").setLevel(logging.ERROR)
    main()
