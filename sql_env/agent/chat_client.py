"""Requests to an OpenAI-compatible chat endpoint: retries, what servers differ in, plain errors.

What fails for a passing reason (busy, overloaded, timed out, connection lost) is tried again with
growing pauses.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx

PASSING_STATUS = frozenset({408, 409, 425, 429, 500, *range(502, 600)})
UNREADABLE = frozenset({400, 422})  # something in the request is not taken
LONGEST_PAUSE = 30.0
SECONDS_TO_CONNECT = 10
MODELS_LISTED = 10
OLD_LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"  # newer models refuse the old name
MILLION = 1_000_000
SENT_ALWAYS = re.compile(r"\b(?<!-)(?:temperature|seed)\b(?!-)")  # not of a model's name
_IS_JSON = {"Content-Type": "application/json"}

Message = dict[str, Any]


class EndpointError(RuntimeError):
    """The endpoint did not answer; the message has its address and what it said."""


class Price(NamedTuple):
    """What a million tokens cost."""

    prompt: float
    completion: float


@dataclass(frozen=True)
class EndpointSettings:
    """Where the model is and how it is asked.

    Attributes:
        base_url: the address before `/chat/completions`, such as `http://localhost:8000/v1`.
        model: the model's name there.
        api_key: sent as a bearer token where given.
        temperature: 0 for the likeliest answer.
        top_p: sent where it is below 1.
        max_new_tokens: the longest completion.
        body: further fields of every request; None leaves one of ours out.
        concurrency: how many requests may be under way at once.
        retries: how many times a request is tried again.
        first_pause: seconds before the first retry; doubled for each one after.
        timeout: seconds to wait for one whole response.
        price: what tokens cost there.
    """

    base_url: str
    model: str
    api_key: str | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    max_new_tokens: int = 256
    body: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 16
    retries: int = 5
    first_pause: float = 0.5
    timeout: float = 120.0
    price: Price | None = None


class Reply(NamedTuple):
    """A turn, tool calls as lines of JSON, and what is noted about it."""

    text: str
    trace: dict[str, Any]


class ChatClient:
    """Asks one model of one endpoint; all methods run in one event loop."""

    def __init__(self, settings: EndpointSettings) -> None:
        self._settings = settings
        base = settings.base_url.rstrip("/")
        self._url, self._models_url = f"{base}/chat/completions", f"{base}/models"
        key = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        # The slots bound how many there are; a timeout of its own would begin anew with every byte.
        everyone = httpx.Limits(max_connections=None)
        self._client = httpx.AsyncClient(headers=key, timeout=None, limits=everyone)
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._limit = OLD_LIMIT
        self._refused: EndpointError | None = None  # what every other request would hear too

    async def close(self) -> None:
        await self._client.aclose()

    async def check(self) -> None:
        """Find by one short turn what would fail every episode.

        Raises:
            EndpointError: nobody is there, or the address, the key, the model's name or a field
                is refused.
        """
        asked = self._body([{"role": "user", "content": "Hello"}], None, 0, None)
        body = {name: 1 if name in (OLD_LIMIT, NEW_LIMIT) else v for name, v in asked.items()}
        patience = httpx.Timeout(None, connect=SECONDS_TO_CONNECT)
        try:
            async with asyncio.timeout(self._settings.timeout):
                tried = await self._with_either_limit(
                    body, lambda body: self._client.post(self._url, json=body, timeout=patience)
                )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL) as error:
            raise EndpointError(
                f"nothing answers at {self._settings.base_url} ({error}): "
                "start the server, or check the address"
            ) from error
        except (httpx.HTTPError, TimeoutError):
            return  # slow, perhaps: whoever plays tries again
        if tried.is_success:
            self._reply(tried)
        elif tried.status_code not in PASSING_STATUS and (
            tried.status_code not in UNREADABLE  # it may be that one token is too few
            or self._names_model(tried)
            or _unwanted_field(tried)
        ):
            raise await self._refusal(tried)

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        seed: int,
        tools: Sequence[Mapping[str, Any]] | None = None,
        temperature: float | None = None,
    ) -> Reply:
        """The model's next turn.

        Raises:
            EndpointError: there was none.
        """
        async with self._slots:
            if self._refused is not None:
                raise self._refused
            body = self._body(messages, tools, seed, temperature)
            response = await self._with_either_limit(body, self._post)
            if not response.is_success:
                raise await self._refusal(response)
        return self._reply(response)

    def _body(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        seed: int,
        temperature: float | None,
    ) -> dict[str, Any]:
        settings = self._settings
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": messages,
            "temperature": settings.temperature if temperature is None else temperature,
            "seed": seed,
        }
        if settings.top_p < 1:
            body["top_p"] = settings.top_p
        if tools:
            body["tools"] = tools
        if NEW_LIMIT not in settings.body:
            body[self._limit] = settings.max_new_tokens
        return {name: v for name, v in {**body, **settings.body}.items() if v is not None}

    async def _with_either_limit(
        self, body: dict[str, Any], post: Callable[[dict[str, Any]], Awaitable[httpx.Response]]
    ) -> httpx.Response:
        """The response to the limit's old name, or to its new one where the old one is refused."""
        response = await post(body)
        if response.status_code in UNREADABLE and OLD_LIMIT in body and _names_limit(response):
            body[NEW_LIMIT] = body.pop(OLD_LIMIT)
            response = await post(body)
            if response.is_success:
                self._limit = NEW_LIMIT
        return response

    async def _post(self, body: dict[str, Any]) -> httpx.Response:
        """A success, or a refusal that will not pass."""
        settings = self._settings
        problem = ""
        for attempt in range(settings.retries + 1):
            pause = min(settings.first_pause * 2**attempt, LONGEST_PAUSE)
            try:
                # In ASCII: what a model wrote may hold half a character, which UTF-8 cannot.
                content = json.dumps(body).encode()
                async with asyncio.timeout(settings.timeout):
                    response = await self._client.post(self._url, content=content, headers=_IS_JSON)
            except TimeoutError:
                problem = f"no whole response in {settings.timeout:g} s (--timeout)"
            except httpx.RequestError as error:
                problem = ": ".join(filter(None, (type(error).__name__, str(error))))
            else:
                if response.status_code not in PASSING_STATUS:
                    return response
                problem = f"status {response.status_code}: {_said(response)}"
                pause = asked_pause(response) or pause
            if attempt < settings.retries:
                # A spread keeps the requests of one batch from coming back all at once.
                await asyncio.sleep(pause * random.uniform(0.75, 1.25))
        tries = f"{settings.retries + 1} tries" if settings.retries else "1 try"
        raise EndpointError(f"{self._url} gave no answer in {tries}: {problem}")

    async def _refusal(self, response: httpx.Response) -> EndpointError:
        """What the server said, and what to do about it."""
        status = response.status_code
        said = f"{self._url} refused the request: status {status}: {_said(response)}"
        if status in (401, 403):
            said += "; the key is read from OPENAI_API_KEY, which is " + (
                "set" if self._settings.api_key else "not set"
            )
        elif response.has_redirect_location:
            said += f"; it points to {response.headers['location']}"
        elif ours := _unwanted_field(response):
            said += f"; --body {ours}=null leaves it out"
        elif status == 404 or self._names_model(response):
            with suppress(httpx.HTTPError):
                listed = await self._client.get(self._models_url, timeout=SECONDS_TO_CONNECT)
                if names := _names(listed):
                    more = ", …" if len(names) > MODELS_LISTED else ""
                    said += f"; models there: {', '.join(names[:MODELS_LISTED])}{more}"
                elif status == 404:
                    said += f"; check the address, {self._settings.base_url}: most end in /v1"
        error = EndpointError(said)
        if status in (401, 404):
            self._refused = error
        return error

    def _names_model(self, response: httpx.Response) -> bool:
        """The request is refused because of the model's name."""
        return response.status_code in UNREADABLE and self._settings.model in response.text

    def _reply(self, response: httpx.Response) -> Reply:
        try:
            return self._read(response.json())
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise EndpointError(
                f"{self._url} answered, but not with a chat completion: {_said(response)}"
            ) from error

    def _read(self, reply: dict[str, Any]) -> Reply:
        choice = reply["choices"][0]
        message = choice["message"]
        calls = [call.get("function") or {} for call in message.get("tool_calls") or []]
        lines = [_text_of(message.get("content")), *map(_line_of_call, calls)]
        usage = reply.get("usage") or {}
        trace: dict[str, Any] = {
            name: usage[name]
            for name in ("prompt_tokens", "completion_tokens")
            if isinstance(usage.get(name), int)
        }
        if price := self._settings.price:
            spent = trace.get("prompt_tokens", 0) * price.prompt
            spent += trace.get("completion_tokens", 0) * price.completion
            trace["cost"] = spent / MILLION
        if reasoning := message.get("reasoning_content") or message.get("reasoning"):
            trace["reasoning"] = reasoning
        if choice.get("finish_reason") == "length":
            trace["cut_off"] = True
        return Reply("\n".join(filter(None, lines)), trace)


