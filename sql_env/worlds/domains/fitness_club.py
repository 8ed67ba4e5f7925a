"""A fitness club: branches, trainers, members, classes, bookings."""

from __future__ import annotations

from sql_env.worlds.columns import (
    age,
    choice,
    city,
    count,
    date,
    duration,
    flag,
    gender,
    money,
    person,
    title,
    whole,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

_BRANCHES = items(
    """Harbor, Old Mill, Riverside, Uptown, Lakeview, Station, Parkside, Northgate, Garden, Summit,
    Westend, Foundry"""
)

DOMAIN = Domain(
    "fitness_club",
    (
        Table(
            "branch",
            (
                title("name", _BRANCHES),
                city(eq="be in {}"),
                year(
                    "opened",
                    1998,
                    2022,
                    "opening year",
                    "was opened",
                    names=("open_year", "since"),
                ),
                whole(
                    "floor_area",
                    300,
                    3200,
                    "floor area",
                    step=50,
                    unit="{} square metres",
                    names=("area_sqm", "size"),
                    most="largest",
                    least="smallest",
                ),
            ),
            (6, 12),
            ("branch",),
            names=("location", "site"),
            called=("the {} branch",),
        ),
        Table(
            "trainer",
            (
                person(),
                gender(),
                choice(
                    "specialty",
                    *items("yoga, boxing, pilates, weightlifting, spinning, rehabilitation"),
                    eq="specialise|specialises in {}",
                    names=("discipline",),
                ),
                money(
                    "hourly_rate",
                    18,
                    95,
                    "hourly rate",
                    names=("rate", "fee"),
                    over="charge|charges more than {} an hour",
                    under="charge|charges less than {} an hour",
                    most="most expensive",
                    least="cheapest",
                ),
                date("certified_on", 2005, 2023, "certification date", "was certified", nulls=0.1),
                Ref("branch", "work|works at", "employ|employs"),
            ),
            (12, 32),
            ("trainer", "coach"),
            names=("coach", "instructor"),
            person=True,
        ),
        Table(
            "member",
            (
                person(),
                gender(),
                age(16, 78),
                city(eq="live|lives in {}"),
                choice(
                    "plan",
                    ("B", "basic"),
                    ("S", "standard"),
                    ("P", "premium"),
                    ("F", "family"),
                    eq="have {a} membership",
                    words=("membership plan",),
                    names=("membership", "tier"),
                ),
                date(
                    "joined",
                    2015,
                    2024,
                    "joining date",
                    "joined|joined",
                    names=("join_date", "signup"),
                    ask=("When did {} join?",),
                ),
                Ref("branch", "train|trains at", "have|has", key="home_branch"),
            ),
            (30, 120),
            ("member",),
            names=("client",),
            person=True,
        ),
        Table(
            "course",
            (
                title(
                    "title",
                    items("Morning, Evening, Power, Gentle, Total, Express"),
                    items("Yoga, Boxing, Pilates, Spin, Core, Stretch"),
                    pattern="{} {}",
                    names=("class_name", "name"),
                ),
                choice(
                    "level",
                    *items("beginner, intermediate, advanced"),
                    eq="type {}",
                    names=("difficulty",),
                ),
                duration("minutes", 30, 90),
                count("places", 8, 40, "places", names=("capacity", "max_size")),
                Ref("trainer", "are|is taught by", "teach|teaches"),
            ),
            (12, 18),
            ("class", "course"),
            names=("lesson", "session_type"),
            called=('"{}"', "the class {}"),
        ),
        Table(
            "booking",
            (
                Ref("member", "were|was made by", "have|has made"),
                Ref("course", "are|is for", "have|has received"),
                date("booked_on", 2023, 2024, "booking date", "was made", names=("made_on",)),
                flag(
                    "attended",
                    ("Y", "attended"),
                    ("N", "missed"),
                    words="attendance",
                    eq="adj {}",
                    names=("showed_up",),
                ),
            ),
            (80, 300),
            ("booking",),
            names=("reservation", "attendance"),
        ),
    ),
    (Link("booking", "member", "course", "have|has booked", "have|has been booked by"),),
)
