"""The chat templates of the models people use: each plays as its authors lay it out."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple

import pytest
from small_models import say
from transformers import GenerationConfig

from sql_env.agent.conversation import ChatLayout, ChatTemplateError, Conversation
from sql_env.agent.parsing import parse_turn
from sql_env.agent.prompts import Prompt, PromptVersion, tool_call
from sql_env.models import SQLAction

SYSTEM, QUESTION = "Be brief.", "Question: how many?"
TURNS = [("DESCRIBE: student", "id name"), ("QUERY: SELECT 1", "1")]

GRANITE = (
    "{% for m in messages %}{{ '<|start_of_role|>' + m['role'] + '<|end_of_role|>' + m['content'] "
    "+ '<|end_of_text|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %}"
)
PHI4 = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '<|im_sep|>' + m['content'] "
    "+ '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"
)
SMOLLM2 = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SMOLLM3 = (
    "{% set quiet = '' if enable_thinking else '<think>\n\n</think>\n' %}"
    "{{ '<|im_start|>system\n## Metadata\n\nReasoning Mode: ' }}"
    "{{ '/think' if enable_thinking else '/no_think' }}"
    "{{ '\n\n## Custom Instructions\n\n' + messages[0]['content'] + '\n\n<|im_end|>\n' }}"
    "{% for m in messages[1:] %}{{ '<|im_start|>' + m['role'] + '\n' }}"
    "{% if m['role'] == 'assistant' %}{{ quiet }}{% endif %}{{ m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' + quiet }}{% endif %}"
)
_ALTERNATE = (
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
    "{% endif %}"
)
GEMMA2 = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}" + _ALTERNATE + "{{ '<start_of_turn>' + "
    "('model' if m['role'] == 'assistant' else m['role']) + '\n' + m['content'] | trim "
    "+ '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
MISTRAL_V1 = (
    "{{ bos_token }}{% for m in messages %}" + _ALTERNATE + "{% if m['role'] == 'user' %}"
    "{{ '[INST] ' + m['content'] + ' [/INST]' }}{% else %}{{ m['content'] + eos_token }}"
    "{% endif %}{% endfor %}"
)
# The third version puts the system prompt before the last user turn, where it moves.
MISTRAL_V3 = (
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}"
    "{% set turns = messages[1:] %}{% else %}{% set turns = messages %}{% endif %}"
    "{{ bos_token }}{% for m in turns %}{% if m['role'] == 'user' %}"
    "{% if loop.last and system is defined %}{{ '[INST] ' + system + '\n\n' + m['content'] }}"
    "{% else %}{{ '[INST] ' + m['content'] }}{% endif %}{{ '[/INST]' }}"
    "{% else %}{{ ' ' + m['content'] + eos_token }}{% endif %}{% endfor %}"
)
LLAMA2 = MISTRAL_V1.replace("m['content'] + eos_token", "' ' + m['content'] + ' ' + eos_token")


class Family(NamedTuple):
    """How a family ends turns and texts, and whether its template has room for a system prompt."""

    template: str
    marks: str  # its special tokens
    end: str  # of a turn
    eos: str
    system: bool = True


LLAMA_MARKS = "<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|end_of_text|>"
GEMMA_MARKS = "<bos> <eos> <start_of_turn> <end_of_turn>"
PHI_MARKS = "<|system|> <|user|> <|assistant|> <|end|> <|endoftext|>"
CHATML_MARKS = "<|im_start|> <|im_end|> <|endoftext|>"
MISTRAL_MARKS = "<s> </s> [INST] [/INST]"
WORKS = {
    "Qwen2.5": Family("trl:qwen2_5", CHATML_MARKS, "<|im_end|>", "<|im_end|>"),
    "Qwen3": Family("trl:qwen3", CHATML_MARKS, "<|im_end|>", "<|im_end|>"),
    "Llama 3": Family("trl:llama3", LLAMA_MARKS, "<|eot_id|>", "<|end_of_text|>"),
    "Llama 3.1": Family("trl:llama3_1", LLAMA_MARKS, "<|eot_id|>", "<|eot_id|>"),
    "Llama 3.2": Family("trl:llama3_2", LLAMA_MARKS, "<|eot_id|>", "<|eot_id|>"),
    "Llama 2": Family(LLAMA2, "<s> </s>", "</s>", "</s>", system=False),
    "Gemma 2": Family(GEMMA2, GEMMA_MARKS, "<end_of_turn>", "<eos>", system=False),
    "Gemma 3": Family("trl:gemma3", GEMMA_MARKS, "<end_of_turn>", "<eos>"),
    "Phi-3": Family("trl:phi3", PHI_MARKS, "<|end|>", "<|endoftext|>"),
    "Phi-3.5": Family("trl:phi3_5", PHI_MARKS, "<|end|>", "<|endoftext|>"),
    "Phi-4": Family(PHI4, "<|im_sep|> " + CHATML_MARKS, "<|im_end|>", "<|endoftext|>"),
    "Granite": Family(
        GRANITE,
        "<|start_of_role|> <|end_of_role|> <|end_of_text|>",
        "<|end_of_text|>",
        "<|end_of_text|>",
    ),
    "SmolLM2": Family(SMOLLM2, CHATML_MARKS, "<|im_end|>", "<|im_end|>"),
    "SmolLM3": Family(SMOLLM3, CHATML_MARKS, "<|im_end|>", "<|im_end|>"),
    "Mistral 0.1": Family(MISTRAL_V1, MISTRAL_MARKS, "</s>", "</s>", system=False),
    "Mistral 0.3": Family(MISTRAL_V3, MISTRAL_MARKS, "</s>", "</s>", system=False),
}


@pytest.fixture(scope="module")
def tokenizer_of(chat_tokenizer: Any) -> Callable[[Family], Any]:
    def make(family: Family) -> Any:
        tokenizer = copy.deepcopy(chat_tokenizer)
        tokenizer.add_special_tokens({"additional_special_tokens": family.marks.split()})
        tokenizer.eos_token = family.eos
        tokenizer.bos_token = family.marks.split()[0]
        kind, _, name = family.template.partition(":")
        if kind == "trl":
            path = files("trl") / "chat_templates" / f"{name}.jinja"
            tokenizer.chat_template = path.read_text(encoding="utf-8")
        else:
            tokenizer.chat_template = family.template
        return tokenizer

    return make


def rendered(tokenizer: Any, family: Family) -> str:
    """The conversation as the model's authors lay it out."""
    opening = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    if not family.system:
        opening = [{"role": "user", "content": f"{SYSTEM}\n\n{QUESTION}"}]
    messages = opening + [
        {"role": role, "content": text}
        for turn in TURNS
        for role, text in zip(("assistant", "user"), turn, strict=True)
    ]
    text: str = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    return text


