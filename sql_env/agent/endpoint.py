"""A model behind an OpenAI-compatible chat endpoint plays.

Every episode sends its next request as soon as it has its observation, and waits for nobody else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from threading import Thread
from typing import Any
from zlib import crc32

from sql_env.agent.chat_client import ChatClient, EndpointError, EndpointSettings, Message, Reply
from sql_env.agent.guided import TEMPERATURE, TRIES, Replaced
from sql_env.agent.prompts import NEWEST, Prompt, tool_call
from sql_env.agent.turns import Dialogue
from sql_env.models import SQLAction, SQLObservation

LONGEST_WAIT = 1.0
LARGEST_SEED = 2**31 - 1  # servers take it for a signed integer, and the largest for none


class EndpointPolicy:
    """Chats with an endpoint, one conversation per episode; each goes its own way.

    Args:
        settings: where the model is and how it is asked.
        prompt: how the model is spoken to, and whether it calls tools.
        guided: ask again, at a temperature, for turns that guided decoding objects to.
    """

    def __init__(
        self, settings: EndpointSettings, *, prompt: Prompt = NEWEST, guided: bool = False
    ) -> None:
        self._prompt = prompt
        self._opening = _opening(prompt)
        self._guided = guided
        self._client = ChatClient(settings)
        self._loop = asyncio.new_event_loop()
        # A daemon: whoever interrupts an evaluation does not wait for answers under way.
        self._thread = Thread(target=self._loop.run_forever, name="endpoint", daemon=True)
        self._thread.start()
        self._dialogues: dict[int, Dialogue] = {}
        self._messages: dict[int, list[Message]] = {}
        self._seeds: dict[int, int] = {}
        self._asked: dict[int, Future[SQLAction]] = {}

    def check(self) -> None:
        """Raise an `EndpointError` if it is certain that nothing can be played there."""
        asyncio.run_coroutine_threadsafe(self._client.check(), self._loop).result()

    def close(self) -> None:
        for episode in list(self._asked):
            self.end(episode)
        asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def seed_episode(self, episode: int, seed: str) -> None:
        """Samples of one question are different requests, and the same ones after a resumption."""
        self._seeds[episode] = crc32(seed.encode()) % LARGEST_SEED

    def act(self, new: Mapping[int, SQLObservation]) -> dict[int, SQLAction | Exception]:
        """The actions that have arrived; see `BatchPolicy`."""
        chosen: dict[int, SQLAction | Exception] = {}
        for episode, observation in new.items():
            if not observation.step_count:
                self._messages[episode] = list(self._opening)
                self._dialogues[episode] = Dialogue(self._prompt, guided=self._guided)
            dialogue = self._dialogues[episode]
            dialogue.hear(observation)
            if action := dialogue.go_on():
                chosen[episode] = action
            else:
                self._messages[episode] += _messages_to_read(dialogue)
                answer = self._answer(episode)
                self._asked[episode] = asyncio.run_coroutine_threadsafe(answer, self._loop)
        if chosen:
            return chosen
        # Not for ever: there may be new episodes to hear about.
        wait(self._asked.values(), LONGEST_WAIT, return_when=FIRST_COMPLETED)
        arrived = [episode for episode, future in self._asked.items() if future.done()]
        return {episode: _outcome(self._asked.pop(episode)) for episode in arrived}

    def end(self, episode: int) -> None:
        if episode in self._asked:
            self._asked.pop(episode).cancel()
        self._messages.pop(episode, None)
        self._dialogues.pop(episode, None)

    def release(self) -> None:
        pass

    async def _answer(self, episode: int) -> SQLAction:
        dialogue = self._dialogues[episode]
        reply = await self._ask(episode)
        if self._guided and (reason := dialogue.objection(reply.text)):
            reply = await self._another(episode, reason, reply)
        return dialogue.understand(reply.text, **reply.trace)

    async def _another(self, episode: int, reason: str, first: Reply) -> Reply:
        """A turn that nothing speaks against, or the first; either bears the cost of all."""
        spent = 0
        cost = first.trace.get("cost")
        for number in range(TRIES):
            reply = await self._ask(episode, retry=number + 1)
            spent += reply.trace.get("completion_tokens", 0)
            if cost is not None:
                cost += reply.trace["cost"]
            if not self._dialogues[episode].objection(reply.text):
                noted = {"replaced": Replaced(first.text, reason, spent)._asdict()}
                first = Reply(reply.text, {**reply.trace, **noted})
                break
        else:
            kept = {"reason": reason, "extra_tokens": spent}
            first = Reply(first.text, {**first.trace, "kept": kept})
        return first if cost is None else Reply(first.text, {**first.trace, "cost": cost})

    async def _ask(self, episode: int, *, retry: int = 0) -> Reply:
        return await self._client.ask(
            self._messages[episode],
            seed=self._seeds.get(episode, 0) + retry,
            tools=self._prompt.tools,
            temperature=TEMPERATURE if retry else None,
        )


def _outcome(future: Future[SQLAction]) -> SQLAction | Exception:
    try:
        return future.result()
    except EndpointError as error:
        return error


def _opening(prompt: Prompt) -> list[Message]:
    """The system prompt, and the example with its calls as endpoints want them."""
    messages: list[Message] = [{"role": "system", "content": prompt.system}]
    results: list[str] = []  # ids of calls whose results come next
    for number, message in enumerate(prompt.example):
        if message["role"] == "tool":
            message = {**message, "tool_call_id": results.pop(0)}
        elif "tool_calls" in message:
            calls = [call["function"] for call in message["tool_calls"]]
            made = [_call(f"example_{number}_{n}", call) for n, call in enumerate(calls)]
            message = {**message, "tool_calls": made}
            results = [call["id"] for call in made]
        messages.append(message)
    return messages


def _messages_to_read(dialogue: Dialogue) -> list[Message]:
    """The model's turn, after the first, and what it brought."""
    reading = dialogue.reading()
    if not reading.of_tools:
        said = [{"role": "assistant", "content": dialogue.text}] if dialogue.turns else []
        return [*said, {"role": "user", "content": reading.text}]
    calls = [
        _call(f"call_{dialogue.turns}_{number}", tool_call(action))
        for number, action in enumerate(dialogue.actions())
    ]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": text}
        for call, text in zip(calls, reading.texts, strict=True)
    ]
    return [{"role": "assistant", "content": "", "tool_calls": calls}, *results]


def _call(name: str, function: dict[str, Any]) -> dict[str, Any]:
    """A tool call as an endpoint wants it: with an id, and its arguments as text."""
    arguments = json.dumps(function["arguments"], ensure_ascii=False)
    return {"id": name, "type": "function", "function": {**function, "arguments": arguments}}
