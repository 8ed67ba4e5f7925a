"""A software company: teams, developers, projects, tickets, releases, comments."""

from __future__ import annotations

from sql_env.worlds.columns import (
    choice,
    city,
    date,
    date_after,
    email,
    hired,
    money,
    person,
    salary,
    title,
    whole,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "issue_tracker",
    (
        Table(
            "team",
            (
                title(
                    "name",
                    items("Platform, Mobile, Search, Payments, Security, Data, Growth, Design"),
                    names=("team_name",),
                ),
                city(eq="be located in {}"),
                money(
                    "budget", 80_000, 1_900_000, "budget", names=("annual_budget",), additive=True
                ),
            ),
            (6, 8),
            ("team",),
            names=("squad", "crew"),
            called=("the {} team",),
        ),
        Table(
            "developer",
            (
                person(),
                choice(
                    "seniority",
                    *items("junior, mid-level, senior, principal"),
                    eq="adj {}",
                    names=("level", "career_level"),
                ),
                choice(
                    "language",
                    *items("Python, Rust, Go, Kotlin, TypeScript"),
                    words=("main programming language", "programming language"),
                    eq="program|programs in {}",
                    names=("main_language", "tech"),
                ),
                salary(42_000, 185_000),
                hired(2010, 2024),
                email("devs.example", nulls=0.05),
                Ref("team", "work|works in", "have|has"),
            ),
            (22, 64),
            ("developer", "programmer"),
            names=("engineer", "programmer"),
            person=True,
        ),
        Table(
            "project",
            (
                title(
                    "name",
                    items("Falcon, Lynx, Otter, Badger, Heron, Panda, Viper, Walrus, Ibex, Mantis"),
                    pattern="Project {}",
                    names=("project_name", "title"),
                ),
                date(
                    "started",
                    2017,
                    2023,
                    "start date",
                    "was started",
                    names=("start_date", "kickoff"),
                ),
                choice(
                    "status",
                    *items("planned, active, paused, archived"),
                    eq="adj {}",
                    names=("state", "phase"),
                ),
                Ref("team", "are|is owned by", "own|owns"),
            ),
            (8, 10),
            ("project",),
            names=("product", "repository"),
            called=("{}",),
        ),
        Table(
            "ticket",
            (
                Ref("project", "belong|belongs to", "have|has"),
                Ref("developer", "are|is assigned to", "have|has been assigned", key="assignee"),
                choice(
                    "kind",
                    *items("bug, feature, task, question"),
                    words=("type", "kind"),
                    eq="be of the type {}",
                    names=("issue_type", "ticket_type"),
                ),
                choice(
                    "priority",
                    ("P1", "critical"),
                    ("P2", "high"),
                    ("P3", "medium"),
                    ("P4", "low"),
                    eq="have {} priority",
                    names=("severity",),
                ),
                date(
                    "opened",
                    2022,
                    2024,
                    "opening date",
                    "was opened",
                    names=("created", "opened_on"),
                ),
                date_after(
                    "closed",
                    "opened",
                    1,
                    120,
                    "closing date",
                    "was closed",
                    nulls=0.3,
                    missing="have|has not been closed",
                    names=("closed_on", "resolved"),
                ),
                whole(
                    "hours",
                    1,
                    90,
                    "number of hours spent",
                    counted="hours spent",
                    names=("effort", "hours_spent"),
                    peak=0.1,
                    additive=True,
                ),
            ),
            (90, 320),
            ("ticket",),
            names=("issue", "work_item"),
        ),
        Table(
            "contribution",
            (
                Ref("developer", "belong|belongs to", ""),
                Ref("project", "belong|belongs to", ""),
            ),
            (40, 110),
            names=("contributes_to", "project_member"),
        ),
        Table(
            "deployment",
            (
                Ref("project", "belong|belongs to", "have|has had"),
                Ref("developer", "were|was carried out by", "have|has carried out"),
                date(
                    "deployed_on", 2022, 2024, "date", "took|took place", names=("date", "shipped")
                ),
                choice(
                    "environment",
                    *items("staging, production, demo"),
                    eq="target|targets {}",
                    names=("env", "target_env"),
                ),
                choice(
                    "outcome",
                    *items("successful, failed, reverted"),
                    eq="adj {}",
                    names=("result",),
                ),
            ),
            (50, 170),
            ("deployment",),
            names=("rollout",),
            optional=True,
        ),
    ),
    (
        Link(
            "contribution",
            "developer",
            "project",
            "contribute|contributes to",
            "are|is worked on by",
        ),
    ),
)
