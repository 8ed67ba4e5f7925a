"""A dataset, tokenizers and models so small that real training steps take seconds."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from sql_env.agent.conversation import Conversation
from sql_env.agent.prompts import get_system_prompt, get_tool_system_prompt
from sql_env.questions import Dataset, load_questions
from sql_env.training.config import GRPOConfig

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_TABLES = {
    "school": """
        CREATE TABLE student (id INTEGER PRIMARY KEY, name TEXT, age INTEGER, house TEXT);
        INSERT INTO student VALUES (1, 'Ada', 14, 'red'), (2, 'Bo', 15, 'blue'),
            (3, 'Cy', 14, 'red'), (4, 'Di', 16, 'green');
        CREATE TABLE course (id INTEGER PRIMARY KEY, title TEXT, hours INTEGER);
        INSERT INTO course VALUES (1, 'Maths', 5), (2, 'Art', 2);
    """,
    "shop": """
        CREATE TABLE item (id INTEGER PRIMARY KEY, label TEXT, price REAL);
        INSERT INTO item VALUES (1, 'pen', 1.5), (2, 'ink', 4.0), (3, 'pad', 2.5);
    """,
}
_QUESTIONS = [
    ("school", "How many students are there?", "SELECT count(*) FROM student", 4, "easy"),
    ("school", "How old is the oldest student?", "SELECT max(age) FROM student", 16, "easy"),
    (
        "school",
        "How many students are in the red house?",
        "SELECT count(*) FROM student WHERE house = 'red'",
        2,
        "medium",
    ),
    ("school", "How many hours has Maths?", "SELECT hours FROM course WHERE id = 1", 5, "medium"),
    ("shop", "How many items are there?", "SELECT count(*) FROM item", 3, "easy"),
    ("shop", "What is the highest price?", "SELECT max(price) FROM item", 4.0, "easy"),
]


# Settings of a run that is over in seconds.
SHORT_RUN = {
    "max_new_tokens": 16,
    "max_context_tokens": 1024,
    "step_budget": 4,
    "num_generations": 2,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 1,
    "learning_rate": 1e-3,
    "logging_steps": 1,
    "save_steps": 2,
    "device": "cpu",
}
# One thread each: results repeat to the last bit, and the two cores are left to others.
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def as_options(values: Mapping[str, object]) -> list[str]:
    """Settings as a command takes them."""
    return [part for name, value in values.items() for part in ("--set", f"{name}={value}")]


def say(talk: Conversation, text: str) -> None:
    """Add a turn of the model's, which nobody sampled."""
    talk.add_completion([*talk.layout.encode(text), talk.layout.end_id])


