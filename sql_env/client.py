"""A client for a served environment: asynchronous, and with `.sync()` synchronous.

    with SQLEnvClient("http://127.0.0.1:8000").sync() as env:
        result = env.reset(split="train", index=0)
        result = env.step(SQLAction(action_type="DESCRIBE", argument="singer"))

A connection is a session: one client plays one episode at a time.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import httpx
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.protocol import State

from sql_env.models import SQLAction, SQLObservation, SQLState

_LOST = "The episode is lost; call reset() to begin another"


class ServerError(RuntimeError):
    """The server refused a message; `code` says which rule it broke."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code


class SQLEnvClient(EnvClient[SQLAction, SQLObservation, SQLState]):
    """Plays on a server.

    Every call raises `ConnectionError` when the server cannot be reached or has gone, and
    `TimeoutError` when it does not answer in time. The episode is lost then, and says so at the
    next `step`; `reset` connects anew. A client that is too fast for its server waits.

    Args:
        base_url: "http://127.0.0.1:8000", or wherever `sql-env serve` listens.
        token: the server's token, where it has one.
        options: OpenEnv's own (`message_timeout_s`, `headers`, `provider`, …).
    """

    def __init__(
        self, base_url: str | None = None, *, token: str | None = None, **options: Any
    ) -> None:
        headers = dict(options.pop("headers", None) or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        super().__init__(base_url, headers=headers or None, **options)

    # -- what there is to play ---------------------------------------------------------------

    async def list_splits(self) -> list[str]:
        """The splits that `reset(split=…)` takes."""
        return [split["name"] for split in await self._ask("GET", "splits")]

    async def num_tasks(self, split: str) -> int:
        """How many questions a split has; `reset(split=…, index=…)` counts from 0."""
        return int((await self._ask("POST", "num_tasks", {"split": split}))["num_tasks"])

    async def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """The questions of a split: id, index, question, database_name, difficulty."""
        return list((await self._ask("POST", "tasks", {"split": split}))["tasks"])

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        scheme, _, host = str(self.base_url).rpartition("://")
        url = f"{'https' if scheme in ('https', 'wss') else 'http'}://{host}/sql_env/{path}"
        async with httpx.AsyncClient(headers=self._headers, timeout=self._message_timeout) as http:
            try:
                response = await http.request(method, url, json=body)
            except httpx.TransportError as error:
                raise ConnectionError(f"{url} does not answer: {error}") from error
        if response.is_error:
            raise ServerError(response.json()["detail"], f"HTTP {response.status_code}")
        return response.json()

    # -- the wire ----------------------------------------------------------------------------

    def _step_payload(self, action: SQLAction) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[SQLObservation]:
        reward, done = payload["reward"], payload["done"]
        observation = SQLObservation.model_validate(
            {**payload["observation"], "reward": reward, "done": done}
        )
        return StepResult(observation, reward, done, observation.metadata)

    def _parse_state(self, payload: dict[str, Any]) -> SQLState:
        return SQLState.model_validate(payload)

    _ws: ClientConnection | None
    _interrupted = ""

    async def _connect_async(self) -> SQLEnvClient:
        try:
            await super()._connect_async()
        except ConnectionError as error:
            cause = error.__cause__
            if isinstance(cause, InvalidStatus) and cause.response.status_code == 401:
                raise ConnectionError(
                    f"{self.base_url} wants its token: SQLEnvClient(url, token=…)"
                ) from error
            raise
        return self

    async def _send_and_receive(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["type"] == "reset":
            self._interrupted = ""
            if "actions" in message["data"]:
                actions = map(SQLAction.model_validate, message["data"]["actions"])
                message["data"]["actions"] = [self._step_payload(action) for action in actions]
        # OpenEnv would connect again and send the message into a session that has no episode.
        elif self._interrupted:
            raise ConnectionError(f"{self._interrupted}. {_LOST}")
        elif self._ws is not None and self._ws.state in (State.CLOSING, State.CLOSED):
            raise await self._lost()
        try:
            with suppress(ConnectionClosed):  # a refusal may be waiting to be read
                await self._send(message)
            response: dict[str, Any] = await self._receive()
        except ConnectionClosed as error:
            raise await self._lost() from error
        except TimeoutError as error:
            seconds = f"{self._message_timeout:g} s"
            self._interrupted = (
                f"{self.base_url} did not answer the last {message['type']} within {seconds}, and "
                "what it did is not known"
            )
            raise TimeoutError(f"{self._interrupted}. {_LOST}") from error
        except asyncio.CancelledError:
            self._interrupted = (
                f"the last {message['type']} was cancelled before {self.base_url} answered"
            )
            raise
        if response["type"] != "error":
            return response
        refusal = response["data"]
        if refusal["code"] != "RATE_LIMITED":
            raise ServerError(refusal["message"], refusal["code"])
        await asyncio.sleep(refusal["retry_after_s"])  # it was dropped, so it can be sent again
        return await self._send_and_receive(message)

    async def _lost(self) -> ConnectionError:
        """Why the connection ended, in the server's last words where it said any."""
        ws, self._ws, self._ws_loop = self._ws, None, None
        last_words = ""
        with suppress(ConnectionClosed):
            frame = json.loads(await ws.recv()) if ws else {}
            if frame.get("type") == "error":
                last_words = f": {frame['data']['message']}"
        return ConnectionError(f"the connection to {self.base_url} is gone{last_words}. {_LOST}")
