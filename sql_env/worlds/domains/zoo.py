"""A zoo: species, enclosures, animals, keepers, feedings, check-ups."""

from __future__ import annotations

from sql_env.worlds.columns import (
    age,
    birth_date,
    choice,
    date,
    hired,
    money,
    person,
    real,
    salary,
    title,
    whole,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "zoo",
    (
        Table(
            "enclosure",
            (
                title(
                    "name",
                    items(
                        """Savanna, Rainforest, Arctic, Desert, Wetland, Mountain, Aviary, Reptile,
                        Nocturnal"""
                    ),
                    pattern="{} House",
                    names=("enclosure_name", "label"),
                ),
                whole(
                    "area",
                    40,
                    9_000,
                    "area",
                    step=10,
                    unit="{} square metres",
                    names=("size_sqm", "area_sqm"),
                    peak=0.15,
                    most="largest",
                    least="smallest",
                ),
                choice(
                    "climate",
                    *items("tropical, dry, polar, temperate"),
                    eq="have {a} climate",
                    names=("climate_zone",),
                ),
                year(
                    "built",
                    1960,
                    2022,
                    "year of construction",
                    "was built",
                    names=("built_in",),
                    most="newest",
                    least="oldest",
                ),
            ),
            (7, 9),
            ("enclosure",),
            names=("habitat", "compound"),
            called=("the {}",),
        ),
        Table(
            "species",
            (
                title(
                    "name",
                    items(
                        """lion, red panda, penguin, giraffe, tapir, flamingo, iguana, otter, lemur,
                        snow leopard, macaw, tortoise, zebra, meerkat"""
                    ),
                    names=("common_name", "species_name"),
                    words="name",
                ),
                choice(
                    "kind",
                    *items("mammal, bird, reptile"),
                    words=("animal class", "class"),
                    eq="belong|belongs to the class {}",
                    names=("animal_class", "taxon"),
                ),
                choice(
                    "continent",
                    *items("Africa, Asia, South America, Europe, Antarctica"),
                    words=("home continent",),
                    eq="come|comes from {}",
                    names=("native_to", "origin"),
                ),
                choice(
                    "risk",
                    ("LC", "least concern"),
                    ("VU", "vulnerable"),
                    ("EN", "endangered"),
                    ("CR", "critically endangered"),
                    words=("conservation status",),
                    eq="be classified as {}",
                    names=("status", "red_list"),
                ),
                whole(
                    "lifespan",
                    6,
                    110,
                    "life expectancy",
                    unit="{} years",
                    names=("life_expectancy", "max_age"),
                    peak=0.2,
                ),
            ),
            (11, 14),
            ("species",),
            names=("animal_species",),
            called=("the species {}",),
        ),
        Table(
            "animal",
            (
                title(
                    "name",
                    items(
                        """Asha, Bongo, Chico, Duma, Echo, Freya, Goliath, Hira, Inka, Jabari, Kito,
                        Lola, Mosi, Nuru, Oki, Pasha, Quito, Rani, Simba, Tika, Uma, Vito, Wanda,
                        Xena, Yoko, Zuri, Amber, Basil, Cocoa, Dexter, Ella, Figo, Ginny, Hugo"""
                    ),
                    names=("animal_name", "nickname"),
                ),
                choice("gender", ("F", "female"), ("M", "male"), eq="adj {}", names=("sex",)),
                birth_date(1995, 2023, nulls=0.06),
                real(
                    "weight",
                    0.4,
                    900,
                    "weight",
                    unit="{} kg",
                    names=("weight_kg", "mass"),
                    peak=0.03,
                    over="weigh|weighs more than {}",
                    under="weigh|weighs less than {}",
                    most="heaviest",
                    least="lightest",
                ),
                Ref("species", "belong|belongs to", ""),
                Ref("enclosure", "live|lives in", "house|houses"),
            ),
            (26, 34),
            ("animal",),
            names=("resident", "inhabitant"),
            called=("{}", "the animal {}"),
        ),
        Table(
            "keeper",
            (
                person(),
                age(19, 66),
                hired(),
                salary(22_000, 54_000),
                choice(
                    "training",
                    *items("birds, big cats, reptiles, primates, marine animals"),
                    words=("area of training",),
                    eq="be trained to look after {}",
                    names=("specialty", "focus"),
                ),
            ),
            (9, 20),
            ("keeper", "zookeeper"),
            names=("employee", "caretaker"),
            person=True,
        ),
        Table(
            "feeding",
            (
                Ref("animal", "were|was given to", "have|has had"),
                Ref("keeper", "were|was done by", "have|has done"),
                choice(
                    "food",
                    *items("fruit, meat, fish, hay, insects, pellets"),
                    words=("food", "type of food"),
                    names=("diet", "feed"),
                    eq="consist|consists of {}",
                ),
                real(
                    "amount",
                    0.1,
                    28,
                    "amount",
                    unit="{} kg",
                    names=("kilos", "quantity"),
                    peak=0.1,
                    additive=True,
                    most="largest",
                    least="smallest",
                ),
                date("given_on", 2023, 2024, "date", "took|took place", names=("date", "fed_on")),
            ),
            (90, 320),
            ("feeding",),
            names=("meal_log",),
        ),
        Table(
            "checkup",
            (
                Ref("animal", "were|was done on", "have|has undergone"),
                date(
                    "checked_on", 2020, 2024, "date", "took|took place", names=("date", "exam_date")
                ),
                choice(
                    "finding",
                    *items("healthy, dental problem, injury, infection, overweight"),
                    words=("finding",),
                    names=("diagnosis", "result"),
                ),
                money(
                    "cost",
                    20,
                    700,
                    "cost",
                    names=("price", "bill"),
                    additive=True,
                    most="most expensive",
                    least="cheapest",
                ),
            ),
            (40, 130),
            ("check-up", "health check"),
            names=("health_check", "examination"),
            optional=True,
        ),
    ),
    (
        Link("feeding", "keeper", "animal", "have|has fed", "have|has been fed by"),
        Link("animal", "enclosure", "species", "are|is home to", "live|lives in"),
    ),
)
