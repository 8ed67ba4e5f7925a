"""How fast are rollouts? Five ways to play the same questions with the same model, in one run.

(a) one episode at a time with `generate`      (b) all episodes together with `generate`
(c) TRL's `environment_factory` loop           (d) the lock-step engine
(e) the engine without its short cut through a model's layers

    python benchmarks/rollout.py                                  # CPU, 16 episodes
    python benchmarks/rollout.py --device cuda --episodes 256     # a GPU
    python benchmarks/rollout.py --device cuda --episodes 256 --ways bde --model-shape qwen3-0.6b
    python benchmarks/rollout.py --model-shape qwen2.5-1.5b --lora 16 …    # with an adapter on it
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

from sql_env.agent.conversation import ChatLayout
from sql_env.agent.engine.lockstep import LockstepEngine
from sql_env.agent.generation import Generator, Sampling, TransformersGenerator
from sql_env.agent.model_policy import ModelPolicy
from sql_env.agent.parsing import parse_model_output
from sql_env.agent.prompts import get_system_prompt
from sql_env.models import QuestionRecord
from sql_env.questions import Dataset, load_questions
from sql_env.training.config import GRPOConfig
from sql_env.training.rewards import REWARD_FUNCTIONS
from sql_env.training.rollout import Rollout, TRLRollout, play_rollouts
from sql_env.training.tool_environment import SQLToolEnvironment


class Shape(NamedTuple):
    """A model's family and size; how many tokens it knows, None for the tokenizer's."""

    family: str
    width: int
    inner: int
    layers: int
    heads: int
    key_heads: int
    head_size: int
    vocabulary: int | None


SHAPES = {
    "small": Shape("Llama", 192, 512, 4, 4, 2, 48, None),
    "smollm2-135m": Shape("Llama", 576, 1536, 30, 9, 3, 64, 49_152),
    "qwen3-0.6b": Shape("Qwen3", 1024, 3072, 28, 16, 8, 128, 151_936),
    "qwen3-1.7b": Shape("Qwen3", 2048, 6144, 28, 16, 8, 128, 151_936),
    "qwen2.5-1.5b": Shape("Qwen2", 1536, 8960, 28, 12, 2, 128, 151_936),
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
    """What one way of playing did, how long it took, and the most memory a GPU held meanwhile."""

    episodes: int
    turns: int
    tokens: int
    seconds: float
    gigabytes: float


@dataclass
class CountingGenerator:
    """Counts the turns and tokens that pass through a generator."""

    inner: Generator
    turns: int = 0
    tokens: int = 0

    def begin(self) -> None:
        self.inner.begin()

    def release(self) -> None:
        self.inner.release()

    def generate(self, contexts: Any) -> Any:
        completions = self.inner.generate(contexts)
        self.turns += sum(completion.finished for completion in completions)
        self.tokens += sum(len(completion.ids) for completion in completions)
        return completions


def main() -> None:
    options = parse_options()
    torch.manual_seed(0)
    dataset = Dataset.at(options.dataset)
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
    """Whole greedy episodes through both generators, token by token, in fp32."""
    import copy

    exact = copy.deepcopy(model).float()
    sampling = Sampling(config.max_new_tokens, temperature=0)
    played = []
    for generator in (
        generate_of(exact, tokenizer, sampling),
        engine_of(exact, tokenizer, config, sampling),
    ):
        rollouts = played_by(generator, records, tokenizer, config)
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
    engine = partial(engine_of, model, tokenizer, config, sampling, options.graphs)
    alone = records[: options.alone]
    ways: dict[str, Callable[[], Played]] = {
        "a": lambda: one_by_one(alone, tokenizer, together, config),
        "b": lambda: all_together(records, tokenizer, together, config),
        "c": lambda: through_trl(records, model, tokenizer, config),
        "d": lambda: all_together(records, tokenizer, engine(), config, warm=True),
        "e": lambda: all_together(records, tokenizer, engine(short_cut=False), config, warm=True),
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
        measured[way] = ways[way]()
    table = Table("", "", "episodes/s", "tokens/s", "turns", "seconds", "GB", "x (a)", "x (b)")
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
            f"{seen.gigabytes:.1f}",
            *ratios,
        )
    console.print(table)
    print(json.dumps({way: seen._asdict() for way, seen in measured.items()}))


def played_by(
    generator: Generator, records: list[QuestionRecord], tokenizer: Any, config: GRPOConfig
) -> list[Rollout]:
    policy = ModelPolicy(
        generator,
        ChatLayout.of(tokenizer),
        max_tokens=config.max_context_tokens,
        max_new_tokens=config.max_new_tokens,
    )
    return play_rollouts(records, policy, config)


def one_by_one(
    records: list[QuestionRecord], tokenizer: Any, generator: Generator, config: GRPOConfig
) -> Played:
    counting = CountingGenerator(generator)

    def play_each() -> None:
        for record in records:
            played_by(counting, [record], tokenizer, config)

    seconds, gigabytes = measured_while(play_each)
    return Played(len(records), counting.turns, counting.tokens, seconds, gigabytes)


def all_together(
    records: list[QuestionRecord],
    tokenizer: Any,
    generator: Generator,
    config: GRPOConfig,
    *,
    warm: bool = False,
) -> Played:
    if warm and torch.cuda.is_available():
        seconds, _ = measured_while(lambda: played_by(generator, records, tokenizer, config))
        console.print(f"the first round, in which graphs are captured, takes {seconds:.1f} s")
    counting = CountingGenerator(generator)
    work = partial(played_by, counting, records, tokenizer, config)
    seconds, gigabytes = measured_while(work)
    return Played(len(records), counting.turns, counting.tokens, seconds, gigabytes)


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
            args=replace(
                config,
                output_dir=folder,
                step_budget=config.step_budget - 1,
                precision="fp32",
            ).to_trl(),
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
    seconds, gigabytes = measured_while(
        lambda: trainer._generate_and_score_completions([dict(row) for row in rows])
    )
    model.eval()
    return Played(len(rows), turns, tokens, seconds, gigabytes)


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


def measured_while(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds, and the most gigabytes that tensors took on a GPU."""
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    work()
    if on_gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    return seconds, torch.cuda.max_memory_allocated() / 1e9 if on_gpu else 0.0


