"""The endpoint `/ws`: one connection is one session, which plays one episode at a time.

The messages are OpenEnv's; the endpoint is not. OpenEnv's own ends the session at a message that is
no object, lets several connections share one environment and starts a thread for each.

**Who makes room.** A session that is silent too long is closed. When all places are taken, one
without a running episode has to go as soon as it has been silent for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from openenv.core.env_server.serialization import serialize_observation
from openenv.core.env_server.types import (
    WSCloseMessage,
    WSErrorCode,
    WSIncomingMessage,
    WSResetMessage,
    WSStateMessage,
    WSStepMessage,
)
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from starlette.types import Message, Receive, Scope, Send

from sql_env.environment import EpisodeError, UnknownQuestionError
from sql_env.models import SQLAction, SQLObservation
from sql_env.server.served_environment import ResetOptionError, ServedEnvironment, problems_of
from sql_env.server.settings import ServerSettings
from sql_env.server.traffic import Bucket

CLOSED_FOR_IDLENESS = 4408
CLOSED_FOR_CAPACITY = 1013  # "try again later"
_LONGEST_ACTION_TYPE = 100

_INCOMING: TypeAdapter[Any] = TypeAdapter(WSIncomingMessage)
_PLAY_ERRORS = (EpisodeError, UnknownQuestionError, ResetOptionError)


class Refusal(NamedTuple):
    """Why a message is not passed on."""

    code: str
    message: str
    retry_after_s: float | None = None

    @property
    def frame(self) -> str:
        """An error as OpenEnv's clients read it."""
        data = {name: value for name, value in self._asdict().items() if value is not None}
        return to_json({"type": "error", "data": data}).decode()


class Session:
    """A connection with its environment."""

    def __init__(self, env: ServedEnvironment, rate: float, now: float) -> None:
        self.env = env
        self.bucket = Bucket(rate, now)
        self.silent_since = now
        self.waiting: asyncio.Timeout | None = None
        self.leaving = False


class Sessions:
    """The ASGI application of `/ws`, and all sessions of this process.

    Args:
        make: a new environment.
        settings: the bounds.
    """

    def __init__(self, make: Callable[[], ServedEnvironment], settings: ServerSettings) -> None:
        self._make = make
        self._settings = settings
        self._sessions: set[Session] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # the handshake
        with suppress(OSError):  # the client has gone: there is nobody to tell
            await send({"type": "websocket.accept"})
            if not self._has_room():
                await end_with(send, self._full(), CLOSED_FOR_CAPACITY)
                return
            now = asyncio.get_running_loop().time()
            session = Session(self._make(), self._settings.messages_per_second, now)
            self._sessions.add(session)
            try:
                await self._serve(session, receive, send)
            finally:
                self._sessions.discard(session)
                session.env.close()

    # -- places ------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        if len(self._sessions) < self._settings.max_sessions:
            return True
        before = asyncio.get_running_loop().time() - self._settings.request_seconds
        unused = [
            session
            for session in self._sessions
            if session.waiting and session.silent_since < before and not session.env.playing
        ]
        if not unused:
            return False
        leaving = min(unused, key=lambda session: session.silent_since)
        assert leaving.waiting is not None
        leaving.waiting.reschedule(before)  # in the past: its wait ends now
        leaving.leaving = True
        self._sessions.discard(leaving)
        return True

    def _full(self) -> Refusal:
        there, most = len(self._sessions), self._settings.max_sessions
        return Refusal(
            WSErrorCode.CAPACITY_REACHED,
            f"all places are taken ({there}/{most} sessions): try again later",
        )

    # -- messages ----------------------------------------------------------------------------

    async def _serve(self, session: Session, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        while True:
            session.silent_since = loop.time()
            try:
                async with asyncio.timeout(self._settings.idle_seconds) as session.waiting:
                    message = await receive()
            except TimeoutError:
                silent = self._settings.idle_seconds
                why = "to make room" if session.leaving else f"after {silent:g} s without a message"
                said = f"closed {why}: connect again and reset"
                await end_with(send, Refusal("SESSION_IDLE", said), CLOSED_FOR_IDLENESS)
                return
            session.waiting = None
            if message["type"] != "websocket.receive":
                return
            answer = await self._answer(session, message)
            if answer is None:
                await send({"type": "websocket.close"})
                return
            await send({"type": "websocket.send", "text": answer})

    async def _answer(self, session: Session, received: Message) -> str | None:
        """What is said to a message; None is a farewell."""
        now = asyncio.get_running_loop().time()
        message = self._read(received.get("text"), session.bucket, now)
        try:
            match message:
                case Refusal():
                    return message.frame
                case WSCloseMessage():
                    return None
                case WSStateMessage():
                    state = session.env.state.model_dump()
                    return to_json({"type": "state", "data": state}).decode()
                case WSStepMessage():
                    action = SQLAction.model_validate(message.data)
                    if len(action.action_type) > _LONGEST_ACTION_TYPE:  # all later answers have it
                        problem = f"action_type is longer than {_LONGEST_ACTION_TYPE} characters"
                        return Refusal(WSErrorCode.VALIDATION_ERROR, problem).frame
                    return _frame(await session.env.step_async(action))
                case WSResetMessage():
                    return _frame(await session.env.reset_async(**message.data))
        except ValidationError as error:
            problem = f"an action cannot be read: {problems_of(error)}"
            return Refusal(WSErrorCode.VALIDATION_ERROR, problem).frame
        except _PLAY_ERRORS as error:
            return Refusal(WSErrorCode.EXECUTION_ERROR, str(error)).frame
        raise AssertionError(message)

    def _read(self, text: str | None, bucket: Bucket, now: float) -> Any:
        """The message in a frame, or why there is none."""
        if text is None:
            return Refusal("NOT_TEXT", "a binary frame: send JSON as a text frame")
        if wait := bucket.take(now):
            return Refusal(
                "RATE_LIMITED",
                f"more than {self._settings.messages_per_second:g} messages a second: "
                f"wait {max(1, round(wait * 1000))} ms and send this one again",
                retry_after_s=wait,
            )
        # A character takes at most four bytes, so most messages need no encoding to be measured.
        bound = self._settings.max_message_bytes
        if len(text) * 4 > bound and (size := len(text.encode())) > bound:
            return Refusal(
                "MESSAGE_TOO_LARGE", f"the message has {size:,} bytes, the limit is {bound:,}"
            )
        try:
            return _INCOMING.validate_python(from_json(text, allow_inf_nan=False))
        except ValidationError as error:
            known = "reset, step, state and close"
            if error.errors()[0]["type"].startswith("union_tag"):
                return Refusal(WSErrorCode.UNKNOWN_TYPE, f"the types of messages are {known}")
            return Refusal(WSErrorCode.VALIDATION_ERROR, f"not a message: {problems_of(error)}")
        except ValueError as error:
            return Refusal(WSErrorCode.INVALID_JSON, f"not JSON: {error}")


async def end_with(send: Send, refusal: Refusal, code: int = 1000) -> None:
    """Say why, and close the connection."""
    await send({"type": "websocket.send", "text": refusal.frame})
    await send({"type": "websocket.close", "code": code, "reason": refusal.code})


def _frame(observation: SQLObservation) -> str:
    """An observation as OpenEnv's clients read it."""
    data = serialize_observation(observation)
    return to_json({"type": "observation", "data": data}, inf_nan_mode="null").decode()
