"""A university: faculties, professors, courses, students, enrolments."""

from __future__ import annotations

from sql_env.worlds.columns import (
    birth_date,
    choice,
    city,
    founded,
    gender,
    hired,
    money,
    person,
    phone,
    real,
    salary,
    title,
    whole,
    year,
)
from sql_env.worlds.pools import items
from sql_env.worlds.schema import Domain, Link, Ref, Table

_SUBJECTS = items(
    """Algebra, Biology, Chemistry, Economics, Ethics, Genetics, Geometry, Linguistics, Optics,
    Statistics"""
)

DOMAIN = Domain(
    "university",
    (
        Table(
            "faculty",
            (
                title(
                    "name",
                    items(
                        """Science, Engineering, Medicine, Law, Arts, Business, Education,
                        Agriculture, Music"""
                    ),
                ),
                choice(
                    "building",
                    *items("North Hall, South Hall, Tower, Annex, Old Court"),
                    eq="be housed in {}",
                    names=("location",),
                ),
                money("budget", 400_000, 9_000_000, "budget", names=("funding",), additive=True),
                founded(1860, 2005),
            ),
            (6, 9),
            ("faculty", "school"),
            names=("school", "college"),
            called=("the faculty of {}",),
        ),
        Table(
            "professor",
            (
                person(),
                gender(),
                choice(
                    "title",
                    *items("assistant professor, associate professor, full professor, lecturer"),
                    words=("academic title",),
                    eq="work|works as {a}",
                    names=("position", "academic_rank"),
                ),
                salary(48_000, 190_000),
                hired(1990, 2023),
                Ref("faculty", "belong|belongs to", "employ|employs"),
            ),
            (14, 40),
            ("professor",),
            names=("instructor", "teacher"),
            person=True,
            called=("Professor {}",),
        ),
        Table(
            "course",
            (
                title(
                    "title",
                    items("Introduction to, Advanced, Topics in, Applied, Foundations of"),
                    _SUBJECTS,
                    pattern="{} {}",
                    names=("name", "course_name"),
                ),
                whole(
                    "credits",
                    2,
                    12,
                    "number of credits",
                    counted="credits",
                    names=("credit_hours", "points"),
                ),
                choice(
                    "semester",
                    *items("spring, summer, autumn, winter"),
                    eq="was offered in the {} semester",
                    names=("term",),
                ),
                Ref("professor", "are|is taught by", "teach|teaches"),
            ),
            (16, 25),
            ("course",),
            names=("module", "class_list"),
            called=('"{}"', "the course {}"),
        ),
        Table(
            "student",
            (
                person(),
                gender(),
                birth_date(1996, 2006),
                city("city", "home town", eq="come|comes from {}", names=("hometown", "city")),
                choice(
                    "major",
                    *_SUBJECTS[:7],
                    eq="major|majors in {}",
                    names=("program", "main_subject"),
                ),
                real(
                    "gpa", 1.8, 4.0, ("grade point average", "GPA"), digits=2, names=("grade_avg",)
                ),
                phone(),
            ),
            (30, 120),
            ("student",),
            names=("learner",),
            person=True,
        ),
        Table(
            "enrollment",
            (
                Ref("student", "belong|belongs to", "have|has"),
                Ref("course", "are|is for", "have|has"),
                year("year", 2019, 2024, "year", "was made", names=("academic_year",)),
                whole(
                    "grade",
                    35,
                    100,
                    "grade",
                    names=("mark", "score", "result"),
                    peak=0.7,
                    nulls=0.1,
                    missing="have no grade yet",
                ),
            ),
            (90, 340),
            ("enrolment",),
            names=("registration", "course_enrollment"),
        ),
        Table(
            "scholarship",
            (
                title(
                    "name",
                    items(
                        "Curie, Ramanujan, Lovelace, Noether, Darwin, Franklin, Hypatia, Galileo"
                    ),
                    pattern="{} Award",
                ),
                money("amount", 1000, 20000, names=("value",), additive=True),
                choice(
                    "sponsor",
                    *items("Alumni Fund, City Council, Verdant Bank, Helios Trust"),
                    eq="was sponsored by {}",
                    names=("donor",),
                ),
                Ref("student", "were|was won by", "have|has won", nulls=0.0),
            ),
            (6, 8),
            ("scholarship",),
            names=("grant_award",),
            called=("the {}",),
            optional=True,
        ),
    ),
    (Link("enrollment", "student", "course", "have|has taken", "have|has been taken by"),),
)
