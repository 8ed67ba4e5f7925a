"""A veterinary clinic: owners, pets, vets, treatments."""

from __future__ import annotations

from sql_env.worlds.columns import (
    birth_date,
    choice,
    city,
    date,
    email,
    flag,
    person,
    phone,
    price,
    rating,
    real,
    title,
    year,
)
from sql_env.worlds.pools import items, split_words
from sql_env.worlds.schema import Domain, Link, Ref, Table

_PETS = split_words(
    """Biscuit Bella Charlie Cleo Daisy Dexter Fern Ginger Gus Hazel Indie Jasper Juno Kiwi Loki
    Luna
    Mango Milo Misty Nala Olive Oreo Pepper Pixel Poppy Quincy Rex Rocket Rosie Rusty Sable Scout
    Shadow Smokey Socks Storm Sunny Tango Teddy Thor Tilly Toffee Tux Waffles Willow Winnie Ziggy
    Zelda"""
)

DOMAIN = Domain(
    "pet_clinic",
    (
        Table(
            "owner",
            (
                person(),
                city(eq="live|lives in {}"),
                phone(),
                email("mailbox.example"),
                year(
                    "member_since",
                    2008,
                    2024,
                    "year of registration",
                    "was registered",
                    names=("registered", "since_year"),
                ),
            ),
            (20, 60),
            ("owner", "pet owner"),
            names=("client", "keeper"),
            person=True,
        ),
        Table(
            "animal",
            (
                title("name", _PETS, names=("pet_name",)),
                choice(
                    "species",
                    *items("dog, cat, rabbit, parrot, hamster, tortoise"),
                    names=("kind", "animal_type"),
                    eq="be of the species {}",
                ),
                real(
                    "weight",
                    0.2,
                    48,
                    peak=0.1,
                    unit="{} kg",
                    names=("weight_kg", "mass"),
                    over="weigh|weighs more than {}",
                    under="weigh|weighs less than {}",
                    most="heaviest",
                    least="lightest",
                    ask=("How heavy is {}?",),
                ),
                birth_date(2008, 2023, nulls=0.08),
                flag(
                    "neutered",
                    ("Y", "neutered"),
                    ("N", "intact"),
                    eq="adj {}",
                    words="neuter status",
                    names=("sterilised",),
                ),
                Ref("owner", "belong|belongs to", "own|owns"),
            ),
            (28, 48),
            ("pet", "animal"),
            names=("pet", "patient"),
            called=("{}", "the pet {}"),
        ),
        Table(
            "vet",
            (
                person(),
                choice(
                    "specialty",
                    *items("surgery, dentistry, dermatology, exotic animals, cardiology"),
                    eq="specialise|specialises in {}",
                    names=("field", "expertise"),
                ),
                year(
                    "licensed", 1985, 2021, "licence year", "was licensed", names=("license_year",)
                ),
                rating(2.5, 5.0, "client rating"),
            ),
            (8, 16),
            ("vet", "veterinarian"),
            names=("doctor", "veterinarian"),
            person=True,
        ),
        Table(
            "treatment",
            (
                Ref("animal", "were|was given to", "have|has received"),
                Ref("vet", "were|was carried out by", "have|has carried out"),
                choice(
                    "procedure_type",
                    *items(
                        """vaccination, dental cleaning, surgery, check-up, X-ray, blood test, nail
                        trim"""
                    ),
                    names=("kind", "service"),
                    words=("type", "kind"),
                    eq="be of the type {}",
                ),
                date(
                    "performed",
                    2020,
                    2024,
                    "treatment date",
                    "was performed",
                    names=("treated_on", "date"),
                ),
                price(15, 480, "cost", "cost", additive=True, names=("price", "amount")),
                choice("outcome", *items("recovered, improved, unchanged, referred"), nulls=0.15),
            ),
            (70, 240),
            ("treatment",),
            names=("care_record", "service_record"),
        ),
    ),
    (Link("treatment", "animal", "vet", "have|has been treated by", "have|has treated"),),
)
