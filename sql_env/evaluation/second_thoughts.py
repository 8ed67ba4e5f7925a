"""What a model would have written instead: the likeliest other turns, without dice.

While a turn is written, the likeliest tokens at each place are noted. Wherever another token might
have stood, a different turn begins; the one whose beginning is likeliest is the first second
thought, and the model writes it to its end, greedily. Drawing at random would mostly find the same
turn again, for a trained model is sure of itself, and would depend on what else is in the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

TokenGenerator = Callable[[list[list[int]]], list[list[int]]]
"""Contexts in, completions out: token ids without the context, up to and with the stop token."""

Choices = list[list[tuple[int, float]]]
"""At each place of a turn the likeliest tokens and their log-probabilities, its own among them."""


class NotingGenerator(Protocol):
    """A generator that notes what else it might have written."""

    choices: list[Choices]
    """Of the turns of the last call."""

    def __call__(self, contexts: list[list[int]]) -> list[list[int]]:
        """The completions of contexts."""
        ...


class SecondThoughts:
    """Other turns than those that a model wrote last.

    Args:
        player: wrote the turns, and noted its choices.
        writer: finishes others, greedily; keeps its own cache, apart from the one that plays.
        stop_ids: tokens that end a turn.
        max_new_tokens: a turn is cut there.
    """

    def __init__(
        self,
        player: NotingGenerator,
        writer: TokenGenerator,
        *,
        stop_ids: Iterable[int],
        max_new_tokens: int = 256,
    ) -> None:
        self._player = player
        self._writer = writer
        self._stop_ids = frozenset(stop_ids)
        self._max_new_tokens = max_new_tokens

    def openings(self, number: int, turn: Sequence[int]) -> list[list[int]]:
        """How others than the turn of that number in the last call begin, the likeliest first."""
        found: list[tuple[float, list[int]]] = []
        so_far = 0.0
        for place, (own, choices) in enumerate(
            zip(turn, self._player.choices[number], strict=True)
        ):
            found += [
                (so_far + chance, [*turn[:place], token])
                for token, chance in choices
                if token != own
            ]
            so_far += choices[0][1]  # its own was the likeliest
        return [opening for _, opening in sorted(found, key=lambda one: -one[0])]

    def written(
        self, contexts: Sequence[list[int]], openings: Sequence[list[int]]
    ) -> list[list[int]]:
        """The turns that begin so. One that ends where it parts from the first is whole already."""
        turns = [list(opening) for opening in openings]
        begun = [number for number, turn in enumerate(turns) if turn[-1] not in self._stop_ids]
        if begun:
            endings = self._writer([[*contexts[number], *turns[number]] for number in begun])
            for number, ending in zip(begun, endings, strict=True):
                turns[number] = [*turns[number], *ending][: self._max_new_tokens]
        return turns
