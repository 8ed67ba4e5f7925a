"""Names that were nearly right."""

from __future__ import annotations

from sql_env.core.suggestions import did_you_mean, nearest


def test_the_likest_name_in_its_own_spelling() -> None:
    assert did_you_mean("SINGERS", ["song", "Singer"]) == " Did you mean Singer?"


def test_nothing_is_said_where_nothing_is_alike() -> None:
    assert did_you_mean("xyzzy", ["song", "Singer"]) == ""


def test_several_come_in_the_order_of_likeness() -> None:
    assert nearest("concert", ["concerto", "concerts_held", "singer"], count=2) == [
        "concerto",
        "concerts_held",
    ]
