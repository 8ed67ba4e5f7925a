"""A scientific conference: institutions, researchers, papers, reviews."""

from __future__ import annotations

from sql_env.worlds.columns import (
    choice,
    count,
    country,
    date,
    email,
    person,
    rating,
    title,
    whole,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

DOMAIN = Domain(
    "conference",
    (
        Table(
            "institution",
            (
                title(
                    "name",
                    items(
                        """Northfield, Lakeshore, Santa Clara, Ridgeway, Cape Town, Tallinn, Kyoto,
                        Uppsala, Leipzig, Otago"""
                    ),
                    pattern="{} University",
                    names=("affiliation",),
                ),
                country(eq="be in {}"),
                count("students", 2_000, 60_000, "students", names=("student_count", "enrolled")),
            ),
            (7, 10),
            ("institution", "university"),
            names=("affiliation", "organization"),
            called=("{}",),
        ),
        Table(
            "researcher",
            (
                person(),
                email("science.example"),
                choice(
                    "field",
                    *items("machine learning, databases, networks, graphics, security, theory"),
                    eq="work|works on {}",
                    names=("area", "topic"),
                    words=("research field", "field"),
                ),
                whole(
                    "citations",
                    10,
                    9000,
                    "number of citations",
                    step=10,
                    counted="citations",
                    peak=0.05,
                    names=("citation_count",),
                    additive=True,
                ),
                Ref("institution", "are|is affiliated with", "employ|employs"),
            ),
            (20, 60),
            ("researcher", "scientist"),
            names=("author", "scientist"),
            person=True,
        ),
        Table(
            "track",
            (
                title(
                    "name",
                    items(
                        "Systems, Theory, Applications, Vision, Language, Ethics, Demos, Industry"
                    ),
                ),
                choice("room", *items("A101, A102, B201, B202, Main Hall"), eq="was held in {}"),
                whole(
                    "acceptance",
                    12,
                    45,
                    "acceptance rate",
                    unit="{} percent",
                    names=("accept_rate",),
                ),
            ),
            (5, 8),
            ("track",),
            names=("session_track",),
            called=("the {} track",),
        ),
        Table(
            "paper",
            (
                title(
                    "title",
                    items(
                        """Learning, Indexing, Rethinking, Scaling, Verifying, Compressing,
                        Explaining"""
                    ),
                    items(
                        """Sparse Graphs, Event Streams, Query Plans, Neural Caches, Noisy Labels,
                        Proof Trees, Smart Grids"""
                    ),
                    pattern="{} {}",
                ),
                count("pages", 4, 16, "pages", names=("page_count", "length")),
                rating(1.0, 10.0, ("review score",), names=("review_score", "mean_score")),
                date(
                    "submitted",
                    2022,
                    2023,
                    "submission date",
                    "was submitted",
                    names=("submitted_on",),
                ),
                choice(
                    "decision",
                    ("A", "accepted"),
                    ("R", "rejected"),
                    ("W", "withdrawn"),
                    eq="adj {}",
                    names=("status", "outcome"),
                ),
                Ref("track", "were|was submitted to", "have|has received"),
            ),
            (20, 24),
            ("paper",),
            names=("submission", "article"),
            called=('"{}"', 'the paper "{}"'),
        ),
        Table(
            "authorship",
            (Ref("paper", "belong|belongs to", ""), Ref("researcher", "belong|belongs to", "")),
            (40, 110),
            names=("paper_author", "writes"),
        ),
        Table(
            "review",
            (
                Ref("paper", "are|is about", "have|has received"),
                Ref("researcher", "were|was written by", "have|has written", key="reviewer"),
                whole("score", 1, 10, "score", names=("grade",), peak=0.6),
                choice("confidence", *items("low, medium, high"), eq="have {} confidence"),
                date(
                    "received",
                    2023,
                    2023,
                    "date of receipt",
                    "was received",
                    names=("received_on",),
                ),
            ),
            (40, 120),
            ("review",),
            names=("assessment",),
            optional=True,
        ),
    ),
    (
        Link("authorship", "researcher", "paper", "have|has authored", "were|was authored by"),
        Link("review", "reviewer", "paper", "have|has reviewed", "have|has been reviewed by"),
    ),
)