@pytest.mark.parametrize("name", WORKS)
def test_a_conversation_is_laid_out_as_its_template_does(
    tokenizer_of: Callable[[Family], Any], name: str
) -> None:
    family = WORKS[name]
    tokenizer = tokenizer_of(family)
    layout = ChatLayout.of(tokenizer)
    end = tokenizer.convert_tokens_to_ids(family.end)
    assert layout.end_id == end
    assert layout.stop_ids == {end, tokenizer.eos_token_id}
    # As a demonstration, as a model that stops by itself, and as one that is cut off.
    taught, played, cut = (Conversation(layout, SYSTEM, QUESTION) for _ in range(3))
    for action, observation in TURNS:
        say(taught, action)
        played.add_completion([*layout.encode(action), end])
        cut.add_completion(layout.encode(action))
        for talk in (taught, played, cut):
            talk.add_observation(observation)
    assert taught.context_ids == played.context_ids
    for talk in (taught, cut):
        text = tokenizer.decode(talk.context_ids)
        expected = rendered(tokenizer, family)
        if name in ("Llama 2", "Mistral 0.3"):  # blanks around a turn are the model's to write
            text, expected = (re.sub(r" ?(\[/INST\]|</s>) ?", r"\1", t) for t in (text, expected))
        if name == "Qwen3":  # its template forgets the empty thoughts of earlier turns
            empty = "<think>\n\n</think>\n\n"
            text = empty.join(text.rsplit(empty, 1)).replace(empty, "", text.count(empty) - 1)
        assert text == expected


@pytest.mark.parametrize("name", WORKS)
def test_a_turn_is_ended_once(tokenizer_of: Callable[[Family], Any], name: str) -> None:
    family = WORKS[name]
    tokenizer = tokenizer_of(family)
    talk = Conversation(ChatLayout.of(tokenizer), SYSTEM, QUESTION)
    say(talk, "QUERY: SELECT 1")
    talk.add_observation("1")
    between = talk.completion_ids
    ends = [between.count(tokenizer.convert_tokens_to_ids(e)) for e in {family.end, family.eos}]
    after_each_turn = 1 if family.end in ("</s>",) else 2  # not after a user's, in Mistral's
    assert sum(ends) == after_each_turn


