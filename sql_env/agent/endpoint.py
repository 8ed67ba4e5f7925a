"""A model behind an OpenAI-compatible chat endpoint plays.

Requests of all running episodes go out together; what fails for a passing reason (busy, overloaded,
timed out, connection lost) is tried again with growing pauses.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from sql_env.agent.dialogue import Dialogue
from sql_env.models import SQLAction, SQLObservation

PASSING_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
LONGEST_PAUSE = 30.0


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
    """Chats with an endpoint, one conversation per episode."""

    def __init__(self, settings: EndpointSettings, dialogue: Dialogue) -> None:
        self._settings = settings
        self._dialogue = dialogue
        key = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        self._client = httpx.Client(
            headers=key,
            timeout=settings.timeout,
            limits=httpx.Limits(max_connections=settings.concurrency),
        )
        self._threads = ThreadPoolExecutor(settings.concurrency, "endpoint")
        self._messages: dict[int, list[dict[str, str]]] = {}

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._client.close()

    def select_actions(
        self, observations: Sequence[SQLObservation], episodes: Sequence[int]
    ) -> list[SQLAction | Exception]:
        running = {}
        for observation, episode in zip(observations, episodes, strict=True):
            begun = [{"role": "system", "content": self._dialogue.system_prompt}]
            messages = self._messages[episode] if observation.step_count else begun
            words = self._dialogue.format_observation(observation)
            running[episode] = [*messages, {"role": "user", "content": words}]
        self._messages = running
        return list(self._threads.map(self._answer, episodes))

    def _answer(self, episode: int) -> SQLAction | Exception:
        messages = self._messages[episode]
        try:
            reply = self._ask(messages)
        except EndpointError as error:
            return error
        text, usage = _read(reply)
        messages.append({"role": "assistant", "content": text})
        return self._dialogue.understand(text, **usage)

    def _ask(self, messages: list[dict[str, str]]) -> dict[str, Any]:
        settings = self._settings
        url = f"{settings.base_url.rstrip('/')}/chat/completions"
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": messages,
            "temperature": settings.temperature,
            "max_tokens": settings.max_new_tokens,
        }
        if settings.seed is not None:
            body["seed"] = settings.seed
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


def _read(reply: dict[str, Any]) -> tuple[str, dict[str, int]]:
    """The text, and the tokens it cost where the endpoint counts them."""
    text = reply["choices"][0]["message"].get("content") or ""
    usage = reply.get("usage") or {}
    counts = {
        name: usage[name]
        for name in ("prompt_tokens", "completion_tokens")
        if isinstance(usage.get(name), int)
    }
    return text, counts
