"""The grammar: what it can ask, and in how many ways."""

from __future__ import annotations

import random
import re
from collections import defaultdict

import pytest
from made_databases import DOMAINS

from sql_env.worlds import INTENTS
from sql_env.worlds.building import build_world
from sql_env.worlds.intents import Asker, Candidate, propose

TRIES = 60


@pytest.fixture(scope="module")
def candidates() -> dict[str, list[Candidate]]:
    """What every intent proposes on every domain."""
    found: dict[str, list[Candidate]] = defaultdict(list)
    for domain in DOMAINS.values():
        asker = Asker(build_world(domain, domain.key, 5), random.Random(5))
        for name, intent in INTENTS.items():
            for _ in range(TRIES // 10):
                candidate = propose(intent, asker)
                if candidate is not None:
                    found[name].append(candidate)
    return found


@pytest.mark.parametrize("name", sorted(INTENTS))
def test_an_intent_has_six_ways_of_being_asked(name: str) -> None:
    phrasings = INTENTS[name].phrasings
    assert len(set(phrasings)) == len(phrasings) >= 6
    assert all(phrasing.endswith((".", "?", "}")) for phrasing in phrasings)


@pytest.mark.parametrize("name", sorted(INTENTS))
def test_an_intent_uses_six_ways(name: str, candidates: dict[str, list[Candidate]]) -> None:
    assert len({candidate.phrasing for candidate in candidates[name]}) >= 6


def test_sentences_are_whole(candidates: dict[str, list[Candidate]]) -> None:
    for some in candidates.values():
        for candidate in some:
            question = candidate.question
            assert question[0].isupper() or question[0] in '"0123456789', question
            assert question[-1] in ".?", question
            assert not re.search(r"[{}|\x01]|  | ,|\bNone\b", question), question
            # The same word twice in a row is a slip of the grammar.
            assert not re.search(r"\b(the|of|a|are|is|that|who|with) \1\b", question), question


def test_articles_fit_the_word_after_them(candidates: dict[str, list[Candidate]]) -> None:
    for some in candidates.values():
        for candidate in some:
            assert not re.search(r"\ba (?=[aeio]\w)(?!one|eu)", candidate.question), (
                candidate.question
            )


FEATURES = {
    "projection of several columns": r"^SELECT [^()*]+, [^()]+ FROM",
    "comparison": r"WHERE \S+ [<>]",
    "between": r" BETWEEN ",
    "like": r" LIKE '",
    "in list": r" IN \('|IN \(\d",
    "null": r" IS NULL",
    "not null": r" IS NOT NULL",
    "date": r"[<>] '\d{4}-\d\d-\d\d'",
    "or": r" OR ",
    "distinct": r"SELECT DISTINCT",
    "count distinct": r"count\(DISTINCT",
    "average": r"avg\(",
    "sum": r"sum\(",
    "group by": r"GROUP BY",
    "having": r"HAVING count",
    "having average": r"HAVING avg",
    "order": r"ORDER BY \S+( DESC)?$",
    "superlative": r"LIMIT 1$",
    "top n": r"LIMIT [2-9]$",
    "two tables": r"^[^(]*AS T2(?!.* AS T3)",
    "three tables": r"AS T3(?!.* AS T4)",
    "four tables": r"AS T4",
    "union": r" UNION ",
    "intersect": r" INTERSECT ",
    "except": r" EXCEPT ",
    "nested": r"\(SELECT avg",
    "not in": r" NOT IN \(SELECT",
    "exists": r"(?<!NOT )EXISTS \(",
    "not exists": r"NOT EXISTS \(",
    "correlated": r"= T1\.",
    "subquery in from": r"FROM \(SELECT",
}


@pytest.mark.parametrize("feature", FEATURES)
def test_the_grammar_covers_every_feature_of_sql(
    feature: str, candidates: dict[str, list[Candidate]]
) -> None:
    pattern = re.compile(FEATURES[feature])
    assert any(pattern.search(c.sql) for some in candidates.values() for c in some)