def test_the_generation_config_names_more_ends(
    tokenizer_of: Callable[[Family], Any], make_llama: Callable[..., Any]
) -> None:
    tokenizer = tokenizer_of(WORKS["Gemma 3"])
    model = make_llama()
    model.generation_config = GenerationConfig(eos_token_id=[40, 41])
    end = tokenizer.convert_tokens_to_ids("<end_of_turn>")
    assert ChatLayout.of(tokenizer, model).stop_ids == {end, tokenizer.eos_token_id, 40, 41}


def test_a_model_that_ends_the_text_has_its_turn_ended_for_it(
    tokenizer_of: Callable[[Family], Any],
) -> None:
    tokenizer = tokenizer_of(WORKS["Gemma 3"])
    layout = ChatLayout.of(tokenizer)
    assert layout.between([40, tokenizer.eos_token_id])[0] == layout.end_id


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('One turn only') }}", "refuses .*: One turn only"),
        ("{{ messages[-1]['content'] }}", "does not keep a system turn in its place"),
        ("{{ messages[0]['content'] }}", "does not keep a user turn in its place"),
        ("{% for m in messages %}{{ m.content }", "refuses .*: "),
    ],
    ids=["raises", "last only", "first only", "broken"],
)
def test_what_cannot_hold_a_conversation_is_refused_in_one_line(
    chat_tokenizer: Any, template: str, reason: str
) -> None:
    tokenizer = copy.deepcopy(chat_tokenizer)
    tokenizer.chat_template = template
    with pytest.raises(ChatTemplateError, match=reason) as caught:
        ChatLayout.of(tokenizer)
    assert "\n" not in str(caught.value)


# Qwen3.5 names the tools before the system prompt, and writes calls as XML.
QWEN35 = Family("trl:qwen3_5_nothink", CHATML_MARKS, "<|im_end|>", "<|im_end|>")
WITH_TOOLS = WORKS | {"Qwen3.5": QWEN35}


@pytest.mark.parametrize(
    ("name", "version"),
    [
        *(("Qwen2.5", "v1"), ("Qwen2.5", "v2"), ("Qwen3", "v1"), ("Qwen3", "v2")),
        *(("Qwen3.5", "v1"), ("Qwen3.5", "v2"), ("Llama 3.1", "v1"), ("Llama 3.2", "v1")),
    ],
)
def test_a_demonstrated_call_is_read_back_as_the_same_action(
    tokenizer_of: Callable[[Family], Any], name: str, version: PromptVersion
) -> None:
    prompt = Prompt(version, "tools")
    tokenizer = tokenizer_of(WITH_TOOLS[name])
    layout = ChatLayout.of(tokenizer, **prompt.for_template)
    for kind, argument in (("QUERY", "SELECT 'it''s', \"a\" FROM t"), ("ANSWER", "[]")):
        action = SQLAction(action_type=kind, argument=argument)
        written = layout.written_call(tool_call(action), prompt.tools)
        assert [(a.action_type, a.argument) for a in parse_turn(written)] == [(kind, argument)]
        # Marks of its own, such as <tool_call>, are single tokens in a demonstration too.
        assert layout.encode(written) == tokenizer.encode(written.strip(), add_special_tokens=False)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *((name, "has no tools") for name in ("Llama 3", "Phi-4", "SmolLM2")),
        ("Llama 3.1", "takes one call of a tool a turn: use prompt v1"),
        ("Llama 3.2", "takes one call of a tool a turn: use prompt v1"),
        *((name, "refuses the turns") for name in ("Gemma 2", "Gemma 3", "Mistral 0.1", "Llama 2")),
        *((name, "does not keep a tool turn") for name in ("Phi-3", "Phi-3.5")),
    ],
)
def test_templates_without_tools_are_refused_in_one_line(
    tokenizer_of: Callable[[Family], Any], name: str, reason: str
) -> None:
    with pytest.raises(ChatTemplateError, match=reason) as caught:
        ChatLayout.of(tokenizer_of(WORKS[name]), **Prompt("v2", "tools").for_template)
    assert "\n" not in str(caught.value)


def test_a_template_that_leaves_calls_out_teaches_none(
    tokenizer_of: Callable[[Family], Any],
) -> None:
    prompt = Prompt("v1", "tools")
    tokenizer = tokenizer_of(WORKS["Qwen3"])
    tokenizer.chat_template = tokenizer.chat_template.replace("message.tool_calls", "[]")
    action = SQLAction(action_type="QUERY", argument="SELECT 1")
    with pytest.raises(ChatTemplateError, match="does not write a call of a tool"):
        ChatLayout.of(tokenizer).written_call(tool_call(action), prompt.tools)
