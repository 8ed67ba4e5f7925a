"""Short ways to declare the columns that domains need."""

from __future__ import annotations

from typing import Any

from sql_env.worlds.schema import Column
from sql_env.worlds.values import (
    Choice,
    City,
    Code,
    Country,
    Date,
    DaysAfter,
    Email,
    Number,
    Person,
    Title,
    Year,
)

Words = str | tuple[str, ...]


def _words(key: str, words: Words) -> tuple[str, ...]:
    if not words:
        return (key.replace("_", " "),)
    return (words,) if isinstance(words, str) else words


def person() -> Column:
    """A person's name: one column or two, as the database pleases."""
    return Column("name", Person(), ("name",), names=("full_name",), optional=False)


def title(
    key: str, *pools: tuple[str, ...], pattern: str = "{}", words: Words = "", **more: Any
) -> Column:
    """The name that tells a row from the others."""
    return Column(key, Title(pools, pattern), _words(key, words), optional=False, **more)


def choice(
    key: str,
    *options: Any,
    words: Words = "",
    weights: tuple[float, ...] | None = None,
    **more: Any,
) -> Column:
    """One of a few values, each a text or (stored, spoken)."""
    return Column(key, Choice(options, weights), _words(key, words), **more)


def whole(
    key: str, low: int, high: int, words: Words = "", peak: float = 0.4, step: int = 1, **more: Any
) -> Column:
    """A whole number."""
    return Column(key, Number(low, high, peak=peak, step=step), _words(key, words), **more)


def count(key: str, low: int, high: int, things: str, peak: float = 0.4, **more: Any) -> Column:
    """A whole number of things: `count("pages", 80, 900, "pages")`."""
    more.setdefault("additive", True)
    step = 1 if high < 2000 else 10 if high < 50_000 else 100
    return Column(
        key,
        Number(low, high, peak=peak, step=step),
        (f"number of {things}",),
        counted=things,
        **more,
    )


def real(
    key: str,
    low: float,
    high: float,
    words: Words = "",
    digits: int = 1,
    peak: float = 0.5,
    **more: Any,
) -> Column:
    """A decimal number."""
    return Column(key, Number(low, high, digits, peak), _words(key, words), **more)


def money(
    key: str, low: float, high: float, words: Words = "", peak: float = 0.25, **more: Any
) -> Column:
    """An amount in dollars: cents where it is small, hundreds where it is large."""
    values = (
        Number(low, high, 2, peak)
        if high < 500
        else Number(low, high, 0, peak, step=1 if high < 5000 else 100)
    )
    more.setdefault("unit", "${}")
    return Column(key, values, _words(key, words), **more)


def date(key: str, low: int, high: int, words: Words = "", event: str = "", **more: Any) -> Column:
    """A day between two years."""
    return Column(key, Date(low, high), _words(key, words), event=event, **more)


def date_after(
    key: str, column: str, low: int, high: int, words: Words = "", event: str = "", **more: Any
) -> Column:
    """A day that follows another column's."""
    return Column(key, DaysAfter(column, low, high), _words(key, words), event=event, **more)


def year(key: str, low: int, high: int, words: Words = "", event: str = "", **more: Any) -> Column:
    """A year."""
    return Column(key, Year(low, high), _words(key, words), event=event, **more)


def code(key: str, pattern: str, words: Words = "", **more: Any) -> Column:
    """A code that nobody compares."""
    return Column(key, Code(pattern), _words(key, words), **more)


def city(
    key: str = "city", words: Words = "city", eq: str = "be based in {}", **more: Any
) -> Column:
    return Column(key, City(), _words(key, words), eq=eq, **more)


def country(
    key: str = "country", words: Words = "country", eq: str = "be from {}", **more: Any
) -> Column:
    return Column(key, Country(), _words(key, words), eq=eq, **more)


def email(host: str, nulls: float = 0.12) -> Column:
    return Column(
        "email",
        Email(host),
        ("email address",),
        names=("email_address", "mail", "contact_email"),
        nulls=nulls,
        missing="have no email address",
        ask=("How can {} be reached by email?",),
    )


def phone(nulls: float = 0.1) -> Column:
    return Column(
        "phone",
        Code("555-####"),
        ("phone number",),
        names=("phone_number", "telephone", "tel", "contact_number"),
        nulls=nulls,
        missing="have no phone number",
    )


def gender() -> Column:
    return choice("gender", ("F", "female"), ("M", "male"), names=("sex",), eq="adj {}")


def age(low: int = 18, high: int = 70) -> Column:
    return whole(
        "age",
        low,
        high,
        over="be older than {}",
        under="be younger than {}",
        most="oldest",
        least="youngest",
        ask=("How old is {}?",),
    )


def birth_date(low: int, high: int, nulls: float = 0.0) -> Column:
    return date(
        "birth_date",
        low,
        high,
        "date of birth",
        "was born",
        names=("dob", "born", "date_of_birth"),
        most="youngest",
        least="oldest",
        ask=("When was {} born?",),
        nulls=nulls,
    )


def salary(low: int, high: int) -> Column:
    return money(
        "salary",
        low,
        high,
        names=("pay", "annual_pay", "wage"),
        over="earn|earns more than {}",
        under="earn|earns less than {}",
        most="best-paid",
        least="worst-paid",
        ask=("How much does {} earn?",),
    )


def price(
    low: float, high: float, key: str = "price", words: Words = "price", **more: Any
) -> Column:
    """What something costs."""
    return money(
        key,
        low,
        high,
        words,
        over="cost|costs more than {}",
        under="cost|costs less than {}",
        most="most expensive",
        least="cheapest",
        ask=("How much does {} cost?",),
        **more,
    )


def rating(low: float = 1.5, high: float = 5.0, words: Words = "rating", **more: Any) -> Column:
    more.setdefault("names", ("score", "stars"))
    return real(
        "rating", low, high, words, peak=0.7, most="highest-rated", least="lowest-rated", **more
    )


def hired(low: int = 2003, high: int = 2023) -> Column:
    return date(
        "hire_date",
        low,
        high,
        ("hiring date", "date of hire"),
        "was hired",
        names=("hired", "start_date", "employed_since"),
        ask=("When was {} hired?",),
    )


def founded(low: int, high: int) -> Column:
    return year(
        "founded",
        low,
        high,
        ("founding year", "year of foundation"),
        "was founded",
        names=("year_founded", "established", "since"),
        most="youngest",
        least="oldest",
        ask=("In which year was {} founded?",),
    )


def duration(key: str, low: int, high: int, unit: str = "{} minutes", step: int = 5) -> Column:
    return whole(
        key,
        low,
        high,
        "duration",
        step=step,
        unit=unit,
        names=("duration", "length", "minutes"),
        over="last|lasts longer than {}",
        under="last|lasts less than {}",
        most="longest",
        least="shortest",
    )


def flag(
    key: str, yes: tuple[str, str], no: tuple[str, str], words: Words = "", **more: Any
) -> Column:
    """A yes or no; each side is (stored, spoken), spoken as an adjective unless `eq` differs."""
    more.setdefault("eq", "adj {}")
    return Column(key, Choice((yes, no), kind="flag"), _words(key, words), **more)
