"""A language model plays: the turns of all running episodes are generated together."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from sql_env.agent.conversation import ChatLayout, ContextWindowError, Conversation
from sql_env.agent.generation import Completion, Generator
from sql_env.agent.guided import TRIES, Replaced
from sql_env.agent.prompts import V1, Prompt
from sql_env.agent.turns import Dialogue
from sql_env.models import SQLAction, SQLObservation


class ModelPolicy:
    """A causal language model behind a generator.

    Args:
        generator: writes the turns; it may leave some unfinished.
        layout: how the model's chat template lays the turns out; it knows `prompt.tools`.
        prompt: how the model is spoken to, and how it writes its actions.
        max_tokens: the model's window for context and completion together.
        max_new_tokens: the part of the window that a completion may need.
        room: how many episodes at once there is memory for; None for any number.
        resampler: for guided decoding; over the same model, drawing at a temperature. None plays
            every turn as the model wrote it.
    """

    def __init__(
        self,
        generator: Generator,
        layout: ChatLayout,
        *,
        prompt: Prompt = V1,
        max_tokens: int | None = None,
        max_new_tokens: int = 256,
        room: int | None = None,
        resampler: Generator | None = None,
    ) -> None:
        self.room = room
        self._generator = generator
        self._resampler = resampler
        self._layout = layout
        self._prompt = prompt
        self._max_tokens = max_tokens
        self._max_new_tokens = max_new_tokens
        self._dialogues: dict[int, Dialogue] = {}
        self._talks: dict[int, Conversation] = {}
        self._begun: dict[int, Completion] = {}  # turns that are being written
        self._written_before: dict[int, deque[Sequence[int]]] = {}

    def begin(self) -> None:
        """New episodes start, perhaps with new weights."""
        self._generator.begin()

    def continue_from(self, episode: int, turns: Sequence[Sequence[int]]) -> None:
        """Begin this episode with `turns`, which are not trained on: see `ContinuingPolicy`."""
        self._written_before[episode] = deque(turns)

    def act(self, new: Mapping[int, SQLObservation]) -> dict[int, SQLAction | Exception]:
        """The actions of the episodes whose turn is finished; see `BatchPolicy`."""
        chosen: dict[int, SQLAction | Exception] = {}
        for episode, observation in new.items():
            try:
                action = self._listen(episode, observation)
            except ContextWindowError as error:
                chosen[episode] = error
            else:
                if action is not None:
                    chosen[episode] = action
        if chosen:  # those who write next write together
            return chosen
        if known := [episode for episode in self._begun if self._written_before.get(episode)]:
            return {episode: self._say_again(episode) for episode in known}
        asked = [episode for episode in self._talks if episode in self._begun]
        contexts = [self._context(episode) for episode in asked]
        for episode, part in zip(asked, self._generator.generate(contexts), strict=True):
            self._begun[episode] = self._begun[episode].then(part)
        turns = {e: self._begun.pop(e) for e in asked if self._begun[e].finished}
        replaced = self._replaced(turns) if self._resampler else {}
        for episode, turn in turns.items():
            talk = self._talks[episode]
            trace: dict[str, Any] = {
                "prompt_tokens": len(talk.context_ids),
                "completion_tokens": len(turn.ids),
            }
            if turn.ids[-1] not in self._layout.stop_ids:
                trace["cut_off"] = True
            if episode in replaced:
                turn, noted = replaced[episode]
                trace |= noted
            text = talk.add_completion(turn.ids, turn.logprobs)
            chosen[episode] = self._dialogues[episode].understand(text, **trace)
        return chosen

    def written(self, episode: int) -> str:
        """What an unfinished turn says so far."""
        return self._layout.decode(self._begun[episode].ids) if episode in self._begun else ""

    def end(self, episode: int) -> Conversation | None:
        """Forget an episode; what was said in it."""
        self._begun.pop(episode, None)
        self._written_before.pop(episode, None)
        self._dialogues.pop(episode, None)
        return self._talks.pop(episode, None)

    def release(self) -> None:
        """Give back the memory that the generators hold."""
        for generator in (self._generator, self._resampler):
            if generator is not None:
                generator.release()

    def _listen(self, episode: int, observation: SQLObservation) -> SQLAction | None:
        """Take in what came of the last action; the next one of the same turn, if there is one."""
        if not observation.step_count:
            guided = self._resampler is not None
            self._dialogues[episode] = Dialogue(self._prompt, guided=guided)
        dialogue = self._dialogues[episode]
        dialogue.hear(observation)
        if action := dialogue.go_on():
            return action
        reading = dialogue.reading()
        if not observation.step_count:
            self._talks[episode] = Conversation(
                self._layout,
                self._prompt.system,
                reading.text,
                max_tokens=self._max_tokens,
                reserve=self._max_new_tokens,
            )
        elif reading.of_tools:
            self._talks[episode].add_tool_results(reading.texts)
        else:
            self._talks[episode].add_observation(reading.text)
        self._begun[episode] = Completion([], [])
        return None

    def _say_again(self, episode: int) -> SQLAction:
        """The next turn of those that were written before."""
        del self._begun[episode]
        turn = self._written_before[episode].popleft()
        text = self._talks[episode].add_completion(turn, trained=False)
        return self._dialogues[episode].understand(text, said_again=True)

    def _context(self, episode: int) -> list[int]:
        return self._talks[episode].context_ids + self._begun[episode].ids

    def _replaced(
        self, turns: Mapping[int, Completion]
    ) -> dict[int, tuple[Completion, dict[str, Any]]]:
        """Other turns for those that guided decoding objects to, where one is found; their cost."""
        assert self._resampler is not None
        reasons = {e: self._objection(e, t) for e, t in turns.items()}
        open_ones = [episode for episode, reason in reasons.items() if reason]
        spent = dict.fromkeys(open_ones, 0)
        found: dict[int, tuple[Completion, dict[str, Any]]] = {}
        for _ in range(TRIES):
            if not open_ones:
                break
            contexts = [self._talks[episode].context_ids for episode in open_ones]
            for episode, turn in zip(open_ones, self._resampler.generate(contexts), strict=True):
                spent[episode] += len(turn.ids)
                if not self._objection(episode, turn):
                    original = self._layout.decode(turns[episode].ids)
                    noted = Replaced(original, reasons[episode], spent[episode])
                    found[episode] = turn, {"replaced": noted._asdict()}
            open_ones = [episode for episode in open_ones if episode not in found]
        for episode in open_ones:
            kept = {"reason": reasons[episode], "extra_tokens": spent[episode]}
            found[episode] = turns[episode], {"kept": kept}
        return found

    def _objection(self, episode: int, turn: Completion) -> str:
        return self._dialogues[episode].objection(self._layout.decode(turn.ids))
