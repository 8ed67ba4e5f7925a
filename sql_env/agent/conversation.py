"""A conversation as token ids: what the model read, what it wrote, and which is which.

A policy is trained on the very tokens it sampled, so nothing a model wrote is ever tokenized again:
its ids are kept, and the environment's turns are put between them. Evaluation, rollouts and the
SFT all build their tokens here and so agree about the layout.

    layout = ChatLayout.of(tokenizer)
    talk = Conversation(layout, system_prompt, "Question: …", max_tokens=2048, reserve=128)
    talk.add_completion(generate(talk.context_ids))
    talk.add_observation("3\\nSteps left: 9")
    talk.prompt_ids, talk.completion_ids, talk.env_mask

When a conversation outgrows its window, the system prompt, the first user turn (it holds the
question, without which nothing could be answered) and the last three action-observation pairs
remain. A token counts only under the context it was sampled in, so that begins a new segment: the
remaining text becomes a prompt, and what is sampled next its completion. `prompt_ids`,
`completion_ids` and `env_mask` speak of the last segment, the one that holds the answer; actions
before a truncation are played but not trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any

from sql_env.core.errors import UserError

PAIRS_KEPT = 3
_TURNS = {
    "system": {"role": "system", "content": "SYSTEMMARK"},
    "first": {"role": "user", "content": "FIRSTMARK"},
    "action": {"role": "assistant", "content": "ACTIONMARK"},
    "next": {"role": "user", "content": "NEXTMARK"},
    "result": {"role": "tool", "content": "RESULTMARK"},
    "other result": {"role": "tool", "content": "OTHERMARK"},
}
_CALLED = ("system", "first", "action", "result", "other result")


class ChatTemplateError(UserError, ValueError):
    """The tokenizer's chat template cannot be used for a multi-turn conversation."""


class ContextWindowError(UserError, ValueError):
    """The token window does not even hold the first turn."""


