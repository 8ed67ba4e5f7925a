"""The examples of the pages about the verifier and the reward do what they say."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["verifier.md", "reward.md"])
def test_examples_do_what_they_say(page: str) -> None:
    found = doctest.testfile(str(DOCS / page), module_relative=False, encoding="utf-8")
    assert found.attempted > 5
    assert found.failed == 0
