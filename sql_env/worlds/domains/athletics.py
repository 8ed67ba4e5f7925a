"""An athletics federation: athletes, coaches, events, meetings, results."""

from __future__ import annotations

from sql_env.worlds.columns import (
    birth_date,
    choice,
    city,
    count,
    country,
    date,
    email,
    flag,
    gender,
    money,
    person,
    real,
    title,
    whole,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "athletics",
    (
        Table(
            "coach",
            (
                person(),
                count(
                    "experience",
                    1,
                    35,
                    "years of experience",
                    names=("years_coaching", "years_experience"),
                    additive=False,
                ),
                choice(
                    "specialty",
                    *items("sprints, throws, jumps, distance running, hurdles"),
                    eq="specialise|specialises in {}",
                    names=("focus", "field"),
                ),
                email("trackclub.example"),
            ),
            (7, 14),
            ("coach",),
            names=("trainer",),
            person=True,
        ),
        Table(
            "athlete",
            (
                person(),
                gender(),
                birth_date(1988, 2007),
                country(eq="compete|competes for {}"),
                whole(
                    "height",
                    152,
                    204,
                    "height",
                    unit="{} cm",
                    names=("height_cm",),
                    peak=0.5,
                    over="be taller than {}",
                    under="be shorter than {}",
                    most="tallest",
                    least="shortest",
                ),
                real(
                    "weight",
                    44,
                    118,
                    "weight",
                    unit="{} kg",
                    names=("weight_kg",),
                    peak=0.3,
                    over="weigh|weighs more than {}",
                    under="weigh|weighs less than {}",
                    most="heaviest",
                    least="lightest",
                    nulls=0.08,
                ),
                Ref("coach", "are|is coached by", "coach|coaches"),
            ),
            (30, 90),
            ("athlete",),
            names=("competitor",),
            person=True,
        ),
        Table(
            "discipline",
            (
                title(
                    "name",
                    items(
                        """100 metres, 400 metres, 1500 metres, marathon, long jump, high jump,
                        javelin, shot put, pole vault, decathlon"""
                    ),
                    names=("event_name", "discipline_name"),
                ),
                choice(
                    "category",
                    *items("track, field, road, combined"),
                    eq="type {}",
                    names=("kind", "event_group"),
                ),
                flag(
                    "olympic",
                    ("Y", "Olympic"),
                    ("N", "non-Olympic"),
                    "Olympic status",
                    names=("is_olympic",),
                ),
            ),
            (8, 10),
            ("discipline",),
            names=("event_type", "contest"),
            called=("the {}", "the discipline {}"),
        ),
        Table(
            "meeting",
            (
                title(
                    "name",
                    items("Golden, Northern, Lakeside, National, Diamond, Continental"),
                    items("Games, Gala, Championships"),
                    pattern="{} {}",
                    names=("meet_name",),
                ),
                city(eq="was held in {}"),
                country(eq="was held in {}"),
                date(
                    "held_on", 2019, 2024, "date", "took|took place", names=("date", "meeting_date")
                ),
                count("spectators", 300, 45_000, "spectators", names=("attendance", "crowd")),
            ),
            (7, 9),
            ("meeting", "competition"),
            names=("competition", "meet"),
            called=("the {}",),
        ),
        Table(
            "result",
            (
                Ref("athlete", "belong|belongs to", "have|has achieved"),
                Ref("meeting", "were|was achieved at", "have|has produced"),
                Ref("discipline", "are|is in", ""),
                choice(
                    "finish", *range(1, 9), words="finishing position", names=("position", "place")
                ),
                count("points", 1, 1200, "points", names=("score",)),
                flag(
                    "record",
                    ("Y", "record"),
                    ("N", "ordinary"),
                    "record status",
                    names=("personal_best",),
                ),
            ),
            (90, 320),
            ("result",),
            names=("performance",),
        ),
        Table(
            "sponsor",
            (
                title(
                    "name",
                    items(
                        """Velox, Aqua Plus, Nordwind Energy, Stride, Peak Foods, Zenith Watches,
                        Lumo"""
                    ),
                ),
                choice(
                    "industry",
                    *items("sportswear, drinks, energy, food, watches"),
                    eq="work|works in the {} industry",
                    names=("sector",),
                ),
                city(),
            ),
            (5, 7),
            ("sponsor",),
            names=("backer",),
            called=("{}",),
            optional=True,
        ),
        Table(
            "sponsorship",
            (
                Ref("sponsor", "are|is paid by", "have|has signed"),
                Ref("athlete", "are|is for", ""),
                money(
                    "yearly_amount",
                    1_000,
                    250_000,
                    "yearly amount",
                    names=("amount", "value"),
                    additive=True,
                ),
                year(
                    "until",
                    2024,
                    2029,
                    "final year",
                    "run|runs until",
                    names=("end_year", "expires"),
                    optional=True,
                ),
            ),
            (14, 50),
            ("sponsorship deal", "sponsorship"),
            names=("deal", "contract"),
            optional=True,
        ),
    ),
    (
        Link("result", "athlete", "meeting", "have|has competed at", "have|has featured"),
        Link("result", "athlete", "discipline", "have|has competed in", "have|has attracted"),
        Link("sponsorship", "sponsor", "athlete", "support|supports", "are|is supported by"),
    ),
)