def generate_of(model: Any, tokenizer: Any, sampling: Sampling) -> Generator:
    return TransformersGenerator(
        model,
        stop_ids=sorted(ChatLayout.of(tokenizer, model).stop_ids),
        pad_id=tokenizer.pad_token_id,
        sampling=sampling,
    )


def engine_of(
    model: Any,
    tokenizer: Any,
    config: GRPOConfig,
    sampling: Sampling,
    graphs: bool = True,
    short_cut: bool = True,
) -> Generator:
    return LockstepEngine(
        model,
        stop_ids=sorted(ChatLayout.of(tokenizer, model).stop_ids),
        sampling=sampling,
        max_length=config.max_context_tokens,
        cuda_graphs=graphs,
        short_cut=short_cut,
    )


def dataset_of(rows: list[dict[str, Any]]) -> Any:
    from datasets import Dataset as RowDataset

    return RowDataset.from_list(rows)


def load(options: argparse.Namespace, dataset: Dataset) -> tuple[Any, Any]:
    model, tokenizer = loaded(options) if options.model else made(options, dataset)
    if options.lora:
        from peft import LoraConfig, get_peft_model

        settings = LoraConfig(r=options.lora, target_modules="all-linear", init_lora_weights=False)
        model = get_peft_model(model, settings)
    return model.eval(), tokenizer


def loaded(options: argparse.Namespace) -> tuple[Any, Any]:
    from sql_env.agent.loading import load_model_and_tokenizer

    return load_model_and_tokenizer(options.model, dtype=options.dtype, device=options.device)


def made(options: argparse.Namespace, dataset: Dataset) -> tuple[Any, Any]:
    """A model with random weights, and a tokenizer that reads the questions."""
    import transformers

    tokenizer = plain_tokenizer(dataset)
    shape = SHAPES[options.model_shape]
    config = getattr(transformers, f"{shape.family}Config")(
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        head_dim=shape.head_size,
        vocab_size=shape.vocabulary or len(tokenizer),
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.device(options.device):
        model = getattr(transformers, f"{shape.family}ForCausalLM")(config)
    # Tokens that the tokenizer does not have would not decode.
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model.to(getattr(torch, options.dtype)), tokenizer


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
    name = options.model or f"random weights like {options.model_shape}"
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    console.print(
        f"{name}, {size:.1f} M parameters, {model.dtype}, {where}, torch "
        f"{torch.__version__}, {torch.get_num_threads()} threads; {options.episodes} episodes of "
        f"{options.steps} steps, {options.max_new_tokens} tokens each"
    )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a folder, a GGUF file, a hub id or smollm2-135m")
    parser.add_argument("--model-shape", choices=SHAPES, help="random weights in this shape")
    parser.add_argument("--dtype", help="of the weights; default: bfloat16 (CPU: float32)")
    parser.add_argument("--lora", type=int, default=0, help="put an adapter of this rank on it")
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
    on_cpu = options.device == "cpu"
    options.model_shape = options.model_shape or ("small" if on_cpu else "smollm2-135m")
    options.dtype = options.dtype or ("float32" if on_cpu else "bfloat16")
    return options


if __name__ == "__main__":
    # Untrained models write no actions; the warnings would be longer than the results.
    import logging

    logging.getLogger("sql_env.agent.parsing").setLevel(logging.ERROR)
    main()
