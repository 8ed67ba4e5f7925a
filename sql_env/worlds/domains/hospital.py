"""A hospital: departments, doctors, patients, appointments, drugs."""

from __future__ import annotations

from sql_env.worlds.columns import (
    birth_date,
    choice,
    city,
    count,
    date,
    duration,
    email,
    gender,
    hired,
    money,
    person,
    phone,
    price,
    salary,
    title,
)
from sql_env.worlds.pools import items, split_words
from sql_env.worlds.schema import Domain, Link, Ref, Table

_DEPARTMENTS = split_words(
    """Cardiology Neurology Oncology Pediatrics Radiology Surgery Urology Dermatology Psychiatry
    Orthopedics Maternity Emergency Geriatrics"""
)
_DRUGS = split_words(
    """Amoxil Brevanol Cardiprin Dolorex Eptacin Fluvimax Glucophen Hepatol Ibucalm Kardegic Lisinor
    Metropal Neurofin Omeprazin Pulmicor Quinorm Relaxon Sedatin"""
)

DOMAIN = Domain(
    "hospital",
    (
        Table(
            "department",
            (
                title("name", _DEPARTMENTS),
                choice("floor", 1, 2, 3, 4, 5, eq="be on floor {}", names=("level",)),
                money(
                    "budget",
                    200_000,
                    4_000_000,
                    "annual budget",
                    names=("annual_budget", "funds"),
                    additive=True,
                ),
                count("beds", 8, 60, "beds", names=("bed_count", "capacity")),
            ),
            (8, 13),
            ("department",),
            names=("dept", "unit"),
            called=("the {} department",),
        ),
        Table(
            "physician",
            (
                person(),
                gender(),
                choice(
                    "rank",
                    ("CON", "consultant"),
                    ("RES", "resident"),
                    ("FEL", "fellow"),
                    ("CHF", "chief"),
                    names=("grade", "position"),
                    words=("rank", "position"),
                    eq="have the rank of {}",
                ),
                hired(),
                salary(60_000, 280_000),
                email("stmartin.example"),
                Ref("department", "work|works in", "employ|employs"),
            ),
            (16, 48),
            ("doctor", "physician"),
            names=("doctor", "medical_staff"),
            person=True,
            called=("Dr. {}", "the doctor {}"),
        ),
        Table(
            "patient",
            (
                person(),
                gender(),
                birth_date(1935, 2018),
                choice("blood_type", *items("A+, A-, B+, O+, O-, AB+"), nulls=0.12),
                city(eq="live|lives in {}"),
                phone(),
            ),
            (30, 110),
            ("patient",),
            person=True,
        ),
        Table(
            "appointment",
            (
                Ref("patient", "were|was booked by", "have|has booked"),
                Ref("physician", "are|is with", "have|has held"),
                date(
                    "day",
                    2021,
                    2024,
                    "date",
                    "took|took place",
                    names=("appt_date", "visit_date"),
                ),
                choice(
                    "status",
                    ("C", "completed"),
                    ("N", "missed"),
                    ("X", "cancelled"),
                    ("R", "rescheduled"),
                    eq="adj {}",
                ),
                money("fee", 40, 400, additive=True, names=("charge", "cost")),
                duration("duration", 10, 90),
            ),
            (80, 300),
            ("appointment",),
            names=("visit", "consultation"),
        ),
        Table(
            "medication",
            (
                title("name", _DRUGS, names=("drug_name", "brand")),
                choice("form", *items("tablet, capsule, syrup, injection, ointment")),
                price(2, 120, "unit_price", ("unit price", "price"), names=("price",)),
                choice(
                    "maker",
                    *items("Novalis, Helix Pharma, Bergstrom Labs, Asteria, Medicore"),
                    words="manufacturer",
                    eq="was made by {}",
                    names=("manufacturer", "company"),
                ),
            ),
            (10, 18),
            ("drug", "medication"),
            names=("drug", "medicine"),
        ),
        Table(
            "prescription",
            (
                Ref("patient", "were|was written for", "have|has been given"),
                Ref("medication", "are|is for", ""),
                count("doses", 1, 60, "doses", names=("quantity", "dose_count")),
                date("issued", 2021, 2024, "issue date", "was issued", names=("issued_on",)),
            ),
            (50, 180),
            ("prescription",),
            optional=True,
        ),
    ),
    (
        Link("appointment", "patient", "physician", "have|has seen", "have|has treated"),
        Link("prescription", "patient", "medication", "take|takes", "are|is taken by"),
    ),
)