@pytest.fixture(scope="session")
def tiny_dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Two databases; six questions, each in the train and in the eval split."""
    dataset = Dataset.at(tmp_path_factory.mktemp("tiny_dataset"))
    for name, script in _TABLES.items():
        path = dataset.db_dir / name / f"{name}.sqlite"
        path.parent.mkdir(parents=True)
        with sqlite3.connect(path) as connection:
            connection.executescript(script)
        connection.close()
    dataset.questions_path.mkdir()
    for split in ("train", "eval"):
        records = [
            {
                "question_id": f"{split}_{number}",
                "question_text": text,
                "database_name": database,
                "gold_sql": sql,
                "gold_answer": answer,
                "answer_type": "float" if isinstance(answer, float) else "integer",
                "difficulty": difficulty,
                "tables_involved": [sql.split("FROM ")[1].split()[0]],
                "split": split,
            }
            for number, (database, text, sql, answer, difficulty) in enumerate(_QUESTIONS)
        ]
        path = dataset.questions_path / f"questions_{split}.json"
        path.write_text(json.dumps(records), encoding="utf-8")
    return dataset


@pytest.fixture
def tiny_config(tiny_dataset: Dataset, tmp_path: Path) -> Callable[..., GRPOConfig]:
    """Makes configurations for the tiny dataset: short turns, short episodes, one device."""

    def make(**values: Any) -> GRPOConfig:
        defaults: dict[str, Any] = {
            "questions_path": str(tiny_dataset.questions_path),
            "db_dir": str(tiny_dataset.db_dir),
            "output_dir": str(tmp_path / "run"),
            "max_new_tokens": 12,
            "max_context_tokens": 1024,
            "step_budget": 3,
            "num_generations": 2,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 1,
            "logging_steps": 1,
            "learning_rate": 1e-3,
            "device": "cpu",
            "precision": "fp32",
            "prompt": "v1",
        }
        return GRPOConfig(**{**defaults, **values})

    return make


@pytest.fixture(scope="session")
def chat_tokenizer(tiny_dataset: Dataset) -> Any:
    """A byte-level BPE tokenizer with a ChatML template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import get_json_schema

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    texts = [record.question_text for record in load_questions(tiny_dataset.questions_path)]
    schemas = [json.dumps(get_json_schema(tool)) for tool in _tools()]
    templates = [_qwen_template(), get_system_prompt(), get_tool_system_prompt()]
    inner.train_from_iterator(
        [*templates, *schemas, *texts, *_TABLES.values()],
        trainers.BpeTrainer(
            vocab_size=1500,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        padding_side="left",
    )
    tokenizer.chat_template = CHATML
    return tokenizer


@pytest.fixture(scope="session")
def qwen_tokenizer(chat_tokenizer: Any) -> Any:
    """The same tokens under Qwen3's chat template, which knows tools and thinking."""
    import copy

    tokenizer = copy.deepcopy(chat_tokenizer)
    tokenizer.chat_template = _qwen_template()
    return tokenizer


def _qwen_template() -> str:
    path = files("trl") / "chat_templates" / "qwen3.jinja"
    return path.read_text(encoding="utf-8")


def _tools() -> list[Any]:
    from sql_env.training.tool_environment import SQLToolEnvironment

    return [getattr(SQLToolEnvironment, name) for name in ("answer", "describe", "query", "sample")]


@pytest.fixture(scope="session")
def make_llama(chat_tokenizer: Any) -> Callable[..., Any]:
    """Makes tiny Llama models with random weights."""

    def make(seed: int = 0, **values: Any) -> Any:
        from transformers import LlamaConfig, LlamaForCausalLM

        return _random_model(LlamaForCausalLM, LlamaConfig, chat_tokenizer, seed, values)

    return make


@pytest.fixture(scope="session")
def make_qwen2(chat_tokenizer: Any) -> Callable[..., Any]:
    """Makes tiny Qwen2 models with random weights, biases among them."""

    def make(seed: int = 0, **values: Any) -> Any:
        from torch.nn.init import normal_
        from transformers import Qwen2Config, Qwen2ForCausalLM

        model = _random_model(Qwen2ForCausalLM, Qwen2Config, chat_tokenizer, seed, values)
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):  # transformers begins with zeros
                normal_(parameter.data)
        return model

    return make


@pytest.fixture(scope="session")
def make_qwen3(qwen_tokenizer: Any) -> Callable[..., Any]:
    """Makes tiny Qwen3 models with random weights."""

    def make(seed: int = 0, **values: Any) -> Any:
        from transformers import Qwen3Config, Qwen3ForCausalLM

        values = {"head_dim": 16, **values}
        return _random_model(Qwen3ForCausalLM, Qwen3Config, qwen_tokenizer, seed, values)

    return make


@pytest.fixture(scope="session")
def make_family(
    make_llama: Callable[..., Any],
    make_qwen2: Callable[..., Any],
    make_qwen3: Callable[..., Any],
    chat_tokenizer: Any,
) -> Callable[..., Any]:
    """Makes a tiny model of the family that is named."""

    def make_mistral(seed: int = 0, **values: Any) -> Any:
        from transformers import MistralConfig, MistralForCausalLM

        values = {"sliding_window": None, **values}
        return _random_model(MistralForCausalLM, MistralConfig, chat_tokenizer, seed, values)

    makers = {
        "llama": make_llama,
        "mistral": make_mistral,
        "qwen2": make_qwen2,
        "qwen3": make_qwen3,
    }
    return lambda family, **values: makers[family](**values).eval()


def _random_model(
    model_class: Any, config_class: Any, tokenizer: Any, seed: int, values: dict[str, Any]
) -> Any:
    import torch

    torch.manual_seed(seed)
    defaults = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        # Wide enough that random weights have opinions, and greedy decoding is not all ties.
        "initializer_range": 0.3,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    return model_class(config_class(**{**defaults, **values}))


