"""The split: nothing on both sides, the same mix on both, and always the same."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env.models import QuestionRecord
from sql_env.sources.raw import SourceError
from sql_env.sources.splitting import hold_out_databases, split_by_database, split_by_question
from sql_env.sql.leak_key import leak_key

LEVELS = ("easy", "medium", "hard", "extra")


def record(number: int, database: str, sql: str, level: str) -> QuestionRecord:
    return QuestionRecord(
        question_id=f"{database}-{number}",
        question_text=f"question {number}",
        database_name=database,
        gold_sql=sql,
        gold_answer=1,
        answer_type="integer",
        difficulty=level,
        tables_involved=["t"],
        split="all",
    )


def many(databases: int = 6, queries: int = 20, paraphrases: int = 2) -> list[QuestionRecord]:
    return [
        record(100 * query + copy, f"db{d}", f"SELECT c{query} FROM t{d}", LEVELS[query % 4])
        for d in range(databases)
        for query in range(queries)
        for copy in range(paraphrases)
    ]


RECORDS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 12), st.sampled_from(LEVELS)), min_size=1
).map(
    lambda items: [
        record(number, f"db{database}", f"SELECT c{query} FROM t", level)
        for number, (database, query, level) in enumerate(items)
    ]
)


def queries(records: list[QuestionRecord]) -> set[str]:
    return {leak_key(item.gold_sql) for item in records}


@given(RECORDS, st.integers())
def test_no_gold_query_is_on_both_sides(records: list[QuestionRecord], seed: int) -> None:
    train, held = split_by_question(records, seed)
    assert not queries(train) & queries(held)
    assert Counter(map(id, train + held)) == Counter(map(id, records))


def test_equal_queries_in_another_spelling_stay_together() -> None:
    records = [
        *many(databases=2),
        record(1, "x", "SELECT T1.name FROM Singer AS T1", "easy"),
        record(2, "x", "select name from singer", "easy"),
    ]
    for seed in range(20):
        train, held = split_by_question(records, seed)
        assert not queries(train) & queries(held)


def test_the_share_is_exact_and_the_mix_is_the_same() -> None:
    records = many()
    _, held = split_by_question(records, seed=1)
    assert len(held) == round(0.3 * len(records))
    for trait in (lambda item: item.database_name, lambda item: item.difficulty):
        everywhere, in_eval = Counter(map(trait, records)), Counter(map(trait, held))
        for value, count in everywhere.items():
            assert abs(in_eval[value] - 0.3 * count) <= 2, value


def test_queries_trained_elsewhere_stay_in_train() -> None:
    records = many()
    elsewhere = frozenset(leak_key(f"SELECT c{n} FROM t{d}") for d in range(6) for n in range(9))
    train, held = split_by_question(records, seed=1, trained_elsewhere=elsewhere)
    assert elsewhere <= queries(train) and not elsewhere & queries(held)
    assert len(held) == round(0.3 * len(records))


def test_the_same_seed_gives_the_same_split() -> None:
    assert split_by_question(many(), 5) == split_by_question(many(), 5)
    assert split_by_question(many(), 5) != split_by_question(many(), 6)
    assert split_by_database(many(), 5) == split_by_database(many(), 5)


def test_split_by_database_keeps_databases_whole() -> None:
    train, held = split_by_database(many(databases=10), seed=1)
    assert not {item.database_name for item in train} & {item.database_name for item in held}
    assert len(held) == 0.3 * len(train + held)


def test_split_by_database_needs_two() -> None:
    with pytest.raises(SourceError, match="two databases"):
        split_by_database(many(databases=1), seed=1)


def test_of_two_databases_each_side_gets_one() -> None:
    train, held = split_by_database(many(databases=2), seed=1)
    assert train and held


def test_held_out_databases_cover_the_number_and_every_level() -> None:
    records = many(databases=30, queries=4)
    chosen = hold_out_databases(records, at_least=81, seed=3)
    held = [item for item in records if item.database_name in chosen]
    assert 81 <= len(held) <= 88
    assert {item.difficulty for item in held} == {*LEVELS}
    assert chosen == hold_out_databases(records, at_least=81, seed=3)
    assert chosen != hold_out_databases(records, at_least=81, seed=4)


def test_a_large_database_is_not_held_out() -> None:
    records = many(databases=30, queries=4) + [
        record(n, "large", f"SELECT c{n} FROM large", LEVELS[n % 4]) for n in range(80)
    ]
    for seed in range(10):
        assert "large" not in hold_out_databases(records, at_least=80, seed=seed)


def test_held_out_databases_share_no_query_with_the_rest() -> None:
    records = many(databases=30, queries=4)
    twin = record(7, "twin", "SELECT c0 FROM t0", "easy")
    for seed in range(10):
        chosen = hold_out_databases([*records, twin], at_least=64, seed=seed)
        assert ("twin" in chosen) == ("db0" in chosen)


def test_more_to_hold_out_than_there_is_are_refused() -> None:
    with pytest.raises(SourceError, match="ask for fewer"):
        hold_out_databases(many(), at_least=1000, seed=1)
    alike = [record(n, f"db{n}", "SELECT 1", "easy") for n in range(20)]
    with pytest.raises(SourceError, match="no choice of databases"):
        hold_out_databases(alike, at_least=8, seed=1)


def test_databases_that_nothing_is_measured_on_may_share_queries() -> None:
    alike = [
        record(4 * n + i, f"db{n}", f"SELECT {i}", level)
        for n in range(20)
        for i, level in enumerate(LEVELS)
    ]
    with pytest.raises(SourceError, match=r"^--hold-out 32: .* shares no gold query"):
        hold_out_databases(alike, at_least=32, seed=1)
    assert len(hold_out_databases(alike, at_least=32, seed=1, leak_free=False)) == 8
