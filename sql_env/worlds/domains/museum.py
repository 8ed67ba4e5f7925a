"""A museum: galleries, painters, artworks, exhibitions, visitors, visits."""

from __future__ import annotations

from sql_env.worlds.columns import (
    choice,
    count,
    country,
    date,
    date_after,
    hired,
    money,
    person,
    salary,
    title,
    whole,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "museum",
    (
        Table(
            "gallery",
            (
                title(
                    "name",
                    items("East, West, Sculpture, Portrait, Modern, Textile, Print, Asian"),
                    pattern="{} Gallery",
                    names=("room_name",),
                ),
                choice("floor", 0, 1, 2, 3, eq="be on floor {}", names=("level",)),
                whole(
                    "area",
                    60,
                    900,
                    "area",
                    step=10,
                    unit="{} square metres",
                    names=("area_sqm", "size"),
                    most="largest",
                    least="smallest",
                ),
            ),
            (6, 8),
            ("gallery",),
            names=("room", "hall"),
            called=("the {}",),
        ),
        Table(
            "painter",
            (
                person(),
                country(
                    "nationality",
                    "nationality",
                    eq="come|comes from {}",
                    names=("country", "origin"),
                ),
                year(
                    "born",
                    1450,
                    1970,
                    "year of birth",
                    "was born",
                    names=("birth_year",),
                    most="youngest",
                    least="oldest",
                ),
                choice(
                    "movement",
                    *items("Baroque, Impressionism, Cubism, Romanticism, Realism"),
                    words=("art movement",),
                    eq="belong|belongs to {}",
                    nulls=0.1,
                    names=("school", "art_style"),
                ),
            ),
            (12, 26),
            ("painter", "artist"),
            names=("artist",),
            person=True,
        ),
        Table(
            "artwork",
            (
                title(
                    "title",
                    items("Woman, Boy, Still Life, Landscape, Dancer, Interior, Harbor, Garden"),
                    items("with Fruit, in Blue, at Dawn, by the Sea, in Winter, with a Dog"),
                    pattern="{} {}",
                    names=("work_title", "name"),
                ),
                year(
                    "made",
                    1500,
                    2015,
                    "year of creation",
                    "was made",
                    names=("year", "created"),
                    most="newest",
                    least="oldest",
                    nulls=0.08,
                ),
                choice(
                    "technique",
                    *items("oil, watercolour, charcoal, bronze, marble"),
                    words=("technique", "medium"),
                    eq="was made in {}",
                    names=("medium", "material"),
                ),
                money(
                    "value",
                    2_000,
                    6_000_000,
                    ("insured value",),
                    names=("insured_value", "worth"),
                    peak=0.05,
                    most="most valuable",
                    least="least valuable",
                    additive=True,
                ),
                Ref("painter", "were|was made by", "have|has made"),
                Ref("gallery", "hang|hangs in", "hold|holds"),
            ),
            (22, 24),
            ("artwork", "work of art"),
            names=("piece", "collection"),
            called=('"{}"', 'the artwork "{}"'),
        ),
        Table(
            "exhibition",
            (
                title(
                    "name",
                    items("Light, Shadow, Faces, Rivers, Cities, Myth"),
                    items("and Colour, in Motion, of the North, Revisited"),
                    pattern="{} {}",
                    names=("show_title", "title"),
                ),
                date(
                    "opens",
                    2019,
                    2024,
                    "opening date",
                    "opened|opened",
                    names=("start_date", "opening"),
                ),
                date_after(
                    "closes", "opens", 30, 200, "closing date", "closed|closed", names=("end_date",)
                ),
                count("visitors", 900, 48_000, "visitors", names=("visitor_count", "attendance")),
            ),
            (9, 12),
            ("exhibition",),
            names=("show_list", "display"),
            called=('the exhibition "{}"',),
        ),
        Table(
            "exhibit",
            (
                Ref("exhibition", "belong|belongs to", ""),
                Ref("artwork", "belong|belongs to", ""),
            ),
            (30, 80),
            names=("shown_at", "exhibition_item"),
        ),
        Table(
            "guide",
            (
                person(),
                choice(
                    "language",
                    *items("English, French, Italian, Dutch, Mandarin"),
                    eq="speak|speaks {}",
                    names=("tour_language",),
                ),
                salary(24_000, 52_000),
                hired(),
            ),
            (6, 14),
            ("guide",),
            names=("employee", "tour_guide"),
            person=True,
        ),
        Table(
            "tour",
            (
                Ref("guide", "were|was led by", "have|has led"),
                Ref("exhibition", "are|is about", "have|has had"),
                date("held_on", 2022, 2024, "date", "took|took place", names=("date", "day")),
                count("guests", 3, 35, "participants", names=("group_size", "participants")),
                money(
                    "price",
                    5,
                    30,
                    "price per head",
                    names=("fee",),
                    most="most expensive",
                    least="cheapest",
                ),
            ),
            (40, 130),
            ("tour",),
            names=("guided_tour",),
        ),
    ),
    (
        Link("exhibit", "exhibition", "artwork", "show|shows", "have|has been shown at"),
        Link(
            "tour", "guide", "exhibition", "have|has given tours of", "have|has been presented by"
        ),
    ),
)
