"""City transit: depots, lines, stations, drivers, incidents."""

from __future__ import annotations

from sql_env.worlds.columns import (
    age,
    choice,
    count,
    date,
    duration,
    flag,
    hired,
    person,
    salary,
    title,
    whole,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "city_transit",
    (
        Table(
            "depot",
            (
                title(
                    "name",
                    items("Northside, Canal Street, Ironworks, Meadow, Quarry, Junction, Seaward"),
                    names=("depot_name",),
                ),
                choice(
                    "district",
                    *items("north, south, east, west, centre"),
                    eq="be in the {} district",
                    names=("area", "zone"),
                ),
                count("bays", 20, 140, "parking bays", names=("capacity", "bay_count")),
            ),
            (5, 7),
            ("depot",),
            names=("garage",),
            called=("the {} depot",),
        ),
        Table(
            "line",
            (
                title(
                    "name",
                    items(
                        "Red, Blue, Green, Yellow, Orange, Violet, Silver, Brown, Pink, Amber, Teal"
                    ),
                    pattern="{} Line",
                    names=("label", "line_name"),
                ),
                choice(
                    "mode",
                    *items("bus, tram, metro, ferry"),
                    eq="type {}",
                    names=("vehicle_kind", "kind"),
                    words=("mode of transport", "mode"),
                ),
                whole(
                    "length",
                    4,
                    48,
                    "length",
                    unit="{} km",
                    names=("length_km", "distance"),
                    most="longest",
                    least="shortest",
                ),
                count(
                    "daily_riders",
                    900,
                    88_000,
                    "daily riders",
                    names=("ridership", "riders_per_day"),
                ),
                year(
                    "opened",
                    1954,
                    2022,
                    "opening year",
                    "was opened",
                    names=("open_year", "since"),
                    most="newest",
                    least="oldest",
                ),
            ),
            (8, 11),
            ("line",),
            names=("route",),
            called=("the {}",),
        ),
        Table(
            "station",
            (
                title(
                    "name",
                    items(
                        """Market, Castle, Opera, Harbour, University, Hospital, Stadium, Bridge,
                        Mill, Abbey, Tower, Museum"""
                    ),
                    items("Square, Street, Gate"),
                    pattern="{} {}",
                    names=("stop_name", "station_name"),
                ),
                choice(
                    "district",
                    *items("north, south, east, west, centre"),
                    eq="be in the {} district",
                    names=("area", "zone"),
                ),
                flag(
                    "accessible",
                    ("Y", "accessible"),
                    ("N", "inaccessible"),
                    eq="adj {}",
                    words="accessibility",
                    names=("step_free", "wheelchair"),
                ),
                year(
                    "renovated",
                    1990,
                    2024,
                    "renovation year",
                    "was renovated",
                    nulls=0.3,
                    missing="have|has never been renovated",
                    names=("last_renovation",),
                ),
            ),
            (14, 18),
            ("station", "stop"),
            names=("stop",),
            called=("{}", "the station {}"),
        ),
        Table(
            "line_stop",
            (Ref("line", "belong|belongs to", ""), Ref("station", "belong|belongs to", "")),
            (30, 70),
            names=("serves", "line_station"),
        ),
        Table(
            "driver",
            (
                person(),
                age(22, 66),
                salary(29_000, 62_000),
                hired(1995, 2024),
                Ref("depot", "are|is based at", "have|has"),
                Ref("line", "work|works on", "employ|employs"),
            ),
            (20, 60),
            ("driver",),
            names=("operator", "employee"),
            person=True,
        ),
        Table(
            "incident",
            (
                Ref("line", "took|took place on", "have|has had"),
                Ref("station", "were|was reported at", "have|has reported"),
                choice(
                    "cause",
                    *items(
                        "signal failure, accident, weather, vandalism, power cut, medical emergency"
                    ),
                    eq="was caused by {}",
                    names=("reason", "kind"),
                ),
                date(
                    "reported",
                    2022,
                    2024,
                    "report date",
                    "was reported",
                    names=("date", "reported_on"),
                ),
                duration("delay", 2, 180, step=1),
                choice("severity", *items("minor, moderate, major"), eq="adj {}", names=("level",)),
            ),
            (50, 180),
            ("incident", "disruption"),
            names=("disruption", "event_log"),
        ),
    ),
    (Link("line_stop", "line", "station", "stop|stops at", "are|is served by"),),
)
