"""What every test may ask for: the embedded data, a Spider copy, a browser."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def spider_dir() -> Path:
    """A Spider copy in the official layout; tests that need it are skipped where there is none."""
    folder = Path(os.environ.get("SQL_ENV_SPIDER", CHECKOUT.parent / "shared" / "spider"))
    if not (folder / "tables.json").is_file():
        pytest.skip(f"no Spider copy at {folder}: set SQL_ENV_SPIDER to one")
    return folder


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """A Chromium that Playwright can drive."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    return found
