"""A library: authors, publishers, books, readers, loans."""

from __future__ import annotations

from sql_env.worlds.columns import (
    choice,
    city,
    count,
    country,
    date,
    date_after,
    email,
    founded,
    money,
    person,
    title,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

_BOOK_STARTS = items(
    """The Silent, A Distant, The Last, Winter, The Glass, Bitter, The Hidden, Golden, Paper, The
    Second"""
)
_BOOK_ENDS = items("River, Garden, Letter, Harbor, Witness, Orchard, Mirror, Storm, Kingdom, Hour")

DOMAIN = Domain(
    "library",
    (
        Table(
            "author",
            (
                person(),
                country("nationality", "country of origin", names=("country", "home_country")),
                year(
                    "birth_year",
                    1890,
                    1992,
                    "year of birth",
                    "was born",
                    names=("born",),
                    most="youngest",
                    least="oldest",
                    nulls=0.06,
                ),
                choice("gender", ("F", "female"), ("M", "male"), names=("sex",), eq="adj {}"),
            ),
            (12, 36),
            ("author", "writer"),
            names=("writer",),
            person=True,
        ),
        Table(
            "publisher",
            (
                title(
                    "name",
                    items(
                        """Lantern Press, Blue Heron, Oakleaf Books, Meridian House, Northlight,
                        Paper Crane, Quill and Co, Sandstone, Tidewater, Verso Lane"""
                    ),
                ),
                city(),
                founded(1880, 2012),
            ),
            (6, 10),
            ("publisher", "publishing house"),
            names=("press",),
            called=("{}", "the publisher {}"),
        ),
        Table(
            "book",
            (
                title("title", _BOOK_STARTS, _BOOK_ENDS, pattern="{} {}"),
                choice(
                    "genre",
                    *items(
                        "fantasy, mystery, biography, history, romance, science fiction, poetry"
                    ),
                    names=("category", "subject"),
                    eq="belong|belongs to the genre {}",
                ),
                year(
                    "published",
                    1950,
                    2023,
                    ("publication year", "year of publication"),
                    "was published",
                    names=("pub_year", "year"),
                    most="newest",
                    least="oldest",
                    ask=("In which year was {} published?",),
                ),
                count("pages", 80, 900, "pages", names=("page_count", "length")),
                choice(
                    "language",
                    *items("English, French, Spanish, German, Japanese"),
                    eq="was written in {}",
                ),
                Ref("author", "were|was written by", "have|has written"),
                Ref("publisher", "are|is published by", "have|has published"),
            ),
            (25, 50),
            ("book",),
            names=("title_record", "item"),
            called=('"{}"', 'the book "{}"'),
        ),
        Table(
            "reader",
            (
                person(),
                city(eq="live|lives in {}"),
                choice(
                    "card_type",
                    *items("adult, student, child, senior"),
                    words=("type of card", "card type"),
                    eq="have {a} card",
                    names=("membership",),
                ),
                date(
                    "registered",
                    2012,
                    2024,
                    "registration date",
                    "was registered",
                    names=("member_since", "join_date"),
                ),
                email("readers.example"),
            ),
            (25, 90),
            ("reader", "library member"),
            names=("member", "borrower"),
            person=True,
        ),
        Table(
            "loan",
            (
                Ref("reader", "were|was taken out by", "have|has taken out"),
                Ref("book", "are|is for", ""),
                date(
                    "loan_date",
                    2022,
                    2024,
                    "start date",
                    "was taken out",
                    names=("borrowed_on", "date"),
                ),
                date_after(
                    "return_date",
                    "loan_date",
                    3,
                    60,
                    "return date",
                    "was returned",
                    nulls=0.15,
                    names=("returned_on",),
                    missing="have|has not been returned",
                ),
                money(
                    "fine", 0.5, 25, "fine", nulls=0.6, names=("late_fee",), missing="have no fine"
                ),
            ),
            (80, 320),
            ("loan",),
            names=("borrowing", "checkout"),
        ),
    ),
    (Link("loan", "reader", "book", "have|has borrowed", "have|has been borrowed by"),),
)
