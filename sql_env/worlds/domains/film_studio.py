"""A film archive: studios, directors, films, actors, roles, awards."""

from __future__ import annotations

from sql_env.worlds.columns import (
    birth_date,
    choice,
    city,
    count,
    country,
    duration,
    founded,
    gender,
    money,
    person,
    title,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "film_studio",
    (
        Table(
            "studio",
            (
                title(
                    "name",
                    items(
                        "Lumen, Red Kite, Halcyon, Northlight, Big Lake, Cobalt, Paper Moon, Static"
                    ),
                    pattern="{} Pictures",
                    names=("studio_name",),
                ),
                city(),
                founded(1915, 2014),
            ),
            (6, 8),
            ("studio",),
            names=("company", "production_company"),
            called=("{}",),
        ),
        Table(
            "director",
            (
                person(),
                gender(),
                country(eq="come|comes from {}"),
                year(
                    "debut",
                    1970,
                    2019,
                    "debut year",
                    "debuted|debuted",
                    names=("first_film", "debut_year"),
                ),
            ),
            (10, 22),
            ("director",),
            names=("filmmaker",),
            person=True,
        ),
        Table(
            "film",
            (
                title(
                    "title",
                    items(
                        "Midnight, Broken, Electric, The Quiet, Savage, Crystal, The Lost, Burning"
                    ),
                    items("Shore, Parade, Verdict, Signal, Tide, Summer, Map"),
                    pattern="{} {}",
                    names=("film_title", "name"),
                ),
                year(
                    "released",
                    1985,
                    2024,
                    "release year",
                    "was released",
                    names=("year", "release_year"),
                    most="newest",
                    least="oldest",
                    ask=("In which year was {} released?",),
                ),
                choice(
                    "genre",
                    *items("drama, comedy, thriller, horror, documentary, animation"),
                    words=("genre",),
                    eq="belong|belongs to the genre {}",
                    names=("category",),
                ),
                duration("runtime", 72, 190, step=1),
                money(
                    "budget",
                    300_000,
                    180_000_000,
                    "budget",
                    names=("cost", "production_budget"),
                    peak=0.1,
                    additive=True,
                    most="most expensive",
                    least="cheapest",
                ),
                money(
                    "gross",
                    50_000,
                    900_000_000,
                    ("box-office gross", "gross"),
                    names=("box_office", "revenue"),
                    peak=0.08,
                    nulls=0.1,
                    missing="have no recorded box-office gross",
                    additive=True,
                ),
                Ref("director", "were|was directed by", "have|has directed"),
                Ref("studio", "were|was produced by", "have|has produced"),
            ),
            (20, 28),
            ("film", "movie"),
            names=("movie", "production"),
            called=('"{}"', 'the film "{}"'),
        ),
        Table(
            "actor",
            (
                person(),
                gender(),
                birth_date(1940, 2004),
                country("nationality", "nationality", eq="come|comes from {}", names=("country",)),
                choice(
                    "agency",
                    *items("Bright Stars, Curtain Call, Prime Talent"),
                    words=("agency",),
                    eq="be represented by {}",
                    nulls=0.25,
                    missing="have no agency",
                    names=("agent",),
                ),
            ),
            (24, 70),
            ("actor",),
            names=("performer", "cast_list"),
            person=True,
        ),
        Table(
            "role",
            (
                Ref("film", "are|is in", "have|has"),
                Ref("actor", "are|is played by", "have|has played"),
                choice(
                    "kind",
                    *items("lead, supporting, cameo, voice"),
                    eq="type {}",
                    names=("role_type", "billing"),
                    words=("type",),
                ),
                count("scenes", 1, 60, "scenes", names=("scene_count",)),
                money(
                    "fee",
                    2_000,
                    4_000_000,
                    "fee",
                    names=("pay", "salary"),
                    peak=0.05,
                    additive=True,
                ),
            ),
            (70, 220),
            ("role",),
            names=("appearance", "casting"),
        ),
        Table(
            "award",
            (
                Ref("film", "were|was given to", "have|has won"),
                choice(
                    "prize",
                    *items("Golden Reel, Silver Lens, Critics Circle, Audience Award"),
                    words="prize name",
                    names=("award_name",),
                ),
                choice(
                    "category",
                    *items("best film, best script, best score, best editing"),
                    names=("award_category",),
                ),
                year("year", 1990, 2024, "year", "was given", names=("award_year",)),
            ),
            (20, 60),
            ("award",),
            names=("honour", "prize_list"),
            optional=True,
        ),
    ),
    (Link("role", "actor", "film", "have|has appeared in", "feature|features"),),
)
