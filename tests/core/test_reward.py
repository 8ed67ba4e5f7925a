"""The reward of single steps, with the published values."""

from __future__ import annotations

from typing import Any

import pytest

from sql_env.core.database import ErrorKind, QueryResult
from sql_env.core.gold import Gold
from sql_env.core.reward import RESULTS_COMPARED, RewardConfig, RewardParts, RewardTracker

GOLD = Gold(("name",), (("Ann",), ("Bob",)))
READ = frozenset({("singer", "name")})
EMPTY = QueryResult(("name",), (), READ)
NOTHING = QueryResult(("name",), (("Zoe",),) * 9, READ)
RIGHT = QueryResult(("name",), GOLD.rows, READ)
HALF = QueryResult(("name",), (("Ann",),), READ)
CONSTANT = QueryResult(("1",), ((1,),))
FAILED = QueryResult(error="no such table: x", error_kind=ErrorKind.NO_TABLE)


def reads(*columns: str, table: str = "singer") -> QueryResult:
    return QueryResult(("n",), ((table,),), frozenset((table, column) for column in columns))


def query(tracker: RewardTracker, sql: str, result: QueryResult) -> RewardParts:
    return tracker.step("QUERY", sql, result=result, ok=result.ok)


def test_what_is_seen_first_earns_its_bonus_less_the_step() -> None:
    parts = query(RewardTracker(GOLD), "SELECT name FROM singer", NOTHING)
    assert parts == pytest.approx((0.02 + 0.01 - 0.005, 0, 0))


@pytest.mark.parametrize("result", [CONSTANT, EMPTY, NOTHING, reads("")])
def test_what_shows_nothing_new_costs_the_step(result: QueryResult) -> None:
    tracker = RewardTracker(GOLD)
    tracker.step("DESCRIBE", "singer", result=reads("name"), ok=True)
    assert query(tracker, "SELECT 1", result).operational == pytest.approx(-0.005)


def test_a_count_shows_no_column_of_its_table() -> None:
    tracker = RewardTracker(GOLD)
    assert query(tracker, "SELECT count(*) FROM singer", reads("")).operational < 0
    described = tracker.step("DESCRIBE", "singer", result=reads("name"), ok=True)
    assert described.operational == pytest.approx(0.025)


def test_an_action_that_fails_costs_the_step() -> None:
    parts = query(RewardTracker(GOLD), "SELECT x", FAILED)
    assert parts == pytest.approx((-0.005, 0, 0))


def test_each_new_table_and_column_earns_once() -> None:
    tracker = RewardTracker(GOLD)
    first = tracker.step("DESCRIBE", "singer", result=reads("id", "name"), ok=True)
    assert first.operational == pytest.approx(0.015 + 0.02)
    again = query(tracker, "SELECT name, age FROM singer", reads("name", "age"))
    assert again.operational == pytest.approx(0.01 - 0.005)
    other = query(tracker, "SELECT title FROM song", reads("title", table="song"))
    assert other.operational == pytest.approx(0.025)


def test_it_does_not_matter_in_how_many_steps_the_same_is_seen_but_for_their_price() -> None:
    together, apart = RewardTracker(GOLD), RewardTracker(GOLD)
    once = query(together, "SELECT a, b, c FROM singer", reads("a", "b", "c")).operational
    each = [query(apart, f"SELECT {c} FROM singer", reads(c)).operational for c in "abc"]
    assert sum(each) == pytest.approx(once - 2 * 0.005)


def test_what_is_seen_is_paid_up_to_a_cap_in_an_episode() -> None:
    tracker = RewardTracker(GOLD)
    wide = tracker.step("DESCRIBE", "a", result=reads(*"abcdefg", table="a"), ok=True)
    rest = tracker.step("DESCRIBE", "b", result=reads(*"ijklmnop", table="b"), ok=True)
    none = tracker.step("DESCRIBE", "c", result=reads(*"qrst", table="c"), ok=True)
    assert [p.operational for p in (wide, rest, none)] == pytest.approx([0.085, 0.005, -0.005])


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


@pytest.mark.parametrize(("one", "other"), [("'usa'", "'USA'"), ('"usa"', '"USA"')])
def test_another_literal_is_another_query(one: str, other: str) -> None:
    tracker = RewardTracker(GOLD)
    query(tracker, f"SELECT name FROM singer WHERE name = {one}", NOTHING)
    query(tracker, f"SELECT name FROM singer WHERE name = {other}", NOTHING)
    assert not tracker.repeated


def test_a_failed_action_is_repeated_at_a_price_too() -> None:
    tracker = RewardTracker(GOLD)
    query(tracker, "SELECT x", FAILED)
    assert query(tracker, "SELECT x", FAILED).operational == pytest.approx(-0.015)


def test_an_answer_that_counts_is_no_repeat_of_one_that_did_not() -> None:
    tracker = RewardTracker(GOLD)
    tracker.step("ANSWER", "@last", ok=False)
    query(tracker, "SELECT name FROM singer", RIGHT)
    answer = tracker.step("ANSWER", "@last", ok=True, correct=True)
    assert answer.operational == pytest.approx(-0.005) and not tracker.repeated