def _names(response: httpx.Response) -> list[str]:
    """The models that a server lists; none where it keeps no such list."""
    try:
        return [str(model["id"]) for model in response.json()["data"]]
    except (ValueError, KeyError, TypeError):
        return []


def _names_limit(response: httpx.Response) -> bool:
    return OLD_LIMIT in response.text or NEW_LIMIT in response.text


def _unwanted_field(response: httpx.Response) -> str:
    """What we send and some models do not take, where it is that."""
    named = SENT_ALWAYS.search(_said(response)) if response.status_code in UNREADABLE else None
    return named[0] if named else ""


def _said(response: httpx.Response) -> str:
    """The server's words, on one line."""
    text = response.text
    with suppress(ValueError, KeyError, TypeError):
        text = response.json()["error"]["message"]
    return " ".join(str(text).split())[:300] or "(nothing)"


def asked_pause(response: httpx.Response) -> float | None:
    """The seconds of a Retry-After header, where it asks for some."""
    with suppress(ValueError):
        seconds = float(response.headers.get("retry-after", ""))
        if seconds > 0:
            return min(seconds, LONGEST_PAUSE)
    return None


def _text_of(content: Any) -> str:
    """Some servers send a list of parts, of which a thought is one."""
    if isinstance(content, list):
        return "\n".join(str(p["text"]) for p in content if p.get("type") == "text")
    return content or ""


def _line_of_call(call: dict[str, Any]) -> str:
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError):  # a text where JSON was asked for: it is the argument itself
            arguments = json.loads(arguments)
    named = {"name": call.get("name"), "arguments": arguments}
    return json.dumps(named, ensure_ascii=False)
