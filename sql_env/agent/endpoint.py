"""A model behind an OpenAI-compatible chat endpoint plays.

Every episode sends its next request as soon as it has its observation. What fails for a passing
reason (busy, overloaded, timed out, connection lost) is tried again with growing pauses.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx

from sql_env.agent.guided import TEMPERATURE, TRIES, Guide, Replaced
from sql_env.agent.prompts import NEWEST, Prompt, tool_call
from sql_env.agent.turns import Dialogue, meant
from sql_env.models import SQLAction, SQLObservation

PASSING_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
LONGEST_PAUSE = 30.0

Message = dict[str, Any]
_Turn = tuple[str, dict[str, Any]]  # what was written, and what is noted about it


class EndpointError(RuntimeError):
    """The endpoint did not answer; the message has its address and what it said."""


@dataclass(frozen=True)
class EndpointSettings:
    """Where the model is and how it is asked.

    Attributes:
        base_url: the address before `/chat/completions`, such as `http://localhost:8000/v1`.
        model: the model's name there.
        api_key: sent as a bearer token where given.
        temperature: 0 for the likeliest answer.
        max_new_tokens: the longest completion.
        concurrency: how many requests may be under way at once.
        retries: how many times a request is tried again.
        first_pause: seconds before the first retry; doubled for each one after.
        timeout: seconds to wait for one response.
        seed: passed on; endpoints that know it become repeatable.
    """

    base_url: str
    model: str
    api_key: str | None = None
    temperature: float = 0.0
    max_new_tokens: int = 256
    concurrency: int = 16
    retries: int = 5
    first_pause: float = 0.5
    timeout: float = 120.0
    seed: int | None = None


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
        self._settings = settings
        self._prompt = prompt
        self._opening = _opening(prompt)
        self._guided = guided
        key = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        self._client = httpx.Client(
            headers=key,
            timeout=settings.timeout,
            limits=httpx.Limits(max_connections=settings.concurrency),
        )
        self._threads = ThreadPoolExecutor(settings.concurrency, "endpoint")
        self._dialogues: dict[int, Dialogue] = {}
        self._messages: dict[int, list[Message]] = {}
        self._guides: dict[int, Guide] = {}
        self._asked: dict[Future[SQLAction], int] = {}

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._client.close()

    def act(self, new: Mapping[int, SQLObservation]) -> dict[int, SQLAction | Exception]:
        """The actions that have arrived, at least one; see `BatchPolicy`."""
        chosen: dict[int, SQLAction | Exception] = {}
        for episode, observation in new.items():
            if not observation.step_count:
                self._messages[episode] = list(self._opening)
                self._guides[episode] = Guide()
                self._dialogues[episode] = Dialogue(self._prompt)
            guide, dialogue = self._guides[episode], self._dialogues[episode]
            guide.hear(observation)
            dialogue.hear(observation)
            if action := dialogue.go_on():
                guide.add(action)
                chosen[episode] = action
            else:
                self._messages[episode] += _messages_to_read(dialogue)
                self._asked[self._threads.submit(self._answer, episode)] = episode
        if chosen:
            return chosen
        arrived, _ = wait(self._asked, return_when=FIRST_COMPLETED)
        return {self._asked.pop(future): _outcome(future) for future in arrived}

    def end(self, episode: int) -> None:
        self._messages.pop(episode, None)
        self._guides.pop(episode, None)
        self._dialogues.pop(episode, None)

    def release(self) -> None:
        pass

    def _answer(self, episode: int) -> SQLAction:
        messages, guide = self._messages[episode], self._guides[episode]
        text, trace = _read(self._ask(messages, self._settings.temperature))
        if self._guided and (reason := self._objection(guide, text)):
            text, trace = self._another(messages, guide, reason, (text, trace))
        action = self._dialogues[episode].understand(text, **trace)
        guide.add(action)
        return action

    def _another(self, messages: list[Message], guide: Guide, reason: str, first: _Turn) -> _Turn:
        """A turn that nothing speaks against, or the first."""
        spent = 0
        for number in range(TRIES):
            text, usage = _read(self._ask(messages, TEMPERATURE, retry=number + 1))
            spent += usage.get("completion_tokens", 0)
            if not self._objection(guide, text):
                return text, {**usage, "replaced": Replaced(first[0], reason, spent)._asdict()}
        return first

    def _objection(self, guide: Guide, text: str) -> str:
        """Why one of a turn's actions should not be played, or nothing."""
        actions, _ = meant(text, self._prompt)
        return next(filter(None, map(guide.objection, actions)), "")

    def _ask(
        self, messages: list[Message], temperature: float, *, retry: int = 0
    ) -> dict[str, Any]:
        settings = self._settings
        url = f"{settings.base_url.rstrip('/')}/chat/completions"
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": messages,
            "temperature": temperature,
            "max_tokens": settings.max_new_tokens,
        }
        if self._prompt.tools:
            body["tools"] = self._prompt.tools
        if settings.seed is not None:
            body["seed"] = settings.seed + retry
        problem = ""
        for attempt in range(settings.retries + 1):
            pause = min(settings.first_pause * 2**attempt, LONGEST_PAUSE)
            try:
                response = self._client.post(url, json=body)
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if response.is_success:
                    return _json_object(response, url)
                problem = f"status {response.status_code}: {response.text[:300]}"
                if response.status_code not in PASSING_STATUS:
                    raise EndpointError(f"{url} refused the request: {problem}")
                pause = _asked_pause(response) or pause
            if attempt < settings.retries:
                # A spread keeps the requests of one batch from coming back all at once.
                time.sleep(pause * random.uniform(0.75, 1.25))
        raise EndpointError(f"{url} gave no answer in {settings.retries + 1} tries: {problem}")


def _outcome(future: Future[SQLAction]) -> SQLAction | Exception:
    try:
        return future.result()
    except EndpointError as error:
        return error


def _asked_pause(response: httpx.Response) -> float | None:
    """The seconds of a Retry-After header."""
    try:
        return min(float(response.headers.get("retry-after", "")), LONGEST_PAUSE)
    except ValueError:
        return None


def _json_object(response: httpx.Response, url: str) -> dict[str, Any]:
    try:
        reply = response.json()
        reply["choices"][0]["message"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise EndpointError(
            f"{url} answered, but not with a chat completion: {response.text[:300]}"
        ) from error
    assert isinstance(reply, dict)
    return reply


def _read(reply: dict[str, Any]) -> _Turn:
    """The turn, tool calls as lines of JSON, and the tokens it cost where they are counted."""
    message = reply["choices"][0]["message"]
    calls = [call.get("function") or {} for call in message.get("tool_calls") or []]
    lines = [message.get("content") or "", *(_line_of_call(call) for call in calls)]
    usage = reply.get("usage") or {}
    counts = {
        name: usage[name]
        for name in ("prompt_tokens", "completion_tokens")
        if isinstance(usage.get(name), int)
    }
    return "\n".join(filter(None, lines)), counts


def _line_of_call(call: dict[str, Any]) -> str:
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError):  # a text where JSON was asked for: it is the argument itself
            arguments = json.loads(arguments)
    named = {"name": call.get("name"), "arguments": arguments}
    return json.dumps(named, ensure_ascii=False)


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
