"""A farmers' market: squares, farmers, stalls, products, sales."""

from __future__ import annotations

from sql_env.worlds.columns import (
    age,
    choice,
    city,
    count,
    date,
    flag,
    money,
    person,
    phone,
    price,
    real,
    title,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "farmers_market",
    (
        Table(
            "square",
            (
                title(
                    "name",
                    items("Town Hall, Riverside, Cathedral, Union, Station, Old Port"),
                    pattern="{} Square",
                    names=("place_name",),
                ),
                city(eq="be in {}"),
                count("stands", 12, 90, "stands", names=("capacity", "places")),
                choice(
                    "weekday",
                    *items("Monday, Wednesday, Friday, Saturday, Sunday"),
                    eq="be open on {}",
                    words=("market day",),
                    names=("market_day",),
                ),
            ),
            (5, 6),
            ("market square", "market"),
            names=("market", "venue"),
            called=("{}",),
        ),
        Table(
            "farmer",
            (
                person(),
                age(20, 75),
                choice(
                    "village",
                    *items("Ashby, Brook, Colne, Dunford, Elmstead, Fenwick"),
                    eq="live|lives in {}",
                    names=("town", "home_village"),
                ),
                flag(
                    "organic",
                    ("Y", "organic"),
                    ("N", "conventional"),
                    words="certification",
                    eq="adj {}",
                    names=("certification",),
                ),
                phone(0.2),
            ),
            (14, 40),
            ("farmer",),
            names=("grower", "vendor"),
            person=True,
        ),
        Table(
            "stall",
            (
                title(
                    "label",
                    items("North, South, East, West"),
                    items("1, 2, 3, 4, 5, 6, 7, 8"),
                    pattern="{} {}",
                    words="label",
                    names=("stall_code", "name"),
                ),
                money(
                    "rent",
                    20,
                    160,
                    ("weekly rent",),
                    names=("weekly_rent", "fee"),
                    additive=True,
                    most="most expensive",
                    least="cheapest",
                ),
                real(
                    "width",
                    2,
                    8,
                    unit="{} metres",
                    names=("width_m",),
                    most="widest",
                    least="narrowest",
                ),
                Ref("square", "stand|stands on", "have|has"),
                Ref("farmer", "are|is run by", "run|runs"),
            ),
            (12, 16),
            ("stall",),
            names=("stand", "booth"),
            called=("the stall {}",),
        ),
        Table(
            "product",
            (
                title(
                    "name",
                    items(
                        """goat cheese, honey, carrots, sourdough, eggs, cider, pumpkins, basil,
                        plum jam, walnuts, trout, sausages, kale, raspberries"""
                    ),
                    names=("product_name", "item"),
                ),
                choice(
                    "category",
                    *items("dairy, vegetables, bakery, meat and fish, fruit, pantry"),
                    words=("category",),
                    eq="belong|belongs to the category {}",
                    names=("product_group",),
                ),
                price(0.9, 24, names=("unit_price",)),
                choice(
                    "unit",
                    *items("kilo, piece, bunch, jar, litre"),
                    words=("sales unit",),
                    eq="was sold by the {}",
                ),
            ),
            (10, 14),
            ("product",),
            names=("good", "item"),
            called=("{}", "the product {}"),
        ),
        Table(
            "offer",
            (Ref("stall", "belong|belongs to", ""), Ref("product", "belong|belongs to", "")),
            (30, 80),
            names=("sells", "stall_product"),
        ),
        Table(
            "sale",
            (
                Ref("stall", "were|was made at", "have|has made"),
                Ref("product", "are|is of", ""),
                date("sold_on", 2023, 2024, "date", "was made", names=("date", "sale_date")),
                count("quantity", 1, 40, "units", names=("units", "amount")),
                money("takings", 3, 380, "turnover", additive=True, names=("revenue", "total")),
            ),
            (80, 300),
            ("sale",),
            names=("transaction_log", "purchase"),
        ),
    ),
    (Link("offer", "stall", "product", "sell|sells", "are|is sold at"),),
)
