"""A model behind an OpenAI-compatible chat endpoint plays.

Every episode sends its next request as soon as it has its observation. What fails for a passing
reason (busy, overloaded, timed out, connection lost) is tried again with growing pauses.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import httpx

from sql_env.agent.guided import TEMPERATURE, TRIES, Guide, Replaced
from sql_env.agent.model_policy import understood
from sql_env.agent.prompts import format_observation, get_system_prompt
from sql_env.models import SQLAction, SQLObservation

PASSING_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
LONGEST_PAUSE = 30.0

Message = dict[str, str]


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
        guided: ask again, at a temperature, for turns that guided decoding objects to.
    """

    def __init__(self, settings: EndpointSettings, *, guided: bool = False) -> None:
        self._settings = settings
        self._guided = guided
        key = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        self._client = httpx.Client(
            headers=key,
            timeout=settings.timeout,
            limits=httpx.Limits(max_connections=settings.concurrency),
        )
        self._threads = ThreadPoolExecutor(settings.concurrency, "endpoint")
        self._messages: dict[int, list[Message]] = {}
        self._guides: dict[int, Guide] = {}
        self._asked: dict[Future[SQLAction], int] = {}

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._client.close()

    def act(self, new: Mapping[int, SQLObservation]) -> dict[int, SQLAction | Exception]:
        """The actions that have arrived, at least one; see `BatchPolicy`."""
        for episode, observation in new.items():
            if not observation.step_count:
                self._messages[episode] = [{"role": "system", "content": get_system_prompt()}]
                self._guides[episode] = Guide()
            words = format_observation(observation)
            self._messages[episode].append({"role": "user", "content": words})
            self._guides[episode].hear(observation)
            self._asked[self._threads.submit(self._answer, episode)] = episode
        arrived, _ = wait(self._asked, return_when=FIRST_COMPLETED)
        return {self._asked.pop(future): _outcome(future) for future in arrived}

    def end(self, episode: int) -> None:
        self._messages.pop(episode, None)
        self._guides.pop(episode, None)

    def release(self) -> None:
        pass

    def _answer(self, episode: int) -> SQLAction:
        messages, guide = self._messages[episode], self._guides[episode]
        text, usage = _read(self._ask(messages, self._settings.temperature))
        action = understood(text, **usage)
        if self._guided and (reason := guide.objection(action)):
            action = self._another(messages, guide, action, reason)
        guide.add(action)
        messages.append({"role": "assistant", "content": action.metadata["raw"]})
        return action

    def _another(
        self, messages: list[Message], guide: Guide, first: SQLAction, reason: str
    ) -> SQLAction:
        """An action that nothing speaks against, or the first."""
        spent = 0
        for number in range(TRIES):
            text, usage = _read(self._ask(messages, TEMPERATURE, retry=number + 1))
            spent += usage.get("completion_tokens", 0)
            if not guide.objection(understood(text)):
                noted = Replaced(str(first.metadata["raw"]), reason, spent)
                return understood(text, **usage, replaced=noted._asdict())
        return first

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