@dataclass(frozen=True)
class ChatLayout:
    """What a chat template puts around the turns, as token ids, and how text becomes ids.

    Turns are encoded apart from the template, so that text from a database can never forge one
    of the template's special tokens.

    Attributes:
        end_id: the token with which the template ends a turn of the model.
        stop_ids: that one, and whatever else the tokenizer and the model name as an end.
    """

    tokenizer: Any
    end_id: int
    stop_ids: frozenset[int]
    before_system: tuple[int, ...]
    system_to_user: tuple[int, ...]
    user_to_assistant: tuple[int, ...]
    assistant_to_user: tuple[int, ...]
    next_user_to_assistant: tuple[int, ...]
    assistant_to_tool: tuple[int, ...] = ()
    between_tools: tuple[int, ...] = ()
    tool_to_assistant: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        tokenizer: Any,
        model: Any = None,
        *,
        tools: list[dict[str, Any]] | None = None,
        example: Sequence[dict[str, Any]] = (),
        **template_kwargs: Any,
    ) -> ChatLayout:
        """Read the layout off the tokenizer's chat template.

        Where the template has no place for a system prompt, the first user turn begins with it.

        Args:
            tokenizer: a transformers tokenizer with a chat template and an end-of-sequence token.
            model: its generation config may name more tokens that end a turn.
            tools: what the model may call; None where it writes its actions as text.
            example: chat messages that stand between the system prompt and the first user turn.
            template_kwargs: passed to the template; thinking is switched off unless asked for.

        Raises:
            ChatTemplateError: there is no template, or it drops or reorders turns or tools.
        """
        if not getattr(tokenizer, "chat_template", None):
            raise ChatTemplateError(
                f"the tokenizer of {tokenizer.name_or_path!r} has no chat template: "
                "take an instruction-tuned model, or set tokenizer.chat_template"
            )
        if tokenizer.eos_token_id is None:
            raise ChatTemplateError(f"the tokenizer of {tokenizer.name_or_path!r} has no eos token")
        options = {"enable_thinking": False, "tools": tools, **template_kwargs}
        pieces = partial(_pieces, tokenizer, options, example)
        whole = ("system", "first", "action", "next")
        try:
            *_, assistant_to_user, next_user_to_assistant = pieces(*whole)
        except ChatTemplateError as error:
            pieces = partial(pieces, system_role=False)
            try:
                *_, assistant_to_user, next_user_to_assistant = pieces(*whole)
            except ChatTemplateError:
                if tools and example and _lays_out(tokenizer, options, *_CALLED):
                    raise ChatTemplateError(
                        f"the chat template of {tokenizer.name_or_path!r} takes one call of a "
                        "tool a turn: use prompt v1 (--set prompt=v1), or --set actions=text"
                    ) from None
                raise error from None
        before_system, system_to_user, user_to_assistant = pieces("system", "first")
        end_id = _end_of_turn(tokenizer, assistant_to_user)
        to_tool: tuple[int, ...] = ()
        between: tuple[int, ...] = ()
        from_tool: tuple[int, ...] = ()
        if tools:
            *_, to_tool, between, from_tool = pieces(*_CALLED)
            silent = {**options, "tools": None}
            untold = _pieces(tokenizer, silent, example, *_CALLED[:2], **pieces.keywords)
            if untold == [before_system, system_to_user, user_to_assistant]:
                raise ChatTemplateError(
                    f"the chat template of {tokenizer.name_or_path!r} has no tools: play with "
                    "--actions text"
                )
        return cls(
            tokenizer=tokenizer,
            end_id=end_id,
            stop_ids=frozenset({end_id, tokenizer.eos_token_id, *_configured_ends(model)}),
            before_system=before_system,
            system_to_user=system_to_user,
            user_to_assistant=user_to_assistant,
            assistant_to_user=assistant_to_user,
            next_user_to_assistant=next_user_to_assistant,
            assistant_to_tool=to_tool,
            between_tools=between,
            tool_to_assistant=from_tool,
        )

    def encode(self, text: str) -> list[int]:
        """Plain text as ids; what looks like a special token stays text."""
        return list(self._ids_of(text.strip()))

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Many different texts at once, which is several times faster than one by one."""
        ids: list[list[int]] = self.tokenizer(
            [text.strip() for text in texts],
            add_special_tokens=False,
            split_special_tokens=True,
            return_attention_mask=False,
        )["input_ids"]
        return ids

    @cached_property
    def _ids_of(self) -> Callable[[str], tuple[int, ...]]:
        # Sixteen samples of one question describe the same tables: most texts come again.
        @lru_cache(maxsize=20_000)
        def ids_of(text: str) -> tuple[int, ...]:
            return tuple(
                self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
            )

        return ids_of

    def decode(self, ids: Sequence[int]) -> str:
        """What a model wrote, without special tokens."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    def written_call(self, call: dict[str, Any], tools: list[dict[str, Any]] | None) -> str:
        """The call of a tool as the template writes it, without the end of the turn.

        Raises:
            ChatTemplateError: the template writes it in a way that cannot be cut out.
        """
        turns = [_TURNS["system"], _TURNS["first"]]
        turn = {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": call}],
        }
        write = partial(
            self.tokenizer.apply_chat_template, tokenize=False, tools=tools, enable_thinking=False
        )
        head, whole = write(turns, add_generation_prompt=True), write([*turns, turn])
        ending = self.tokenizer.decode([self.end_id])
        text, end, _ = whole.removeprefix(head).rpartition(ending)
        if not whole.startswith(head) or not end or call["name"] not in text:
            raise ChatTemplateError(
                f"the chat template of {self.tokenizer.name_or_path!r} does not write a call of a "
                "tool behind its generation prompt: use --set actions=text"
            )
        return str(text)

    def between(self, completion: Sequence[int], *, tools: bool = False) -> tuple[int, ...]:
        """From the end of `completion` to the next user turn, or to the results of tools.

        One that ran into the token limit, or ended the text instead of its turn, has its end of
        turn written by the environment.
        """
        piece = self.assistant_to_tool if tools else self.assistant_to_user
        if completion and completion[-1] == self.end_id and self.end_id in piece:
            return piece[piece.index(self.end_id) + 1 :]
        return piece