def teach(model: Any, examples: list[tuple[list[int], list[int]]], steps: int = 60) -> None:
    """Overfit `model` on (token ids, mask of the tokens to learn), so that it plays a little."""
    import torch

    width = max(len(ids) for ids, _ in examples)
    ids = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in examples])
    mask = torch.tensor([mask + [0] * (width - len(mask)) for _, mask in examples])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model.train()
    for _ in range(steps):
        loss = model(ids, labels=ids.masked_fill(mask == 0, -100)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()


@pytest.fixture(scope="session")
def taught_llama(
    make_llama: Callable[..., Any], chat_tokenizer: Any, tiny_dataset: Dataset
) -> Callable[[], Any]:
    """Makes copies of a tiny Llama that has learned to look, ask and answer, not too well."""
    import copy

    from sql_env.agent.conversation import ChatLayout, Conversation
    from sql_env.agent.parsing import format_action
    from sql_env.agent.prompts import format_observation
    from sql_env.environment import SQLEnvironment
    from sql_env.models import SQLAction

    layout = ChatLayout.of(chat_tokenizer)
    examples = []
    environment = SQLEnvironment(tiny_dataset.questions_path, tiny_dataset.db_dir)
    for record in environment.questions[: len(_QUESTIONS)]:
        seen = environment.reset(question_id=record.question_id)
        talk = Conversation(layout, get_system_prompt(), format_observation(seen))
        for kind, argument in (
            ("DESCRIBE", record.tables_involved[0]),
            ("QUERY", record.gold_sql),
            ("ANSWER", "@last"),
        ):
            action = SQLAction(action_type=kind, argument=argument)
            say(talk, format_action(action))
            seen = environment.step(action)
            if not seen.done:
                talk.add_observation(format_observation(seen))
        assert seen.metadata["correct"]
        mask = [0] * len(talk.prompt_ids) + talk.env_mask
        examples.append((talk.prompt_ids + talk.completion_ids, mask))
    environment.close()
    model = make_llama(initializer_range=0.05)
    teach(model, examples)
    return lambda: copy.deepcopy(model)


@pytest.fixture(scope="session")
def taught_qwen3(
    make_qwen3: Callable[..., Any], qwen_tokenizer: Any, tiny_dataset: Dataset
) -> Callable[[], Any]:
    """Makes copies of a tiny Qwen3 that calls tools when asked train_0 or train_1."""
    import copy

    from trl.chat_template_utils import get_training_chat_template

    from sql_env.training.tool_environment import SQLToolEnvironment

    config = GRPOConfig(
        questions_path=str(tiny_dataset.questions_path), db_dir=str(tiny_dataset.db_dir)
    )
    environment = SQLToolEnvironment(config)
    options = {
        "tools": [getattr(environment, tool.__name__) for tool in _tools()],
        "chat_template": get_training_chat_template(qwen_tokenizer),
        "enable_thinking": False,
        "return_dict": False,
    }
    examples = []
    for record in load_questions(tiny_dataset.questions_path)[:2]:
        opening = environment.reset(question_id=record.question_id)
        asked = [
            {"role": "system", "content": get_tool_system_prompt()},
            {"role": "user", "content": record.question_text + opening},
        ]
        prompt = qwen_tokenizer.apply_chat_template(asked, add_generation_prompt=True, **options)
        # Both as often, so that the episodes of a group differ whatever the seed.
        for name, arguments in (
            ("answer", {"value": str(record.gold_answer)}),
            ("describe", {"table": record.tables_involved[0]}),
        ):
            call = {"type": "function", "function": {"name": name, "arguments": arguments}}
            turn = {"role": "assistant", "content": "", "tool_calls": [call]}
            ids = qwen_tokenizer.apply_chat_template([*asked, turn], **options)
            assert ids[: len(prompt)] == prompt
            ids = ids[: len(ids) - ids[::-1].index(qwen_tokenizer.eos_token_id)]
            examples.append((ids, [0] * len(prompt) + [1] * (len(ids) - len(prompt))))
    model = make_qwen3(initializer_range=0.05)
    teach(model, examples, steps=60)
    return lambda: copy.deepcopy(model)


@pytest.fixture(scope="session")
def sft_model_dir(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_dataset: Dataset,
    make_llama: Callable[..., Any],
    chat_tokenizer: Any,
) -> Path:
    """A folder with a tiny model that knows the game a little: some episodes succeed, some fail."""
    from sql_env.training.sft import train_sft

    folder = tmp_path_factory.mktemp("sft")
    config = GRPOConfig(
        questions_path=str(tiny_dataset.questions_path),
        db_dir=str(tiny_dataset.db_dir),
        output_dir=str(folder / "run"),
        max_new_tokens=16,
        max_context_tokens=1024,
        step_budget=4,
        device="cpu",
        prompt="v1",
        sft={  # type: ignore[arg-type]
            "trl": {"max_steps": 60},
            "learning_rate": 3e-3,
            "per_device_train_batch_size": 6,
            "mix": {"extra_table": 0.0, "sample": 0.0, "corrupt": 0.0, "typed_answer": 0.0},
        },
    )
    model = make_llama(initializer_range=0.02)
    train_sft(config, model, chat_tokenizer)
    model.save_pretrained(folder / "model")
    config.prompt_of_run.save(folder / "model")
    chat_tokenizer.save_pretrained(folder / "model")
    return folder / "model"


@pytest.fixture(scope="session")
def model_dir(
    tmp_path_factory: pytest.TempPathFactory, make_llama: Callable[..., Any], chat_tokenizer: Any
) -> Path:
    folder = tmp_path_factory.mktemp("model")
    make_llama().save_pretrained(folder)
    chat_tokenizer.save_pretrained(folder)
    return folder
