"""Small pieces of English."""

from __future__ import annotations

import pytest

from sql_env.worlds.english import (
    Saying,
    Verb,
    listing,
    number_word,
    plural,
    sentence,
    with_article,
)


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("doctor", "doctors"),
        ("city", "cities"),
        ("day", "days"),
        ("class", "classes"),
        ("branch", "branches"),
        ("date of birth", "dates of birth"),
        ("price per night", "prices per night"),
        ("staff member", "staff members"),
        ("aircraft", "aircraft"),
        ("status", "statuses"),
        ("person", "people"),
    ],
)
def test_nouns_get_their_plural(one: str, many: str) -> None:
    assert plural(one) == many


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("doctor", "a doctor"),
        ("age above 3", "an age above 3"),
        ("hourly rate", "an hourly rate"),
        ("university", "a university"),
        ("unirrigated plot", "an unirrigated plot"),
        ("MRI", "an MRI"),
        ("GPA of 3", "a GPA of 3"),
        ("Olympic discipline", "an Olympic discipline"),
        ("8 hour shift", "an 8 hour shift"),
        ("18 hour shift", "an 18 hour shift"),
        ("180 hour shift", "a 180 hour shift"),
    ],
)
def test_the_article_follows_the_sound(phrase: str, expected: str) -> None:
    assert with_article(phrase) == expected


def test_lists_numbers_and_sentences_are_written_as_people_do() -> None:
    assert listing(["a"]) == "a"
    assert listing(["a", "b", "c"], "or") == "a, b or c"
    assert number_word(3) == "three"
    assert number_word(14) == "14"
    assert sentence("how many  are there , please ?") == "How many are there, please?"


@pytest.mark.parametrize(
    ("spec", "one", "negated", "asked"),
    [
        ("work|works in", "works in", "do not work in", "does each team work in"),
        ("have|has", "has", "do not have", "does each team have"),
        ("have|has written", "has written", "have not written", "has each team written"),
        ("are|is taught by", "is taught by", "are not taught by", "is each team taught by"),
    ],
)
def test_verbs_agree_and_can_be_negated(spec: str, one: str, negated: str, asked: str) -> None:
    verb = Verb(spec)
    assert verb.form(many=False) == one
    assert verb.negated() == negated
    assert verb.asked("each team") == asked


@pytest.mark.parametrize(
    ("spec", "modifier", "predicate", "negated"),
    [
        ("be older than {}", "older than 30", "are older than 30", "are not older than 30"),
        (
            "was hired before {}",
            "hired before 30",
            "were hired before 30",
            "were not hired before 30",
        ),
        ("have {} pages", "with 30 pages", "have 30 pages", "do not have 30 pages"),
        ("earn|earns {}", "who earn 30", "earn 30", "do not earn 30"),
    ],
)
def test_a_saying_fits_as_modifier_and_predicate(
    spec: str, modifier: str, predicate: str, negated: str
) -> None:
    saying = Saying.parse(spec, "30")
    assert saying.modifier("who") == modifier
    assert saying.predicate() == predicate
    assert saying.negated() == negated


def test_a_saying_can_ask_for_the_article() -> None:
    assert Saying.parse("work|works as {a}", "engineer").predicate(False) == "works as an engineer"
