"""The reward of single steps, with the published values."""

from __future__ import annotations

from typing import Any

import pytest

from sql_env.core.database import ErrorKind, QueryResult
from sql_env.core.gold import Gold
from sql_env.core.reward import RewardConfig, RewardParts, RewardTracker

GOLD = Gold(("name",), (("Ann",), ("Bob",)))
NOTHING = QueryResult(("n",), (), frozenset())
RIGHT = QueryResult(("name",), GOLD.rows, frozenset())
HALF = QueryResult(("name",), (("Ann",),), frozenset())
FAILED = QueryResult(error="no such table: x", error_kind=ErrorKind.NO_TABLE)


def reads(*columns: str) -> QueryResult:
    return QueryResult(("n",), (), frozenset(("singer", column) for column in columns))


def query(tracker: RewardTracker, sql: str, result: QueryResult) -> RewardParts:
    return tracker.step("QUERY", sql, result=result, ok=result.ok)


def test_an_action_that_works_earns_its_bonus_less_the_step() -> None:
    parts = query(RewardTracker(GOLD), "SELECT 1", NOTHING)
    assert parts == pytest.approx((0.02 - 0.005, 0, 0))


def test_an_action_that_fails_costs_the_step() -> None:
    parts = query(RewardTracker(GOLD), "SELECT x", FAILED)
    assert parts == pytest.approx((-0.005, 0, 0))


def test_each_new_column_earns_once() -> None:
    tracker = RewardTracker(GOLD)
    first = tracker.step("DESCRIBE", "singer", result=reads("id", "name"), ok=True)
    assert first.operational == pytest.approx(0.015 + 0.02)
    again = query(tracker, "SELECT name, age FROM singer", reads("name", "age"))
    assert again.operational == pytest.approx(0.015 + 0.01)


def test_new_information_is_capped_over_the_episode() -> None:
    tracker = RewardTracker(GOLD)
    wide = tracker.step("DESCRIBE", "a", result=reads(*"abcdefgh"), ok=True)
    rest = tracker.step("DESCRIBE", "b", result=reads(*"ijklmnop"), ok=True)
    none = tracker.step("DESCRIBE", "c", result=reads(*"qrst"), ok=True)
    assert [p.operational for p in (wide, rest, none)] == pytest.approx([0.095, 0.035, 0.015])


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ("QUERY: SELECT a FROM t", "QUERY: select  a\nFROM t;"),
        ("QUERY: SELECT a FROM t", "QUERY: SELECT a FROM t -- once more"),
        ("DESCRIBE: singer", 'DESCRIBE: "Singer"'),
        ("SAMPLE: singer", "SAMPLE: [singer];"),
        ("ANSWER: [1", "ANSWER:  [1"),
    ],
)
def test_a_repeat_earns_nothing_and_costs(first: str, again: str) -> None:
    tracker = RewardTracker(GOLD)
    tracker.step(*first.split(": ", 1), result=reads("a"), ok=True)
    parts = tracker.step(*again.split(": ", 1), result=reads("b"), ok=True)
    assert parts == pytest.approx((-0.005 - 0.01, 0, 0))


def test_another_literal_is_another_query() -> None:
    tracker = RewardTracker(GOLD)
    query(tracker, "SELECT 1 WHERE 'usa' = 'x'", NOTHING)
    assert query(tracker, "SELECT 1 WHERE 'USA' = 'x'", NOTHING).operational > 0


def test_a_failed_action_is_repeated_at_a_price_too() -> None:
    tracker = RewardTracker(GOLD)
    query(tracker, "SELECT x", FAILED)
    assert query(tracker, "SELECT x", FAILED).operational == pytest.approx(-0.015)


def test_progress_is_gained_and_lost_again() -> None:
    tracker = RewardTracker(GOLD)
    gained = query(tracker, "SELECT 1", RIGHT).progress
    lost = query(tracker, "SELECT 2", NOTHING).progress
    regained = query(tracker, "SELECT 3", HALF).progress
    assert (gained, lost) == (0.15, -0.15)
    assert regained == pytest.approx(0.075)


def test_the_same_result_by_another_query_is_no_progress() -> None:
    tracker = RewardTracker(GOLD)
    query(tracker, "SELECT 1", RIGHT)
    assert query(tracker, "SELECT 2", RIGHT).progress == 0


def test_the_way_back_to_a_better_result_is_not_paid_for_a_repeat() -> None:
    tracker = RewardTracker(GOLD)
    query(tracker, "SELECT 1", RIGHT)
    query(tracker, "SELECT 2", NOTHING)
    assert query(tracker, "SELECT 1", RIGHT).progress == 0


def test_a_failed_query_leaves_progress_where_it_is() -> None:
    tracker = RewardTracker(GOLD)
    query(tracker, "SELECT 1", RIGHT)
    assert query(tracker, "SELECT x", FAILED).progress == 0


def test_looking_at_a_table_is_no_progress() -> None:
    parts = RewardTracker(GOLD).step("SAMPLE", "singer", result=RIGHT, ok=True)
    assert parts.progress == 0


def test_an_answer_is_worth_one_or_nothing() -> None:
    right = RewardTracker(GOLD).step("ANSWER", "x", ok=True, correct=True)
    wrong = RewardTracker(GOLD).step("ANSWER", "x", ok=True, correct=False)
    unusable = RewardTracker(GOLD).step("ANSWER", "[", ok=False)
    assert [p.terminal for p in (right, wrong, unusable)] == [1, 0, 0]
    assert [p.operational for p in (right, wrong, unusable)] == [-0.005] * 3
    assert right.total == pytest.approx(0.995)


def test_the_sum_of_shaping_stays_within_bounds() -> None:
    low, high = RewardTracker(GOLD), RewardTracker(GOLD)
    least = sum(query(low, "SELECT x", FAILED).total for _ in range(100))
    most = sum(query(high, f"SELECT {i}", RIGHT).total for i in range(100))
    assert least == pytest.approx(-0.2)
    assert most == pytest.approx(0.5)


def test_at_the_lower_bound_a_loss_and_its_return_cancel() -> None:
    tracker = RewardTracker(GOLD)
    query(tracker, "SELECT 1", RIGHT)
    for _ in range(100):
        query(tracker, "SELECT x", FAILED)
    before = [query(tracker, f"SELECT {i}", [NOTHING, RIGHT][i % 2]).total for i in range(2, 12)]
    assert sum(before) <= 10 * 0.015


def test_binary_is_the_terminal_reward_alone() -> None:
    tracker = RewardTracker(GOLD, RewardConfig.binary())
    steps = [
        tracker.step("DESCRIBE", "singer", result=reads("a"), ok=True),
        query(tracker, "SELECT 1", RIGHT),
        query(tracker, "SELECT 1", RIGHT),
        tracker.step("ANSWER", "x", ok=True, correct=True),
    ]
    assert steps == [(0, 0, 0)] * 3 + [(0, 0, 1)]


def test_the_declared_ranges() -> None:
    assert RewardConfig().step_range == (-0.165, 1.0)
    assert RewardConfig().episode_range == (-0.2, 1.5)
    assert RewardConfig.binary().step_range == (0, 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"exec_ok": -1}, "exec_ok is -1: it is a bonus"),
        ({"step": 0.1}, "step is 0.1: it is a price"),
        ({"progress_bins": 1}, "two levels"),
        ({"shaping_min": 0.1}, "must enclose 0"),
        ({"correct": 0.7}, "a wrong episode can beat a right one"),
    ],
)
def test_values_that_break_a_promise_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RewardConfig(**values)
