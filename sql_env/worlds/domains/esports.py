"""An esports league: organisations, teams, players, games, tournaments, matches."""

from __future__ import annotations

from sql_env.worlds.columns import (
    age,
    choice,
    city,
    count,
    country,
    date,
    duration,
    founded,
    money,
    person,
    title,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "esports",
    (
        Table(
            "game",
            (
                title(
                    "name",
                    items(
                        "Star Forge, Blade Arena, Turbo Drift, Night Raid, Pixel Siege, Sky Legion"
                    ),
                    names=("game_title", "title"),
                ),
                choice(
                    "genre",
                    *items("strategy, shooter, racing, fighting"),
                    eq="type {}",
                    names=("kind", "category"),
                ),
                year(
                    "released",
                    2008,
                    2022,
                    "release year",
                    "was released",
                    names=("release_year",),
                    most="newest",
                    least="oldest",
                ),
                choice(
                    "publisher",
                    *items("Orbit Labs, Redstone, Moonlit, Polygon House"),
                    eq="was published by {}",
                    names=("studio",),
                ),
            ),
            (5, 6),
            ("game",),
            names=("title_list",),
            called=("{}", "the game {}"),
        ),
        Table(
            "team",
            (
                title(
                    "name",
                    items("Iron, Crimson, Arctic, Neon, Solar, Phantom, Royal"),
                    items("Wolves, Foxes, Titans, Ravens"),
                    pattern="{} {}",
                    names=("team_name",),
                ),
                country(
                    "region", "home country", eq="come|comes from {}", names=("country", "home")
                ),
                founded(2006, 2021),
                money(
                    "budget",
                    40_000,
                    2_500_000,
                    "budget",
                    names=("funding",),
                    most="richest",
                    least="poorest",
                    additive=True,
                ),
            ),
            (10, 14),
            ("team",),
            names=("squad", "club"),
            called=("the {}",),
        ),
        Table(
            "player",
            (
                person(),
                title(
                    "nickname",
                    items(
                        """zer0, Mantis, Kestrel, Vex, Lumen, Oni, Drift, Pyro, Echo, Nyx, Ghost,
                        Saber, Tide, Hex, Raze, Blink"""
                    ),
                    items("X, 7, Jr, GG"),
                    pattern="{}{}",
                    words="nickname",
                    names=("handle", "gamertag"),
                ),
                age(16, 34),
                country("nationality", "nationality", eq="come|comes from {}", names=("country",)),
                choice(
                    "role",
                    *items("captain, healer, sniper, tank, coach"),
                    eq="play|plays as {a}",
                    names=("position",),
                ),
                money(
                    "monthly_salary",
                    800,
                    22_000,
                    ("monthly salary",),
                    names=("salary", "wage"),
                    over="earn|earns more than {} a month",
                    under="earn|earns less than {} a month",
                    most="best-paid",
                    least="worst-paid",
                ),
                Ref("team", "play|plays for", "have|has"),
            ),
            (24, 32),
            ("player",),
            names=("gamer", "roster"),
            person=True,
        ),
        Table(
            "tournament",
            (
                title(
                    "name",
                    items("Spring, Summer, Autumn, Winter, World, Masters"),
                    items("Cup, Clash, Open, Finals"),
                    pattern="{} {}",
                    names=("event_name",),
                ),
                city(eq="was held in {}"),
                date(
                    "start_date",
                    2020,
                    2024,
                    "start date",
                    "started|started",
                    names=("begins", "date"),
                ),
                money(
                    "prize_pool",
                    5_000,
                    900_000,
                    "prize pool",
                    names=("prize", "purse"),
                    additive=True,
                    most="richest",
                    least="poorest",
                ),
                Ref("game", "feature|features", "have|has been played at"),
            ),
            (8, 12),
            ("tournament",),
            names=("event", "competition"),
            called=("the {}",),
        ),
        Table(
            "entry",
            (
                Ref("team", "were|was made by", "have|has made"),
                Ref("tournament", "are|is for", "have|has received"),
                choice(
                    "placement",
                    *range(1, 9),
                    words="final placement",
                    names=("final_rank", "place"),
                ),
                money(
                    "prize_won",
                    0,
                    90_000,
                    "prize",
                    names=("winnings", "payout"),
                    nulls=0.3,
                    missing="have no prize",
                    additive=True,
                ),
            ),
            (40, 110),
            ("entry",),
            names=("participation", "team_result"),
        ),
        Table(
            "streaming",
            (
                Ref("player", "were|was hosted by", "have|has hosted"),
                Ref("game", "show|shows", ""),
                date("streamed_on", 2023, 2024, "date", "went|went live", names=("date", "day")),
                count(
                    "viewers", 50, 48_000, "viewers", names=("peak_viewers", "audience"), peak=0.05
                ),
                duration("minutes", 20, 480),
            ),
            (50, 200),
            ("stream",),
            names=("broadcast",),
            optional=True,
        ),
    ),
    (
        Link("entry", "team", "tournament", "have|has entered", "have|has been entered by"),
        Link("streaming", "player", "game", "have|has streamed", "have|has been streamed by"),
    ),
)