def test_progress_is_what_the_best_result_gains() -> None:
    tracker = RewardTracker(GOLD)
    results = [HALF, NOTHING, HALF, RIGHT, NOTHING]
    gained = [
        query(tracker, f"SELECT name AS n{i} FROM singer", r).progress
        for i, r in enumerate(results)
    ]
    assert gained == pytest.approx([0.075, 0, 0, 0.075, 0])


def test_a_right_answer_is_as_close_as_can_be() -> None:
    tracker = RewardTracker(GOLD)
    query(tracker, "SELECT name FROM singer", HALF)
    assert tracker.step("ANSWER", "x", ok=True, correct=True).progress == pytest.approx(0.075)


def test_what_reads_no_table_earns_no_progress() -> None:
    guess = QueryResult(("name",), GOLD.rows)
    assert query(RewardTracker(GOLD), "VALUES ('Ann'), ('Bob')", guess).progress == 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'Ann' FROM singer UNION SELECT name FROM singer",
        'SELECT "Ann" FROM singer',
        "SELECT 'A' || 'nn' FROM singer WHERE name > ''",
        "SELECT char(65, 110, 110) FROM singer",
        "SELECT CASE WHEN name > '' THEN 'Ann' END FROM singer",
        "SELECT name FROM singer WHERE name IN ('Ann', 'Bob')",
        "SELECT name = 'Ann', 'Bob' FROM singer",
        "SELECT n FROM (SELECT max(34, 0) AS n FROM singer)",
        "SELECT count(*) * 0 + 34 FROM singer",
        "SELECT name FROM singer, (VALUES ('Ann'))",
    ],
)
def test_what_the_agent_wrote_itself_earns_nothing(sql: str) -> None:
    assert query(RewardTracker(GOLD), sql, RIGHT) == pytest.approx((-0.005, 0, 0))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name FROM singer WHERE age > 30 AND NOT city LIKE '%x' OR 3 = age LIMIT 5, 2",
        "SELECT \"name\" AS 'n' FROM singer WHERE age BETWEEN -1 AND 9 AND city IN ('a', \"b\")",
        "SELECT name FROM singer WHERE EXISTS (SELECT 1 FROM song) AND x IS NOT NULL ORDER BY 1",
        'WITH "c" AS (SELECT * FROM singer) SELECT "T1"."name" FROM "c" AS "T1" JOIN "c" AS "T2"',
        "SELECT [name 1], `2` FROM singer GROUP BY 1, 2 HAVING count(*) >= 2 ORDER BY 1 DESC, 2",
    ],
)
def test_literals_that_only_choose_among_values_cost_nothing(sql: str) -> None:
    assert query(RewardTracker(GOLD), sql, RIGHT) == pytest.approx((0.025, 0.15, 0))


@pytest.mark.parametrize("first", ["QUERY", "SAMPLE"])
def test_values_that_were_returned_before_earn_no_progress(first: str) -> None:
    tracker = RewardTracker(GOLD)
    everything = QueryResult(("id", "name"), ((1, "Ann"), (2, "Bob"), (3, "Cy")), READ)
    tracker.step(first, "SELECT id, name FROM singer", result=everything, ok=True)
    assert query(tracker, "SELECT name AS n FROM singer LIMIT 2", RIGHT).progress == 0


def test_an_empty_result_earns_nothing() -> None:
    tracker = RewardTracker(Gold(("name",), ()))
    assert query(tracker, "SELECT name FROM singer", EMPTY) == pytest.approx((-0.005, 0, 0))


def test_only_the_first_results_are_compared_with_gold() -> None:
    tracker = RewardTracker(GOLD)
    for i in range(RESULTS_COMPARED):
        query(tracker, f"SELECT name AS n{i} FROM singer", NOTHING)
    assert query(tracker, "SELECT name FROM singer", RIGHT).progress == 0


def test_a_failed_query_leaves_progress_where_it_is() -> None:
    tracker = RewardTracker(GOLD)
    query(tracker, "SELECT name FROM singer", RIGHT)
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
    assert right.total == pytest.approx(0.995 + 0.15)


def test_the_sum_of_shaping_stays_within_bounds() -> None:
    low, high = RewardTracker(GOLD), RewardTracker(GOLD, RewardConfig(new_information_cap=9.0))
    least = sum(query(low, "SELECT x", FAILED).total for _ in range(100))
    results = [QueryResult(("a",), GOLD.rows, frozenset({(str(i), "a")})) for i in range(100)]
    most = sum(query(high, f"SELECT a FROM t{i}", result).total for i, result in enumerate(results))
    assert least == pytest.approx(-0.2)
    assert most == pytest.approx(0.5)


def test_binary_is_the_terminal_reward_alone() -> None:
    tracker = RewardTracker(GOLD, RewardConfig.binary())
    steps = [
        tracker.step("DESCRIBE", "singer", result=reads("a"), ok=True),
        query(tracker, "SELECT 1", RIGHT),
        query(tracker, "SELECT 1", RIGHT),
        tracker.step("ANSWER", "x", ok=True, correct=True),
    ]
    assert steps == [(0, 0, 0)] * 3 + [(0, 0, 1)]


def test_the_ranges_that_are_declared_follow_from_the_values() -> None:
    assert RewardConfig().step_range == (-0.015, 1.15)
    assert RewardConfig().episode_range == (-0.2, 1.25)
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
