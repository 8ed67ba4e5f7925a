"""A wine guide: regions, producers, grapes, wines, tasters, tastings."""

from __future__ import annotations

from sql_env.worlds.columns import (
    choice,
    count,
    country,
    date,
    flag,
    founded,
    person,
    price,
    real,
    title,
    whole,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "winery",
    (
        Table(
            "region",
            (
                title(
                    "name",
                    items(
                        """Valmora, Côte Grise, Rio Alto, Mosel Bend, Barro Valley, Sierra Clara,
                        Lowlands, Terra Nova"""
                    ),
                ),
                country(eq="be in {}"),
                choice(
                    "climate",
                    *items("maritime, continental, mediterranean, alpine"),
                    eq="have {a} climate",
                ),
            ),
            (5, 8),
            ("region", "wine region"),
            names=("appellation",),
            called=("{}", "the {} region"),
        ),
        Table(
            "producer",
            (
                title(
                    "name",
                    items("Château, Casa, Domaine, Villa"),
                    items("Aubry, Benito, Caron, Duarte, Estela, Ferro"),
                    pattern="{} {}",
                ),
                founded(1720, 2010),
                count("hectares", 4, 240, "hectares", names=("area_ha", "vineyard_size")),
                flag(
                    "organic",
                    ("Y", "organic"),
                    ("N", "conventional"),
                    eq="adj {}",
                    words="farming method",
                    names=("farming",),
                ),
                Ref("region", "are|is located in", "have|has"),
            ),
            (9, 12),
            ("producer", "winery"),
            names=("winery", "estate"),
            called=("{}",),
        ),
        Table(
            "grape",
            (
                title(
                    "name",
                    items(
                        """Pinot Noir, Merlot, Riesling, Chardonnay, Tempranillo, Malbec, Syrah,
                        Sauvignon Blanc, Grenache, Barbera"""
                    ),
                    names=("variety",),
                ),
                choice("color", *items("red, white"), eq="adj {}", names=("colour", "skin")),
            ),
            (7, 10),
            ("grape", "grape variety"),
            names=("variety",),
            called=("{}",),
        ),
        Table(
            "wine",
            (
                title(
                    "name",
                    items("Reserva, Old Vines, Cuvée, Estate, Hillside, Grand"),
                    items("Rouge, Blanc, Noir, Selection, Tradition, Velvet, Amber"),
                    pattern="{} {}",
                    names=("label", "wine_name"),
                ),
                year(
                    "vintage",
                    2005,
                    2022,
                    "vintage",
                    names=("year", "harvest_year"),
                    most="youngest",
                    least="oldest",
                ),
                price(7, 190, names=("bottle_price",)),
                real(
                    "alcohol",
                    9.5,
                    15.5,
                    "alcohol content",
                    unit="{} percent",
                    names=("abv", "alcohol_pct"),
                    most="strongest",
                    least="weakest",
                ),
                whole("score", 78, 100, ("critics' score",), names=("rating", "points"), peak=0.6),
                Ref("producer", "are|is made by", "make|makes"),
                Ref("grape", "are|is made from", ""),
            ),
            (18, 21),
            ("wine",),
            names=("bottle", "wine_list"),
            called=("the wine {}",),
        ),
        Table(
            "taster",
            (
                person(),
                country(eq="come|comes from {}"),
                year(
                    "certified",
                    1995,
                    2023,
                    "certification year",
                    "was certified",
                    names=("cert_year",),
                    nulls=0.1,
                ),
            ),
            (8, 18),
            ("taster", "critic"),
            names=("critic", "judge"),
            person=True,
        ),
        Table(
            "tasting",
            (
                Ref("taster", "were|was led by", "have|has led"),
                Ref("wine", "are|is of", "have|has had"),
                date("held", 2020, 2024, "date", "was held", names=("tasting_date", "day")),
                whole(
                    "points",
                    60,
                    100,
                    "number of points",
                    counted="points",
                    names=("score", "mark"),
                    peak=0.6,
                    additive=False,
                ),
                choice(
                    "venue",
                    *items("cellar, fair, restaurant, shop"),
                    eq="was held at {a}",
                    names=("place",),
                ),
            ),
            (50, 180),
            ("tasting",),
            names=("evaluation",),
        ),
    ),
    (
        Link("tasting", "taster", "wine", "have|has tasted", "have|has been tasted by"),
        Link("wine", "producer", "grape", "use|uses", "are|is used by"),
    ),
)
