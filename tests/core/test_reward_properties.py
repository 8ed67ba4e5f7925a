"""Promises of the reward, kept over random episodes of the real environment."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sql_env.core.reward import RewardConfig
from sql_env.core.sql_text import normalize_sql
from sql_env.environment import SQLEnvironment
from sql_env.models import QuestionRecord, SQLAction, SQLObservation

# Words that stand in the gold query and the gold answer and nowhere else.
GOLD_MARK = "zebra"
SECRET = "Quagga"
GOLD_SQL = f"SELECT name, age FROM singer WHERE age > 35 ORDER BY age /* {GOLD_MARK} */"
ANSWER = f"Ann | 40\n{SECRET} | 50"
BUDGET = 40

Play = tuple[str, str]

QUERIES = [
    "SELECT name, age FROM singer WHERE age > 35 ORDER BY age",
    "select name,age  from SINGER where age > 35 order by age;",
    "SELECT name, age FROM singer WHERE age > 35",
    "SELECT name, age FROM singer WHERE age > 45",
    "SELECT name FROM singer WHERE age < 35",
    "SELECT * FROM singer WHERE id = 1",
    "SELECT count(*) FROM singer",
    "SELECT title, year FROM song",
    "SELECT age FROM singer, song WHERE id = singer_id",
    "SELECT nothing FROM singer",
    "SELECT name FROM nowhere",
    "DELETE FROM singer",
    "SELECT 1; SELECT 2",
    "garbage",
    "",
]
EXPLORING: list[Play] = [
    *[(kind, table) for kind in ("DESCRIBE", "SAMPLE") for table in ("singer", "Song", '"singer"')],
    ("DESCRIBE", "nowhere"),
    ("SAMPLE", ""),
    ("DANCE", "singer"),
    ("ANSWER", ""),
    ("ANSWER", "[1, 2"),
    ("ANSWER", "SELECT name FROM singer"),
    *[("QUERY", sql) for sql in QUERIES],
]
WRONG_ANSWERS: list[Play] = [("ANSWER", text) for text in ("42", "[]", "Ann | 40", "Bob")]

episodes = st.lists(st.sampled_from(EXPLORING), max_size=BUDGET - 1)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> SQLEnvironment:
    return make_environment(tmp_path_factory.mktemp("reward"))


def make_environment(folder: Path, reward: RewardConfig = RewardConfig()) -> SQLEnvironment:
    path = folder / "band" / "band.sqlite"
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(f"""
        CREATE TABLE singer (id INTEGER PRIMARY KEY, name TEXT, age INTEGER);
        CREATE TABLE song (singer_id INTEGER REFERENCES singer (id), title TEXT, year INTEGER);
        INSERT INTO singer VALUES (1, 'Bob', 20), (2, 'Cy', 30), (3, 'Dee', 31), (4, 'Ed', 32),
                                  (5, 'Flo', 33), (6, 'Ann', 40), (7, '{SECRET}', 50);
        INSERT INTO song VALUES (1, 'One', 1999), (7, 'Two', 2001), (7, 'Three', 2014);
    """)
    connection.close()
    record = QuestionRecord(
        question_id="q",
        question_text="Which singers are older than 35?",
        database_name="band",
        gold_sql=GOLD_SQL,
        gold_answer=[["Ann", 40], [SECRET, 50]],
        answer_type="table",
        difficulty="easy",
        tables_involved=["singer"],
        split="train",
    )
    return SQLEnvironment(db_dir=folder, step_budget=BUDGET, reward=reward, questions=[record])


def play(environment: SQLEnvironment, plays: Sequence[Play]) -> list[SQLObservation]:
    environment.reset(seed=0)
    observations = []
    for kind, argument in plays:
        observations.append(environment.step(SQLAction(action_type=kind, argument=argument)))
        if observations[-1].done:
            break
    return observations


def total(observations: Sequence[SQLObservation]) -> float:
    return sum(observation.reward or 0.0 for observation in observations)


def shaping(observations: Sequence[SQLObservation]) -> list[float]:
    parts = [observation.metadata["reward_parts"] for observation in observations]
    return [part["operational"] + part["progress"] for part in parts]


def normalized(play: Play) -> str:
    kind, argument = play
    return f"{kind}: {normalize_sql(argument)}" if kind == "QUERY" else f"{kind}: {argument}"


# One environment serves all examples: reset() begins anew.
relaxed = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])


@relaxed
@given(first=episodes, wrong=st.sampled_from([None, *WRONG_ANSWERS]), second=episodes)
def test_no_episode_without_a_correct_answer_beats_one_with_it(
    environment: SQLEnvironment, first: list[Play], wrong: Play | None, second: list[Play]
) -> None:
    without = play(environment, [*first, *([wrong] if wrong else [])])
    right = play(environment, [*second, ("ANSWER", ANSWER)])
    assert right[-1].metadata["correct"]
    assert total(right) > total(without)


@relaxed
@given(
    plays=episodes, last=st.sampled_from([*WRONG_ANSWERS, ("ANSWER", ANSWER), ("ANSWER", "@last")])
)
def test_rewards_stay_in_the_declared_ranges(
    environment: SQLEnvironment, plays: list[Play], last: Play
) -> None:
    observations = play(environment, [*plays, last])
    low, high = environment.reward_config.step_range
    assert all(low - 1e-9 <= (o.reward or 0.0) <= high + 1e-9 for o in observations)
    least, most = environment.reward_config.episode_range
    assert least - 1e-9 <= total(observations) <= most + 1e-9
    assert -0.2 - 1e-9 <= sum(shaping(observations)) <= 0.5 + 1e-9


@relaxed
@given(plays=episodes)
def test_a_step_that_repeats_an_earlier_one_never_pays(
    environment: SQLEnvironment, plays: list[Play]
) -> None:
    seen: set[str] = set()
    for action, observation in zip(plays, play(environment, plays), strict=False):
        if normalized(action) in seen:
            assert observation.reward is not None
            assert observation.reward <= 1e-9
        seen.add(normalized(action))


@relaxed
@given(plays=episodes, data=st.data())
def test_repeating_an_action_never_raises_the_sum(
    environment: SQLEnvironment, plays: list[Play], data: st.DataObject
) -> None:
    assume(plays)
    original = data.draw(st.integers(0, len(plays) - 1))
    place = data.draw(st.integers(original + 1, len(plays)))
    longer = [*plays[:place], plays[original], *plays[place:]]
    assume(len(longer) < BUDGET)
    plain = sum(shaping(play(environment, plays)))
    repeated = sum(shaping(play(environment, longer)))
    assert repeated <= plain + 1e-9


@relaxed
@given(plays=episodes)
def test_progress_telescopes(environment: SQLEnvironment, plays: list[Play]) -> None:
    """Its sum is the best that any of the queries earns alone, so circles earn nothing."""
    observations = play(environment, plays)
    steps = [o.metadata["reward_parts"]["progress"] for o in observations]
    assert all(step >= 0 for step in steps) and sum(steps) <= 0.15 + 1e-9
    alone = [
        play(environment, [action])[0].metadata["reward_parts"]["progress"] for action in plays
    ]
    assert sum(steps) <= max(alone, default=0.0) + 1e-9


CONSTANTS = [
    "SELECT 1",
    "SELECT 40, 'Ann'",
    "VALUES (40), (50)",
    "SELECT 17 WHERE 1",
    "SELECT 2*8+1",
    "SELECT true + true FROM singer WHERE id > 0",
    "SELECT 40 FROM singer",
    "SELECT 'Ann', max(40, 0) FROM singer LIMIT 2",
    "SELECT char(65, 110, 110), 39 + 1 FROM singer WHERE age > 0 AND name > ''",
    "SELECT 'An' || 'n', count(*) * 0 + 40 FROM singer, song",
    "SELECT CASE WHEN age > 0 THEN 'Ann' END, 40 FROM singer",
    "SELECT name, age FROM singer WHERE 0 UNION SELECT 'Ann', 40 UNION SELECT 'Flo', 50",
    'SELECT "Ann", "Bob" FROM song',
    "SELECT x, y FROM (VALUES ('Ann', 40)) AS v (x, y), song",
    "SELECT age FROM singer WHERE age IN (40, 50)",
    "SELECT name FROM singer WHERE id < 0",
]
FAILING: list[Play] = [
    ("QUERY", "SELECT nothing FROM singer"),
    ("QUERY", "DELETE FROM singer"),
    ("DESCRIBE", "nowhere"),
    ("DANCE", "singer"),
    ("ANSWER", "[1, 2"),
]


def respelt(play: Play, draw: st.DrawFn) -> Play:
    """The same action as somebody else would write it."""
    kind, argument = play
    if kind in ("DESCRIBE", "SAMPLE"):
        return kind, draw(st.sampled_from([argument, f"[{argument}]", f"{argument};"]))
    changes = st.lists(st.sampled_from(SPELLINGS), max_size=3)
    for change in draw(changes) if kind == "QUERY" else ():
        argument = change(argument)
    return kind, argument


SPELLINGS: list[Callable[[str], str]] = [
    lambda sql: sql.replace(" ", "  \n"),
    lambda sql: f"{sql} -- again",
    lambda sql: f"/* x */ {sql}",
    lambda sql: sql.replace("select", "SELECT").replace("SELECT", "Select"),
    lambda sql: sql.swapcase() if "'" not in sql else sql,
    lambda sql: f"{sql};" if not sql.rstrip().endswith(";") and "--" not in sql else sql,
    lambda sql: sql.replace("age > 35", "(age > (35))"),
    lambda sql: f"SELECT * FROM ({sql})" if not sql.rstrip().endswith(";") else sql,
    lambda sql: f"{sql} LIMIT 3" if not sql.rstrip().endswith(";") else sql,
    lambda sql: f"SELECT * FROM ({sql}) ORDER BY 1 DESC" if not sql.endswith(";") else sql,
    lambda sql: f"SELECT DISTINCT x.* FROM ({sql}) AS x LIMIT 2" if not sql.endswith(";") else sql,
]


@st.composite
def padded(draw: st.DrawFn, right: bool = False) -> tuple[list[Play], list[Play]]:
    """An episode, and the same with actions put in that show nothing new."""
    plain = draw(st.lists(st.sampled_from(EXPLORING), max_size=8))
    longer: list[Play] = []
    for action in [*plain, None]:
        for _ in range(draw(st.integers(0, 2))):
            kinds = [draw(st.sampled_from(FAILING)), ("QUERY", draw(st.sampled_from(CONSTANTS)))]
            if longer:
                kinds.append(respelt(draw(st.sampled_from(longer)), draw))
            # Described, the columns are known; sampled, the values are, too.
            kinds += again(longer, ("DESCRIBE", "SAMPLE") if right else ("SAMPLE",))
            longer.append(draw(st.sampled_from(kinds)))
        longer += [action] if action else []
    return plain, longer


def again(plays: Sequence[Play], kinds: Sequence[str]) -> list[Play]:
    """Queries for what actions of these kinds have shown."""
    tables = [argument.strip('"').lower() for kind, argument in plays if kind in kinds]
    queries = {
        "singer": "SELECT name, age FROM singer WHERE age > 30 LIMIT 2",
        "song": "SELECT year, title FROM song ORDER BY year",
    }
    return [("QUERY", queries[table]) for table in tables if table in queries]


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pair=padded(right=True))
def test_what_shows_nothing_new_never_raises_the_reward_of_a_right_episode(
    environment: SQLEnvironment, pair: tuple[list[Play], list[Play]]
) -> None:
    plain, longer = pair
    assert len(longer) < BUDGET
    less, more = (play(environment, [*plays, ("ANSWER", ANSWER)]) for plays in (plain, longer))
    assert less[-1].metadata["correct"] and more[-1].metadata["correct"]
    price = 0.005 * (len(longer) - len(plain))
    at_the_floor = min(shaping(more)) < 0 and sum(shaping(more)) <= -0.2 + 1e-9
    assert total(more) <= total(less) - price + 1e-9 or at_the_floor
    assert total(more) <= total(less) + 1e-9


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pair=padded(), wrong=st.sampled_from([None, *WRONG_ANSWERS]))
def test_what_shows_nothing_new_never_raises_the_reward_of_a_wrong_episode(
    environment: SQLEnvironment, pair: tuple[list[Play], list[Play]], wrong: Play | None
) -> None:
    plain, longer = pair
    end = [wrong] if wrong else []
    assert (
        total(play(environment, [*longer, *end])) <= total(play(environment, [*plain, *end])) + 1e-9
    )


@relaxed
@given(plays=st.lists(st.sampled_from(EXPLORING), max_size=18), data=st.data())
def test_of_two_right_episodes_that_saw_the_same_the_shorter_earns_no_less(
    environment: SQLEnvironment, plays: list[Play], data: st.DataObject
) -> None:
    """The longer one plays the same, in another order, and some of it again."""
    again = data.draw(st.lists(st.sampled_from(plays), max_size=18)) if plays else []
    longer = data.draw(st.permutations([*plays, *again]))
    once = total(play(environment, [*plays, ("ANSWER", ANSWER)]))
    both = total(play(environment, [*longer, ("ANSWER", ANSWER)]))
    assert both <= once + 1e-9


@relaxed
@given(
    plays=episodes, last=st.sampled_from([*WRONG_ANSWERS, ("ANSWER", ANSWER), ("ANSWER", "@last")])
)
def test_rewards_at_the_end_are_the_same_in_total_and_nothing_before(
    environment: SQLEnvironment, plays: list[Play], last: Play
) -> None:
    dense = play(environment, [*plays, last])
    quiet = copy(environment)
    quiet.rewards = "end"
    withheld = play(quiet, [*plays, last])
    if dense[-1].done:  # @last without a query is no answer
        assert total(withheld) == pytest.approx(total(dense))
        last_parts = withheld.pop().metadata["reward_parts"]
        assert last_parts["operational"] + last_parts["progress"] == pytest.approx(
            sum(shaping(dense))
        )
    assert all(o.reward == 0 for o in withheld)
    assert all(not any(o.metadata["reward_parts"].values()) for o in withheld)


@relaxed
@given(plays=episodes, last=st.sampled_from([*WRONG_ANSWERS, ("ANSWER", "@last")]))
def test_gold_is_never_shown(environment: SQLEnvironment, plays: list[Play], last: Play) -> None:
    begun = environment.reset(seed=0)
    assert SECRET not in begun.model_dump_json()
    for kind, argument in [*plays, last]:
        observation = environment.step(SQLAction(action_type=kind, argument=argument))
        served = observation.model_dump_json() + environment.state.model_dump_json()
        assert GOLD_MARK not in served
        returned = environment.shown_result
        own = returned is not None and any(SECRET in row for row in returned.rows)
        assert own or SECRET not in served
        if observation.done:
            break


def test_binary_episodes_earn_the_answer_alone(tmp_path: Path) -> None:
    environment = make_environment(tmp_path, RewardConfig.binary())
    plays: list[Play] = [*EXPLORING, ("ANSWER", ANSWER)]
    rewards = [observation.reward for observation in play(environment, plays)]
    assert rewards == [0.0] * len(EXPLORING) + [1.0]


def test_a_failed_query_is_not_an_empty_answer(tmp_path: Path) -> None:
    """ "Both empty" is no success where the query did not run."""
    environment = make_environment(tmp_path)
    empty = environment.questions[0].model_copy(
        update={"gold_sql": "SELECT name FROM singer WHERE age > 99", "gold_answer": []}
    )
    environment = SQLEnvironment(db_dir=environment.db_dir, questions=[empty])
    failed = play(environment, [("QUERY", "SELECT nam FROM singer"), ("ANSWER", "@last")])
    assert not failed[-1].done
    assert "@last" in failed[-1].error
    worked = play(environment, [("QUERY", "SELECT 1 WHERE 0"), ("ANSWER", "@last")])
    assert worked[-1].metadata["correct"]


def test_same_plays_same_rewards(environment: SQLEnvironment) -> None:
    def served() -> list[Any]:
        return [o.model_dump() for o in play(environment, [*EXPLORING, ("ANSWER", ANSWER)])]

    assert served() == served()
