"""An insurance company: agents, clients, products, policies, claims."""

from __future__ import annotations

from sql_env.worlds.columns import (
    birth_date,
    choice,
    city,
    date,
    email,
    flag,
    gender,
    hired,
    money,
    person,
    phone,
    real,
    title,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "insurance",
    (
        Table(
            "agent",
            (
                person(),
                city(),
                hired(),
                real(
                    "commission",
                    2,
                    15,
                    "commission rate",
                    unit="{} percent",
                    names=("commission_pct", "rate"),
                ),
                phone(),
            ),
            (9, 18),
            ("agent", "insurance agent"),
            names=("broker", "sales_agent"),
            person=True,
        ),
        Table(
            "client",
            (
                person(),
                gender(),
                birth_date(1940, 2004),
                city(eq="live|lives in {}"),
                choice(
                    "occupation",
                    *items("teacher, engineer, nurse, driver, farmer, lawyer, baker"),
                    names=("job", "profession"),
                    eq="work|works as {a}",
                ),
                flag(
                    "smoker",
                    ("Y", "smoking"),
                    ("N", "non-smoking"),
                    "smoking status",
                    names=("smokes",),
                ),
                email("clientmail.example"),
            ),
            (32, 100),
            ("client", "policyholder"),
            names=("customer", "policyholder"),
            person=True,
        ),
        Table(
            "product",
            (
                title(
                    "name",
                    items("Home, Auto, Life, Travel, Health, Pet, Farm, Cyber"),
                    items("Basic, Plus, Premium"),
                    pattern="{} {}",
                    names=("product_name", "plan_name"),
                ),
                choice(
                    "line",
                    *items("property, vehicle, personal, liability"),
                    words=("line of business",),
                    eq="belong|belongs to the {} line",
                    names=("business_line", "segment"),
                ),
                money("deductible", 0, 2_500, "deductible", names=("excess",)),
            ),
            (9, 12),
            ("product", "insurance product"),
            names=("plan", "insurance_plan"),
            called=("{}", "the product {}"),
        ),
        Table(
            "policy",
            (
                Ref("client", "are|is held by", "hold|holds"),
                Ref("agent", "were|was sold by", "have|has sold"),
                Ref("product", "are|is based on", ""),
                money(
                    "premium",
                    80,
                    4_200,
                    ("yearly premium", "premium"),
                    names=("yearly_premium", "price"),
                    peak=0.15,
                    additive=True,
                    most="most expensive",
                    least="cheapest",
                ),
                date(
                    "start_date",
                    2015,
                    2024,
                    "start date",
                    "began|began",
                    names=("begins", "valid_from"),
                ),
                choice(
                    "status", *items("active, lapsed, cancelled"), eq="adj {}", names=("state",)
                ),
            ),
            (60, 180),
            ("policy",),
            names=("contract", "insurance_policy"),
        ),
        Table(
            "claim",
            (
                Ref("policy", "were|was made under", "have|has given rise to"),
                date("filed", 2019, 2024, "filing date", "was filed", names=("filed_on", "date")),
                money(
                    "amount",
                    90,
                    62_000,
                    ("claimed amount", "amount"),
                    names=("claimed", "claim_value"),
                    peak=0.05,
                    additive=True,
                    most="largest",
                    least="smallest",
                ),
                money(
                    "settled",
                    50,
                    50_000,
                    "settled amount",
                    names=("payout", "paid_out"),
                    peak=0.05,
                    nulls=0.3,
                    missing="have no settled amount",
                    additive=True,
                ),
                choice(
                    "cause",
                    *items("fire, theft, storm, collision, illness, water damage"),
                    eq="was caused by {}",
                    names=("reason", "damage_type"),
                ),
            ),
            (40, 140),
            ("claim",),
            names=("damage_report",),
        ),
    ),
    (
        Link("policy", "client", "agent", "have|has bought from", "have|has sold to"),
        Link("policy", "client", "product", "have|has bought", "have|has been bought by"),
    ),
)
