"""A language model plays: all running episodes are generated together.

A greedy model that has once sent a query that fails will often send it again, word for word, until
its steps are used up. So where it would repeat itself, write no SQL or what cannot be meant, use a
name that it can know to be wrong, or believe at once that there is nothing, it may think twice: of
the other turns that it might have written, the likeliest one that does none of this is played.
Where only the pen slipped, that is put right instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sql_env.agent.conversation import ChatLayout, ContextWindowError, Conversation
from sql_env.agent.dead_ends import DeadEnds
from sql_env.agent.dialogue import Dialogue
from sql_env.agent.second_thoughts import SecondThoughts, TokenGenerator
from sql_env.models import SQLAction, SQLObservation

_SLIPS_MENDED = 4  # in one turn


class ModelPolicy:
    """A causal language model behind a `generate` function.

    Args:
        generate: turns contexts into completions; `HFGenerator` or a faster one.
        tokenizer: its chat template lays the turns out.
        dialogue: the prompt and the parser.
        max_tokens: the model's window for context and completion together.
        max_new_tokens: the part of the window that a completion may need.
        second_thoughts: over the same model; asked where `generate` would lead nowhere, as
            `DeadEnds` knows it. None lets it.
        redraws: how many other turns are tried, at most. (They were once drawn at random; runs
            are recorded under this name.)
        release: gives back the memory that the generators hold from call to call.
    """

    def __init__(
        self,
        generate: TokenGenerator,
        tokenizer: Any,
        dialogue: Dialogue,
        *,
        max_tokens: int | None = None,
        max_new_tokens: int = 256,
        second_thoughts: SecondThoughts | None = None,
        redraws: int = 8,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self._generate = generate
        self._release = release
        self._second_thoughts = second_thoughts
        self._redraws = redraws
        self._layout = ChatLayout.of(tokenizer)
        self._dialogue = dialogue
        self._max_tokens = max_tokens
        self._max_new_tokens = max_new_tokens
        self._conversations: dict[int, Conversation] = {}
        self._dead_ends: dict[int, DeadEnds] = {}

    def select_actions(
        self, observations: Sequence[SQLObservation], episodes: Sequence[int]
    ) -> list[SQLAction | Exception]:
        chosen: dict[int, SQLAction | Exception] = {}
        running: dict[int, Conversation] = {}
        for observation, episode in zip(observations, episodes, strict=True):
            try:
                running[episode] = self._listen(observation, episode)
            except ContextWindowError as error:
                chosen[episode] = error
        # Episodes that are not asked about any more are over: their conversations go.
        self._conversations = running
        contexts = [conversation.context_ids for conversation in running.values()]
        self._dead_ends = {episode: self._dead_ends[episode] for episode in running}
        completions = self._generate(contexts) if contexts else []
        turns = dict(zip(running, completions, strict=True))
        redrawn = self._written_instead(running, turns)
        for episode, context in zip(running, contexts, strict=True):
            ids = redrawn.get(episode, turns[episode])
            text = running[episode].add_completion(ids)
            trace = {"redrawn": True} if episode in redrawn else {}
            action = self._dialogue.understand(
                text, prompt_tokens=len(context), completion_tokens=len(ids), **trace
            )
            self._dead_ends[episode].add(action)
            chosen[episode] = action
        return [chosen[episode] for episode in episodes]

    def make_room(self) -> None:
        self._release()

    def _written_instead(
        self, running: dict[int, Conversation], turns: dict[int, list[int]]
    ) -> dict[int, list[int]]:
        """Other turns for the episodes whose turn leads nowhere, where a better one is found."""
        thoughts = self._second_thoughts
        if thoughts is None:
            return {}
        tries: dict[int, Iterator[list[int]]] = {}
        # Bound to fail too, but without that slip, or at least in another way.
        runs: dict[int, list[int]] = {}
        new: dict[int, list[int]] = {}
        found: dict[int, list[int]] = {}
        for number, (episode, ids) in enumerate(turns.items()):
            if not self._leads_nowhere(episode, ids):
                continue
            openings = thoughts.openings(number, ids)
            tries[episode] = self._openings(episode, running[episode], openings)
            mended = self._mended(episode, ids)
            if not self._leads_nowhere(episode, mended):
                found[episode] = mended
            elif mended != ids and not self._repeats(episode, mended):
                runs[episode] = mended
        stuck = {episode for episode in tries if self._repeats(episode, turns[episode])}
        for _ in range(self._redraws):
            # One after the other, for each that leads nowhere tells more about those to come.
            begun = {
                episode: opening
                for episode, others in tries.items()
                if episode not in found and (opening := next(others, None))
            }
            if not begun:
                break
            written = thoughts.written(
                [running[episode].context_ids for episode in begun], list(begun.values())
            )
            for episode, turn in zip(begun, written, strict=True):
                ids = self._mended(episode, turn)
                if not self._leads_nowhere(episode, ids):
                    found[episode] = ids
                elif episode in stuck and not self._repeats(episode, ids):
                    new.setdefault(episode, ids)
        return runs | new | found

    def _mended(self, episode: int, ids: list[int]) -> list[int]:
        """A turn with its slips of the pen put right; itself where there are none."""
        ending = [token for token in ids[-1:] if token in self._layout.stop_ids]
        for _ in range(_SLIPS_MENDED):
            text = self._layout.decode(ids)
            if not self._leads_nowhere(episode, ids):
                break
            if (mended := self._dead_ends[episode].mended(text)) == text:
                break
            ids = [*self._layout.encode(mended), *ending]
        return ids

    def _openings(
        self, episode: int, conversation: Conversation, openings: Iterable[list[int]]
    ) -> Iterator[list[int]]:
        """Those that fit into the window and do not lead nowhere yet."""
        used = len(conversation.context_ids) + self._max_new_tokens
        room = None if self._max_tokens is None else self._max_tokens - used
        dead_ends = self._dead_ends[episode]
        return (
            opening
            for opening in openings
            if (room is None or len(opening) <= room)
            and not dead_ends.lie_ahead(self._layout.decode(opening))
        )

    def _leads_nowhere(self, episode: int, ids: list[int]) -> bool:
        return self._dead_ends[episode].leads_to(self._action(ids))

    def _repeats(self, episode: int, ids: list[int]) -> bool:
        return self._dead_ends[episode].repeats(self._action(ids))

    def _action(self, ids: list[int]) -> SQLAction:
        return self._dialogue.parse(self._layout.decode(ids))

    def _listen(self, observation: SQLObservation, episode: int) -> Conversation:
        words = self._dialogue.format_observation(observation)
        if observation.step_count == 0:
            self._dead_ends[episode] = DeadEnds()
            self._dead_ends[episode].hear(observation)
            return Conversation(
                self._layout,
                self._dialogue.system_prompt,
                words,
                max_tokens=self._max_tokens,
                reserve=self._max_new_tokens,
            )
        self._dead_ends[episode].hear(observation)
        conversation = self._conversations[episode]
        conversation.add_observation(words)
        return conversation


class HFGenerator:
    """`model.generate` over a left-padded batch, greedy or sampled.

    Args:
        model: a transformers causal language model, with or without a PEFT adapter.
        stop_ids: tokens that end a completion.
        pad_id: fills the shorter contexts.
        max_new_tokens: the longest completion.
        temperature: 0 takes the likeliest token; above 0 samples.
        top_p: samples from the likeliest tokens that make up this share.
        seed: makes a sampled run repeatable, with the same batches on the same device; None
            goes on from the present state of torch's generator.
    """

    def __init__(
        self,
        model: Any,
        *,
        stop_ids: Sequence[int],
        pad_id: int,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = 0,
    ) -> None:
        import torch
        from transformers import GenerationConfig

        if seed is not None:
            torch.manual_seed(seed)
        self._model = model
        self._stop_ids = frozenset(stop_ids)
        self._pad_id = pad_id
        sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": top_p}
        self._config = GenerationConfig(
            max_new_tokens=max_new_tokens,
            eos_token_id=sorted(self._stop_ids),
            pad_token_id=pad_id,
            **(sampling if temperature > 0 else {"do_sample": False}),
        )

    def __call__(self, contexts: list[list[int]]) -> list[list[int]]:
        import torch

        width = max(map(len, contexts))
        padded = [[self._pad_id] * (width - len(ids)) + ids for ids in contexts]
        mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids in contexts]
        device = self._model.device
        was_training = self._model.training
        self._model.eval()
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=torch.tensor(padded, device=device),
                attention_mask=torch.tensor(mask, device=device),
                generation_config=self._config,
            )
        self._model.train(was_training)
        return [self._until_stop(ids) for ids in output[:, width:].tolist()]

    def _until_stop(self, ids: list[int]) -> list[int]:
        """Without the padding that a batch appends to those that stopped early."""
        for position, token in enumerate(ids):
            if token in self._stop_ids:
                return ids[: position + 1]
        return ids