def _pieces(
    tokenizer: Any,
    options: dict[str, Any],
    example: Sequence[dict[str, Any]],
    *names: str,
    system_role: bool = True,
) -> list[tuple[int, ...]]:
    """What the template puts before, between and after some turns; the example is part of it."""
    from jinja2 import TemplateError

    turns = [_TURNS[name] for name in names]
    messages: list[dict[str, Any]] = [turns[0], *example, *turns[1:]]
    if not system_role:
        system, first = messages.pop(0), messages.pop(0)
        messages.insert(0, {**first, "content": f"{system['content']}\n\n{first['content']}"})
    try:
        text = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, **options
        )
    except (TemplateError, TypeError) as error:
        raise ChatTemplateError(
            f"the chat template of {tokenizer.name_or_path!r} refuses the turns "
            f"{', '.join(turn['role'] for turn in turns)}: {error}"
        ) from error
    cut = []
    for turn in turns:
        before, found, text = text.partition(turn["content"])
        if not found:
            raise ChatTemplateError(
                f"the chat template of {tokenizer.name_or_path!r} does not keep a "
                f"{turn['role']} turn in its place"
            )
        cut.append(before)
    return [tuple(tokenizer.encode(piece, add_special_tokens=False)) for piece in [*cut, text]]


def _lays_out(tokenizer: Any, options: dict[str, Any], *names: str) -> bool:
    """Whether some turns can be laid out without the example."""
    try:
        _pieces(tokenizer, options, (), *names)
    except ChatTemplateError:
        return False
    return True


def _end_of_turn(tokenizer: Any, assistant_to_user: Sequence[int]) -> int:
    """The token that ends the model's turn, which need not be the end of sequence.

    Gemma's turns end with <end_of_turn>, its texts with <eos>.
    """
    marks = {*tokenizer.all_special_ids, *tokenizer.get_added_vocab().values()}
    written = (token for token in assistant_to_user if tokenizer.decode([token]).strip())
    first = next(written, None)
    eos: int = tokenizer.eos_token_id
    return first if first is not None and first in marks else eos


def _configured_ends(model: Any) -> list[int]:
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    listed = configured if isinstance(configured, list) else [configured]
    return [token for token in listed if token is not None]


@lru_cache(maxsize=8)
def _opening(layout: ChatLayout, system: str) -> tuple[int, ...]:
    """Everything before the first user turn: every conversation begins with it."""
    return (*layout.before_system, *layout.encode(system), *layout.system_to_user)


@dataclass
class Segment:
    """Tokens that were sampled one after the other in a growing context."""

    prompt_ids: list[int]
    completion_ids: list[int] = field(default_factory=list)
    env_mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def extend(self, ids: Sequence[int], mask: int, logprobs: Sequence[float] | None) -> None:
        self.completion_ids += ids
        self.env_mask += [mask] * len(ids)
        unknown = math.nan if mask else 0.0
        self.logprobs += logprobs if logprobs is not None else [unknown] * len(ids)


@dataclass
class _Pair:
    action: list[int]
    before: tuple[int, ...] = ()
    observation: list[int] = field(default_factory=list)
    after: tuple[int, ...] = ()

    @property
    def ids(self) -> list[int]:
        return [*self.action, *self.before, *self.observation, *self.after]


