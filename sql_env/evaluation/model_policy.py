"""A language model plays: all running episodes are generated together.

A greedy model that has once sent a query that fails will often send it again, word for word, until
its steps are used up. So where it would repeat itself it may be given a second chance: some other
turns are drawn from its own distribution, and the first that is new in this episode is played.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sql_env.evaluation.conversation import ChatLayout, ContextWindowError, Conversation
from sql_env.evaluation.dialogue import Dialogue
from sql_env.evaluation.playing import spelling
from sql_env.models import SQLAction, SQLObservation

TokenGenerator = Callable[[list[list[int]]], list[list[int]]]
"""Contexts in, completions out: token ids without the context, up to and with the stop token."""


class ModelPolicy:
    """A causal language model behind a `generate` function.

    Args:
        generate: turns contexts into completions; `HFGenerator` or a faster one.
        tokenizer: its chat template lays the turns out.
        dialogue: the prompt and the parser.
        max_tokens: the model's window for context and completion together.
        max_new_tokens: the part of the window that a completion may need.
        redraw: a sampling generator over the same model; asked where `generate` would play an
            action of the episode once more. None lets it repeat itself.
        redraws: how many times a turn is drawn, at most.
    """

    def __init__(
        self,
        generate: TokenGenerator,
        tokenizer: Any,
        dialogue: Dialogue,
        *,
        max_tokens: int | None = None,
        max_new_tokens: int = 256,
        redraw: TokenGenerator | None = None,
        redraws: int = 3,
    ) -> None:
        self._generate = generate
        self._redraw = redraw
        self._redraws = redraws
        self._layout = ChatLayout.of(tokenizer)
        self._dialogue = dialogue
        self._max_tokens = max_tokens
        self._max_new_tokens = max_new_tokens
        self._conversations: dict[int, Conversation] = {}
        self._played: dict[int, set[tuple[str, str]]] = {}

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
        self._played = {episode: self._played.get(episode, set()) for episode in running}
        completions = self._generate(contexts) if contexts else []
        turns = dict(zip(running, completions, strict=True))
        redrawn = self._drawn_instead(running, turns)
        for episode, context in zip(running, contexts, strict=True):
            ids = redrawn.get(episode, turns[episode])
            text = running[episode].add_completion(ids)
            trace = {"redrawn": True} if episode in redrawn else {}
            action = self._dialogue.understand(
                text, prompt_tokens=len(context), completion_tokens=len(ids), **trace
            )
            self._played[episode].add(spelling(action))
            chosen[episode] = action
        return [chosen[episode] for episode in episodes]

    def _drawn_instead(
        self, running: dict[int, Conversation], turns: dict[int, list[int]]
    ) -> dict[int, list[int]]:
        """Other turns for the episodes whose turn was played before, where one can be drawn."""
        if self._redraw is None:
            return {}
        stuck = [episode for episode, ids in turns.items() if not self._is_new(episode, ids)]
        found: dict[int, list[int]] = {}
        for _ in range(self._redraws):
            if not stuck:
                break
            drawn = self._redraw([running[episode].context_ids for episode in stuck])
            found |= {
                episode: ids
                for episode, ids in zip(stuck, drawn, strict=True)
                if self._is_new(episode, ids)
            }
            stuck = [episode for episode in stuck if episode not in found]
        return found

    def _is_new(self, episode: int, ids: list[int]) -> bool:
        return spelling(self._dialogue.parse(self._layout.decode(ids))) not in self._played[episode]

    def _listen(self, observation: SQLObservation, episode: int) -> Conversation:
        words = self._dialogue.format_observation(observation)
        if observation.step_count == 0:
            self._played.pop(episode, None)
            return Conversation(
                self._layout,
                self._dialogue.system_prompt,
                words,
                max_tokens=self._max_tokens,
                reserve=self._max_new_tokens,
            )
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
