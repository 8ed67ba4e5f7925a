"""A charity: donors, campaigns, donations, volunteers, projects, shifts."""

from __future__ import annotations

from sql_env.worlds.columns import (
    age,
    choice,
    city,
    count,
    country,
    date,
    email,
    money,
    person,
    phone,
    title,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "charity",
    (
        Table(
            "campaign",
            (
                title(
                    "name",
                    items("Clean, Warm, Bright, Open, Safe, Green"),
                    items("Water, Winter, Futures, Schools, Streets, Forests"),
                    pattern="{} {}",
                    names=("campaign_name", "title"),
                ),
                date(
                    "launched",
                    2016,
                    2024,
                    "launch date",
                    "was launched",
                    names=("start_date", "launch"),
                ),
                money(
                    "goal",
                    5_000,
                    400_000,
                    "fundraising goal",
                    names=("target", "target_amount"),
                    additive=True,
                ),
                choice(
                    "cause",
                    *items("health, education, environment, housing, hunger"),
                    eq="be devoted to {}",
                    names=("theme", "topic"),
                ),
            ),
            (9, 14),
            ("campaign",),
            names=("appeal", "fundraiser"),
            called=("{}", "the campaign {}"),
        ),
        Table(
            "donor",
            (
                person(),
                choice(
                    "kind",
                    *items("private, corporate, foundation"),
                    words=("donor type",),
                    eq="type {}",
                    names=("donor_type",),
                ),
                country(eq="come|comes from {}"),
                year(
                    "first_gift",
                    2005,
                    2024,
                    "year of the first gift",
                    "gave|gave for the first time",
                    names=("donor_since", "since"),
                ),
                email("giving.example", nulls=0.2),
            ),
            (28, 90),
            ("donor",),
            names=("supporter", "giver"),
            person=True,
        ),
        Table(
            "donation",
            (
                Ref("donor", "were|was made by", "have|has made"),
                Ref("campaign", "went|went to", "have|has received"),
                money(
                    "amount",
                    5,
                    8_000,
                    names=("value", "gift"),
                    peak=0.03,
                    additive=True,
                    most="largest",
                    least="smallest",
                ),
                date("given_on", 2019, 2024, "date", "was made", names=("date", "donated_on")),
                choice(
                    "method",
                    *items("card, bank transfer, cash, cheque"),
                    words=("payment method",),
                    eq="was paid by {}",
                    names=("payment_method",),
                ),
            ),
            (90, 320),
            ("donation", "gift"),
            names=("contribution",),
        ),
        Table(
            "volunteer",
            (
                person(),
                age(16, 80),
                city(eq="live|lives in {}"),
                choice(
                    "skill",
                    *items("cooking, teaching, driving, first aid, accounting, translation"),
                    words=("main skill", "skill"),
                    eq="be skilled in {}",
                    nulls=0.1,
                    names=("main_skill", "expertise"),
                ),
                phone(0.15),
            ),
            (24, 80),
            ("volunteer",),
            names=("helper_list", "member"),
            person=True,
        ),
        Table(
            "project",
            (
                title(
                    "name",
                    items(
                        """Soup Kitchen, Night Shelter, Reading Club, River Cleanup, Tree Planting,
                        Food Bank, Tool Library, Summer Camp, Repair Cafe"""
                    ),
                    names=("project_name",),
                ),
                city(eq="be based in {}"),
                money(
                    "cost",
                    1_000,
                    90_000,
                    "yearly cost",
                    names=("yearly_cost", "budget"),
                    additive=True,
                    most="most expensive",
                    least="cheapest",
                ),
                Ref("campaign", "are|is funded by", "fund|funds"),
            ),
            (7, 9),
            ("project",),
            names=("programme", "initiative"),
            called=("the {}",),
        ),
        Table(
            "shift",
            (
                Ref("volunteer", "were|was worked by", "have|has worked"),
                Ref("project", "took|took place at", "have|has organised"),
                date("day", 2023, 2024, "date", "took|took place", names=("date", "worked_on")),
                count("hours", 1, 10, "hours", names=("duration_hours", "length")),
            ),
            (80, 260),
            ("shift",),
            names=("assignment", "service"),
        ),
    ),
    (
        Link("donation", "donor", "campaign", "have|has supported", "have|has been supported by"),
        Link("shift", "volunteer", "project", "have|has helped at", "have|has been helped by"),
    ),
)
