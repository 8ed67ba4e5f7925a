"""Many steps leave nothing behind. The benchmark plays them; here fewer, to be quick."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="needs /proc")
def test_twenty_thousand_steps_leave_nothing_behind() -> None:
    played = subprocess.run(
        [sys.executable, "benchmarks/environment.py", "--soak", "20000"],
        cwd=CHECKOUT,
        env={"PYTHONPATH": str(CHECKOUT), "PATH": "", "SQL_ENV_SPIDER": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    assert "embedded data: 20,0" in played.stdout
