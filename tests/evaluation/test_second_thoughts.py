"""Which other turns come to mind, in which order, and how they end."""

from __future__ import annotations

from sql_env.evaluation.second_thoughts import Choices, SecondThoughts

STOP = 9


class Player:
    """Wrote one turn, 1 2 STOP, and noted what else was likely."""

    def __init__(self) -> None:
        self.choices: list[Choices] = [
            [
                [(1, -0.1), (5, -2.5)],
                [(2, -0.5), (STOP, -1.0), (6, -4.0)],
                [(STOP, -0.2), (7, -1.8)],
            ]
        ]

    def __call__(self, contexts: list[list[int]]) -> list[list[int]]:
        return [[1, 2, STOP] for _ in contexts]


def thoughts(written: list[list[int]], max_new_tokens: int = 8) -> SecondThoughts:
    def write(begun: list[list[int]]) -> list[list[int]]:
        written.extend(begun)
        return [[8, 8, STOP] for _ in begun]

    return SecondThoughts(Player(), write, stop_ids=[STOP], max_new_tokens=max_new_tokens)


def test_the_likeliest_beginning_comes_first() -> None:
    """By all tokens up to where they part: -1.1, -2.4, -2.5, -4.1."""
    openings = thoughts([]).openings(0, [1, 2, STOP])
    assert openings == [[1, STOP], [1, 2, 7], [5], [1, 6]]


def test_one_that_ends_where_it_parts_is_not_written_on() -> None:
    written: list[list[int]] = []
    turns = thoughts(written).written([[3], [4]], [[1, STOP], [5]])
    assert turns == [[1, STOP], [5, 8, 8, STOP]]
    assert written == [[4, 5]]


def test_none_is_longer_than_a_turn_may_be() -> None:
    (turn,) = thoughts([], max_new_tokens=3).written([[3]], [[1, 2]])
    assert turn == [1, 2, 8]
