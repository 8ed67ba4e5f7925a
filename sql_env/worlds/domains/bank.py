"""A bank: branches, advisers, customers, accounts, transactions, loans."""

from __future__ import annotations

from sql_env.worlds.columns import (
    birth_date,
    choice,
    city,
    count,
    date,
    email,
    flag,
    money,
    person,
    phone,
    real,
    title,
    whole,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "bank",
    (
        Table(
            "branch",
            (
                title(
                    "name",
                    items(
                        """Central, Harbor, Market, Airport, Hillside, Mill Road, Old Town,
                        Lakeside, Parkway"""
                    ),
                    names=("branch_name",),
                ),
                city(eq="be in {}"),
                money(
                    "assets",
                    900_000,
                    80_000_000,
                    "asset value",
                    names=("holdings",),
                    peak=0.2,
                    additive=True,
                ),
                count("staff", 4, 60, "employees", names=("employees", "headcount")),
            ),
            (6, 9),
            ("branch",),
            names=("office",),
            called=("the {} branch",),
        ),
        Table(
            "customer",
            (
                person(),
                birth_date(1938, 2005),
                city(eq="live|lives in {}"),
                choice(
                    "segment",
                    ("R", "retail"),
                    ("P", "private"),
                    ("B", "business"),
                    words=("customer segment", "segment"),
                    eq="type {}",
                    names=("customer_type",),
                ),
                whole(
                    "credit_score",
                    380,
                    840,
                    "credit score",
                    names=("score", "rating"),
                    peak=0.65,
                    nulls=0.07,
                ),
                phone(),
                email("post.example"),
            ),
            (36, 110),
            ("customer", "client"),
            names=("client",),
            person=True,
        ),
        Table(
            "account",
            (
                Ref("customer", "belong|belongs to", "hold|holds"),
                Ref("branch", "are|is kept at", "manage|manages"),
                choice(
                    "kind",
                    *items("checking, savings, business, joint"),
                    words=("account type", "type"),
                    eq="type {}",
                    names=("account_type",),
                ),
                money(
                    "balance",
                    10,
                    95_000,
                    "balance",
                    names=("current_balance", "funds"),
                    peak=0.1,
                    additive=True,
                ),
                date(
                    "opened",
                    2005,
                    2024,
                    "opening date",
                    "was opened",
                    names=("open_date", "opened_on"),
                ),
                flag(
                    "frozen",
                    ("Y", "frozen"),
                    ("N", "active"),
                    "account state",
                    names=("is_frozen",),
                ),
            ),
            (50, 150),
            ("account",),
            names=("bank_account",),
        ),
        Table(
            "payment",
            (
                Ref("account", "were|was made from", "have|has been used for"),
                date(
                    "booked", 2023, 2024, "booking date", "was booked", names=("date", "booked_on")
                ),
                money(
                    "amount",
                    3,
                    9_000,
                    "amount",
                    names=("value", "sum_paid"),
                    peak=0.05,
                    additive=True,
                    most="largest",
                    least="smallest",
                ),
                choice(
                    "channel",
                    *items("card, transfer, cash, direct debit"),
                    words=("payment channel", "channel"),
                    eq="was made by {}",
                    names=("method",),
                ),
                choice(
                    "category",
                    *items("rent, groceries, travel, salary, insurance, leisure"),
                    eq="was made for {}",
                    nulls=0.1,
                    names=("purpose",),
                ),
            ),
            (120, 380),
            ("payment",),
            names=("money_transfer", "posting"),
        ),
        Table(
            "loan",
            (
                Ref("customer", "were|was taken out by", "have|has taken out"),
                Ref("branch", "were|was granted by", "have|has granted"),
                money(
                    "principal",
                    1_500,
                    480_000,
                    "loan amount",
                    names=("amount", "loan_sum"),
                    peak=0.1,
                    additive=True,
                    most="largest",
                    least="smallest",
                ),
                real(
                    "interest",
                    1.2,
                    11.5,
                    "interest rate",
                    digits=2,
                    unit="{} percent",
                    names=("interest_rate", "rate"),
                ),
                choice("status", *items("active, repaid, overdue"), eq="adj {}", names=("state",)),
                date("granted", 2010, 2024, "start date", "was granted", names=("start_date",)),
            ),
            (24, 80),
            ("loan",),
            names=("credit",),
        ),
    ),
    (
        Link("account", "customer", "branch", "bank|banks with", "serve|serves"),
        Link("loan", "customer", "branch", "have|has borrowed from", "have|has lent to"),
    ),
)