class Conversation:
    """One episode's tokens, in turns.

    The environment's turns are given as text, or as ids where many were encoded at once.

    Args:
        layout: the chat template's layout.
        system: the system prompt.
        first_user: the first user turn, which holds the question.
        max_tokens: the window for context and completion together; None for no limit.
        reserve: how many tokens of the window a completion may need.

    Raises:
        ContextWindowError: the first turn and the reserve are larger than the window.
    """

    def __init__(
        self,
        layout: ChatLayout,
        system: str,
        first_user: str | list[int],
        *,
        max_tokens: int | None = None,
        reserve: int = 0,
    ) -> None:
        self.layout = layout
        self._room = None if max_tokens is None else max_tokens - reserve
        self._head = [
            *_opening(layout, system),
            *self._ids_of(first_user),
            *layout.user_to_assistant,
        ]
        if self._room is not None and len(self._head) > self._room:
            raise ContextWindowError(
                f"the first turn takes {len(self._head)} tokens, but a window of {max_tokens} with "
                f"{reserve} reserved for the completion leaves {self._room}: raise the window or "
                "lower max_new_tokens"
            )
        self._pairs: list[_Pair] = []
        self.segments = [Segment(prompt_ids=list(self._head))]

    # -- what was sampled, and under which context -------------------------------------------

    @property
    def context_ids(self) -> list[int]:
        """Everything the model reads before it writes its next turn."""
        return self.prompt_ids + self.segments[-1].completion_ids

    @property
    def prompt_ids(self) -> list[int]:
        """The last segment's prompt."""
        return self.segments[-1].prompt_ids

    @property
    def completion_ids(self) -> list[int]:
        """The last segment's tokens, of the model and of the environment; never empty."""
        return self.segments[-1].completion_ids or [self.layout.tokenizer.eos_token_id]

    @property
    def env_mask(self) -> list[int]:
        """For each of `completion_ids`: 1 the model wrote it, 0 the environment did."""
        return self.segments[-1].env_mask or [0]

    @property
    def logprobs(self) -> list[float]:
        """For each of `completion_ids`: its log-probability when sampled; NaN is unknown."""
        return self.segments[-1].logprobs or [0.0]

    @property
    def turns(self) -> list[list[int]]:
        """What the model wrote, turn by turn, as far as the window still holds it."""
        return [pair.action for pair in self._pairs]

    # -- the turns ---------------------------------------------------------------------------

    def add_completion(
        self, ids: Sequence[int], logprobs: Sequence[float] | None = None, *, trained: bool = True
    ) -> str:
        """Add what the model sampled, exactly as sampled, and return its text.

        Args:
            trained: False masks it like a turn of the environment.
        """
        self._pairs.append(_Pair(action=list(ids)))
        self.segments[-1].extend(ids, int(trained), logprobs)
        return self.layout.decode(ids)

    def add_observation(self, turn: str | list[int]) -> None:
        """Close the model's turn, add the environment's, and open the next one."""
        pair = self._pairs[-1]
        pair.before = self.layout.between(pair.action)
        pair.observation = self._ids_of(turn)
        pair.after = self.layout.next_user_to_assistant
        self._close(pair)

    def add_tool_results(self, results: Sequence[str]) -> None:
        """Close the model's turn, add the result of each tool it called, and open the next one."""
        pair = self._pairs[-1]
        pair.before = self.layout.between(pair.action, tools=True)
        first, *others = map(self.layout.encode, results)
        between = self.layout.between_tools
        pair.observation = [*first, *(i for ids in others for i in (*between, *ids))]
        pair.after = self.layout.tool_to_assistant
        self._close(pair)

    def _close(self, pair: _Pair) -> None:
        ids = pair.ids[len(pair.action) :]
        if self._room is None or len(self.context_ids) + len(ids) <= self._room:
            self.segments[-1].extend(ids, 0, None)
        else:
            self._begin_segment(self._room)

    def _ids_of(self, turn: str | list[int]) -> list[int]:
        return self.layout.encode(turn) if isinstance(turn, str) else turn

    def _begin_segment(self, room: int) -> None:
        kept = self._pairs[-PAIRS_KEPT:]
        while len(kept) > 1 and len(self._head) + sum(len(pair.ids) for pair in kept) > room:
            kept = kept[1:]
        excess = len(self._head) + sum(len(pair.ids) for pair in kept) - room
        newest = kept[-1]
        if excess > 0 and excess < len(newest.observation):
            # One observation too long for the window: its middle goes, its end has the steps left.
            front = (len(newest.observation) - excess + 1) // 2
            newest.observation = newest.observation[:front] + newest.observation[front + excess :]
        elif excess > 0:
            kept = []
        self._pairs = kept
        self.segments.append(
            Segment(prompt_ids=[*self._head, *(i for pair in kept for i in pair.ids)])
        )
