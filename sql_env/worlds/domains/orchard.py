"""An orchard: fields, fruit varieties, trees, workers, harvests."""

from __future__ import annotations

from sql_env.worlds.columns import (
    age,
    choice,
    city,
    date,
    flag,
    money,
    person,
    phone,
    price,
    real,
    title,
    whole,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "orchard",
    (
        Table(
            "field",
            (
                title(
                    "name",
                    items("Upper, Lower, Old, Far, Mill, Church, Stony, Sunny"),
                    items("Meadow, Slope, Acre"),
                    pattern="{} {}",
                    names=("plot_name",),
                ),
                real(
                    "area",
                    0.4,
                    9.5,
                    "area",
                    unit="{} hectares",
                    names=("hectares", "size_ha"),
                    most="largest",
                    least="smallest",
                    additive=True,
                ),
                choice(
                    "soil",
                    *items("clay, loam, sand, chalk"),
                    eq="have {} soil",
                    names=("soil_type",),
                    words="soil type",
                ),
                flag(
                    "irrigated",
                    ("Y", "irrigated"),
                    ("N", "unirrigated"),
                    eq="adj {}",
                    words="irrigation",
                    names=("has_irrigation",),
                ),
            ),
            (8, 12),
            ("field", "plot"),
            names=("plot", "parcel"),
            called=("{}", "the field {}"),
        ),
        Table(
            "variety",
            (
                title(
                    "name",
                    items(
                        """Gala, Elstar, Bramley, Conference, Bosc, Victoria, Mirabelle, Stella,
                        Bing, Jonagold, Cox, Braeburn, Fuji, Comice"""
                    ),
                    names=("variety_name", "cultivar"),
                ),
                choice(
                    "fruit",
                    *items("apple, pear, plum, cherry"),
                    eq="type {}",
                    names=("species", "crop"),
                    words=("fruit", "kind of fruit"),
                ),
                choice(
                    "ripens",
                    *items("June, July, August, September, October"),
                    eq="ripen|ripens in {}",
                    words=("ripening month",),
                    names=("harvest_month",),
                ),
                price(0.8, 6.5, "price_per_kg", ("price per kilo",), names=("price", "kilo_price")),
            ),
            (9, 14),
            ("variety",),
            names=("cultivar", "fruit_variety"),
            called=("the variety {}",),
        ),
        Table(
            "tree",
            (
                Ref("field", "grow|grows in", "have|has"),
                Ref("variety", "are|is of", ""),
                year(
                    "planted",
                    1988,
                    2022,
                    "planting year",
                    "was planted",
                    names=("plant_year", "year"),
                ),
                real(
                    "height",
                    1.2,
                    7.5,
                    unit="{} metres",
                    names=("height_m",),
                    most="tallest",
                    least="shortest",
                    over="be taller than {}",
                    under="be shorter than {}",
                ),
                choice(
                    "health",
                    *items("healthy, stressed, diseased"),
                    eq="adj {}",
                    names=("condition", "state"),
                ),
            ),
            (80, 260),
            ("tree",),
            names=("plant",),
        ),
        Table(
            "worker",
            (
                person(),
                age(17, 67),
                choice(
                    "role",
                    *items("picker, pruner, supervisor, driver, packer"),
                    eq="work|works as {a}",
                    names=("job", "task"),
                ),
                money(
                    "hourly_wage",
                    12,
                    34,
                    "hourly wage",
                    names=("wage", "rate"),
                    most="best-paid",
                    least="worst-paid",
                ),
                choice(
                    "contract",
                    *items("seasonal, permanent, daily"),
                    eq="adj {}",
                    words=("contract type",),
                    names=("contract_type",),
                ),
                phone(),
            ),
            (14, 40),
            ("worker",),
            names=("employee", "labourer"),
            person=True,
        ),
        Table(
            "harvest",
            (
                Ref("worker", "were|was brought in by", "have|has brought in"),
                Ref("field", "come|comes from", "have|has yielded"),
                Ref("variety", "are|is of", ""),
                date("picked", 2021, 2024, "picking date", "was picked", names=("date", "day")),
                whole(
                    "weight",
                    40,
                    1400,
                    "weight",
                    unit="{} kg",
                    names=("kilos", "kg"),
                    additive=True,
                    most="heaviest",
                    least="lightest",
                    over="weigh|weighs more than {}",
                    under="weigh|weighs less than {}",
                ),
                choice(
                    "grade",
                    *items("A, B, C"),
                    words=("quality grade",),
                    eq="be of grade {}",
                    names=("quality",),
                ),
            ),
            (90, 320),
            ("harvest",),
            names=("picking", "yield_record"),
        ),
        Table(
            "buyer",
            (
                title(
                    "name",
                    items(
                        """Green Basket, Cider Mill, Fresh Fields, Corner Grocer, Sunrise Market,
                        Jam Factory, Hilltop Deli"""
                    ),
                ),
                city(),
                choice(
                    "kind",
                    *items("supermarket, wholesaler, restaurant, processor"),
                    eq="type {}",
                    names=("customer_type",),
                    words=("type",),
                ),
            ),
            (5, 7),
            ("buyer", "customer"),
            names=("customer",),
            called=("{}",),
            optional=True,
        ),
    ),
    (
        Link("harvest", "worker", "field", "have|has picked in", "have|has been picked by"),
        Link("tree", "field", "variety", "grow|grows", "are|is grown in"),
    ),
)
