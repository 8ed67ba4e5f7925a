"""The policies that a visitor may watch, and how they think for many visitors at once.

Which there are is said when the server starts (`sql-env serve --policy …`); nothing that a visitor
sends is ever loaded. A policy thinks in one thread of its own, never in the event loop. It writes a
few turns side by side; the others wait in a line that has an end, and who leaves is out of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from sql_env.agent.choice import ModelOptions, build_policy
from sql_env.agent.playing import OneByOne, ran_out_of_memory
from sql_env.agent.policies import BatchPolicy, WritingPolicy
from sql_env.models import QuestionRecord, SQLAction, SQLObservation
from sql_env.server.settings import ServerSettings

TOGETHER = 4
LONGEST_LINE = 16
# Each is shown as it comes; a call of the engine costs little beside the token itself.
_TOKENS_AT_ONCE = 1

_log = logging.getLogger(__name__)


class BusyError(RuntimeError):
    """More turns wait for a policy than it will come to soon."""


class PolicyFailedError(RuntimeError):
    """A policy could not take its turn; the server's log says why."""


class Progress(NamedTuple):
    """How a turn is coming along: how many wait before it, or what is written of it."""

    ahead: int = 0
    text: str = ""


News = asyncio.Queue["Progress | SQLAction | PolicyFailedError"]


class _Turn:
    def __init__(self, observation: SQLObservation) -> None:
        self.observation = observation
        self.news: News = asyncio.Queue()
        self.begun = False
        self._last = Progress()

    def tell(self, progress: Progress) -> None:
        if progress != self._last:
            self.news.put_nowait(progress)
        self._last = progress


class Player:
    """One policy, for all who watch it.

    Everything here belongs to the event loop, except the calls of the policy: those all happen in
    its thread.
    """

    def __init__(self, policy: BatchPolicy) -> None:
        self._policy = policy
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="policy")
        self._line: dict[int, _Turn] = {}  # by episode; the first few are being written
        self._left: set[int] = set()
        self._thinking: asyncio.Task[None] | None = None

    def ask(self, episode: int, observation: SQLObservation) -> News:
        """Begin a turn.

        Args:
            episode: a number of its own; `leave` it when it is over.
            observation: what came of the last action.

        Returns:
            How the turn is coming along, and at last the action, or the error that ends the
            episode.

        Raises:
            BusyError: the line is too long.
        """
        if len(self._line) >= TOGETHER + LONGEST_LINE:
            raise BusyError(
                f"{len(self._line)} turns already wait for this policy: try again later"
            )
        turn = self._line[episode] = _Turn(observation)
        self._think()
        return turn.news

    def leave(self, episode: int) -> None:
        """Forget an episode, wherever it stands."""
        self._line.pop(episode, None)
        self._left.add(episode)
        self._think()

    def _think(self) -> None:
        if self._thinking is None or self._thinking.done():
            self._thinking = asyncio.create_task(self._go_on())

    async def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        while self._left or self._line:
            left, self._left = self._left, set()
            writing = dict(islice(self._line.items(), TOGETHER))
            for number, turn in enumerate(islice(self._line.values(), TOGETHER, None)):
                turn.tell(Progress(ahead=number + 1))
            new = {n: turn.observation for n, turn in writing.items() if not turn.begun}
            for turn in writing.values():
                turn.begun = True
            actions, texts = await loop.run_in_executor(
                self._thread, self._act, left, new, list(writing)
            )
            for episode, text in texts.items():
                writing[episode].tell(Progress(text=text))
            for episode, action in actions.items():
                # It may have been left meanwhile.
                if self._line.pop(episode, None):
                    writing[episode].news.put_nowait(action)

    def _act(
        self, left: set[int], new: dict[int, SQLObservation], writing: Sequence[int]
    ) -> tuple[Mapping[int, SQLAction | PolicyFailedError], dict[int, str]]:
        """In the policy's thread: its actions, and what is written of the others' turns."""
        for episode in left:
            self._policy.end(episode)
        if not writing:
            return {}, {}
        try:
            actions = self._policy.act(new)
        # Whatever goes wrong in a model ends these episodes, not the server.
        except Exception as error:
            if ran_out_of_memory(error):
                self._policy.release()
            return dict.fromkeys(writing, _failure(error)), {}
        going = [episode for episode in writing if episode not in actions]
        texts = {}
        if isinstance(self._policy, WritingPolicy):
            texts = {episode: self._policy.written(episode) for episode in going}
        return {
            episode: _failure(action) if isinstance(action, Exception) else action
            for episode, action in actions.items()
        }, texts


def _failure(error: Exception) -> PolicyFailedError:
    # Its own message may name what visitors should not see: a path, an address.
    _log.error("a policy could not go on", exc_info=error)
    kind = type(error).__name__
    return PolicyFailedError(f"the policy could not go on ({kind}): the server's log says why")


def load_players(
    settings: ServerSettings, questions: Sequence[QuestionRecord]
) -> dict[str, Player]:
    """The policies of this server, by the names that visitors see.

    Raises:
        PolicyChoiceError: a policy of the settings cannot be had here.
    """
    # The oracle plays the gold query for all to see.
    own = ["random"] if settings.hide_gold else ["random", "oracle"]
    players: dict[str, Player] = {}
    for choice in dict.fromkeys([*settings.policies, *own]):
        policy = build_policy(choice, questions, ModelOptions(at_once=_TOKENS_AT_ONCE))
        batch = policy if isinstance(policy, BatchPolicy) else OneByOne(policy)
        name, number = _name_of(choice), 1
        while name in players:
            number += 1
            name = f"{_name_of(choice)} ({number})"
        players[name] = Player(batch)
    return players


def how_to_have_a_model(settings: ServerSettings) -> str:
    """What to do for a language model to be among the policies; nothing where there is one."""
    if any(choice.startswith(("model:", "endpoint:")) for choice in settings.policies):
        return ""
    needed = " (after pip install '.[training]')" if find_spec("torch") is None else ""
    return (
        "To watch a language model, start the server with --policy model:PATH"
        f"{needed} or with --policy endpoint:MODEL@URL."
    )


def _name_of(choice: str) -> str:
    """What visitors read: never the folders of this machine, or an address."""
    kind, _, rest = choice.partition(":")
    if kind == "endpoint":
        return rest.rpartition("@")[0]
    if kind != "model":
        return choice
    path = Path(rest)
    # A run keeps its model in RUN/model.
    return path.parent.name if path.name == "model" and path.parent.name else path.name
