"""A power company: regions, plants, operators, customers, meters, outages."""

from __future__ import annotations

from sql_env.worlds.columns import (
    age,
    choice,
    city,
    count,
    date,
    duration,
    email,
    flag,
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
    "power_grid",
    (
        Table(
            "region",
            (
                title(
                    "name",
                    items("Northland, Eastmark, Southvale, Westmoor, Midlands, Coastal, Highlands"),
                    names=("region_name",),
                ),
                count(
                    "population",
                    20_000,
                    2_400_000,
                    "inhabitants",
                    names=("inhabitants", "residents"),
                ),
                choice(
                    "terrain",
                    *items("coast, mountains, plains, forest"),
                    names=("landscape",),
                    words=("terrain",),
                ),
            ),
            (5, 7),
            ("region",),
            names=("district", "area"),
            called=("{}", "the {} region"),
        ),
        Table(
            "plant",
            (
                title(
                    "name",
                    items("Raven, Stone, Clear, Broad, Silver, Kings"),
                    items("Ridge, Water, Field, Brook"),
                    pattern="{} {}",
                    names=("plant_name",),
                ),
                choice(
                    "source",
                    *items("wind, solar, hydro, gas, nuclear, biomass"),
                    words=("energy source",),
                    eq="run|runs on {}",
                    names=("fuel", "energy_type"),
                ),
                whole(
                    "capacity",
                    5,
                    1900,
                    "capacity",
                    unit="{} megawatts",
                    names=("capacity_mw", "output_mw"),
                    peak=0.1,
                    most="most powerful",
                    least="least powerful",
                    additive=True,
                ),
                year(
                    "commissioned",
                    1965,
                    2023,
                    "commissioning year",
                    "was commissioned",
                    names=("online_since", "start_year"),
                    most="newest",
                    least="oldest",
                ),
                real(
                    "emissions",
                    0,
                    820,
                    "emission rate",
                    unit="{} grams per kilowatt hour",
                    digits=1,
                    names=("co2", "co2_intensity"),
                    peak=0.02,
                ),
                Ref("region", "stand|stands in", "have|has"),
            ),
            (10, 12),
            ("plant", "power plant"),
            names=("station", "power_station"),
            called=("{}", "the plant {}"),
        ),
        Table(
            "technician",
            (
                person(),
                age(20, 65),
                salary(31_000, 88_000),
                choice(
                    "qualification",
                    *items("electrician, engineer, inspector, apprentice"),
                    eq="work|works as {a}",
                    names=("job", "role"),
                ),
                Ref("plant", "work|works at", "employ|employs"),
            ),
            (20, 60),
            ("technician",),
            names=("employee", "worker"),
            person=True,
        ),
        Table(
            "customer",
            (
                person(),
                city(eq="live|lives in {}"),
                choice(
                    "tariff",
                    *items("basic, green, night, business"),
                    eq="have the {} tariff",
                    names=("plan", "rate_plan"),
                ),
                email("energy.example"),
                Ref("region", "live|lives in", "have|has"),
            ),
            (30, 100),
            ("customer",),
            names=("household", "subscriber"),
            person=True,
        ),
        Table(
            "reading",
            (
                Ref("customer", "belong|belongs to", "have|has submitted"),
                date(
                    "read_on", 2022, 2024, "reading date", "was taken", names=("date", "taken_on")
                ),
                whole(
                    "usage",
                    40,
                    1600,
                    "usage",
                    unit="{} kilowatt hours",
                    names=("kwh", "consumption"),
                    peak=0.2,
                    additive=True,
                    most="highest",
                    least="lowest",
                ),
                flag(
                    "estimated",
                    ("Y", "estimated"),
                    ("N", "measured"),
                    "estimation",
                    names=("is_estimate",),
                ),
            ),
            (90, 320),
            ("meter reading",),
            names=("meter_reading", "meter_log"),
        ),
        Table(
            "outage",
            (
                Ref("plant", "began|began at", "have|has suffered"),
                date(
                    "started", 2021, 2024, "start date", "started|started", names=("date", "began")
                ),
                duration("minutes", 4, 700, step=1),
                count(
                    "households",
                    20,
                    40_000,
                    "affected households",
                    names=("affected", "households_hit"),
                    peak=0.05,
                ),
                choice(
                    "cause",
                    *items("storm, overload, equipment failure, maintenance, animals"),
                    eq="was caused by {}",
                    nulls=0.1,
                    names=("reason",),
                ),
            ),
            (40, 140),
            ("outage", "power cut"),
            names=("power_cut", "failure"),
        ),
        Table(
            "inspection",
            (
                Ref("technician", "were|was carried out by", "have|has carried out"),
                Ref("plant", "took|took place at", "have|has had"),
                date("inspected_on", 2020, 2024, "date", "took|took place", names=("date", "day")),
                choice(
                    "result", *items("passed, failed, repeated"), eq="adj {}", names=("verdict",)
                ),
            ),
            (40, 130),
            ("inspection",),
            names=("plant_check",),
        ),
    ),
    (
        Link(
            "inspection",
            "technician",
            "plant",
            "have|has inspected",
            "have|has been inspected by",
        ),
    ),
)
