"""A record label: artists, albums, songs, concerts, venues."""

from __future__ import annotations

from sql_env.worlds.columns import (
    choice,
    city,
    count,
    country,
    date,
    flag,
    money,
    title,
    whole,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "record_label",
    (
        Table(
            "artist",
            (
                title(
                    "name",
                    items("Velvet, Copper, Lunar, Wild, Static, Paper, Neon, Hollow"),
                    items("Echo, Sparrow, Giants, Motel, Harbor, Saints"),
                    pattern="{} {}",
                    names=("artist_name", "stage_name"),
                ),
                country(eq="come|comes from {}"),
                choice(
                    "style",
                    *items("rock, jazz, folk, electronic, hip hop, soul"),
                    eq="play|plays {}",
                    names=("genre", "music_style"),
                    words=("style", "musical style"),
                ),
                year(
                    "signed",
                    1995,
                    2023,
                    "signing year",
                    "was signed",
                    names=("signed_in", "contract_year"),
                ),
            ),
            (12, 20),
            ("artist", "band"),
            names=("band", "act"),
            called=("{}",),
        ),
        Table(
            "album",
            (
                title(
                    "title",
                    items("Blue, Slow, Long, Bright, Hidden, Loud, Cold"),
                    items("Rooms, Roads, Season, Fires, Letters, Machines, Water"),
                    pattern="{} {}",
                    names=("album_title", "name"),
                ),
                date(
                    "released",
                    2000,
                    2024,
                    "release date",
                    "was released",
                    names=("release_date",),
                    most="newest",
                    least="oldest",
                ),
                count(
                    "copies", 800, 600_000, "copies sold", names=("sales", "units_sold"), peak=0.05
                ),
                choice(
                    "format",
                    *items("vinyl, CD, digital"),
                    words=("format",),
                    eq="was released on {}",
                    names=("medium",),
                ),
                Ref("artist", "were|was recorded by", "have|has recorded"),
            ),
            (18, 24),
            ("album", "record"),
            names=("record", "release_list"),
            called=('"{}"', 'the album "{}"'),
        ),
        Table(
            "song",
            (
                title(
                    "title",
                    items(
                        """Falling, Dancing, Waiting, Running, Dreaming, Driving, Calling, Burning,
                        Singing, Turning"""
                    ),
                    items("Home, Alone, Slowly, Again, Tonight, Away, Blind, Free, Down"),
                    pattern="{} {}",
                    names=("song_title", "track_name"),
                ),
                whole(
                    "seconds",
                    95,
                    520,
                    "length",
                    unit="{} seconds",
                    names=("duration", "length_sec"),
                    most="longest",
                    least="shortest",
                    over="last|lasts longer than {}",
                ),
                count(
                    "streams",
                    1_000,
                    9_000_000,
                    "streams",
                    names=("plays", "stream_count"),
                    peak=0.05,
                ),
                choice(
                    "language",
                    *items("English, Spanish, French, Portuguese"),
                    eq="was sung in {}",
                    names=("lyrics_language",),
                ),
                flag(
                    "explicit",
                    ("Y", "explicit"),
                    ("N", "clean"),
                    "explicit label",
                    names=("is_explicit",),
                ),
                Ref("album", "appear|appears on", "contain|contains"),
            ),
            (36, 44),
            ("song", "track"),
            names=("track",),
            called=('"{}"', 'the song "{}"'),
        ),
        Table(
            "venue",
            (
                title(
                    "name",
                    items(
                        """Apollo, Odeon, Foundry, Lido, Palladium, Granary, Warehouse, Arcade,
                        Cellar"""
                    ),
                    names=("venue_name", "hall"),
                ),
                city(eq="be in {}"),
                count("capacity", 150, 14_000, "seats", names=("seats", "max_people")),
            ),
            (7, 9),
            ("venue",),
            names=("concert_hall", "location"),
            called=("the {}",),
        ),
        Table(
            "concert",
            (
                Ref("artist", "were|was given by", "have|has given"),
                Ref("venue", "took|took place at", "have|has hosted"),
                date(
                    "held_on", 2021, 2024, "date", "took|took place", names=("date", "concert_date")
                ),
                count(
                    "tickets",
                    60,
                    12_000,
                    "tickets sold",
                    names=("tickets_sold", "attendance"),
                    nulls=0.08,
                ),
                money(
                    "ticket_price",
                    12,
                    140,
                    "ticket price",
                    names=("price", "entry_fee"),
                    most="most expensive",
                    least="cheapest",
                ),
            ),
            (40, 150),
            ("concert", "show"),
            names=("gig", "performance"),
        ),
    ),
    (Link("concert", "artist", "venue", "have|has played at", "have|has hosted"),),
)
