"""A theatre: plays, directors, actors, halls, performances, tickets."""

from __future__ import annotations

from sql_env.worlds.columns import (
    age,
    choice,
    count,
    country,
    date,
    flag,
    gender,
    money,
    person,
    price,
    title,
    whole,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "theatre",
    (
        Table(
            "playwright",
            (
                person(),
                country(eq="come|comes from {}"),
                year(
                    "birth_year",
                    1820,
                    1990,
                    "year of birth",
                    "was born",
                    names=("born",),
                    most="youngest",
                    least="oldest",
                    nulls=0.08,
                ),
            ),
            (9, 18),
            ("playwright",),
            names=("writer", "dramatist"),
            person=True,
        ),
        Table(
            "play",
            (
                title(
                    "title",
                    items(
                        """The Widow, The Lantern, A Borrowed, The Crooked, An Honest, The Painted,
                        The Sleeping"""
                    ),
                    items("House, Moon, Ladder, King, Mask, Clock"),
                    pattern="{} {}",
                    names=("play_title", "name"),
                ),
                choice(
                    "genre",
                    *items("tragedy, comedy, farce, history play, musical"),
                    words=("genre",),
                    names=("category", "kind"),
                ),
                count("acts", 1, 5, "acts", names=("act_count",)),
                year(
                    "written",
                    1850,
                    2023,
                    "year of writing",
                    "was written",
                    names=("written_in", "year"),
                ),
                Ref("playwright", "were|was written by", "have|has written"),
            ),
            (16, 21),
            ("play",),
            names=("drama", "piece"),
            called=('"{}"', 'the play "{}"'),
        ),
        Table(
            "hall",
            (
                title(
                    "name",
                    items("Main, Studio, Garden, Mirror, Black Box, Balcony"),
                    pattern="{} Stage",
                    names=("hall_name",),
                ),
                count("seats", 60, 900, "seats", names=("capacity", "seat_count")),
                flag(
                    "heated", ("Y", "heated"), ("N", "unheated"), "heating", names=("has_heating",)
                ),
            ),
            (4, 6),
            ("hall", "stage"),
            names=("stage", "auditorium"),
            called=("the {}",),
        ),
        Table(
            "performance",
            (
                Ref("play", "are|is of", "have|has had"),
                Ref("hall", "were|was held in", "have|has hosted"),
                date("evening", 2022, 2024, "date", "took|took place", names=("date", "show_date")),
                count("tickets_sold", 15, 880, "tickets sold", names=("attendance", "sold")),
                price(12, 85, "ticket_price", ("ticket price",), names=("price", "entry")),
                choice(
                    "slot",
                    *items("matinee, evening, late night"),
                    words=("time slot",),
                    eq="type {}",
                    names=("time_of_day",),
                ),
            ),
            (50, 170),
            ("performance",),
            names=("show_night", "staging"),
        ),
        Table(
            "actor",
            (
                person(),
                gender(),
                age(18, 76),
                choice(
                    "contract",
                    *items("ensemble, guest, apprentice"),
                    words=("contract type",),
                    eq="type {}",
                    names=("employment",),
                ),
                money(
                    "monthly_pay",
                    1_500,
                    6_800,
                    "monthly salary",
                    names=("salary", "pay"),
                    most="best-paid",
                    least="worst-paid",
                ),
            ),
            (18, 46),
            ("actor",),
            names=("performer", "ensemble"),
            person=True,
        ),
        Table(
            "casting",
            (
                Ref("actor", "belong|belongs to", ""),
                Ref("play", "belong|belongs to", ""),
            ),
            (40, 120),
            names=("cast_member", "appears_in"),
        ),
        Table(
            "critique",
            (
                Ref("play", "are|is about", "have|has received"),
                choice(
                    "newspaper",
                    *items("Daily Post, Evening Mirror, The Observer, City Herald"),
                    eq="was printed in {}",
                    names=("paper",),
                ),
                whole(
                    "stars", 1, 5, "number of stars", counted="stars", names=("rating",), peak=0.6
                ),
                date(
                    "printed",
                    2022,
                    2024,
                    "publication date",
                    "was printed",
                    names=("published_on",),
                ),
            ),
            (24, 70),
            ("review",),
            names=("review",),
            optional=True,
        ),
    ),
    (
        Link("casting", "actor", "play", "have|has acted in", "feature|features"),
        Link("performance", "hall", "play", "have|has staged", "have|has been staged in"),
    ),
)
