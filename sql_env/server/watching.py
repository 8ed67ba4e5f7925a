"""The endpoint `/web/watch`: a policy plays, step by step, as fast as who watches asks for it.

    /web/watch?policy=oracle&question=city_transit_0061

One connection is one episode. The server says how it begins; then every message, whatever it holds,
asks for one more step. While a policy thinks, `waiting` says how many turns come first, and
`writing` what there is of its own. Nothing is played that nobody asked for, so a pause is a client
that is silent, and whoever leaves has stopped it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

from openenv.core.env_server.serialization import serialize_observation
from openenv.core.env_server.types import WSErrorCode
from pydantic_core import to_json
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from sql_env.environment import EpisodeError, UnknownQuestionError
from sql_env.models import SQLAction, SQLObservation
from sql_env.server.players import BusyError, Player, PolicyFailedError, Progress
from sql_env.server.served_environment import ResetOptionError, ServedEnvironment
from sql_env.server.sessions import CLOSED_FOR_CAPACITY, CLOSED_FOR_IDLENESS, Refusal, end_with

MOST_WATCHED = 32  # episodes at the same time

_PLAY_ERRORS = (
    BusyError,
    EpisodeError,
    PolicyFailedError,
    ResetOptionError,
    UnknownQuestionError,
)


class Watching:
    """The ASGI application of `/web/watch`.

    Args:
        make: a new environment.
        players: the policies, by name.
        idle_seconds: how long an episode waits to be asked for its next step.
    """

    def __init__(
        self,
        make: Callable[[], ServedEnvironment],
        players: Mapping[str, Player],
        idle_seconds: float,
    ) -> None:
        self._make = make
        self._players = players
        self._idle_seconds = idle_seconds
        self._numbers = count()
        self._watched = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # the handshake
        asked = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            playing = group.create_task(self._play(QueryParams(scope["query_string"]), asked, send))
            while (await receive())["type"] == "websocket.receive":
                asked.set()
            playing.cancel()

    async def _play(self, wanted: QueryParams, asked: asyncio.Event, send: Send) -> None:
        with suppress(OSError):  # the client has gone: there is nobody to tell
            await send({"type": "websocket.accept"})
            if self._watched >= MOST_WATCHED:
                told = f"{self._watched} episodes are watched already: try again later"
                refusal = Refusal(WSErrorCode.CAPACITY_REACHED, told)
                await end_with(send, refusal, CLOSED_FOR_CAPACITY)
                return
            self._watched += 1
            try:
                await self._episode(wanted, asked, send)
            except TimeoutError:
                told = f"closed: no step was asked for in {self._idle_seconds:g} s"
                await end_with(send, Refusal("SESSION_IDLE", told), CLOSED_FOR_IDLENESS)
            except _PLAY_ERRORS as error:
                await end_with(send, Refusal(WSErrorCode.EXECUTION_ERROR, str(error)))
            else:
                await send({"type": "websocket.close"})
            finally:
                self._watched -= 1

    async def _episode(self, wanted: QueryParams, asked: asyncio.Event, send: Send) -> None:
        player = self._players.get(wanted.get("policy", ""))
        if player is None:
            raise ResetOptionError(f"policy must be one of {', '.join(self._players)}")
        episode, env = next(self._numbers), self._make()
        try:
            seen = await _to_its_end(
                env.reset_async(question_id=wanted.get("question", ""), details=True)
            )
            await send(_frame("observation", serialize_observation(seen)))
            while not seen.done:
                async with asyncio.timeout(self._idle_seconds):
                    await asked.wait()
                asked.clear()
                action = await _turn(player, episode, seen, send)
                seen = await _to_its_end(env.step_async(action))
                await send(_frame("step", _shown(action, seen)))
        finally:
            player.leave(episode)
            env.close()


async def _turn(player: Player, episode: int, seen: SQLObservation, send: Send) -> SQLAction:
    """The policy's next action; until it is there, what is known of it is sent on."""
    news = player.ask(episode, seen)
    while not isinstance(heard := await news.get(), SQLAction):
        match heard:
            case PolicyFailedError():
                raise heard
            case Progress(ahead=0, text=text):
                await send(_frame("writing", {"text": text}))
            case Progress(ahead=ahead):
                await send(_frame("waiting", {"ahead": ahead}))
    return heard


async def _to_its_end(job: Coroutine[Any, Any, SQLObservation]) -> SQLObservation:
    """Also where the visitor leaves meanwhile: the environment is closed next."""
    task = asyncio.create_task(job)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _shown(action: SQLAction, seen: SQLObservation) -> dict[str, Any]:
    """A step; `said` is the model's own text where a turn of it began with this action."""
    return {
        "action": {"action_type": action.action_type, "argument": action.argument},
        "said": action.metadata.get("raw"),
        **serialize_observation(seen),
    }


def _frame(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    text = to_json({"type": kind, "data": data}, inf_nan_mode="null").decode()
    return {"type": "websocket.send", "text": text}
