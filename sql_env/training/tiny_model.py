"""A very small language model of our own, from scratch: a tokenizer and an untrained transformer.

Small enough to learn a little SQL on two CPU cores in minutes. Its tokenizer is made for the job:

* Words, digits, punctuation marks and spaces are tokens of their own, so that a name has the same
  tokens in a question, in a schema and between the quotes of a query: copying is all it takes.
  Names of tables and columns are common enough to be one token each.
* What never varies is one token: the system prompt, the names of the actions, SQL's phrases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sql_env.agent.prompts import get_system_prompt
from sql_env.training.settings import check_fields

PAD, SYSTEM, USER, ASSISTANT, END = "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ '<|end|>' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

FIXED_PHRASES = (
    *("DESCRIBE: ", "SAMPLE: ", "QUERY: SELECT ", "ANSWER: ", "@last"),
    *("Question: ", "\nTables: ", "\nSteps left: ", "Error: ", " rows)\n"),
    *(" integer primary key\n", " integer\n", " text primary key\n", " text\n", " real\n"),
    *(" FROM ", " WHERE ", " GROUP BY ", " HAVING ", " ORDER BY ", " LIMIT ", " DESC", " ASC"),
    *(" JOIN ", " ON ", " AS ", " AND ", " OR ", "DISTINCT ", "COUNT(*)", "COUNT(DISTINCT "),
    *("COUNT(", "AVG(", "SUM(", "MIN(", "MAX(", " IS NULL", " BETWEEN ", " LIKE '%", "%'"),
    *(" = ", " <> ", " >= ", " <= ", " > ", " < ", " = '", " IN ('", "', '", ", ", " | "),
)


@dataclass(frozen=True)
class TinyModelSize:
    """How large the transformer is."""

    vocabulary: int = 2048
    width: int = 256
    layers: int = 4
    heads: int = 4
    window: int = 1024

    def __post_init__(self) -> None:
        check_fields(self)


def train_tokenizer(texts: Iterable[str], size: TinyModelSize) -> Any:
    """A tokenizer for `texts`, with a chat template.

    Args:
        texts: questions, observations and actions as the model will read and write them.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[A-Za-z_]+|\d|\s|[^\sA-Za-z_\d]"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    whole = (get_system_prompt(), *FIXED_PHRASES)
    special = [PAD, SYSTEM, USER, ASSISTANT, END]
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=size.vocabulary - len(whole),
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in whole])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT],
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def untrained_model(tokenizer: Any, size: TinyModelSize, seed: int = 42) -> Any:
    """A Qwen3-shaped transformer with random weights, drawn from `seed`.

    Normalized queries and keys, and larger weights than the usual 0.02, which suit a wide model:
    attention is not blind at the start, and copying a name out of the question is learned early.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            initializer_range=size.width**-0.5,
            hidden_size=size.width,
            head_dim=size.width // size.heads,
            intermediate_size=size.width * 8 // 3 // 32 * 32,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            num_key_value_heads=size.heads,
            max_position_embeddings=size.window,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def words_of(demonstrations: Sequence[Any]) -> list[str]:
    """Everything said in some demonstrations, to train a tokenizer on."""
    return [
        text
        for item in demonstrations
        for turn in item.turns
        for text in (turn.observation, turn.action)
    ]
